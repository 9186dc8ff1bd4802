"""cc_archives: the position-independent archives of a library and of what it needs of this tree."""

def _cc_archives_impl(ctx):
    ours = []
    for dep in ctx.attr.deps:
        for linker_input in dep[CcInfo].linking_context.linker_inputs.to_list():
            if linker_input.owner.workspace_name == ctx.label.workspace_name:
                ours += [lib.pic_static_library for lib in linker_input.libraries]
    return [DefaultInfo(files = depset([archive for archive in ours if archive]))]

cc_archives = rule(
    implementation = _cc_archives_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)
