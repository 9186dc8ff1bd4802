import numpy as np

from ..table import ALL, FLOATS, INTS, row

AXES = [None, 0, -1, (0, 2), (), (1, 0, 2)]
NUMBERS = (*INTS, *FLOATS)


def distinct(rng, shape):
    """No two elements are equal: an extremum has one place."""
    size = int(np.prod(shape))
    return rng.permutation(size).reshape(shape) * 0.25 - size / 8


def reduction(name, ref, dtypes, axes=AXES, shape=(2, 3, 4), grad=True, domain=(-2, 2)):
    for axis in axes:
        for keepdims in (False, True):
            row(
                name,
                lambda chx, a, x=axis, k=keepdims: getattr(chx, name)(a, axis=x, keepdims=k),
                lambda a, x=axis, k=keepdims: ref(a, axis=x, keepdims=k),
                [shape],
                dtypes=[dtypes],
                grad=[0] if grad else [],
                domain=domain,
                name=f"{name}-{axis}-{keepdims}",
            )


def np_sum(a, axis, keepdims):
    return np.sum(a, axis=axis, keepdims=keepdims, dtype=None if a.dtype.kind == "f" else "int64")


def np_mean(a, axis, keepdims):
    out = "float32" if a.dtype.kind != "f" else a.dtype
    return np.mean(a.astype("float64"), axis=axis, keepdims=keepdims).astype(out)


def np_logsumexp(a, axis=None, keepdims=False):
    x = a if a.dtype.kind == "f" else a.astype("float32")
    m = x.max(axis=axis, keepdims=True)
    total = np.log(np.exp(x - m).sum(axis=axis, keepdims=True)) + m
    return total if keepdims else total.reshape(np.sum(x, axis=axis).shape)


reduction("sum", np_sum, ALL)
reduction("mean", np_mean, ALL)
reduction("amax", np.amax, ALL, domain=distinct)
reduction("amin", np.amin, ALL, domain=distinct)
reduction("logsumexp", np_logsumexp, NUMBERS, axes=[None, 0, -1, (0, 2)])
row(
    "sum",
    lambda chx, a: a.sum(),
    lambda a: a.sum(dtype=a.dtype),
    [(0, 3)],
    grad=[0],
    name="sum-empty",
)
row(
    "sum",
    lambda chx, a: a.sum(axis=0),
    lambda a: a.sum(axis=0, dtype=a.dtype),
    [(0, 3)],
    name="sum-empty-axis",
)
row("sum", lambda chx, a: a.sum(), lambda a: a.copy(), [()], grad=[0], name="sum-0d")
for name in ("argmax", "argmin"):
    for axis in (None, 0, 1, -1):
        row(
            name,
            lambda chx, a, n=name, x=axis: getattr(chx, n)(a, axis=x),
            lambda a, n=name, x=axis: np.asarray(getattr(np, n)(a, axis=x)).astype("int64"),
            [(3, 5)],
            dtypes=[ALL],
            exact=True,
            name=f"{name}-{axis}",
        )
        row(
            name,
            lambda chx, a, n=name, x=axis: getattr(a, n)(axis=x, keepdims=True),
            lambda a, n=name, x=axis: getattr(np, n)(a, axis=x, keepdims=True).astype("int64"),
            [(3, 5)],
            exact=True,
            name=f"{name}-{axis}-kept",
        )


def np_log_softmax(x, axis):
    return x - np_logsumexp(x, axis=axis, keepdims=True)


for axis in (None, 0, (0, 1)):
    real = 1 if axis is None else axis
    row(
        "log_softmax",
        lambda chx, x, a=axis: chx.log_softmax(x, axis=a),
        lambda x, a=real: np_log_softmax(x, a),
        [(3, 4)],
        grad=[0],
        name=f"log_softmax-{axis}",
    )
    row(
        "softmax",
        lambda chx, x, a=axis: chx.softmax(x, axis=a),
        lambda x, a=real: np.exp(np_log_softmax(x, a)),
        [(3, 4)],
        grad=[0],
        name=f"softmax-{axis}",
    )


def chx_gradient(chx, x, gy, name, axis):
    """The gradient's operator, on x and gy that may be in graphs."""
    if not x.is_backprop_required():
        x = x.as_grad_stopped().require_grad()
    y = getattr(chx, name)(x, axis=axis)
    return chx.grad([y], [x], grad_outputs=[gy], enable_double_backprop=True)[0]


def np_softmax_grad(x, gy, axis):
    y = np.exp(np_log_softmax(x, axis))
    return y * (gy - (y * gy).sum(axis=axis, keepdims=True))


def np_log_softmax_grad(x, gy, axis):
    return gy - np.exp(np_log_softmax(x, axis)) * gy.sum(axis=axis, keepdims=True)


for axis in (0, 1, (0, 1)):
    for name, reference in (("softmax", np_softmax_grad), ("log_softmax", np_log_softmax_grad)):
        row(
            f"{name}_grad",
            lambda chx, x, gy, n=name, a=axis: chx_gradient(chx, x, gy, n, a),
            lambda x, gy, r=reference, a=axis: r(x, gy, a),
            [(3, 4), (3, 4)],
            grad=[0, 1],
            name=f"{name}_grad-{axis}",
        )
