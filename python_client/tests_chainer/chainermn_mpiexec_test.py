"""ChainerMN on chx in processes that mpiexec starts, with mpi4py's communicators and without."""

import pytest
from chainermn_runs import run_by_mpi

GIVEN = """
import sys

import chainermn
import chx
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
if sys.argv[1:]:
    chx.distributed.init(address=sys.argv[1])
pairs = world.Split(world.rank % 2, world.rank)  # one of each daemon
for mpi in (world, world.Split(0, -world.rank), pairs):
    comm = chainermn.create_communicator("flat", mpi)
    assert (comm.rank, comm.size) == (mpi.rank, mpi.size)
    for put in (np.array, chx.array):
        ranks = comm.allgather(put([world.rank, comm.rank]))
        assert [y.tolist() for y in ranks] == mpi.allgather([world.rank, mpi.rank])
sys.stdout.write(f"{world.rank} of {world.size}\\n")
"""


@pytest.mark.parametrize("said_by", ["environment", "program"])
def test_communicators_of_mpi4py_across_daemons(tmp_path, daemons, said_by):
    addresses, meet_at = daemons
    (tmp_path / "given.py").write_text(GIVEN)
    program = ["-m", "chx", "run", tmp_path / "given.py"]
    if said_by == "environment":
        said = run_by_mpi(4, program, addresses, {"CHX_GROUP_ADDRESS": meet_at})
    else:
        said = run_by_mpi(4, [*program, meet_at], addresses)
    assert sorted(said.splitlines()) == [f"{rank} of 4" for rank in range(4)]
