"""Repository rule that looks for the CUDA toolkit and writes @local_cuda.

@local_cuda//:defs.bzl has CUDA_FOUND, NVCC and if_cuda() either way, so the
same BUILD files serve a machine with CUDA and one without.
"""

_FOUND = """\
\"\"\"Written by cuda_configure: the toolkit is at %s.\"\"\"

CUDA_FOUND = True
CUDA_HOME = %r
NVCC = %r

def if_cuda(then, otherwise = []):
    \"\"\"`then` unless --define cuda=0 (--config=nocuda) turns CUDA off.\"\"\"
    return select({
        "@chxd//:cuda_off": otherwise,
        "//conditions:default": then,
    })
"""

_NOT_FOUND = """\
\"\"\"Written by cuda_configure: no toolkit (looked at %s).\"\"\"

CUDA_FOUND = False
CUDA_HOME = ""
NVCC = ""

def if_cuda(then, otherwise = []):
    \"\"\"`otherwise`; --define cuda=1 (--config=cuda) fails here.\"\"\"
    return select({
        "@chxd//:cuda_required": ["@local_cuda//:no_cuda_toolkit_found"],
        "//conditions:default": otherwise,
    })
"""

_NOT_FOUND_BUILD = """\
package(default_visibility = ["//visibility:public"])
"""

def _cuda_configure_impl(rctx):
    home = rctx.os.environ.get("CUDA_HOME", "") or "/usr/local/cuda"
    parts = ["bin/nvcc", "include/cuda_runtime.h", "include/cublas_v2.h", "include/cudnn.h"]
    found = [rctx.path(home + "/" + part).exists for part in parts]
    if not all(found):
        rctx.file("defs.bzl", _NOT_FOUND % home)
        rctx.file("BUILD", _NOT_FOUND_BUILD)
        return
    rctx.file("defs.bzl", _FOUND % (home, home, home + "/bin/nvcc"))
    rctx.symlink(home + "/include", "include")
    rctx.symlink(home + "/lib64", "lib")

    # The compiler's version is in a file of its own, an input of each nvcc
    # action: another toolkit compiles again.
    version = rctx.execute([home + "/bin/nvcc", "--version"])
    if version.return_code != 0:
        fail("nvcc does not run: " + version.stderr)
    rctx.file("nvcc_version.txt", version.stdout)
    rctx.symlink(Label("//bazel/cuda:cuda.BUILD"), "BUILD")

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    doc = "The machine's CUDA toolkit, if any; looked up again at each server start.",
    environ = ["CUDA_HOME"],
    local = True,
)
