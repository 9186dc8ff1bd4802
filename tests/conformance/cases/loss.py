import numpy as np

from ..table import FLOATS, row


def log_softmax(x):
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def softmax_cross_entropy(x, t):
    losses = -log_softmax(x)[np.arange(len(t)), t]
    return np.where(t == -1, x.dtype.type(0), losses)


def labels(low, high):
    return lambda rng, shape: rng.integers(low, high, shape)


INTEGERS = ("int64", "int32", "int8")
for name, low in (("all", 0), ("ignored", -1)):
    row(
        "softmax_cross_entropy",
        lambda chx, x, t: chx.softmax_cross_entropy(x, t),
        softmax_cross_entropy,
        [(6, 4), (6,)],
        dtypes=[FLOATS, INTEGERS],
        grad=[0],
        domain=[(-3, 3), labels(low, 4)],
        same_dtypes=False,
        name=f"softmax_cross_entropy-{name}",
    )


def softmax_cross_entropy_grad(chx, x, t, gy):
    x = x.as_grad_stopped().require_grad()
    return chx.grad([chx.softmax_cross_entropy(x, t)], [x], grad_outputs=[gy])[0]


def softmax_cross_entropy_grad_reference(x, t, gy):
    onehot = np.eye(x.shape[1])[t] * (t != -1)[:, None]
    return ((np.exp(log_softmax(x)) - onehot) * ((t != -1) * gy)[:, None]).astype(x.dtype)


row(
    "softmax_cross_entropy_grad",
    softmax_cross_entropy_grad,
    softmax_cross_entropy_grad_reference,
    [(6, 4), (6,), (6,)],
    dtypes=[("float32",), INTEGERS, ("float32",)],
    domain=[(-3, 3), labels(-1, 4), (-1, 1)],
    same_dtypes=False,
)


def sigmoid_cross_entropy(x, t):
    loss = np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x)))
    return np.where(t == -1, 0, loss).astype(x.dtype)


row(
    "sigmoid_cross_entropy",
    lambda chx, x, t: chx.sigmoid_cross_entropy(x, t),
    sigmoid_cross_entropy,
    [(5, 2), (5, 2)],
    dtypes=[FLOATS, INTEGERS],
    grad=[0],
    domain=[(-3, 3), labels(-1, 2)],
    same_dtypes=False,
)


def distinct(rng, shape):
    return rng.permutation(int(np.prod(shape))).reshape(shape) * 0.5


row(
    "accuracy",
    lambda chx, y, t: chx.accuracy(y, t),
    lambda y, t: np.asarray((y.argmax(1) == t).mean()).astype(y.dtype),
    [(8, 3), (8,)],
    dtypes=[FLOATS, INTEGERS],
    domain=[distinct, labels(0, 3)],
    same_dtypes=False,
)
row(
    "accuracy",
    lambda chx, y, t: chx.accuracy(y, t),
    lambda y, t: np.asarray((y.argmax(1)[..., 0] == t).mean()).astype(y.dtype),
    [(4, 3, 2, 1), (4, 2)],
    dtypes=[FLOATS, INTEGERS],
    domain=[distinct, labels(0, 3)],
    same_dtypes=False,
    name="accuracy-trailing-axes",
)
row(
    "accuracy",
    lambda chx, y, t: chx.accuracy(y, t, 0),
    lambda y, t: np.asarray((y.argmax(1) == t)[t != 0].sum() / max(1, (t != 0).sum())).astype(
        y.dtype
    ),
    [(8, 3), (8,)],
    dtypes=[FLOATS, INTEGERS],
    domain=[distinct, labels(0, 3)],
    same_dtypes=False,
    name="accuracy-ignored",
)
