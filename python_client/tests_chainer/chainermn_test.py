"""ChainerMN on chx against ChainerMN on NumPy with MPI: the same script at 1 to 4 ranks."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

SCRIPT = pathlib.Path(__file__).parent / "chainermn_ranks.py"
SIZES = (1, 2, 3, 4)


def run_by_mpi(size, directory):
    command = ["mpiexec", "--allow-run-as-root", "--oversubscribe", "-n", str(size)]
    command += ["--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "none"]
    command += [sys.executable, str(SCRIPT), "mpi", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def run_on_chx(size, directory, address):
    ranks = []
    for rank in range(size):
        env = {**os.environ, "CHX_SERVER": address, "RANK": str(rank), "WORLD_SIZE": str(size)}
        env["CHX_GROUP_NAME"] = f"of {size}"
        command = [sys.executable, "-m", "chx", "run", str(SCRIPT), "chx", str(directory)]
        ranks.append(
            subprocess.Popen(
                command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
    for rank, process in enumerate(ranks):
        output, _ = process.communicate(timeout=200)
        assert process.returncode == 0, f"rank {rank}: {output[-4000:]}"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("chxd") / "chxd.sock"
    command = [os.environ["CHX_CHXD"], f"--listen=unix:{path}", "--devices=native:0,native:1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield process.stdout.readline().split()[2]
    process.terminate()
    process.wait(30)


@pytest.mark.parametrize("size", SIZES)
def test_the_same_numbers_as_by_mpi(tmp_path, address, size):
    expected, got = tmp_path / "mpi", tmp_path / "chx"
    for directory in (expected, got):
        directory.mkdir()
    run_by_mpi(size, expected)
    run_on_chx(size, got, address)
    for rank in range(size):
        with np.load(expected / f"{rank}.npz") as theirs, np.load(got / f"{rank}.npz") as ours:
            assert set(theirs) == set(ours)
            for name in theirs:
                np.testing.assert_allclose(
                    ours[name], theirs[name], rtol=1e-4, atol=1e-5, err_msg=f"rank {rank}, {name}"
                )
                assert ours[name].dtype == theirs[name].dtype, name
