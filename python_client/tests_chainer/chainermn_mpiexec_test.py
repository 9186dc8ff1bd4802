"""ChainerMN on chx in processes that mpiexec starts, with mpi4py's communicators and without."""

import numpy as np
import pytest
from chainermn_runs import run_by_mpi
from example_runs import DEVICE, EXAMPLES, assert_same_curve, read_log

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


def trained(out, epochs, ranks):
    """Parameters and momenta in the snapshots of rank 0 and of the first of all others."""
    result = []
    for rank in ranks:
        with np.load(out / f"trainer-{epochs}.npz.{rank}") as file:
            result.append({key: file[key] for key in file if key.startswith("updater/")})
    return result


@pytest.mark.parametrize(("size", "of_daemons"), [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2)])
def test_real_digits_as_without_chx(tmp_path, daemons, size, of_daemons):
    """The same program, which says neither rank nor size, with `-m chx run` and without."""
    addresses, meet_at = daemons
    program, epochs = f"{EXAMPLES}/mnist_ranks.py", 3
    arguments = ["--epochs", epochs, "--batch-size", 100 // size]
    local, remote = tmp_path / "local", tmp_path / "remote"
    run_by_mpi(
        size,
        ["-m", "mpi4py", program, "--device", "@numpy", "--communicator", "naive"]
        + ["--out", local, *arguments],
    )
    run_by_mpi(
        size,
        ["-m", "chx", "run", program, "--device", DEVICE, "--out", remote, *arguments],
        addresses[:of_daemons],
        {"CHX_GROUP_ADDRESS": meet_at if of_daemons > 1 else ""},
    )
    keys = ["main/loss", "main/accuracy", "validation/main/loss", "validation/main/accuracy"]
    log = read_log(remote)
    assert_same_curve(log, read_log(local), keys, 1e-4)
    assert len(log) == epochs and log[-1]["validation/main/accuracy"] > 0.8
    ranks = range(min(size, 2))
    ours, theirs = (trained(out, epochs, ranks) for out in (remote, local))
    for rank in ranks:
        assert ours[rank].keys() == theirs[rank].keys() and ours[rank]
        for key, value in theirs[rank].items():
            if value.dtype.kind == "f":
                np.testing.assert_allclose(
                    ours[rank][key], value, rtol=1e-3, atol=1e-5, err_msg=f"rank {rank}, {key}"
                )
    names = [key for key in ours[0] if key.startswith("updater/model:")]
    assert len(names) == 6
    for name in names:  # all ranks have the same bits
        np.testing.assert_array_equal(ours[-1][name], ours[0][name], err_msg=name)
