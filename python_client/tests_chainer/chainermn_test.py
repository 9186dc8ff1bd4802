"""ChainerMN on chx against ChainerMN on NumPy with MPI: the same script at 1 to 4 ranks."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from chainermn_runs import run_by_mpi

SCRIPT = pathlib.Path(__file__).parent / "chainermn_ranks.py"
SIZES = (1, 2, 3, 4)


def run_on_chx(size, directory, addresses, meet_at=""):
    """Rank r is a session with daemon r modulo their number."""
    ranks = []
    for rank in range(size):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size)}
        env["CHX_SERVER"] = addresses[rank % len(addresses)]
        env["CHX_GROUP_NAME"] = f"of {size}"
        env["CHX_GROUP_ADDRESS"] = meet_at
        command = [sys.executable, "-m", "chx", "run", str(SCRIPT), "chx", str(directory)]
        ranks.append(
            subprocess.Popen(
                command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
    for rank, process in enumerate(ranks):
        output, _ = process.communicate(timeout=200)
        assert process.returncode == 0, f"rank {rank}: {output[-4000:]}"


@pytest.mark.parametrize("size", SIZES)
def test_the_same_numbers_as_by_mpi(tmp_path, daemons, size):
    addresses, meet_at = daemons
    run_by_mpi(size, ["-m", "mpi4py", SCRIPT, "mpi", tmp_path])  # which ends all where one fails
    expected = [dict(np.load(tmp_path / f"{rank}.npz")) for rank in range(size)]
    for many in (False, True)[: 2 if size > 1 else 1]:
        run_on_chx(size, tmp_path, addresses if many else addresses[:1], meet_at if many else "")
        for rank, theirs in enumerate(expected):
            ours = dict(np.load(tmp_path / f"{rank}.npz"))
            assert set(theirs) == set(ours)
            for name in theirs:
                np.testing.assert_allclose(
                    ours[name],
                    theirs[name],
                    rtol=1e-4,
                    atol=1e-5,
                    err_msg=f"rank {rank}, {name}, several daemons: {many}",
                )
                assert ours[name].dtype == theirs[name].dtype, name


def test_communicators_by_name(device):
    import chainer
    import chx.chainermn

    comms = {name: chx.chainermn.create_communicator(name) for name in chx.chainermn.NAMES}
    assert {comm.size for comm in comms.values()} == {1}
    flat, nccl = comms["flat"], comms["pure_nccl"]
    with pytest.raises(ValueError, match="Unrecognized communicator"):
        chx.chainermn.create_communicator("fast")
    with pytest.raises(ValueError, match="only available at 'pure_nccl'"):
        chx.chainermn.create_communicator("flat", allreduce_grad_dtype="float16")
    assert flat.get_config("batched_copy") is True
    flat.set_config("batched_copy", False)
    assert flat.get_config()["batched_copy"] is False
    assert nccl.get_config("batched_copy") is True
    with pytest.raises(ValueError, match="Unknown config"):
        flat.set_config("allreduce_grad_dtype", "float16")
    # Gradients are rounded to what they are exchanged in.
    nccl.set_config("allreduce_grad_dtype", "float16")
    link = chainer.links.Linear(1, 1)
    link.to_device(device)
    for comm, expected in ((nccl, np.float32(np.float16(0.1))), (flat, np.float32(0.1))):
        for param in link.params():
            param.grad = chx.full_like(param.array, 0.1)
        comm.multi_node_mean_grad(link)
        assert link.W.grad.item() == expected
    link.W.cleargrad()
    flat.multi_node_mean_grad(link)
    assert link.W.grad is None
    flat.multi_node_mean_grad(link, zero_fill=True)
    assert link.W.grad.item() == 0
    for call, x in ((flat.allreduce, "text"), (flat.allgather, np.ones(2, bool))):
        with pytest.raises(TypeError, match="expects an array|does not support dtype bool"):
            call(x)
    chx.distributed.destroy()


def test_importing_it_adapts_chainermn():
    script = """
import chx.chainermn
import chainermn
assert chainermn.create_communicator is chx.chainermn.create_communicator
assert chainermn.create_communicator("naive").allreduce_obj(3) == 3
assert chx.chainermn.scatter_dataset is chainermn.scatter_dataset
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


FAILING = """
import chainermn
import numpy as np

comm = chainermn.create_communicator("naive")
if comm.rank == 1:
    raise ValueError("rank 1 gives up")
comm.allreduce(np.ones(3, "f"))
"""


def test_an_error_of_one_rank_ends_all(tmp_path):
    (tmp_path / "fails.py").write_text(FAILING)
    done = subprocess.run(
        [sys.executable, "-m", "chx", "launch", "-n", "2", str(tmp_path / "fails.py")],
        env={**os.environ, "CHAINERMN_FORCE_ABORT_ON_EXCEPTION": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "ValueError: rank 1 gives up" in done.stderr
    assert "Uncaught exception on rank 1" in done.stderr
