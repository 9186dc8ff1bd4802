"""For tests of ChainerMN: programs whose processes mpiexec starts."""

import os
import subprocess
import sys
import tempfile


def run_by_mpi(size, arguments, addresses=(), env=()):
    """Runs `python ARGUMENTS...` as each rank, and gives what they print.

    Args:
      size: how many ranks.
      arguments: of Python.
      addresses: of daemons, which have equal shares of the ranks, or the last ones a rank more.
      env: further variables of the environment.
    """
    shares = [["-n", str(size)]]
    if addresses:
        ends = [size * i // len(addresses) for i in range(len(addresses) + 1)]
        shares = [
            ["-n", str(end - begin), "-x", f"CHX_SERVER={address}"]
            for address, begin, end in zip(addresses, ends, ends[1:])
        ]
    command = ["mpiexec", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader"]
    command += ["--mca", "btl_vader_single_copy_mechanism", "none"]
    # Open MPI names its files by the process, whose number other tests' sandboxes have, too.
    with tempfile.TemporaryDirectory(prefix="mpi") as folder:
        command += ["--mca", "btl_vader_backing_directory", folder]
        for share in shares:
            command += [*share, sys.executable, *map(str, arguments), ":"]
        done = subprocess.run(
            command[:-1],
            env={**os.environ, "TMPDIR": folder, **dict(env)},
            capture_output=True,
            text=True,
            timeout=200,
        )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout
