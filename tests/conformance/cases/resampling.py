import math

import numpy as np

from ..table import ALL, FLOATS, row


def resample(x, sizes, mode, corners, scale=None):
    y = x.astype("float64")
    for axis, out in enumerate(sizes, start=2):
        size = x.shape[axis]
        step = 1 / scale if scale else size / out
        if mode == "nearest":
            index = [min(math.floor(i * step + 1e-9), size - 1) for i in range(out)]
            y = np.take(y, index, axis)
            continue
        if out == size:
            continue
        if corners:
            position = np.linspace(0, size - 1, out) if out > 1 else np.zeros(1)
        else:
            position = np.maximum((np.arange(out) + 0.5) * step - 0.5, 0)
        weights = np.zeros((out, size))
        for i, p in enumerate(position):
            first = min(math.floor(p + 1e-12), size - 1)
            weights[i, first] += 1 - (p - first)
            weights[i, min(first + 1, size - 1)] += p - first
        y = np.moveaxis(np.tensordot(weights, y, (1, axis)), 0, axis)
    return y.astype(x.dtype)


CASES = [
    ((2, 2, 5), (8,), "nearest"),
    ((1, 2, 5, 4), (3, 8), "nearest"),
    ((1, 1, 2, 3, 2), (4, 3, 1), "nearest"),
    ((2, 2, 5), (8,), "linear"),
    ((2, 2, 5), (1,), "linear"),
    ((1, 2, 5, 4), (3, 8), "bilinear"),
    ((0, 2, 5, 4), (3, 8), "bilinear"),
    ((1, 1, 2, 3, 2), (4, 3, 1), "trilinear"),
]
for shape, sizes, mode in CASES:
    for corners in (False, True):
        if mode == "nearest" and corners:
            continue
        row(
            "interpolate",
            lambda chx, x, s=sizes, m=mode, a=corners: chx.interpolate(
                x, s, mode=m, align_corners=a
            ),
            lambda x, s=sizes, m=mode, a=corners: resample(x, s, m, a),
            [shape],
            dtypes=[FLOATS],
            grad=[0],
            name=f"interpolate-{mode}-{shape}-{sizes}-{corners}",
        )
for scale, mode in (
    (2.0, "nearest"),
    (1.5, "bilinear"),
    (0.6, "bilinear"),
    (1.2, "bilinear"),
    (0.5, "nearest"),
):
    shape = (1, 2, 5, 4)
    sizes = tuple(math.floor(n * scale) for n in shape[2:])
    row(
        "interpolate",
        lambda chx, x, c=scale, m=mode: chx.interpolate(x, scale_factor=c, mode=m),
        lambda x, s=sizes, m=mode, c=scale: resample(x, s, m, False, c),
        [shape],
        dtypes=[FLOATS],
        grad=[0],
        name=f"interpolate-{mode}-by-{scale}",
    )


def shuffle(x, r):
    *batch, c, h, w = x.shape
    y = x.reshape(*batch, c // (r * r), r, r, h, w)
    n = len(batch)
    y = y.transpose(*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return y.reshape(*batch, c // (r * r), h * r, w * r)


def unshuffle(x, r):
    *batch, c, h, w = x.shape
    y = x.reshape(*batch, c, h // r, r, w // r, r)
    n = len(batch)
    y = y.transpose(*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return y.reshape(*batch, c * r * r, h // r, w // r)


for op, ref, shapes in (
    ("pixel_shuffle", shuffle, [((2, 8, 3, 2), 2), ((9, 1, 2), 3), ((0, 4, 2, 2), 2)]),
    ("pixel_unshuffle", unshuffle, [((2, 2, 4, 6), 2), ((1, 3, 6), 3), ((0, 4, 2, 2), 2)]),
):
    for shape, factor in shapes:
        row(
            op,
            lambda chx, x, o=op, f=factor: getattr(chx, o)(x, f),
            lambda x, r=ref, f=factor: r(x, f),
            [shape],
            dtypes=[ALL],
            grad=[0],
            exact=True,
            name=f"{op}-{shape}",
        )
