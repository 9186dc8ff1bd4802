"""`python -m chx run`: processes that multiprocessing starts import the script with chx, too."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import multiprocessing
import os
import sys

import chainer
import chainerx
import numpy as np

device = chainer.get_device("native:1")  # in each worker, too


class Data(chainer.dataset.DatasetMixin):
    def __len__(self):
        return 8

    def get_example(self, i):
        return np.full(2, i, "f"), os.getpid(), chainerx.ones(3).sum().item()


def total(x):
    return float(device.send(np.full(2, x, "f")).sum())


def ask_a_child(queue):
    with multiprocessing.Pool(1) as pool:  # by the method that the parent has set
        queue.put(pool.apply(total, (5,)))


if __name__ == "__main__":
    os.chdir("/")
    multiprocessing.set_start_method(sys.argv[1])
    batches = chainer.iterators.MultiprocessIterator(
        Data(), 4, repeat=False, shuffle=False, n_processes=2, shared_mem=10000
    )
    xs, pids, sums = zip(*[example for batch in batches for example in batch])
    batches.finalize()
    assert os.getpid() not in pids and set(sums) == {3.0}
    print(device.send(np.stack(xs)).sum().item())
    queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=ask_a_child, args=(queue,))
    process.start()
    print(queue.get(timeout=60))
    process.join()
"""


@pytest.mark.parametrize(
    "method, form", [("spawn", "script"), ("forkserver", "script"), ("spawn", "module")]
)
def test_workers_know_chx(tmp_path, method, form):
    (tmp_path / "program.py").write_text(SCRIPT)
    program = ["-m", "program"] if form == "module" else ["program.py"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "chx", "run", *program, method],
        capture_output=True,
        text=True,
        timeout=120,  # without chx in them, workers fail and are started again forever
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    )
    assert done.stdout.split() == ["56.0", "10.0"], done.stderr
