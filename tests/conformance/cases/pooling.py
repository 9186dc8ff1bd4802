import numpy as np

from ..table import row
from .convolution import expand, window_count, windows


def pool(x, ksize, stride, pad, cover_all, value):
    n = x.ndim - 2
    k = expand(ksize, n)
    s = k if stride is None else expand(stride, n)
    col = windows(x, k, s, expand(pad, n), cover_all, value)
    return col.reshape(*x.shape[:2], int(np.prod(k)), *col.shape[2 + n :])


def max_pool(x, ksize, stride=None, pad=0, cover_all=False):
    return pool(x, ksize, stride, pad, cover_all, -np.inf).max(axis=2)


def average_pool(x, ksize, stride=None, pad=0, pad_mode="ignore"):
    sums = pool(x, ksize, stride, pad, False, 0).sum(axis=2, dtype="float64")
    if pad_mode == "zero":
        return (sums / np.prod(expand(ksize, x.ndim - 2))).astype(x.dtype)
    with np.errstate(invalid="ignore"):
        return (sums / counts(x.shape[2:], ksize, stride, pad)).astype(x.dtype)


def counts(sizes, ksize, stride, pad):
    """Elements in each window; negative or, multiplied, positive for windows beyond the edge."""
    k, p = expand(ksize, len(sizes)), expand(pad, len(sizes))
    s = k if stride is None else expand(stride, len(sizes))
    result = np.ones(())
    for size, k_d, s_d, p_d in zip(sizes, k, s, p, strict=True):
        starts = np.arange(window_count(size, k_d, s_d, p_d, False)) * s_d - p_d
        in_x = np.minimum(starts + k_d, size) - np.maximum(starts, 0)
        result = result[..., None] * in_x
    return result


def distinct(rng, shape):
    """No two elements closer than what a numerical gradient moves them by."""
    size = int(np.prod(shape))
    return (rng.permutation(size).reshape(shape) - size / 2) / 16


def case(op, reference, shape, args, kwargs, name, grad=(0,)):
    row(
        op,
        lambda chx, x: getattr(chx, op)(x, *args, **kwargs),
        lambda x: reference(x, *args, **kwargs),
        [shape],
        grad=grad,
        domain=distinct,
        name=f"{op}-{name}",
    )


for name, shape, args, kwargs in [
    ("plain", (2, 3, 6, 4), (2,), {}),
    ("overlap", (2, 2, 5, 6), ((3, 2),), {"stride": (2, 1), "pad": 1}),
    ("1d", (2, 3, 7), (3, 2), {}),
    ("3d", (1, 2, 4, 3, 4), (2,), {"stride": (2, 1, 2)}),
    ("gaps", (1, 2, 7, 7), (2, 3), {}),
    ("wide-pad", (1, 2, 3, 3), (2, 1, 3), {}),
    ("beyond", (1, 2, 3, 3), (1, 3, 2), {}),
    ("no-samples", (0, 2, 4, 4), (2,), {}),
]:
    case("max_pool", max_pool, shape, args, kwargs, name)
    for mode in ("zero", "ignore"):
        kwargs_of_mode = {**kwargs, "pad_mode": mode}
        grad = () if (name, mode) == ("wide-pad", "ignore") else (0,)  # there are NaNs
        case("average_pool", average_pool, shape, args, kwargs_of_mode, f"{name}-{mode}", grad)
for name, shape, args in [("cover-all", (2, 2, 5, 6), (3, 2)), ("cover-all-1d", (2, 1, 8), (3,))]:
    case("max_pool", max_pool, shape, args, {"cover_all": True}, name)
row(
    "max_pool",
    lambda chx, x: chx.max_pool(x, 2, 1),
    lambda x: max_pool(x, 2, 1),
    [(1, 1, 3, 4)],
    domain=lambda rng, shape: rng.choice([np.nan, np.inf, -np.inf, 1, 2], shape),
    name="max_pool-special",
)


def through_gradient(op, shape, counts):
    """A gradient of `op`, as a function of what its output gets."""

    def call(chx, x, gy):
        x = x.as_grad_stopped().require_grad()
        y = getattr(chx, op)(x, 2, 1)
        return chx.grad([y], [x], grad_outputs=[gy])[0]

    def reference(x, gy):
        gx = np.zeros(x.shape, "float64")
        for n, c, i, j in np.ndindex(*gy.shape):
            window = x[n, c, i : i + 2, j : j + 2]
            part = gx[n, c, i : i + 2, j : j + 2]
            if op == "max_pool":
                at = np.unravel_index(window.argmax(), window.shape)
                part[at] += gy[n, c, i, j]
            else:
                part += gy[n, c, i, j].astype("float64") / 4
        return gx.astype(x.dtype)

    row(
        "pool_scatter" if op == "max_pool" else "average_pool_grad",
        call,
        reference,
        [shape, counts],
        domain=[distinct, (-1, 1)],
    )


through_gradient("max_pool", (2, 2, 4, 3), (2, 2, 3, 2))
through_gradient("average_pool", (2, 2, 4, 3), (2, 2, 3, 2))


# The others are what these are made of.
def second_order(op, gathers):
    def call(chx, x, ggx):
        x = x.as_grad_stopped().require_grad()
        y = getattr(chx, op)(x, 2, 1)
        gy = chx.zeros(y.shape, y.dtype).require_grad()
        (gx,) = chx.grad([(y * gy).sum()], [x], enable_double_backprop=True)
        return chx.grad([gx], [gy], grad_outputs=[ggx])[0]

    def reference(x, ggx):
        y = np.empty((*x.shape[:2], x.shape[2] - 1, x.shape[3] - 1), x.dtype)
        for n, c, i, j in np.ndindex(*y.shape):
            window = x[n, c, i : i + 2, j : j + 2]
            part = ggx[n, c, i : i + 2, j : j + 2]
            y[n, c, i, j] = part.reshape(-1)[window.argmax()] if gathers else part.mean()
        return y

    return call, reference


for operator, op, gathers in [
    ("pool_gather", "max_pool", True),
    ("average_pool", "average_pool", False),
]:
    row(
        operator,
        *second_order(op, gathers),
        [(2, 2, 4, 3), (2, 2, 4, 3)],
        domain=[distinct, (-1, 1)],
        name=f"{operator}-of-gradients",
    )
row(
    "max_pool_index",
    lambda chx, x: chx.max_pool(x, (1, 2)),
    lambda x: max_pool(x, (1, 2)),
    [(1, 2, 3, 5)],
)
