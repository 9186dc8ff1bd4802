"""Unit tests that start the daemon's helper processes."""

load("//bazel:cc.bzl", "chx_cc_test")

def helper_cc_tests(names, deps):
    """One chx_cc_test for each name, with $HELPER for Options::helper_program.

    Args:
      names: of the tests, and without their .cc of their sources.
      deps: of each.
    """
    for name in names:
        chx_cc_test(
            name = name,
            srcs = [name + ".cc"],
            data = ["//tests/front:helper_main"],
            env = {"HELPER": "$(rootpath //tests/front:helper_main)"},
            tags = ["unit"],
            deps = deps,
        )
