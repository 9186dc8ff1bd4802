"""Data-parallel training on MNIST's digits: ChainerMN on chx, by mpiexec, against ChainerMN on NumPy."""

import numpy as np
import pytest
from chainermn_runs import run_by_mpi
from example_runs import DEVICE, EXAMPLES, assert_same_curve, read_log

EPOCHS = 3


def trained(out, ranks):
    """Parameters and momenta in the snapshots of rank 0 and of the first of all others."""
    result = []
    for rank in ranks:
        with np.load(out / f"trainer-{EPOCHS}.npz.{rank}") as file:
            result.append({key: file[key] for key in file if key.startswith("updater/")})
    return result


def compare(remote, local, size):
    keys = ["main/loss", "main/accuracy", "validation/main/loss", "validation/main/accuracy"]
    log = read_log(remote)
    assert_same_curve(log, read_log(local), keys, 1e-4)
    assert len(log) == EPOCHS and log[-1]["validation/main/accuracy"] > 0.8
    ranks = range(min(size, 2))
    ours, theirs = (trained(out, ranks) for out in (remote, local))
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


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_real_digits_as_without_chx(tmp_path, daemons, size):
    """The same program, which says neither rank nor size, with `-m chx run` and without."""
    addresses, meet_at = daemons
    program = f"{EXAMPLES}/mnist_ranks.py"
    arguments = ["--epochs", EPOCHS, "--batch-size", 100 // size]
    local = tmp_path / "local"
    run_by_mpi(
        size,
        ["-m", "mpi4py", program, "--device", "@numpy", "--communicator", "naive"]
        + ["--out", local, *arguments],
    )
    for of_daemons in (1, 2)[:size]:
        remote = tmp_path / f"of {of_daemons} daemons"
        run_by_mpi(
            size,
            ["-m", "chx", "run", program, "--device", DEVICE, "--out", remote, *arguments],
            addresses[:of_daemons],
            {"CHX_GROUP_ADDRESS": meet_at if of_daemons > 1 else ""},
        )
        compare(remote, local, size)
