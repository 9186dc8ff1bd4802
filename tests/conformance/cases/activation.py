import numpy as np

from ..elementwise import away_from_zero, to_float, unary
from ..table import row


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
unary("sigmoid", lambda x: np.reciprocal(np.exp(-to_float(x)) + to_float(x).dtype.type(1)))
unary("relu", lambda x: np.maximum(to_float(x), to_float(x).dtype.type(0)), domain=away_from_zero)


def relu_gradient(chx, x, gy):
    x = x.as_grad_stopped().require_grad()
    return chx.grad([chx.relu(x)], [x], grad_outputs=[gy])[0]


row(
    "relu_grad",
    relu_gradient,
    lambda x, gy: np.where(x > 0, gy, 0),
    [(4, 3), (4, 3)],
    domain=away_from_zero,
)
