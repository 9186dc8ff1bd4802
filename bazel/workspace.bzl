"""chxd_workspace: what another workspace needs to use @chxd//client:chx (docs/cpp_sdk.md)."""

load("//bazel/cuda:cuda_configure.bzl", "cuda_configure")
load("//bazel/system:system_libs.bzl", "system_libs")

def _bundled_impl(rctx):
    folder = rctx.path(Label("//bazel:third_party/%s/WORKSPACE" % rctx.attr.folder)).dirname
    for entry in folder.readdir():
        rctx.symlink(entry, entry.basename)

_bundled = repository_rule(
    implementation = _bundled_impl,
    attrs = {"folder": attr.string()},
    doc = "A folder of bazel/third_party as a repository of its own.",
    local = True,
)

def chxd_workspace():
    """Declares the repositories that @chxd uses. Nothing is downloaded."""
    for name in ["rules_cc", "rules_java", "remote_coverage_tools"]:
        if name not in native.existing_rules():
            _bundled(name = name, folder = name)
    system_libs(name = "system")
    cuda_configure(name = "local_cuda")
