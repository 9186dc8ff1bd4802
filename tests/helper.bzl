"""Unit tests that start the daemon's helper processes."""

load("//bazel:cc.bzl", "chx_cc_tests")

def helper_cc_tests(name, tests, deps):
    """chx_cc_tests with $HELPER for Options::helper_program.

    Args:
      name: of the programs that consist of several tests.
      tests: their names, and without their .cc those of their sources.
      deps: of each.
    """
    chx_cc_tests(
        name = name,
        tests = tests,
        data = ["//tests/front:helper_main"],
        env = {"HELPER": "$(rootpath //tests/front:helper_main)"},
        tags = ["unit"],
        deps = deps,
    )
