"""Normalizations of each sample by itself, and the gradients of layer_norm and rms_norm as operators:
several rows and one, rows longer than are summed in one go, no rows, more rows than are summed in
float32."""

import numpy as np

from ..table import FLOATS, row

EPS = 1e-2


def normalize(x, axes, eps, centered=True):
    mean = x.mean(axis=axes, keepdims=True) if centered else 0
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + eps)


def rows(name, normalized, eps=EPS):
    """The operator over the last axes, in NumPy: x, and weight and bias where given."""

    def ref(x, weight=None, bias=None):
        wide = x.astype("float64" if x.dtype.kind == "f" else "float32")
        axes = tuple(range(x.ndim - len(normalized), x.ndim))
        y = normalize(wide, axes, eps, name == "layer_norm")
        if weight is not None:
            y = y * weight
        if bias is not None:
            y = y + bias
        return y.astype(x.dtype if x.dtype.kind == "f" else "float32")

    return ref


def layer_norm(chx, x, weight=None, bias=None, shape=None):
    return chx.layer_norm(x, shape or x.shape[-1:], weight, bias, eps=EPS)


def rms_norm(chx, x, weight=None, shape=None):
    return chx.rms_norm(x, shape or x.shape[-1:], weight, eps=EPS)


STATISTICS = [(-1, 1), (0.5, 1.5), (-1, 1)]
SHAPES = [((6, 5), (5,)), ((2, 3, 4), (3, 4)), ((7,), (7,)), ((1, 1), (1,)), ((0, 3), (3,))]
for op, call, inputs in (("layer_norm", layer_norm, 3), ("rms_norm", rms_norm, 2)):
    for x, normalized in SHAPES:
        for given in range(1, inputs + 1):
            row(
                op,
                lambda chx, *a, call=call, s=normalized: call(chx, *a, shape=s),
                rows(op, normalized),
                [x, *[normalized] * (given - 1)],
                grad=list(range(given)),
                domain=STATISTICS[:given],
                name=f"{op}-{'x'.join(map(str, x))}-{len(normalized)}-{given}",
            )
    # Longer than a block of 1024, and of another offset than its size.
    for long in ((3, 2500), (200, 31)):
        row(
            op,
            lambda chx, *a, call=call: call(chx, *a),
            rows(op, long[1:]),
            [long, *[long[1:]] * (inputs - 1)],
            domain=STATISTICS[:inputs],
            name=f"{op}-{'x'.join(map(str, long))}",
        )
    row(
        op,
        lambda chx, *a, call=call: call(chx, *a),
        rows(op, (5,)),
        [(4, 5), *[(5,)] * (inputs - 1)],
        [("float16", "float32", "int32"), *[("float32",)] * (inputs - 1)],
        domain=STATISTICS[:inputs],
        same_dtypes=False,
        name=f"{op}-mixed-dtypes",
    )
row(
    "layer_norm",
    lambda chx, x, bias: chx.layer_norm(x, (5,), None, bias, EPS),
    lambda x, bias: rows("layer_norm", (5,))(x, None, bias),
    [(4, 5), (5,)],
    grad=[0, 1],
    name="layer_norm-bias-only",
)
# Without eps, that of x's dtype: larger than the squares.
for dtype in FLOATS:
    row(
        "rms_norm",
        lambda chx, x: chx.rms_norm(x, 4),
        lambda x, d=dtype: rows("rms_norm", (4,), float(np.finfo(d).eps))(x),
        [(3, 4)],
        [(dtype,)],
        domain=lambda rng, shape, d=dtype: (
            rng.uniform(-1, 1, shape) * np.sqrt(float(np.finfo(d).eps)) / 2
        ),
        name=f"rms_norm-default-eps-{dtype}",
    )


def gradients(call, given):
    """Of all inputs."""

    def ours(chx, gy, *inputs):
        leaves = [a.as_grad_stopped().require_grad() for a in inputs]
        return chx.grad([call(chx, *leaves)], leaves, grad_outputs=[gy])

    return ours


def np_gradients(op):
    def ref(gy, x, weight, bias=None):
        wide, g = x.astype("float64"), gy.astype("float64")
        normalized = normalize(wide, -1, EPS, op == "layer_norm")
        inverse = 1 / np.sqrt((wide.var(-1) if op == "layer_norm" else (wide**2).mean(-1)) + EPS)
        scaled = g * weight
        gx = scaled - normalized * (scaled * normalized).mean(-1, keepdims=True)
        if op == "layer_norm":
            gx = gx - scaled.mean(-1, keepdims=True)
        grads = [gx * inverse[..., None], (g * normalized).sum(0), g.sum(0)]
        return [a.astype(x.dtype) for a in grads[: 2 if bias is None else 3]]

    return ref


