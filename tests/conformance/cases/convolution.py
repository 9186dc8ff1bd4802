import itertools

import numpy as np

from ..table import ALL, INTS, row


def expand(value, ndim):
    return (value,) * ndim if isinstance(value, int) else value


def window_count(size, k, s, p, cover_all):
    return (size + 2 * p - k + (s - 1 if cover_all else 0)) // s + 1


def windows(x, ksize, stride, pad, cover_all, value):
    """(N, C, kernel..., counts...): for each element of a window a slice of the padded array."""
    n = len(ksize)
    counts = [
        window_count(*a, cover_all) for a in zip(x.shape[2:], ksize, stride, pad, strict=True)
    ]
    # On the right as much as the last window needs.
    widths = [(0, 0), (0, 0)] + [(p, p + s) for p, s in zip(pad, stride, strict=True)]
    padded = np.pad(x, widths, constant_values=value)
    col = np.empty((*x.shape[:2], *ksize, *counts), x.dtype)
    for k in itertools.product(*map(range, ksize)):
        at = tuple(slice(k[d], k[d] + stride[d] * counts[d], stride[d]) for d in range(n))
        col[(slice(None), slice(None), *k)] = padded[(slice(None), slice(None), *at)]
    return col


def conv(x, w, b=None, stride=1, pad=0, cover_all=False):
    n = x.ndim - 2
    col = windows(x, w.shape[2:], expand(stride, n), expand(pad, n), cover_all, 0)
    axes = list(range(1, n + 2))
    y = np.moveaxis(np.tensordot(col, w, (axes, axes)), -1, 1)
    return (y if b is None else y + b.reshape(-1, *(1,) * n)).astype(x.dtype)


def conv_transpose(x, w, b=None, stride=1, pad=0, outsize=None):
    n = x.ndim - 2
    k, s, p = w.shape[2:], expand(stride, n), expand(pad, n)
    size = outsize or [s[d] * (x.shape[d + 2] - 1) + k[d] - 2 * p[d] for d in range(n)]
    y = np.zeros((x.shape[0], w.shape[1], *(size[d] + 2 * p[d] + s[d] for d in range(n))), x.dtype)
    for at in itertools.product(*map(range, k)):
        part = np.moveaxis(np.tensordot(x, w[(slice(None), slice(None), *at)], (1, 0)), -1, 1)
        where = tuple(slice(at[d], at[d] + s[d] * x.shape[d + 2], s[d]) for d in range(n))
        y[(slice(None), slice(None), *where)] += part
    y = y[(slice(None), slice(None), *(slice(p[d], p[d] + size[d]) for d in range(n)))]
    return (y if b is None else y + b.reshape(-1, *(1,) * n)).astype(x.dtype)


def case(op, reference, shapes, name, dtypes=ALL, domain=(-1, 1), **kwargs):
    row(
        op,
        lambda chx, *a: getattr(chx, op)(*a, **kwargs),
        lambda *a: reference(*a, **kwargs),
        shapes,
        dtypes=[dtypes] * len(shapes),
        grad=list(range(len(shapes))) if "float64" in dtypes else (),
        domain=domain,
        name=f"{op}-{name}",
    )


# Sums beyond the dtype.
WIDE = {"dtypes": INTS, "domain": (-100, 100)}
for name, shapes, kwargs in [
    ("plain", [(2, 3, 5, 4), (2, 3, 3, 2), (2,)], {}),
    ("no-bias", [(2, 3, 5, 4), (2, 3, 3, 2)], {}),
    ("stride", [(2, 2, 7, 6), (3, 2, 3, 3), (3,)], {"stride": (2, 3), "pad": (1, 2)}),
    ("cover-all", [(1, 2, 6, 5), (2, 2, 3, 2)], {"stride": 2, "cover_all": True}),
    ("one-by-one", [(3, 4, 2, 3), (2, 4, 1, 1), (2,)], {}),
    ("1d", [(2, 3, 8), (2, 3, 3), (2,)], {"stride": 2, "pad": 1}),
    ("3d", [(1, 2, 3, 4, 3), (2, 2, 2, 2, 2), (2,)], {"pad": (0, 1, 1)}),
    ("wide-pad", [(1, 1, 2, 2), (1, 1, 2, 2)], {"pad": 3}),
    ("no-samples", [(0, 2, 4, 4), (3, 2, 3, 3), (3,)], {}),
    ("no-spatial", [(4, 3), (5, 3), (5,)], {}),
    ("wraps-around", [(2, 3, 6, 5), (4, 3, 3, 2), (4,)], {"stride": 2, "pad": 1, **WIDE}),
]:
    case("conv", conv, shapes, name, **kwargs)
