"""The gradients of softmax and log_softmax as operators: rows longer than are summed in one go, axes
that only the composition knows."""

import numpy as np

from ..table import row
from .reduction import np_log_softmax


def gradient(name, axis):
    """The gradient that `name` gives x for gy, in chx and in NumPy."""

    def ours(chx, x, gy):
        x = x.as_grad_stopped().require_grad()
        return chx.grad([getattr(chx, name)(x, axis=axis)], [x], grad_outputs=[gy])[0]

    def theirs(x, gy):
        y, g = np.exp(np_log_softmax(x.astype("float64"), axis)), gy.astype("float64")
        if name == "softmax":
            gx = y * (g - (y * g).sum(axis=axis, keepdims=True))
        else:
            gx = g - y * g.sum(axis=axis, keepdims=True)
        return gx.astype(x.dtype)

    return ours, theirs


for op in ("softmax", "log_softmax"):
    for shape, axis in (
        ((3, 5), 1),
        ((2, 2500), 1),
        ((4, 3, 5), 1),
        ((2, 3, 4), (1, 2)),
        ((2, 3, 4), (0, 2)),
    ):
        row(
            f"{op}_grad",
            *gradient(op, axis),
            [shape, shape],
            name=f"{op}_grad-{'x'.join(map(str, shape))}-{axis}",
        )
    # More columns than are computed together.
    for shape, axis in (((3, 600), 0), ((2, 70, 9), 1), ((2, 1, 2100), 2)):
        row(
            op,
            lambda chx, x, name=op, axis=axis: getattr(chx, name)(x, axis=axis),
            lambda x, name=op, axis=axis: (
                np_log_softmax(x, axis) if name != "softmax" else np.exp(np_log_softmax(x, axis))
            ),
            [shape],
            name=f"{op}-{'x'.join(map(str, shape))}-{axis}",
        )
