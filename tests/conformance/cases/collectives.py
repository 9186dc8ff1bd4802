"""Collectives in a group of one rank; ranks_test.py has groups of several, and their gradients."""

import itertools

import numpy as np

from ..table import ALL, INTS, row

NUMBERS = (*INTS, "float16", "float32", "float64")
SHAPES = ((2, 3), (), (0, 3), (4,))


def alone(chx):
    """The module, in whose session there is such a group."""
    if not chx.distributed.is_initialized():
        chx.distributed.init(0, 1, name="alone")
    return chx.distributed


tags = itertools.count()


def to_itself(chx, x):
    """A message of its own tag: one that a failed test has left is not taken for it."""
    return alone(chx).send_recv(x, 0, 0, next(tags))


def stacked(x):
    return np.expand_dims(x, 0)


def kept(x):
    return x.copy()


def mean(x):
    return x.astype("float32") if x.dtype.kind in "iu" else x.copy()


for shape in SHAPES:
    for op in ("sum", "mean", "max", "min", "prod"):
        linear = op in ("sum", "mean")
        row(
            "all_reduce",
            lambda chx, x, op=op: alone(chx).all_reduce(x, op),
            mean if op == "mean" else kept,
            [shape],
            [ALL if op in ("max", "min") else NUMBERS],
            grad=[0] if linear else [],
            name=f"all_reduce-{op}-{'x'.join(map(str, shape)) or '0d'}",
        )
    row("reduce", lambda chx, x: alone(chx).reduce(x), kept, [shape], [NUMBERS], grad=[0])
    row("broadcast", lambda chx, x: alone(chx).broadcast(x), kept, [shape], [ALL], grad=[0])
    row("all_gather", lambda chx, x: alone(chx).all_gather(x), stacked, [shape], [ALL], grad=[0])
    for op in ("send", "recv"):
        row(op, to_itself, kept, [shape], [ALL], grad=[0])
    row("gather", lambda chx, x: alone(chx).gather(x), stacked, [shape], [ALL], grad=[0])
for shape in ((1, 2, 3), (1,), (1, 0)):
    row("scatter", lambda chx, x: alone(chx).scatter(x), lambda x: x[0], [shape], [ALL], grad=[0])
    row(
        "reduce_scatter",
        lambda chx, x: alone(chx).reduce_scatter(x, "mean"),
        lambda x: mean(x[0]),
        [shape],
        [NUMBERS],
        grad=[0],
    )
    row("all_to_all", lambda chx, x: alone(chx).all_to_all(x), kept, [shape], [ALL], grad=[0])
row(
    "all_reduce",
    lambda chx, x, y: alone(chx).all_reduce([x, y]),
    lambda x, y: [x.copy(), y.copy()],
    [(2, 3), (4,)],
    [NUMBERS, NUMBERS],
    grad=[0, 1],
    name="all_reduce-list",
)
