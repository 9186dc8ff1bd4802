"""Training steps (forward, backward, SGD) of multi-layer perceptrons by one side, in a process of its own.

    training_step.py chx ADDRESS | jit ADDRESS | torch | compiled torch | jax | chainer numpy | chainer ADDRESS

Prints the versions of the libraries as JSON once it has taken WARM_UP steps of each size. Then reads
lines and answers each with JSON:

    time SIZE N EVERY   the seconds of one of N steps, with the loss read at every EVERY-th, and the
                        commands and round trips of one
    save SIZE FILE      writes the parameters to a .npz file

Sides of forward_sides.py also take its steps; `save` writes their results. Those of run_sides.py also
train wholly.

A process for each side: chx adapts the Chainer that it shares a process with, and libraries must not
share threads.
"""

import json
import sys
import time

import forward_sides
import numpy as np
import run_sides
import training_sides as sides

SIZES = {"small": ([784, 32, 32, 10], 1), "large": ([784, 1000, 1000, 10], 100)}
WARM_UP = 10
# Before each measurement: the side has slept, and sides of two threads or processes (JAX's and chx's)
# take twice as long for the first 0.1 to 0.2 s, until the kernel has spread them over the cores.
WARM_UP_SECONDS = 0.3


def nothing():
    return {"commands": 0, "round_trips": 0}


def make_side(side, where):
    """A function of a size, one that counts a session's commands and round trips, and the session."""
    if side == "torch":
        return sides.torch_step, nothing, None
    if side == "compiled":
        return sides.compiled_torch_step, nothing, None
    if side == "jax":
        return sides.jax_step, nothing, None
    session = None
    if where != "numpy":
        import chx

        if side == "chainer":
            import chx.chainer
        session = chx.connect(where)
    counts = nothing if session is None else session.stats
    if side == "chx":
        return lambda *size: sides.chx_step(session, *size), counts, session
    if side == "jit":
        return lambda *size: sides.chx_step(session, *size, jit=True), counts, session
    import chainer

    device = chainer.get_device("@numpy" if session is None else "native:0")
    device.use()
    return lambda *size: sides.chainer_step(device, *size), counts, session


def measure(step, counts, n, every):
    start = time.perf_counter()
    while time.perf_counter() - start < WARM_UP_SECONDS:
        step(3, 1)
    before = counts()
    start = time.perf_counter()
    step(n, every)
    seconds = (time.perf_counter() - start) / n
    return {"seconds": seconds} | {key: (v - before[key]) / n for key, v in counts().items()}


def main(side, where=None):
    make, counts, session = make_side(side, where)
    made = {name: make(*size) for name, size in SIZES.items()}
    if side in forward_sides.PEERS:
        made |= {
            name: forward_sides.make(side, session, name) for name in forward_sides.names_of(side)
        }
    for step, _ in made.values():
        step(WARM_UP, 1)
    if side in run_sides.PEERS:
        made |= {name: run_sides.make(side, session, name) for name in run_sides.SIZES}
    libraries = [sys.modules[name] for name in ("torch", "jax", "chainer") if name in sys.modules]
    print(json.dumps({m.__name__: m.__version__ for m in libraries}), flush=True)
    for line in sys.stdin:
        command, name, *rest = line.split()
        step, values = made[name]
        if command == "time":
            answer = measure(step, counts, *map(int, rest))
        else:
            np.savez(rest[0], *values())
            answer = {}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
