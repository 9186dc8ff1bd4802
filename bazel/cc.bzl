"""Macros for this project's C++ targets."""

COPTS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
    # gcc 12: false alarms inside absl::InlinedVector.
    "-Wno-maybe-uninitialized",
    "-Wno-uninitialized",
    "-Wno-missing-field-initializers",
]

def _if(setting, values):
    return select({
        setting: values,
        "//conditions:default": [],
    })

# Of joined files (below), gcc takes all but the name of the joined one for headers.
_JOINED_COPTS = _if("//:joined", ["-Wno-subobject-linkage"])

# --define=pch=1: half of what most files take to compile is these headers. Files include what they use
# all the same: clang-tidy and the release have no such header. Of headers that were compiled before,
# gcc 12 has false alarms about bounds; other builds have those warnings.
def _pch_copts(name):
    return _if("//:pch", [
        "-include",
        "$(BINDIR)/bazel/pch/%s.h" % name,
        "-Wno-array-bounds",
        "-Wno-restrict",
        "-Wno-stringop-overflow",
        "-Wno-stringop-overread",
    ])

def _pch_deps(name):
    return _if("//:pch", ["//bazel/pch:" + name])

# Most of what the sanitizers' tests execute, which takes them several times as long at -O0; the rest
# compiles in half the time.
_HOT = [
    "ops",
    "proto",
    "server/autograd",
    "server/engine",
    "server/native/kernels",
    "server/programs",
    "server/rpc",
    "server/session",
]

# Tests that compute themselves what they compare with.
_HOT_TESTS = ["server/kernels", "server/native/kernels"]

HOT_COPTS = _if("//:shared", ["-O1"])

# Of tests themselves libFuzzer need not know: its instrumentation takes a fifth of the time to compile.
TEST_COPTS = _if("//:libfuzzer", ["-fno-sanitize=fuzzer-no-link"])

def _library_options():
    """The copts and deps of a library beside its own."""
    copts = COPTS + _JOINED_COPTS
    if native.package_name() not in _HOT:
        return copts + _pch_copts("common"), _pch_deps("common")
    return copts + HOT_COPTS + _pch_copts("hot"), _pch_deps("hot")

def _test_options():
    """The copts and deps of a test beside its own."""
    if native.package_name() not in _HOT_TESTS:
        return COPTS + TEST_COPTS + _pch_copts("tests"), _pch_deps("tests")
    return COPTS + HOT_COPTS + _pch_copts("hot"), _pch_deps("hot")

# An archive in each binary; with --define=shared=1, a shared object that all tests open: the
# sanitizers' code is large.
LINKSTATIC = select({
    "//:shared": False,
    "//conditions:default": True,
})

# Lets loops vectorise (no errno, no traps) with the same bits on every instruction set (no
# contraction to fused multiply-adds).
_LOOP_COPTS = [
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
]

_AVX2_COPTS = [
    "-mavx2",
    "-mfma",
    "-mf16c",
]

# Instruction set -> compiler options.
_ISAS = {
    "avx2": _AVX2_COPTS,
    "avx512": _AVX2_COPTS + [
        "-mavx512f",
        "-mavx512bw",
        "-mavx512dq",
        "-mavx512vl",
        "-mprefer-vector-width=512",
    ],
    "baseline": [],
}

# For the file that chooses among the instruction sets of a chx_isa_library.
ISA_DEFINES = select({
    "//:isa_baseline": ["CHX_BASELINE_ONLY"],
    "//conditions:default": [],
})

def include_check(name, files, **kwargs):
    """A header whose making fails if a file includes what its folder may not (architecture.md)."""
    native.genrule(
        name = name + "_includes",
        srcs = files,
        outs = [name + "_includes.h"],
        cmd = "/usr/bin/python3 $(location //bazel:check_includes.py) $(SRCS) > $@",
        tools = ["//bazel:check_includes.py"],
        visibility = ["//visibility:private"],
        **kwargs
    )

def _joined(name, srcs):
    """srcs; with --define=joined=1, one file with the text of all the .cc files.

    What they include is then read once.
    """
    files = [file for file in srcs if file.endswith(".cc")]
    if len(files) < 2:
        return srcs
    native.genrule(
        name = name + "_joined",
        srcs = files,
        outs = [name + "_joined.cc"],
        cmd = "for file in $(SRCS); do echo \"#line 1 \\\"$$file\\\"\"; cat $$file; done > $@",
        visibility = ["//visibility:private"],
    )
    return select({
        "//:joined": [file for file in srcs if file not in files] + [name + "_joined.cc"],
        "//conditions:default": srcs,
    })

