"""pytest_test: pytest under /usr/bin/python3."""

def pytest_test(name, srcs, deps = [], data = [], env = {}, **kwargs):
    """A test that runs pytest on its sources.

    Not a py_test: the launcher of Bazel 4's py_test begins with `#!/usr/bin/env
    python`, and Debian has no `python` unless python-is-python3 is installed.

    Args:
      name: the test's name.
      srcs: the files with tests.
      deps: py_library targets.
      data: further run time files.
      env: environment variables; $(rootpath) of srcs, deps and data works.
      **kwargs: for the sh_test.
    """
    native.sh_test(
        name = name,
        srcs = ["//bazel:run_pytest.sh"],
        args = ["$(rootpath %s)" % src for src in srcs],
        data = srcs + deps + data,
        env = env,
        **kwargs
    )
