import itertools

import numpy as np

from ..table import FLOATS, row
from .convolution import conv, expand


def dilated(w, dilate):
    sizes = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilate, strict=True)]
    y = np.zeros((*w.shape[:2], *sizes), w.dtype)
    for at in itertools.product(*map(range, w.shape[2:])):
        to = tuple(a * d for a, d in zip(at, dilate, strict=True))
        y[(slice(None), slice(None), *to)] = w[(slice(None), slice(None), *at)]
    return y


def grouped_conv(x, w, b=None, stride=1, pad=0, dilate=1, groups=1):
    w = dilated(w, expand(dilate, x.ndim - 2))
    xs, ws = np.split(x, groups, 1), np.split(w, groups, 0)
    bs = [None] * groups if b is None else np.split(b, groups)
    parts = [conv(*part, stride, pad) for part in zip(xs, ws, bs, strict=True)]
    return np.concatenate(parts, 1)


for name, shapes, kwargs in (
    ("groups", [(2, 4, 5, 4), (6, 2, 3, 2), (6,)], {"groups": 2}),
    ("depthwise", [(2, 3, 5, 4), (3, 1, 3, 2), (3,)], {"groups": 3, "pad": 1}),
    ("multiplied", [(1, 3, 6, 5), (6, 1, 2, 3), (6,)], {"groups": 3, "stride": (2, 1)}),
    ("dilated", [(1, 2, 7, 6), (3, 2, 3, 2), (3,)], {"dilate": (2, 3), "pad": (1, 0)}),
    (
        "depthwise-dilated",
        [(2, 2, 9), (2, 1, 3)],
        {"groups": 2, "dilate": 2, "stride": 2, "pad": 1},
    ),
    ("groups-3d", [(1, 4, 3, 3, 2), (2, 2, 2, 2, 2)], {"groups": 2}),
    ("depthwise-3d", [(1, 2, 3, 3, 2), (2, 1, 2, 2, 2)], {"groups": 2}),
    ("empty", [(0, 4, 5), (4, 1, 3), (4,)], {"groups": 4}),
    ("large", [(1, 2, 70), (2, 1, 65)], {"groups": 2}),
):
    row(
        "grouped_conv",
        lambda chx, *a, k=kwargs: chx.grouped_conv(*a, **k),
        lambda *a, k=kwargs: grouped_conv(*a, **k),
        shapes,
        dtypes=[FLOATS] * len(shapes),
        grad=list(range(len(shapes))),
        domain=(-1, 1),
        name=f"grouped_conv-{name}",
    )


def gradients(x, w, gy, stride=1, pad=0, dilate=1, groups=1):
    """Of x and of w, element by element of the kernels."""
    n = x.ndim - 2
    stride, pad, dilate = expand(stride, n), expand(pad, n), expand(dilate, n)
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in pad)])
    gx, gw = np.zeros_like(padded), np.zeros_like(w)
    for g in range(groups):
        channels = slice(g * w.shape[1], (g + 1) * w.shape[1])
        outputs = slice(g * len(w) // groups, (g + 1) * len(w) // groups)
        for at in itertools.product(*map(range, w.shape[2:])):
            where = tuple(
                slice(a * d, a * d + (c - 1) * s + 1, s)
                for a, d, s, c in zip(at, dilate, stride, gy.shape[2:], strict=True)
            )
            part = padded[(slice(None), channels, *where)]
            grad, element = gy[:, outputs], (outputs, slice(None), *at)
            axes = (0, *range(2, x.ndim))
            gw[element] = np.tensordot(grad, part, (axes, axes))
            gx[(slice(None), channels, *where)] += np.einsum("nk...,kc->nc...", grad, w[element])
    inside = tuple(slice(p, p + k) for p, k in zip(pad, x.shape[2:], strict=True))
    return gx[(slice(None), slice(None), *inside)], gw


def both(kwargs):
    """The two gradients of the operator, and of its definition, with the output's gradient last."""

    def ours(chx, x, w, gy):
        x, w = (a.as_grad_stopped().require_grad() for a in (x, w))
        return chx.grad([chx.grouped_conv(x, w, **kwargs)], [x, w], grad_outputs=[gy])

    return ours, lambda x, w, gy: gradients(x, w, gy, **kwargs)


# For oneDNN: more channels than it puts side by side, or not as many; groups of samples and of
# channels; pads and dilations of all kinds.
for name, (x, w), kwargs in (
    ("many", [(3, 64, 32, 30), (64, 1, 3, 3)], {"groups": 64, "pad": 1}),
    ("odd", [(2, 21, 9, 8), (21, 1, 3, 2)], {"groups": 21, "pad": (1, 0)}),
    ("multiplied", [(2, 16, 9, 11), (48, 1, 3, 3)], {"groups": 16, "stride": 2, "pad": 1}),
    ("strided", [(2, 32, 15, 14), (32, 1, 5, 5)], {"groups": 32, "stride": (2, 3), "pad": 2}),
    ("dilated", [(2, 16, 17, 16), (16, 1, 3, 3)], {"groups": 16, "pad": 4, "dilate": (2, 3)}),
    ("1d", [(3, 32, 70), (32, 1, 4)], {"groups": 32, "pad": 2, "stride": 2}),
    ("3d", [(1, 16, 5, 6, 7), (16, 1, 3, 2, 3)], {"groups": 16, "pad": 1}),
    ("groups", [(2, 32, 10, 9), (64, 8, 3, 3)], {"groups": 4, "pad": 1}),
    ("odd-groups", [(2, 15, 8, 9), (10, 3, 3, 3)], {"groups": 5, "stride": 2}),
    ("many-groups", [(3, 64, 20, 19), (64, 16, 3, 3)], {"groups": 4, "pad": 1}),
    ("atrous", [(2, 16, 19, 18), (24, 16, 3, 3)], {"dilate": 3, "pad": (3, 2)}),
    ("no-channels", [(2, 0, 5), (0, 0, 3)], {}),
):
    shape = grouped_conv(np.zeros(x, "float32"), np.zeros(w, "float32"), **kwargs).shape
    row(
        "grouped_conv",
        lambda chx, *a, k=kwargs: chx.grouped_conv(*a, **k),
        lambda *a, k=kwargs: grouped_conv(*a, **k),
        [x, w, w[:1]],
        [("float16", "float64", "float32")] * 3,  # the last one in all layouts
        domain=(-1, 1),
        name=f"grouped_conv-larger-{name}",
    )
    for op in ("image", "weight"):
        i = ("image", "weight").index(op)
        ours, definition = both(kwargs)
        row(
            f"grouped_conv_grad_{op}",
            lambda chx, *a, f=ours, i=i: f(chx, *a)[i],
            lambda *a, f=definition, i=i: f(*a)[i],
            [x, w, shape],
            [("float16", "float64", "float32")] * 3,
            domain=(-1, 1),
            name=f"grouped_conv_grad_{op}-{name}",
        )
