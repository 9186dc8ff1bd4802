"""kernel_library: code of the cuda backend, for a GPU and for tests on the host."""

load("//bazel:cc.bzl", "COPTS", "LINKSTATIC", "include_check")
load("//bazel:cuda.bzl", "cuda_cc_library", "cuda_library")
load("//bazel:plugin.bzl", "host_headers")

# The daemon has these: a plug-in only compiles against them.
HOST_DEPS = [
    "//base",
    "//ops",
    "//server/engine:backend",
    "//server/kernels",
    "//server/lapack",
]

def emulated_library(name, srcs, hdrs, deps, visibility = None):
    """C++ of the emulated backend, without the daemon's part of it.

    Args:
      name: the library's name.
      srcs: .cc files.
      hdrs: .h files.
      deps: other emulated_libraries.
      visibility: as of all rules.
    """
    include_check(name, srcs + hdrs)
    native.cc_library(
        name = name,
        testonly = True,
        srcs = srcs + [name + "_includes.h"],
        hdrs = hdrs,
        # A kernel's result must not depend on the host's instruction set. Tests call these on a few
        # elements: to optimise them more takes longer than it saves.
        copts = COPTS + ["-ffp-contract=off"] + select({
            "//:shared": ["-O0"],
            "//conditions:default": ["-O1"],
        }),
        linkstatic = LINKSTATIC,
        visibility = visibility,
        deps = deps + host_headers(name, HOST_DEPS),
    )

def kernel_library(name, srcs, hdrs, deps = [], visibility = None):
    """The same sources as two libraries.

    NAME has the .cu files as nvcc compiles them. NAME_emulated has them as C++ for the host
    (loops/launch.h), for tests and for the emulated plug-in; it exists on every machine.

    Args:
      name: the library's name.
      srcs: .cu and .cc files.
      hdrs: .h files.
      deps: other kernel_libraries, with the names of their targets written out.
      visibility: of both.
    """
    cu = [src for src in srcs if src.endswith(".cu")]
    cc = [src for src in srcs if src.endswith(".cc")]
    objects = []
    if cu:
        objects = [":" + name + "_objects"]
        cuda_library(
            name = name + "_objects",
            srcs = cu,
            hdrs = hdrs,
            # An eighth of the size.
            copts = ["--compress-mode=size"],
            host_deps = HOST_DEPS,
            visibility = ["//visibility:private"],
            deps = deps + ["@local_cuda//:cuda"],
        )
    cuda_cc_library(
        name = name,
        srcs = cc,
        hdrs = hdrs,
        host_deps = HOST_DEPS,
        visibility = visibility,
        deps = deps + objects,
    )
    for src in cu:
        native.genrule(
            name = "emulated_" + src[:-len(".cu")],
            srcs = [src],
            outs = ["emulated_" + src[:-len(".cu")] + ".cc"],
            cmd = "cp $< $@",
            visibility = ["//visibility:private"],
        )
    emulated_library(
        name = name + "_emulated",
        srcs = cc + ["emulated_" + src[:-len(".cu")] + ".cc" for src in cu],
        hdrs = hdrs,
        deps = [dep + "_emulated" for dep in deps],
        visibility = visibility,
    )
