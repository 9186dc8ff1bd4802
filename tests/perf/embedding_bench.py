"""Steps of SGD over an embedding alone, against PyTorch: tools/bench.sh embedding.

A step takes 1,024 rows of a table, and adds up their squares; the loss is read each time. A gradient of
the whole table costs as much as the table is large, one of rows does not. In chx the rows are found
where gradients are cleared after the update, in PyTorch with sparse=True.
"""

import argparse
import statistics
import subprocess
import tempfile
import time

import chx
import numpy as np
import torch

PAUSE = 0.05  # threads of PyTorch spin for some time; the other side needs their cores
RATE = 0.1
IDS = 1024
SIZES = [(5_000, 64), (50_000, 512), (1_000_000, 64)]


def chx_side(values, *, recorded=False, whole=False):
    table = chx.array(values).require_grad()
    optimizer = chx.optimizers.SGD(lr=RATE).setup([table])

    def update(ids):
        if whole:
            optimizer.cleargrads()
        loss = chx.sum(chx.embedding(ids, table) ** 2)
        loss.backward()
        optimizer.update()
        if not whole:
            optimizer.cleargrads()
        return loss

    update = chx.jit(update) if recorded else update
    return lambda ids: float(update(chx.array(ids))), lambda: chx.to_numpy(table)


def torch_side(values, *, sparse):
    table = torch.tensor(values, requires_grad=True)
    optimizer = torch.optim.SGD([table], lr=RATE)

    def step(ids):
        optimizer.zero_grad()
        rows = torch.nn.functional.embedding(torch.from_numpy(ids), table, sparse=sparse)
        loss = (rows**2).sum()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, lambda: table.detach().numpy()


def measure(rows, columns, rounds):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((rows, columns), dtype=np.float32)
    sides = {
        "chx, recorded": chx_side(values, recorded=True),
        "chx, a loop": chx_side(values),
        "chx, whole gradient": chx_side(values, whole=True),
        "PyTorch": torch_side(values, sparse=False),
        "PyTorch, sparse": torch_side(values, sparse=True),
    }
    times = {name: [] for name in sides}
    for round_ in range(rounds + 1):
        ids = rng.integers(0, rows, (4, IDS))
        for name, (step, _) in sides.items():
            time.sleep(PAUSE)
            step(ids[0])  # wakes the threads of this side
            start = time.perf_counter()
            for batch in ids[1:]:
                step(batch)
            if round_ > 0:
                times[name].append((time.perf_counter() - start) / (len(ids) - 1))
    tables = [table() for _, table in sides.values()]
    for table in tables[1:]:
        np.testing.assert_allclose(table, tables[0], rtol=1e-4, atol=1e-6)
    cells = [f"{1e3 * statistics.median(t):.2f} ms" for t in times.values()]
    print(f"| {rows:,} x {columns} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chxd", default=".bazel/bin/server/chxd")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chxd-bench-") as directory:
        daemon = subprocess.Popen(
            [arguments.chxd, f"--listen=unix:{directory}/chxd.sock", "--log-level=warning"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            with chx.connect(daemon.stdout.readline().split()[2]):
                print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads\n")
                print("| table | recorded | a loop | whole gradient | PyTorch | PyTorch, sparse |")
                print("|---|---|---|---|---|---|")
                for rows, columns in SIZES:
                    measure(rows, columns, arguments.rounds)
        finally:
            daemon.terminate()
            daemon.wait()


if __name__ == "__main__":
    main()
