"""core_module: the extension module of the package chx for one version of Python."""

load("//bazel:cc.bzl", "chx_cc_library")

def core_module(name, library, python, tags = []):
    """Compiles core/ with the headers of one Python and links it.

    linkstatic = False: Debian's protobuf, Abseil, re2 and zlib archives aren't position-independent,
    so an extension module takes their shared objects. Our own libraries are inside.

    Args:
      name: the shared object's.
      library: the name of the library that it is linked from.
      python: the target with Python's headers.
      tags: of both targets.
    """
    chx_cc_library(
        name = library,
        srcs = native.glob(["core/*.cc"]),
        hdrs = native.glob(["core/*.h"]),
        copts = [
            "-fvisibility=hidden",
            "-Wno-cast-function-type",
        ],
        tags = tags,
        deps = [
            "//client",
            "//client/admin",
            "//ops:optimizer_rules",
            python,
        ],
        alwayslink = True,
    )
    native.cc_binary(
        name = name,
        additional_linker_inputs = ["exports.lds"],
        linkopts = ["-Wl,--version-script=$(location exports.lds)"],
        linkshared = True,
        linkstatic = False,
        tags = tags,
        deps = [":" + library],
    )
