"""The examples: that they learn, and that they draw what the C++ one draws."""

import gzip
import os
import re
import subprocess
import sys
import time

import numpy as np

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples")


def run(example, *arguments):
    return subprocess.run(
        [sys.executable, os.path.join(EXAMPLES, example), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


def test_shuffler_is_the_one_of_the_cpp_example():
    """The same numbers are in client/examples/examples_test.cc."""
    sys.path.insert(0, EXAMPLES)
    from common import Shuffler

    values = list(range(8))
    shuffler = Shuffler(1)
    shuffler.shuffle(values)
    assert values == [7, 4, 3, 2, 5, 0, 1, 6]
    shuffler.shuffle(values)
    assert values == [4, 6, 7, 3, 2, 5, 0, 1]


def test_mushrooms(tmp_path):
    done = run("mushrooms.py", "--epochs", 30, "--out", tmp_path, "--min-accuracy", 0.97)
    assert done.returncode == 0, done.stdout + done.stderr
    weights = np.load(tmp_path / "mushrooms.npz")
    assert {k: v.shape for k, v in weights.items()} == {
        "w1": (44, 22),
        "b1": (44,),
        "w2": (44, 44),
        "b2": (44,),
        "w3": (1, 44),
        "b3": (1,),
    }
    assert (tmp_path / "mushrooms.png").read_bytes().startswith(b"\x89PNG")
    again = run("mushrooms.py", "--epochs", 1, "--out", tmp_path)
    table = re.compile(r"^ +1 +(\S+) +(\S+) +(\S+) ", re.MULTILINE)
    # A shorter run decays its rate sooner; the first epoch is the same.
    assert table.search(again.stdout).groups() == table.search(done.stdout).groups()


def test_mushrooms_without_the_client(tmp_path):
    """One process starts the training and ends; another one sees it from the beginning."""
    socket = f"unix:{tmp_path}/chxd.sock"
    with subprocess.Popen([os.environ["CHX_CHXD"], f"--listen={socket}"]) as daemon:
        try:
            while not os.path.exists(f"{tmp_path}/chxd.sock"):
                assert daemon.poll() is None
                time.sleep(0.01)
            arguments = ("--server", socket, "--out", tmp_path, "--min-accuracy", 0.97)
            started = run("mushrooms.py", "--detach", *arguments)
            assert started.returncode == 0, started.stdout + started.stderr
            assert "run 'mushrooms' in session 'mushrooms'" in started.stdout
            assert not (tmp_path / "mushrooms.npz").exists()
            done = run("mushrooms.py", "--attach", *arguments)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "it has ended: done, step 1710" in done.stdout
            assert "1710/1710" in done.stderr  # the bar
            assert (tmp_path / "mushrooms-run.png").read_bytes().startswith(b"\x89PNG")
            assert np.load(tmp_path / "mushrooms.npz")["w1"].shape == (44, 22)
            again = run("mushrooms.py", "--attach", *arguments)
            assert again.returncode != 0 and "no run 'mushrooms'" in again.stderr
        finally:
            daemon.terminate()
    alone = run("mushrooms.py", "--detach", "--out", tmp_path)
    assert alone.returncode == 2 and "give --server" in alone.stderr


def write_idx(path, values):
    header = bytes([0, 0, 8, values.ndim]) + b"".join(n.to_bytes(4, "big") for n in values.shape)
    with gzip.open(path, "wb") as file:
        file.write(header + values.tobytes())


def test_mnist_on_made_up_digits(tmp_path):
    """Ten patterns in noise: small enough for a test, and learnt in an epoch."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 2400).astype(np.uint8)
    patterns = rng.integers(0, 256, (10, 28, 28))
    images = (patterns[labels] + rng.integers(0, 64, (2400, 28, 28))).clip(0, 255).astype(np.uint8)
    write_idx(tmp_path / "images.gz", images)
    write_idx(tmp_path / "labels.gz", labels)
    done = run(
        "mnist.py",
        tmp_path / "images.gz",
        tmp_path / "labels.gz",
        "--epochs",
        2,
        "--min-accuracy",
        0.9,
    )
    assert done.returncode == 0, done.stdout + done.stderr
