import numpy as np

from ..elementwise import away_from_zero
from ..table import FLOATS, row


def loss(name, call, ref, domain=away_from_zero, shapes=((3, 4), (4,))):
    row(name, call, ref, list(shapes), grad=[0, 1], domain=domain, dtypes=[FLOATS, FLOATS])


loss("absolute_error", lambda chx, x, y: chx.absolute_error(x, y), lambda x, y: np.abs(x - y))
loss("squared_error", lambda chx, x, y: chx.squared_error(x, y), lambda x, y: np.square(x - y))


def huber(x, y):
    distance = np.abs(x - y)
    far = 0.75 * (distance - 0.375)
    return np.where(distance < 0.75, np.square(x - y) * 0.5, far).astype(x.dtype)


def huber_gradient(chx, x, y, gy):
    x = x.as_grad_stopped().require_grad()
    return chx.grad([chx.huber_loss(x, y, 0.75)], [x], grad_outputs=[gy])[0]


def beside_quarters(shift):
    """Of two such arrays, with shifts that differ by 1/8, no difference is near to where the loss
    bends."""

    def make(rng, shape):
        return rng.integers(-10, 11, shape) / 4 + shift + rng.uniform(-0.05, 0.05, shape)

    return make


for shapes in (((3, 4), (4,)), ((40, 50), (40, 50)), ((3, 1), (1, 4)), ((0, 2), (0, 2))):
    row(
        "huber_loss",
        lambda chx, x, y: chx.huber_loss(x, y, 0.75),
        huber,
        list(shapes),
        grad=[0, 1],
        domain=[beside_quarters(0), beside_quarters(0.125)],
        dtypes=[FLOATS, FLOATS],
        name=f"huber_loss-{'-'.join('x'.join(map(str, s)) for s in shapes)}",
    )
row(
    "huber_loss_grad",
    huber_gradient,
    lambda x, y, gy: gy * np.clip(x - y, -0.75, 0.75),
    [(6, 7), (6, 7), (6, 7)],
    dtypes=[FLOATS, FLOATS, FLOATS],
    domain=away_from_zero,
    name="huber_loss_grad",
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
