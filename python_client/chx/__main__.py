"""python -m chx run SCRIPT [ARGUMENTS]: runs a program for ChainerX or Chainer on chx.

    python -m chx run [--devices LIST] [--memory SIZE] script.py arguments...
    python -m chx run [--devices LIST] [--memory SIZE] -m module arguments...

As `python script.py arguments...` does, except that `import chainerx` means chx and `import chainer`
Chainer on chx (chx.chainer), also in processes that multiprocessing starts. $CHX_SERVER names the
daemon; without it a private one is started, which serves LIST: four native devices by default, as
many as ChainerX has. SIZE is what the program may hold, such as 8GiB or 50%: 80 % of the machine's
memory by default.
"""

import argparse
import os
import runpy
import sys
import types

from chx import _spawning


def _run_script(path: str) -> None:
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    # A module that stays __main__ until the process ends, as threads and exit handlers expect.
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m chx", description="Runs programs on chx.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a program for ChainerX or Chainer")
    run.add_argument("--devices", help="what a private daemon serves")
    run.add_argument("--memory", help="how much memory the program may hold in a private daemon")
    run.add_argument("-m", dest="module", action="store_true", help="the program is a module")
    run.add_argument("program")
    run.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    _spawning.adapt()
    if options.devices:
        os.environ["CHX_DEVICES"] = options.devices
    if options.memory:
        os.environ["CHX_MEMORY"] = options.memory
    sys.argv = [options.program, *options.arguments]
    if options.module:
        sys.path[0] = os.getcwd()
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
    else:
        _run_script(options.program)


if __name__ == "__main__":
    _main()
