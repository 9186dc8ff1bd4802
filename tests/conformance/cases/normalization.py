import numpy as np

from ..table import row

EPS = 1e-2


def moments(x, axis):
    x = x.astype("float64")
    return x.mean(axis=axis, keepdims=True), x.var(axis=axis, keepdims=True)


def shaped(gamma, x, axis):
    shape = [1 if i in axis else n for i, n in enumerate(x.shape)]
    return gamma.astype("float64").reshape(shape)


def normalize(x, gamma, beta, mean, var, axis):
    scale = shaped(gamma, x, axis) / np.sqrt(var + EPS)
    return ((x - mean) * scale + shaped(beta, x, axis)).astype(x.dtype)


def batch_norm(x, gamma, beta, running_mean, running_var, axis, decay):
    """The result and what becomes of the running statistics."""
    mean, var = moments(x, axis)
    count = x.size // gamma.size
    unbiased = var * count / max(count - 1, 1)
    running = [
        (decay * old + (1 - decay) * new.reshape(old.shape)).astype(old.dtype)
        for old, new in ((running_mean, mean), (running_var, unbiased))
    ]
    return [normalize(x, gamma, beta, mean, var, axis), *running]


def chx_batch_norm(chx, x, gamma, beta, mean, var, axis, decay):
    # Written to, and so not in a graph.
    mean, var = mean.as_grad_stopped(copy=True), var.as_grad_stopped(copy=True)
    y = chx.batch_norm(x, gamma, beta, mean, var, eps=EPS, decay=decay, axis=axis)
    return [y, mean, var]


STATISTICS = [(-1, 1), (0.5, 1.5), (-1, 1), (-1, 1), (0.5, 2)]
for name, x, gamma, given, axis in [
    ("2d", (6, 3), (3,), None, (0,)),
    ("4d", (4, 3, 2, 3), (3,), (0, 2, 3), (0, 2, 3)),
    ("3d-first-axis", (5, 3, 2), (3, 2), None, (0,)),
    ("last-axis", (3, 4), (3,), 1, (1,)),
    ("one-element", (1, 3), (3,), None, (0,)),
]:
    row(
        "batch_norm",
        lambda chx, *a, given=given: chx_batch_norm(chx, *a, axis=given, decay=0.7),
        lambda *a, axis=axis: batch_norm(*a, axis=axis, decay=0.7),
        [x, *[gamma] * 4],
        domain=STATISTICS,
        name=f"batch_norm-{name}",
    )
    row(
        "batch_norm",
        lambda chx, *a, given=given: chx_batch_norm(chx, *a, axis=given, decay=0.7)[0],
        lambda *a, axis=axis: batch_norm(*a, axis=axis, decay=0.7)[0],
        [x, *[gamma] * 4],
        grad=[0, 1, 2],
        domain=STATISTICS,
        name=f"batch_norm-{name}-gradient",
    )
    row(
        "fixed_batch_norm",
        lambda chx, *a, given=given: chx.fixed_batch_norm(*a, eps=EPS, axis=given),
        lambda x, gamma, beta, mean, var, axis=axis: normalize(
            x, gamma, beta, shaped(mean, x, axis), shaped(var, x, axis), axis
        ),
        [x, *[gamma] * 4],
        grad=[0, 1, 2, 3, 4],
        domain=STATISTICS,
        name=f"fixed_batch_norm-{name}",
    )
row(
    "batch_norm",
    lambda chx, *a: chx_batch_norm(chx, *a, axis=None, decay=0.9),
    lambda *a: batch_norm(*a, axis=(0,), decay=0.9),
    [(6, 3), (3,), (3,), (3,), (3,)],
    dtypes=[("float16",), *[("float32",)] * 4],
    domain=STATISTICS,
    same_dtypes=False,
    name="batch_norm-mixed-dtypes",
)


# What batch_norm and its gradient are made of: more channels than are computed together, rows longer
# than are summed in one go, axes that only the composition knows.
def batch_norm_grad(x, gamma, gy, axis):
    mean, var = moments(x, axis)
    gy = gy.astype("float64")
    deviation = np.sqrt(var + EPS)
    normalized = (x - mean) / deviation
    gbeta = gy.sum(axis=axis, keepdims=True)
    ggamma = (gy * normalized).sum(axis=axis, keepdims=True)
    count = x.size // gamma.size
    gx = (gy - (normalized * ggamma + gbeta) / count) * shaped(gamma, x, axis) / deviation
    return [gx.astype(x.dtype)] + [g.reshape(gamma.shape).astype(x.dtype) for g in (ggamma, gbeta)]


def chx_batch_norm_grad(chx, x, gamma, gy, axis):
    inputs = [a.as_grad_stopped().require_grad() for a in (x, gamma, chx.zeros_like(gamma))]
    mean, var = (chx.zeros(gamma.shape, gamma.dtype) for _ in range(2))
    y = chx.batch_norm(*inputs, mean, var, eps=EPS, axis=axis)
    return chx.grad([y], inputs, grad_outputs=[gy])


for name, x, gamma, axis in [
    ("4d", (4, 3, 2, 3), (3,), (0, 2, 3)),
    ("many-channels", (5, 150), (150,), (0,)),
    ("long-rows", (2, 2, 1100), (2,), (0, 2)),
    ("last-axis", (3, 4), (3,), (1,)),
    ("other-axes", (4, 3, 5), (4, 5), (1,)),
    ("one-element", (1, 3), (3,), (0,)),
]:
    row(
        "batch_norm_forward",
        lambda chx, *a, axis=axis: chx_batch_norm(chx, *a, axis=axis, decay=0.7),
        lambda *a, axis=axis: batch_norm(*a, axis=axis, decay=0.7),
        [x, *[gamma] * 4],
        domain=STATISTICS,
        name=f"batch_norm_forward-{name}",
    )
    row(
        "batch_norm_grad",
        lambda chx, *a, axis=axis: chx_batch_norm_grad(chx, *a, axis=axis),
        lambda *a, axis=axis: batch_norm_grad(*a, axis=axis),
        [x, gamma, x],
        domain=[(-1, 1), (0.5, 1.5), (-1, 1)],
        name=f"batch_norm_grad-{name}",
    )