for name, shapes, kwargs in [
    ("plain", [(2, 3, 3, 2), (3, 2, 3, 2), (2,)], {}),
    ("no-bias", [(2, 3, 3, 2), (3, 2, 3, 2)], {"stride": 2}),
    ("pad", [(2, 2, 3, 4), (2, 3, 3, 3), (3,)], {"stride": (2, 1), "pad": (1, 2)}),
    ("larger", [(1, 2, 3, 3), (2, 2, 3, 3)], {"stride": 2, "outsize": (8, 7)}),
    ("cover-all", [(1, 2, 3, 3), (2, 2, 3, 3)], {"stride": 2, "outsize": (6, 6)}),
    ("one-by-one", [(3, 4, 2, 3), (4, 2, 1, 1), (2,)], {}),
    ("1d", [(2, 3, 4), (3, 2, 3), (2,)], {"stride": 3, "pad": 1}),
    ("3d", [(1, 2, 2, 2, 2), (2, 1, 2, 2, 2), (1,)], {"stride": 2}),
    ("no-spatial", [(4, 3), (3, 5), (5,)], {}),
    ("wraps-around", [(2, 3, 3, 4), (3, 2, 3, 2), (2,)], {"stride": 2, "pad": 1, **WIDE}),
]:
    case("conv_transpose", conv_transpose, shapes, name, **kwargs)
# Of several dtypes: as they promote.
for operator, reference, shapes in [
    ("conv", conv, [(2, 3, 5, 4), (2, 3, 3, 2), (2,)]),
    ("conv_transpose", conv_transpose, [(2, 3, 3, 2), (3, 2, 3, 2), (2,)]),
]:
    row(
        operator,
        lambda chx, x, w, b, op=operator: getattr(chx, op)(x, w, b),
        lambda x, w, b, f=reference: f(*(a.astype("float64") for a in (x, w, b))).astype("float32"),
        shapes,
        dtypes=[("int16", "bool"), ("float32",), ("float16", "int64")],
        same_dtypes=False,
        domain=(-1, 1),
        name=f"{operator}-mixed",
    )


def conv_grad_weight(x, gy):
    col = windows(x, (3, 3), (2, 2), (1, 1), False, 0)
    return np.tensordot(gy, col, ([0, 2, 3], [0, 4, 5])).astype(x.dtype)


def chx_conv_grad_weight(chx, x, gy):
    w = chx.zeros((gy.shape[1], x.shape[1], 3, 3), x.dtype).require_grad()
    y = chx.conv(x, w, None, 2, 1)
    return chx.grad([y], [w], grad_outputs=[gy])[0]


row(
    "conv_grad_weight",
    chx_conv_grad_weight,
    conv_grad_weight,
    [(3, 2, 5, 6), (3, 4, 3, 3)],
    domain=(-1, 1),
)
# More samples than both backends lay out at a time.
MANY = (240, 1, 64, 64)
for operator, call, reference, shapes in [
    (
        "conv",
        lambda chx, x, w: chx.conv(x, w, pad=1),
        lambda x, w: conv(x, w, pad=1),
        [(1, 1, 3, 3)],
    ),
    (
        "conv_transpose",
        lambda chx, x, w: chx.conv_transpose(x, w, pad=1),
        lambda x, w: conv_transpose(x, w, pad=1),
        [(1, 1, 3, 3)],
    ),
    ("conv_grad_weight", chx_conv_grad_weight, conv_grad_weight, [(240, 1, 32, 32)]),
]:
    row(
        operator,
        call,
        reference,
        [MANY, *shapes],
        dtypes=[("float32",)] * 2,
        domain=(-1, 1),
        name=f"{operator}-many-samples",
    )
# A sample that is too large for that.
LARGE = (1, 8, 400, 300)
for operator, call, reference, shapes in [
    (
        "conv",
        lambda chx, x, w: chx.conv(x, w, pad=1),
        lambda x, w: conv(x, w, pad=1),
        [(1, 8, 3, 3)],
    ),
    (
        "conv_transpose",
        lambda chx, x, w: chx.conv_transpose(x, w, pad=1),
        lambda x, w: conv_transpose(x, w, pad=1),
        [(8, 8, 3, 3)],
    ),
    ("conv_grad_weight", chx_conv_grad_weight, conv_grad_weight, [(1, 2, 200, 150)]),
]:
    row(
        operator,
        call,
        reference,
        [LARGE, *shapes],
        dtypes=[("float32",)] * 2,
        domain=(-1, 1),
        name=f"{operator}-large-sample",
    )
