"""Smooth activations: forward, and the gradient that each has a kernel for."""

import math

import numpy as np

from ..elementwise import NUMBERS, SHAPES, to_float
from ..table import row


def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x.astype("float64"))


def np_sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu_tanh(x):
    return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2


def gelu_tanh_slope(x):
    t = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    inner = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x**2)
    return (1 + t) / 2 + x * (1 - t**2) * inner / 2


def mish_slope(x):
    w = np.tanh(np.logaddexp(x, 0))
    return w + x * (1 - w**2) * np_sigmoid(x)


SMOOTH = {
    "silu": (lambda x: x * np_sigmoid(x), lambda x: np_sigmoid(x) * (1 + x * (1 - np_sigmoid(x)))),
    "mish": (lambda x: x * np.tanh(np.logaddexp(x, 0)), mish_slope),
    "hardswish": (
        lambda x: x * np.clip(x + 3, 0, 6) / 6,
        lambda x: np.where(x < -3, 0, np.where(x > 3, 1, x / 3 + 0.5)),
    ),
    "gelu_erf": (
        lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
        lambda x: ((1 + erf(x / np.sqrt(2))) / 2 + x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)),
    ),
    "gelu_tanh": (gelu_tanh, gelu_tanh_slope),
}
# What callers write for the two that are one operator.
NAMES = {
    "gelu_erf": lambda chx, x: chx.gelu(x),
    "gelu_tanh": lambda chx, x: chx.gelu(x, approximate="tanh"),
}


def in_float64(function):
    """The reference for floats and integers, in the dtype that these are computed in."""

    def ref(x, *rest):
        wide = [a.astype("float64") for a in (x, *rest)]
        return function(*wide).astype(to_float(x).dtype)

    return ref


def with_gradient(call):
    def gradient(chx, x, gy):
        x = x.as_grad_stopped().require_grad()
        return chx.grad([call(chx, x)], [x], grad_outputs=[gy])[0]

    return gradient


def across_pieces(rng, shape):
    """Away from -3 and 3, where hardswish has no second derivative."""
    return rng.choice([-4.5, -1.0, 1.0, 4.5], shape) + rng.uniform(-0.9, 0.9, shape)


for name, (value, slope) in SMOOTH.items():
    call = NAMES.get(name, lambda chx, x, n=name: getattr(chx, n)(x))
    for shape in SHAPES:
        row(name, call, in_float64(value), [shape], [NUMBERS], grad=[0], domain=across_pieces)
    row(
        f"{name}_grad",
        with_gradient(call),
        in_float64(lambda x, gy, slope=slope: slope(x) * gy),
        [(4, 3), (4, 3)],
        domain=across_pieces,
    )
    # Far from zero the exponentials overflow, or are zero.
    row(
        name,
        call,
        in_float64(value),
        [(9,)],
        domain=lambda rng, shape: rng.uniform(20, 200, shape) * rng.choice([-1, 1], shape),
        name=f"{name}-large",
    )
    row(
        f"{name}_grad",
        with_gradient(call),
        in_float64(lambda x, gy, slope=slope: slope(x) * gy),
        [(9,), (9,)],
        domain=[
            lambda rng, shape: rng.uniform(20, 200, shape) * rng.choice([-1, 1], shape),
            (-1, 1),
        ],
        name=f"{name}_grad-large",
    )
    row(
        name,
        call,
        in_float64(value),
        [(5,)],
        domain=lambda rng, shape: np.where(rng.random(shape) < 0.5, np.nan, rng.random(shape)),
        name=f"{name}-nan",
    )
for mode, name in (("none", "gelu_erf"), ("tanh", "gelu_tanh")):
    row(
        "gelu",
        lambda chx, x, m=mode: chx.gelu(x, approximate=m),
        in_float64(SMOOTH[name][0]),
        [(3, 4)],
        [NUMBERS],
        grad=[0],
        domain=across_pieces,
        name=f"gelu-{mode}",
    )
