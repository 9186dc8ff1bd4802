"""Speed of one device: tools/gpu_check.sh runs it on a GPU.

    python gpu_bench.py --device=cuda:0

Each row is the median of a few rounds; a round queues many calls and waits once. The last column is
the rate that the chip's own limits (memory bandwidth, arithmetic) can be compared with.
"""

import argparse
import statistics
import time

import chx
import numpy as np

ROUNDS = 5


def seconds_per_call(session, call, calls):
    call()
    session.synchronize()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        session.synchronize()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


def uniform(shape, dtype="float32"):
    return chx.random.uniform(-1.0, 1.0, size=shape, dtype=dtype)


def kernel_cases(scale):
    """Name, call, and what it counts: bytes moved or floating-point operations."""
    n = 4096 // scale
    a, b = uniform((n, n)), uniform((n, n))
    row = uniform((n,))
    half = a.astype("float16")
    labels = chx.array(np.arange(n, dtype=np.int32) % n)
    item = 4.0 * n * n
    yield "add", lambda: a + b, 3 * item, "B"
    yield "add a row", lambda: a + row, 2 * item, "B"
    yield "add transposed", lambda: a + b.transpose(), 3 * item, "B"
    yield "exp", lambda: chx.exp(a), 2 * item, "B"
    yield "astype float16", lambda: a.astype("float16"), 1.5 * item, "B"
    yield "copy transposed", lambda: a.transpose().copy(), 2 * item, "B"
    yield "sum", lambda: a.sum(), item, "B"
    yield "sum of rows", lambda: a.sum(1), item, "B"
    yield "sum of columns", lambda: a.sum(0), item, "B"
    yield "argmax of rows", lambda: a.argmax(1), item, "B"
    yield "take rows", lambda: chx.take(a, labels, 0), 2 * item, "B"
    yield "cross entropy", lambda: chx.softmax_cross_entropy(a, labels), item, "B"
    yield "matmul float32", lambda: chx.dot(a, b), 2.0 * n**3, "FLOP"
    yield "matmul float16", lambda: chx.dot(half, half), 2.0 * n**3, "FLOP"
    yield "uniform numbers", lambda: uniform((n, n)), item, "B"


def library_cases(scale):
    """What cuDNN and cuSOLVER compute where they are installed."""
    n, size = max(1, 32 // scale), max(7, 56 // scale)
    x, w = uniform((n, 64, size, size)), uniform((64, 64, 3, 3))
    half, half_w = x.astype("float16"), w.astype("float16")
    leaf, leaf_w = uniform(x.shape).require_grad(), uniform(w.shape).require_grad()

    def backward():
        chx.conv(leaf, leaf_w, pad=1).sum().backward()
        leaf.cleargrad()
        leaf_w.cleargrad()

    steps, width = max(2, 50 // scale), max(2, 512 // scale)
    xs = [uniform((n, width)) for _ in range(steps)]
    states = [chx.zeros((1, n, width), "float32") for _ in range(2)]
    ws = [[uniform((width, width)).require_grad() for _ in range(8)]]
    bs = [[uniform((width,)) for _ in range(8)]]

    def lstm():
        with chx.no_backprop_mode():
            return chx.n_step_lstm(1, *states, ws, bs, xs)

    def lstm_backward():
        hy, _, _ = chx.n_step_lstm(1, *states, ws, bs, xs)
        hy.sum().backward()
        for w in ws[0]:
            w.cleargrad()

    products = 16.0 * steps * n * width * width
    yield "lstm", lstm, products, "FLOP"
    yield "lstm, gradients", lstm_backward, 3 * products, "FLOP"
    flops = 2.0 * n * 64 * 64 * 9 * size * size
    yield "conv float32", lambda: chx.conv(x, w, pad=1), flops, "FLOP"
    yield "conv float16", lambda: chx.conv(half, half_w, pad=1), flops, "FLOP"
    yield "conv backward", backward, 3 * flops, "FLOP"
    yield "average pool", lambda: chx.average_pool(x, 3, 2, 1), 5.0 * x.size, "B"
    for m in (64, 128, 256, 512, 1024):
        m = max(2, m // scale)
        a = uniform((m, m)) + chx.eye(m, dtype="float32") * float(m)
        yield f"solve {m}", lambda a=a: chx.linalg.solve(a, a), 8 / 3 * m**3, "FLOP"
        yield f"eigh {m}", lambda a=a: chx.linalg.eigh(a), 9.0 * m**3, "FLOP"


def training_step(sizes, batch):
    x = uniform((batch, sizes[0]))
    t = chx.array(np.arange(batch, dtype=np.int32) % sizes[-1])
    ws = [
        (uniform((o, i)) * float(i) ** -0.5).require_grad()
        for i, o in zip(sizes[:-1], sizes[1:], strict=True)
    ]

    def step():
        h = x
        for i, w in enumerate(ws):
            h = chx.linear(h, w)
            if i + 1 < len(ws):
                h = chx.relu(h)
        chx.mean(chx.softmax_cross_entropy(h, t)).backward()
        for w in ws:
            values = w.as_grad_stopped()
            values -= w.grad * 0.01
            w.cleargrad()

    return step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="native:0")
    parser.add_argument("--scale", type=int, default=1, help="divides the sizes, for a trial")
    arguments = parser.parse_args()
    session = chx.connect(devices=arguments.device)
    with chx.using_device(session.devices[0]):
        print(f"{'case':20} {'us/call':>12} {'rate':>14}")
        for name, call, work, unit in kernel_cases(arguments.scale):
            seconds = seconds_per_call(session, call, 20)
            print(f"{name:20} {seconds * 1e6:12.1f} {work / seconds / 1e9:10.1f} G{unit}/s")
        for settings in ({}, {"autotune": True}, {"autotune": False, "use_cudnn": False}):
            session.configure(max_workspace_size=256 << 20, **settings)
            print(f"with {session.settings}")
            for name, call, work, unit in library_cases(arguments.scale):
                if settings and name.startswith(("solve", "eigh")):
                    continue  # the settings are cuDNN's
                seconds = seconds_per_call(session, call, 3)
                print(f"{name:20} {seconds * 1e6:12.1f} {work / seconds / 1e9:10.1f} G{unit}/s")
        small, large = ([784, 32, 32, 10], 1), ([784, 1000, 1000, 10], 100)
        for name, (sizes, batch) in (("small", small), ("large", large)):
            seconds = seconds_per_call(session, training_step(sizes, batch), 50)
            print(f"{'step, ' + name:20} {seconds * 1e6:12.1f}")
        data = np.ones(1 << 24 if arguments.scale == 1 else 1 << 16, np.float32)
        start = time.perf_counter()
        array = chx.array(data)
        session.synchronize()
        to_device = time.perf_counter() - start
        start = time.perf_counter()
        chx.to_numpy(array)
        to_host = time.perf_counter() - start
        print(f"to the device        {data.nbytes / to_device / 1e9:31.2f} GB/s")
        print(f"to the host          {data.nbytes / to_host / 1e9:31.2f} GB/s")


if __name__ == "__main__":
    main()
