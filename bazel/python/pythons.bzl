"""Repository rule that looks for further Pythons and writes @pythons.

@pythons//:versions.bzl has PYTHONS, the versions whose headers are here, Debian's own left out; and
@pythons//:3.N is a library of the headers of 3.N. tools/wheel.sh builds extension modules with them.
"""

_HEADERS = """
cc_library(
    name = "{version}",
    hdrs = glob(["include/{version}/**/*.h"]),
    includes = ["include/{version}"],
)
"""

# The Python of tests and of @system//:python.
_DEBIAN = "3.11"

def _pythons_impl(rctx):
    done = rctx.execute(["/usr/bin/python3", rctx.path(Label("//bazel/python:find_pythons.py"))])
    if done.return_code != 0:
        fail("find_pythons.py failed: " + done.stderr)
    found = [line.split(" ") for line in done.stdout.strip().split("\n") if line]
    found = [(version, include) for version, _, include in found if version != _DEBIAN]
    for version, include in found:
        rctx.symlink(include, "include/" + version)
    rctx.file("versions.bzl", "PYTHONS = %r\n" % [version for version, _ in found])
    rctx.file("BUILD", "package(default_visibility = [\"//visibility:public\"])\n" + "".join([
        _HEADERS.format(version = version)
        for version, _ in found
    ]))

pythons = repository_rule(
    implementation = _pythons_impl,
    doc = "Further Pythons with headers, if any; looked for again at each server start.",
    environ = ["CHXD_PYTHONS", "HOME", "PYENV_ROOT"],
    local = True,
)
