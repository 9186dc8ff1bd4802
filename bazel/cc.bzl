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

def chx_cc_library(name, srcs = [], hdrs = [], copts = [], **kwargs):
    """A cc_library that's always linked as an archive, with its includes checked.

    linkstatic here is what lets a target with linkstatic = False take the
    system's shared objects without turning our own libraries into .so files.
    """
    include_check(name, srcs + hdrs + kwargs.get("textual_hdrs", []))
    native.cc_library(
        name = name,
        srcs = srcs + [name + "_includes.h"],
        hdrs = hdrs,
        copts = COPTS + copts,
        linkstatic = True,
        **kwargs
    )

def chx_isa_library(name, srcs, isa, deps):
    """A library compiled for one instruction set, to be called after a CPU check.

    -O3 in every mode: these are the hot loops.
    """
    include_check(name, srcs)
    native.cc_library(
        name = name,
        srcs = srcs + [name + "_includes.h"],
        copts = COPTS + ["-O3"] + isa,
        linkstatic = True,
        deps = deps,
    )

def chx_cc_test(name, copts = [], deps = [], **kwargs):
    """A GoogleTest, linked against the system's shared objects.

    That is a link of 0.3 s for a test of the server; from the archives it
    would be 45 MB and 1.6 s.
    """
    kwargs.setdefault("linkstatic", False)
    kwargs.setdefault("size", "small")
    native.cc_test(
        name = name,
        copts = COPTS + copts,
        deps = deps + [
            "@system//:gtest",
            "@system//:gtest_main",
        ],
        **kwargs
    )