def chx_cc_library(name, srcs = [], hdrs = [], copts = [], deps = [], **kwargs):
    """A cc_library that's linked as an archive, with its includes checked.

    linkstatic here is what lets a target with linkstatic = False take the
    system's shared objects without turning our own libraries into .so files.
    """
    include_check(name, srcs + hdrs + kwargs.get("textual_hdrs", []))
    more_copts, more_deps = _library_options()
    native.cc_library(
        name = name,
        srcs = _joined(name, srcs) + [name + "_includes.h"],
        hdrs = hdrs,
        copts = more_copts + copts,
        linkstatic = LINKSTATIC,
        deps = deps + more_deps,
        **kwargs
    )

def chx_isa_library(name, srcs, deps):
    """A library compiled once per instruction set. Callers check the processor first.

    The sources define everything in namespace CHX_ISA, which is baseline, avx2 or avx512. With
    --define=isa=baseline there is only the baseline. -O3 in every mode: these are the hot loops.
    """
    include_check(name, srcs)
    joined = _joined(name, srcs)
    for isa, copts in _ISAS.items():
        native.cc_library(
            name = name + "_" + isa,
            srcs = joined + [name + "_includes.h"],
            copts = COPTS + ["-O3"] + _LOOP_COPTS + copts,
            linkstatic = LINKSTATIC,
            local_defines = ["CHX_ISA=" + isa],
            visibility = ["//visibility:private"],
            deps = deps,
        )
    native.cc_library(
        name = name,
        linkstatic = LINKSTATIC,
        visibility = ["//visibility:private"],
        deps = select({
            "//:isa_baseline": [":" + name + "_baseline"],
            "//conditions:default": [":" + name + "_" + isa for isa in _ISAS],
        }),
    )

# Their unit tests depend on the instruction set, or on CUDA's headers: what the sanitizers' builds have
# is not all of it.
_SPECIAL = ["server/cuda", "server/kernels", "server/native", "tests/cuda"]

def chx_cc_test(name, copts = [], deps = [], tags = [], **kwargs):
    """A GoogleTest, linked against the system's shared objects.

    That is a link of 0.3 s for a test of the server; from the archives it
    would be 45 MB and 1.6 s.

    Args:
      name: of the target.
      copts: for the compiler.
      deps: beside GoogleTest.
      tags: "unit": runs under ASan, too; "tsan": under TSan, too. Unit tests that are the same in
        every build get "sanitized": the whole of tools/test.sh runs them under ASan only. "volume": it
        does less under sanitizers, and runs without them, too.
      **kwargs: of cc_test.
    """
    package = native.package_name()
    special = [True for folder in _SPECIAL if (package + "/").startswith(folder + "/")]
    if "unit" in tags and "volume" not in tags and not special:
        tags = tags + ["sanitized"]
    kwargs.setdefault("linkstatic", False)
    kwargs.setdefault("size", "small")
    more_copts, more_deps = _test_options()
    native.cc_test(
        name = name,
        copts = more_copts + copts,
        deps = deps + more_deps + [
            "@system//:gtest",
            "@system//:gtest_main",
        ],
        tags = tags,
        **kwargs
    )

# Files of one test program: more of them are another program.
_MOST_JOINED = 8

def chx_cc_tests(name, tests, tags = [], more_tags = {}, **kwargs):
    """A chx_cc_test for each file; and programs name_1, name_2, ... that consist of all of them.

    tools/test.sh runs the programs under the sanitizers: eight files at once compile in a fifth of the
    time. Their anonymous namespaces become named ones there, so a fixture's name is used in one file.

    Args:
      name: of the programs, with a number.
      tests: names of the tests, and without their .cc of their sources.
      tags: of all, as in chx_cc_test.
      more_tags: of some tests only. Programs consist of tests with the same tags, but for "volume".
      **kwargs: of chx_cc_test.
    """
    for test in tests:
        chx_cc_test(
            name = test,
            srcs = [test + ".cc"],
            tags = tags + more_tags.get(test, []) + ["apart"],
            **kwargs
        )
    alike = {}  # the tags that count in a program -> tests
    for test in tests:
        own = tuple([tag for tag in more_tags.get(test, []) if tag != "volume"])
        alike[own] = alike.get(own, []) + [test]
    groups = [
        (own, some[begin:begin + _MOST_JOINED])
        for own, some in alike.items()
        for begin in range(0, len(some), _MOST_JOINED)
    ]
    for i, (own, some) in enumerate(groups):
        program = "%s_%d" % (name, i + 1)
        native.genrule(
            name = program + "_joined",
            testonly = True,
            srcs = [test + ".cc" for test in some],
            outs = [program + ".cc"],
            cmd = "for file in $(SRCS); do test=$$(basename $$file .cc); echo \"#line 1 \\\"$$file\\\"\"; " +
                  "sed \"s/^namespace {/namespace $$test {/\" $$file; done > $@",
            visibility = ["//visibility:private"],
        )
        chx_cc_test(
            name = program,
            srcs = [program + ".cc"],
            size = "medium",
            tags = tags + list(own) + ["joined"],
            **kwargs
        )
