import numpy as np

from ..table import row


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def alternating(x):
    return [x[:, i::4] for i in range(4)]


def lstm(c, x):
    a, i, f, o = alternating(x)
    n = len(x)
    c = c.copy()
    c[:n] = np.tanh(a) * sigmoid(i) + sigmoid(f) * c[:n]
    return c, sigmoid(o) * np.tanh(c[:n])


for c_shape, x_shape in (((3, 2), (3, 8)), ((4, 2), (2, 8)), ((2, 3, 2), (2, 12, 2))):
    row("lstm", lambda chx, c, x: chx.lstm(c, x), lstm, [c_shape, x_shape], grad=[0, 1])


def lstm_cell(x, h, c):
    i, f, a, o = np.split(x + h, 4, 1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(a)
    return c, sigmoid(o) * np.tanh(c)


for gates_shape, c_shape in (((3, 8), (3, 2)), ((2, 12, 2), (2, 3, 2))):
    row(
        "lstm_cell",
        lambda chx, *arrays: chx.lstm_cell(*arrays),
        lstm_cell,
        [gates_shape, gates_shape, c_shape],
        grad=[0, 1, 2],
    )


def lstm_cell_grad(x, h, c, gc, gh):
    i, f, a, o = np.split(x + h, 4, 1)
    i, f, a, o = sigmoid(i), sigmoid(f), np.tanh(a), sigmoid(o)
    squashed = np.tanh(f * c + i * a)
    total = gc + gh * o * (1 - squashed**2)
    parts = [
        total * a * i * (1 - i),
        total * c * f * (1 - f),
        total * i * (1 - a**2),
        gh * squashed * o * (1 - o),
    ]
    gz = np.concatenate(parts, 1)
    return gz, gz, total * f


def chx_lstm_cell_grad(chx, x, h, c, gc, gh):
    inputs = [a.as_grad_stopped().require_grad() for a in (x, h, c)]
    return chx.grad(chx.lstm_cell(*inputs), inputs, grad_outputs=[gc, gh])


for gates_shape, c_shape in (((3, 80), (3, 20)), ((2, 12, 2), (2, 3, 2))):
    row(
        "lstm_cell_grad",
        chx_lstm_cell_grad,
        lstm_cell_grad,
        [gates_shape, gates_shape, c_shape, c_shape, c_shape],
    )


def slstm(c1, c2, x1, x2):
    a1, i1, f1, o1 = alternating(x1)
    a2, i2, f2, o2 = alternating(x2)
    c = np.tanh(a1) * sigmoid(i1) + sigmoid(f1) * c1
    c = c + np.tanh(a2) * sigmoid(i2) + sigmoid(f2) * c2
    return c, sigmoid(o1 + o2) * np.tanh(c)


row(
    "slstm",
    lambda chx, *arrays: chx.slstm(*arrays),
    slstm,
    [(3, 2), (3, 2), (3, 8), (3, 8)],
    grad=[0, 1, 2, 3],
)


def tree_lstm(*inputs):
    *cs, x = inputs
    a, i, o, *fs = np.split(x, 3 + len(cs), 1)
    c = np.tanh(a) * sigmoid(i)
    for state, f in zip(cs, fs, strict=True):
        c = c + sigmoid(f) * state
    return c, sigmoid(o) * np.tanh(c)


for children in (1, 3):
    row(
        "tree_lstm",
        lambda chx, *inputs: chx.tree_lstm(*inputs),
        tree_lstm,
        [(2, 3)] * children + [(2, (3 + children) * 3)],
        grad=range(children + 1),
    )
