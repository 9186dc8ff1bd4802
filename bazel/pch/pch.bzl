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

    # gcc looks for FILE.gch beside FILE. clang would write the absolute path of the sandbox into it.
    header = ctx.actions.declare_file(ctx.attr.name + ".h")
    compiled = ctx.actions.declare_file(ctx.attr.name + ".h.gch")
    ctx.actions.run_shell(
        command = "cat \"$@\" > " + header.path,
        arguments = [file.path for file in ctx.files.hdrs],
        inputs = ctx.files.hdrs,
        outputs = [header],
    )
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = header.path,
        output_file = compiled.path,
        user_compile_flags = ["-x", "c++-header"] + ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts,
        use_pic = True,
    )
    ctx.actions.run(
        executable = toolchain.compiler_executable,
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
        inputs = depset([header], transitive = [toolchain.all_files]),
        outputs = [compiled],
        mnemonic = "PrecompiledHeader",
    )
    context = cc_common.create_compilation_context(headers = depset([header, compiled]))
    return [CcInfo(compilation_context = context)]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "hdrs": attr.label_list(allow_files = [".h"]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
