"""chx_plugin: a backend as a shared library that the daemon opens (docs/plugins.md)."""

load("//bazel:cc.bzl", "COPTS")

def _headers_only_impl(ctx):
    infos = [dep[CcInfo].compilation_context for dep in ctx.attr.deps]
    return [cc_common.merge_cc_infos(cc_infos = [CcInfo(compilation_context = info) for info in infos])]

_headers_only = rule(
    implementation = _headers_only_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)

def host_headers(name, host_deps):
    """What a plug-in compiles against but takes from the program that opens it."""
    _headers_only(
        name = name + "_host_headers",
        visibility = ["//visibility:private"],
        deps = host_deps,
    )
    return [":" + name + "_host_headers"]

def plugin_binary(name, host, target_compatible_with = [], **kwargs):
    """The shared object, for dlopen by `host`.

    Debian's archives of Abseil aren't position-independent, and two copies of the engine would
    not know each other's types: both stay undefined here and come from the host, which is linked
    with -rdynamic. NAME_symbols_test checks that the host has all of them.

    Args:
      name: a file name that ends in .so.
      host: the cc_binary that opens it.
      target_compatible_with: of both targets.
      **kwargs: for the cc_binary.
    """
    native.cc_binary(
        name = name,
        linkshared = True,
        linkstatic = True,
        target_compatible_with = target_compatible_with,
        **kwargs
    )
    native.sh_test(
        name = name[:-len(".so")] + "_symbols_test",
        size = "small",
        srcs = ["//bazel:plugin_symbols_test.sh"],
        args = ["$(rootpath %s)" % host, "$(rootpath %s)" % name],
        data = [host, name],
        target_compatible_with = target_compatible_with,
    )

def chx_plugin(name, srcs, host_deps, copts = [], host = "//server:chxd", **kwargs):
    """A plug-in for the daemon from C++ sources.

    Args:
      name: a file name that ends in .so.
      srcs: .cc and .h files.
      host_deps: what they include of chxd; it is in the daemon already.
      copts: for the compiler.
      host: the program that opens it.
      **kwargs: for the cc_binary.
    """
    plugin_binary(
        name = name,
        host = host,
        srcs = srcs,
        copts = COPTS + copts,
        deps = host_headers(name, host_deps),
        **kwargs
    )
