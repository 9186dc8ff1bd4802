import numpy as np

from ..table import FLOATS, row
from .elementwise import away_from_zero


def activation(op, call, ref, **kwargs):
    row(op, call, ref, [(3, 4)], grad=[0], domain=away_from_zero, **kwargs)


activation(
    "clipped_relu",
    lambda chx, x: chx.clipped_relu(x * 20, 7.5),
    lambda x: np.clip(x * 20, 0, 7.5).astype(x.dtype),
)
for axis in (1, 0):
    activation(
        "crelu",
        lambda chx, x, a=axis: chx.crelu(x, axis=a),
        lambda x, a=axis: np.concatenate([np.maximum(x, 0), np.maximum(-x, 0)], a),
        name=f"crelu-{axis}",
    )
activation(
    "elu",
    lambda chx, x: chx.elu(x, 1.5),
    lambda x: np.where(x > 0, x, 1.5 * np.expm1(x)).astype(x.dtype),
)
activation(
    "elu",
    lambda chx, x: chx.elu(x * 400),
    lambda x: np.where(x > 0, x * 400, np.expm1(np.minimum(x * 400, 0))).astype(x.dtype),
    name="elu-large",
)
activation(
    "leaky_relu",
    lambda chx, x: chx.leaky_relu(x, 0.1),
    lambda x: np.where(x >= 0, x, x.dtype.type(0.1) * x),
)
for beta in (1.0, 2.5):
    activation(
        "softplus",
        lambda chx, x, b=beta: chx.softplus(x, b),
        lambda x, b=beta: (np.logaddexp(x * x.dtype.type(b), 0) / b).astype(x.dtype),
        name=f"softplus-{beta}",
    )


def loss(name, call, ref, domain=away_from_zero, shapes=((3, 4), (4,))):
    row(name, call, ref, list(shapes), grad=[0, 1], domain=domain, dtypes=[FLOATS, FLOATS])


loss("absolute_error", lambda chx, x, y: chx.absolute_error(x, y), lambda x, y: np.abs(x - y))
loss("squared_error", lambda chx, x, y: chx.squared_error(x, y), lambda x, y: np.square(x - y))
loss(
    "huber_loss",
    lambda chx, x, y: chx.huber_loss(x, y, 0.75),
    lambda x, y: np.where(
        np.abs(x - y) < 0.75, np.square(x - y) * 0.5, 0.75 * (np.abs(x - y) - 0.375)
    ).astype(x.dtype),
)
loss(
    "gaussian_kl_divergence",
    lambda chx, m, v: chx.gaussian_kl_divergence(m, v),
    lambda m, v: (0.5 * (m * m + np.exp(v) - v - 1)).astype(m.dtype),
)


def hinge(x, t, norm):
    sign = np.where(np.arange(x.shape[1]) == t[:, None], -1, 1)
    return (np.maximum(0, 1 + sign * x) ** norm).astype(x.dtype)


for norm in (1, 2):
    row(
        "hinge",
        lambda chx, x, t, n=norm: chx.hinge(x, t, n),
        lambda x, t, n=norm: hinge(x, t, n),
        [(6, 4), (6,)],
        dtypes=[FLOATS, ("int64", "int32", "uint8")],
        grad=[0],
        domain=[away_from_zero, lambda rng, shape: rng.integers(0, 4, shape)],
        same_dtypes=False,
        name=f"hinge-{norm}",
    )
