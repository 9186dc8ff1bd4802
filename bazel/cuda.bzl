"""cuda_library: .cu files, compiled by nvcc, as a C++ library."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@local_cuda//:defs.bzl", "CUDA_FOUND", "NVCC")
load("//bazel:cc.bzl", "COPTS", "include_check")
load("//bazel:plugin.bzl", "host_headers", "plugin_binary")

# PTX for Hopper in development and CI, which run no kernel: a third of the time is the assembler's.
# What is shipped (--define=cuda_arch=release) runs on Turing to Blackwell, and has the last one as PTX
# for what comes.
_GENCODE = {
    "ci": ["-gencode=arch=compute_90,code=compute_90"],
    "check": ["-gencode=arch=compute_90,code=[sm_90,compute_90]"],
    "release": [
        "-gencode=arch=compute_75,code=sm_75",
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_86,code=sm_86",
        "-gencode=arch=compute_89,code=sm_89",
        "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_100,code=[sm_100,compute_100]",
    ],
}

_MODE_FLAGS = {
    "dbg": ["-O0", "-g"],
    # Compiled, and called by nobody: a GPU's tests use what is shipped (tools/gpu_check.sh).
    "fastbuild": ["-O0", "-Xcicc", "-O0"],
    "opt": ["-O3", "-DNDEBUG"],
}

def _cuda_objects_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(ctx = ctx, cc_toolchain = toolchain)
    deps = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    context = deps.compilation_context

    objects = []
    for src in ctx.files.srcs:
        object = ctx.actions.declare_file("_nvcc/%s/%s.o" % (ctx.label.name, src.basename))
        args = ctx.actions.args()
        args.add_all(["-x", "cu", "-c", src, "-o", object, "-std=c++17"])
        args.add_all(_GENCODE[ctx.var.get("cuda_arch", "ci")])
        args.add_all(_MODE_FLAGS[ctx.var["COMPILATION_MODE"]])
        args.add_all(["-ccbin", toolchain.compiler_executable])
        args.add_all(["--expt-relaxed-constexpr", "-Xcompiler", "-fPIC", "-Xcompiler", "-Wall"])
        args.add_all(ctx.attr.copts)
        args.add_all(context.defines, format_each = "-D%s")
        args.add_all(context.quote_includes, format_each = "-I%s")
        args.add_all(context.includes, format_each = "-I%s")
        args.add_all(context.system_includes, before_each = "-isystem")
        args.add("-I.")
        args.add("-I" + ctx.bin_dir.path)
        ctx.actions.run(
            executable = NVCC,
            arguments = [args],
            # In the sandbox a header that is not among these does not exist.
            inputs = depset(
                [src] + ctx.files.hdrs + ctx.files._nvcc_version,
                transitive = [context.headers],
            ),
            outputs = [object],
            # nvcc calls gcc, cicc and ptxas through PATH and TMPDIR.
            env = {"PATH": "/usr/bin:/bin", "TMPDIR": "/tmp"},
            mnemonic = "NvccCompile",
            progress_message = "Compiling %s with nvcc" % src.short_path,
        )
        objects.append(object)

    outputs = cc_common.create_compilation_outputs(
        objects = depset(objects),
        pic_objects = depset(objects),
    )
    linking, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        cc_toolchain = toolchain,
        compilation_outputs = outputs,
        feature_configuration = features,
        disallow_dynamic_library = True,
    )
    own = CcInfo(
        compilation_context = cc_common.create_compilation_context(
            headers = depset(ctx.files.hdrs),
        ),
        linking_context = linking,
    )
    return [
        DefaultInfo(files = depset(objects)),
        cc_common.merge_cc_infos(direct_cc_infos = [own], cc_infos = [deps]),
    ]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "srcs": attr.label_list(allow_files = [".cu"]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "_nvcc_version": attr.label(default = "@local_cuda//:nvcc_version.txt", allow_single_file = True),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

# Skips a target in //... under --config=nocuda.
CUDA_ONLY = select({
    "@chxd//:cuda_off": ["@chxd//:never"],
    "//conditions:default": [],
})

def cuda_library(name, srcs, hdrs = [], deps = [], host_deps = [], **kwargs):
    """A C++ library of .cu files; no target at all where no toolkit was found.

    Args:
      name: the library's name.
      srcs: .cu files.
      hdrs: .h and .cuh files.
      deps: what is compiled against and linked.
      host_deps: what is compiled against, and is in the program that opens the plug-in.
      **kwargs: for the rule; copts are nvcc's.
    """
    if CUDA_FOUND:
        include_check(name, srcs + hdrs)
        _cuda_objects(
            name = name,
            srcs = srcs,
            hdrs = hdrs + [name + "_includes.h"],
            target_compatible_with = CUDA_ONLY,
            deps = deps + host_headers(name, host_deps),
            **kwargs
        )

def cuda_cc_library(name, srcs = [], hdrs = [], copts = [], deps = [], host_deps = [], **kwargs):
    """A cc_library of host code that needs CUDA's headers; arguments as for cuda_library."""
    if CUDA_FOUND:
        include_check(name, srcs + hdrs)
        native.cc_library(
            name = name,
            srcs = srcs + [name + "_includes.h"],
            hdrs = hdrs,
            copts = COPTS + copts,
            linkstatic = True,
            target_compatible_with = CUDA_ONLY,
            deps = deps + host_headers(name, host_deps),
            **kwargs
        )

def cuda_plugin(name, host, **kwargs):
    """A shared object of CUDA code, for dlopen by `host`; as cuda_library.

    Args:
      name: a file name that ends in .so.
      host: the cc_binary that opens it.
      **kwargs: for the cc_binary.
    """
    if CUDA_FOUND:
        plugin_binary(
            name = name,
            host = host,
            target_compatible_with = CUDA_ONLY,
            **kwargs
        )
