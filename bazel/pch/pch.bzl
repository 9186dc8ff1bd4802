"""precompiled_header: what nearly every file includes, compiled once."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )

    # gcc and clang look for FILE.gch beside FILE. clang, which would look for the file that it has read
    # where this sandbox was, gets it from standard input; gcc wants a name.
    header = ctx.actions.declare_file(ctx.attr.name + ".h")
    compiled = ctx.actions.declare_file(ctx.attr.name + ".h.gch")
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = "-" if toolchain.compiler == "clang" else header.path,
        output_file = compiled.path,
        user_compile_flags = ["-x", "c++-header"] + ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts +
                             ctx.attr.copts,
        use_pic = True,
    )
    ctx.actions.run_shell(
        command = "cat {hdrs} > {header} && {compiler} \"$@\" < {header}".format(
            hdrs = " ".join([file.path for file in ctx.files.hdrs]),
            header = header.path,
            compiler = toolchain.compiler_executable,
        ),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = "c++-compile",
            variables = variables,
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = "c++-compile",
            variables = variables,
        ),
        inputs = depset(ctx.files.hdrs, transitive = [toolchain.all_files]),
        outputs = [header, compiled],
        mnemonic = "PrecompiledHeader",
    )
    context = cc_common.create_compilation_context(headers = depset([header, compiled]))
    return [CcInfo(compilation_context = context)]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "copts": attr.string_list(),
        "hdrs": attr.label_list(allow_files = [".h"]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
