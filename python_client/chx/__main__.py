"""Runs programs for ChainerX or Chainer on chx, and the ranks of process groups.

    python -m chx run [--devices LIST] [--memory SIZE] script.py arguments...
    python -m chx run [--devices LIST] [--memory SIZE] -m module arguments...
    python -m chx launch -n RANKS [--devices LIST] [--memory SIZE] script.py arguments...
    python -m chx launch -n RANKS --daemons ADDRESSES --meet-at HOST:PORT script.py arguments...

As `python script.py arguments...` does, except that `import chainerx` means chx and `import chainer`
Chainer on chx (chx.chainer), also in processes that multiprocessing starts. $CHX_SERVER names the
daemon; without it a private one is started, which serves LIST: four native devices by default, as
many as ChainerX has. SIZE is what the program may hold, such as 8GiB or 50%: 80 % of the machine's
memory by default.

`launch` runs the program in RANKS processes with one daemon, which is told their ranks by the
environment: chx.distributed.init() makes the group. Where one fails, the others are ended.
"""

import argparse
import os
import runpy
import sys
import types

from chx import _launching, _spawning


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
    launch = commands.add_parser("launch", help="run it as the ranks of a process group")
    launch.add_argument("-n", dest="size", type=int, required=True, help="how many ranks")
    launch.add_argument("--daemons", help="addresses of daemons, separated by commas")
    launch.add_argument("--meet-at", help="--peer-address of one of them")
    for command in (run, launch):
        command.add_argument("--devices", help="what a private daemon serves")
        command.add_argument("--memory", help="what the program may hold in a private daemon")
        command.add_argument("-m", dest="module", action="store_true", help="it is a module")
        command.add_argument("program")
        command.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.command == "launch":
        if options.size < 1:
            parser.error(f"launch expects at least one rank, got {options.size}")
        program = ["-m"] * options.module + [options.program, *options.arguments]
        daemons = options.daemons.split(",") if options.daemons else []
        if bool(daemons) != bool(options.meet_at):
            parser.error("launch expects --daemons and --meet-at, or neither")
        where = {"daemons": daemons, "meet_at": options.meet_at or ""}
        sys.exit(_launching.launch(options.size, program, options.devices, options.memory, **where))
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