for op, call, inputs in (("layer_norm", layer_norm, 3), ("rms_norm", rms_norm, 2)):
    for x in ((5, 3), (4, 2500), (300, 130)):
        row(
            f"{op}_grad",
            gradients(call, inputs),
            np_gradients(op),
            [x, x, *[x[1:]] * (inputs - 1)],
            # Sums of many rows are rounded as often in float16.
            [FLOATS if x[0] < 100 else FLOATS[1:]] * (inputs + 1),
            domain=[(-1, 1), *STATISTICS[:inputs]],
            name=f"{op}_grad-{'x'.join(map(str, x))}",
        )


def channels(groups):
    def ref(x, weight=None, bias=None):
        count = x.shape[1] if groups is None else groups
        wide = x.astype("float64")
        split = wide.reshape(x.shape[0], count, -1) if x.size else wide
        y = (normalize(split, -1, EPS) if x.size else split).reshape(x.shape)
        shape = (-1, *[1] * (x.ndim - 2))
        if weight is not None:
            y = y * weight.reshape(shape)
        if bias is not None:
            y = y + bias.reshape(shape)
        return y.astype(x.dtype)

    return ref


for x, groups in (((2, 6), 3), ((3, 4, 5), 2), ((2, 3, 2, 3), 1), ((0, 4, 3), 2)):
    for given in range(1, 4):
        row(
            "group_norm",
            lambda chx, x, *a, g=groups: chx.group_norm(x, g, *a, eps=EPS),
            channels(groups),
            [x, *[x[1:2]] * (given - 1)],
            grad=list(range(given)),
            domain=STATISTICS[:given],
            name=f"group_norm-{'x'.join(map(str, x))}-{groups}-{given}",
        )
for x in ((2, 3, 4), (3, 2, 2, 3)):
    for given in range(1, 4):
        row(
            "instance_norm",
            lambda chx, x, w=None, b=None: chx.instance_norm(x, weight=w, bias=b, eps=EPS),
            channels(None),
            [x, *[x[1:2]] * (given - 1)],
            grad=list(range(given)),
            domain=STATISTICS[:given],
            name=f"instance_norm-{'x'.join(map(str, x))}-{given}",
        )


def np_group_gradients(groups):
    def ref(gy, x, weight, bias):
        del bias
        split = (x.shape[0], groups, -1)
        column = (-1, *[1] * (x.ndim - 2))
        wide, g = x.astype("float64").reshape(split), gy.astype("float64")
        normalized = normalize(wide, -1, EPS)
        scaled = (g * weight.reshape(column)).reshape(split)
        gx = scaled - normalized * (scaled * normalized).mean(-1, keepdims=True)
        gx = (gx - scaled.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + EPS)
        axes = (0, *range(2, x.ndim))
        grads = [gx.reshape(x.shape), (g * normalized.reshape(x.shape)).sum(axes), g.sum(axes)]
        return [a.astype(x.dtype) for a in grads]

    return ref


# Channels longer than are summed in one go, and short ones; several threads.
for x, groups in (((2, 6, 2500), 3), ((40, 8, 30, 31), 4), ((300, 12), 4), ((2, 4, 3, 3, 2), 4)):
    floats = FLOATS if np.prod(x) < 50_000 else FLOATS[1:]
    call = lambda chx, x, w, b, g=groups: chx.group_norm(x, g, w, b, eps=EPS)  # noqa: E731
    row(
        "group_norm",
        call,
        channels(groups),
        [x, x[1:2], x[1:2]],
        [floats] * 3,
        domain=STATISTICS,
        name=f"group_norm-long-{'x'.join(map(str, x))}",
    )
    row(
        "group_norm_grad",
        gradients(call, 3),
        np_group_gradients(groups),
        [x, x, x[1:2], x[1:2]],
        [floats[-2:]] * 4,
        domain=[(-1, 1), *STATISTICS],
        name=f"group_norm_grad-{'x'.join(map(str, x))}",
    )
row(
    "instance_norm",
    lambda chx, x, w, b: chx.instance_norm(x, weight=w, bias=b, eps=EPS),
    channels(None),
    [(3, 5, 2500), (5,), (5,)],
    domain=STATISTICS,
    name="instance_norm-long",
)
row(
    "group_norm",
    lambda chx, x, w: chx.group_norm(x, 2, w, eps=EPS),
    lambda x, w: channels(2)(x, w),
    [(3, 4, 5), (4,)],
    [("float16", "float32"), ("float64", "float32")],
    domain=STATISTICS[:2],
    same_dtypes=False,
    name="group_norm-mixed-dtypes",
)
