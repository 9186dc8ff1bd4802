"""Ranks of a process group on GPUs of their own, each collective against NumPy.

The devices are arguments; the daemon, of $CHX_SERVER, has all of them.
"""

import concurrent.futures
import sys
import threading

import chx
import numpy as np

SHAPE = (3, 1000)


def collectives(rank, size):
    """What each gives to this rank, and what it should."""
    rng = np.random.default_rng(7)
    given = rng.integers(-8, 8, (size, size, *SHAPE)).astype(np.float32)
    x = given[:, 0]
    a, rows = chx.array(x[rank]), chx.array(given[rank])
    dist = chx.distributed
    last = rank == size - 1
    nothing = np.zeros(0)
    for dtype in "int8", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64":
        if dtype == "bfloat16":
            total = dist.all_reduce(a.astype(dtype)).astype("float32")
            yield dtype, total, x.sum(0)
        else:
            want = x.astype(dtype).sum(0, dtype=dtype)
            yield dtype, dist.all_reduce(chx.array(x[rank].astype(dtype))), want
    yield "mean", dist.all_reduce(a, op="mean"), x.mean(0)
    yield "max", dist.all_reduce(a, op="max"), x.max(0)
    yield "min", dist.all_reduce(a, op="min"), x.min(0)
    yield "prod", dist.all_reduce(a, op="prod"), x.prod(0)
    both = dist.all_reduce([a, rows])
    yield "first of a list", both[0], x.sum(0)
    yield "second of a list", both[1], given.sum(0)
    yield "reduce", dist.reduce(a, size - 1), x.sum(0) if last else nothing
    yield "broadcast", dist.broadcast(a, size - 1), x[-1]
    yield "all_gather", dist.all_gather(a), x
    yield "gather", dist.gather(a, size - 1), x if last else nothing
    yield "scatter", dist.scatter(rows if last else a, size - 1), given[-1, rank]
    yield "reduce_scatter", dist.reduce_scatter(rows), given.sum(0)[rank]
    yield "all_to_all", dist.all_to_all(rows), given[:, rank]
    large = np.full(1 << 24, rank + 1, np.float32)
    yield "64 MiB", dist.all_reduce(chx.array(large))[::4097], size * (size + 1) / 2
    for step in range(100):  # queued, and not waited for
        a = dist.all_reduce(a, op="mean") + step
    yield "a hundred", a, x.mean(0) + 99 * 50
    w = chx.array(x[rank]).require_grad()
    chx.sum(dist.all_reduce(w) * chx.array(rank + 1.0)).backward()
    yield "gradient", w.grad, np.full(SHAPE, size * (size + 1) / 2)
    yield from reduced_gradients(rank, size)


def reduced_gradients(rank, size):
    """Of buckets that are reduced while the pass computes the next ones."""
    rng = np.random.default_rng(8)
    weights = [rng.integers(-1, 2, (1024, 1024)).astype(np.float32) for _ in range(4)]
    x = rng.integers(-1, 2, (size, 32, 1024)).astype(np.float32)
    params = [chx.array(w).require_grad() for w in weights]
    reducer = chx.distributed.GradientReducer(params)
    for _ in range(3):
        for p in params:
            p.cleargrad()
        y = chx.array(x[rank])
        for p in params:
            y = y.dot(p)
        reducer.backward(chx.sum(y))
    inputs = [x.sum(0, dtype=np.float64) / size]
    for w in weights[:-1]:
        inputs.append(inputs[-1] @ w)
    gradient = np.ones((32, 1024))
    for k in (3, 2, 1, 0):
        # Linear in x: the mean of the gradients is that at the mean.
        yield f"reduced {k}", params[k].grad, inputs[k].T @ gradient
        gradient = gradient @ weights[k].T


def run(rank, devices, ready):
    """How many values of the rank are wrong."""
    chx.set_default_context(chx.Context())
    chx.set_default_device(devices[rank])
    failed = 0
    ready.wait()
    chx.distributed.init(rank, len(devices))
    for name, got, want in collectives(rank, len(devices)):
        try:
            np.testing.assert_allclose(
                chx.to_numpy(got),
                want,
                rtol=2e-3 if "16" in name else 2e-5,
                atol=1e-5 * np.max(np.abs(want), initial=0),
            )
        except (AssertionError, chx.ChainerxError) as error:
            failed += 1
            print(f"{name} at rank {rank}: {error}")
    return failed


def main():
    devices = sys.argv[1:]
    ready = threading.Barrier(len(devices))
    chx.connect()
    with concurrent.futures.ThreadPoolExecutor(len(devices)) as threads:
        failed = sum(threads.map(lambda rank: run(rank, devices, ready), range(len(devices))))
    print(f"{len(devices)} ranks, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
