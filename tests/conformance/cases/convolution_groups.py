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
