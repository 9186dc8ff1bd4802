"""Stacks of recurrent layers, against NumPy step by step and numerical gradients."""

import chx
import numpy as np
import pytest
from chx import _recurrent

SEED = np.random.SeedSequence().entropy % 2**32


@pytest.fixture(scope="module", autouse=True)
def session():
    print("seed", SEED)
    with chx.connect() as session:
        yield session


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cell_step(cell, w, b, x, h, c):
    half = len(w) // 2
    from_x = [x @ w[i].T + b[i] for i in range(half)]
    from_h = [h @ w[half + i].T + b[half + i] for i in range(half)]
    if cell == "gru":
        r, z = sigmoid(from_x[0] + from_h[0]), sigmoid(from_x[1] + from_h[1])
        return (1 - z) * np.tanh(from_x[2] + r * from_h[2]) + z * h, c
    both = [p + q for p, q in zip(from_x, from_h, strict=True)]
    if cell == "lstm":
        i, f, a, o = both
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(a)
        return sigmoid(o) * np.tanh(c), c
    return (np.tanh(both[0]) if cell == "tanh" else relu(both[0])), c


class Relu:
    """Remembers how near to its kink it was called: differences are wrong across it."""

    nearest = np.inf

    def __call__(self, x):
        self.nearest = min(self.nearest, np.abs(x).min())
        return np.maximum(x, 0)


relu = Relu()


class Network:
    """The same network for chx, by its n_step functions, and for NumPy, step by step."""

    def __init__(self, cell, layers, directions, rows, hidden=2, size=3):
        self.cell, self.layers, self.directions, self.rows = cell, layers, directions, rows
        self.half = {"lstm": 4, "gru": 3}.get(cell, 1)
        self.states = 2 if cell == "lstm" else 1
        batch = rows[0]
        parts = layers * directions
        self.shapes = [(parts, batch, hidden)] * self.states
        for part in range(parts):
            width = size if part < directions else hidden * directions
            self.shapes += [(hidden, width)] * self.half + [(hidden, hidden)] * self.half
        self.shapes += [(hidden,)] * (2 * self.half * parts)
        self.shapes += [(n, size) for n in rows]

    def split(self, arrays):
        arrays = list(arrays)
        states, arrays = arrays[: self.states], arrays[self.states :]
        count = self.layers * self.directions
        groups = [
            arrays[i : i + 2 * self.half] for i in range(0, 4 * count * self.half, 2 * self.half)
        ]
        return states, groups[:count], groups[count:], arrays[4 * count * self.half :]

    def call(self, chx, *arrays):
        states, ws, bs, xs = self.split(arrays)
        name = ("n_step_bi" if self.directions == 2 else "n_step_") + (
            self.cell if self.half > 1 else "rnn"
        )
        activation = [self.cell] if self.half == 1 else []
        *final, ys = getattr(chx, name)(self.layers, *states, ws, bs, xs, *activation)
        return [*final, *ys]

    def reference(self, *arrays):
        states, ws, bs, xs = self.split(arrays)
        hs = states[0].copy()
        cs = states[-1].copy()
        for layer in range(self.layers):
            outputs = [[] for _ in xs]
            for direction in range(self.directions):
                part = layer * self.directions + direction
                steps = range(len(xs))
                for t in reversed(steps) if direction else steps:
                    n = len(xs[t])
                    h, c = cell_step(
                        self.cell, ws[part], bs[part], xs[t], hs[part, :n], cs[part, :n]
                    )
                    hs[part, :n] = h
                    cs[part, :n] = c
                    outputs[t].append(h)
            xs = [np.concatenate(parts, 1) for parts in outputs]
        return [hs, cs, *xs] if self.cell == "lstm" else [hs, *xs]


NETWORKS = [
    Network(cell, layers, directions, rows)
    for cell in ("lstm", "gru", "tanh", "relu")
    for layers, directions, rows in ((1, 1, (2, 2)), (2, 2, (3, 2, 1)))
]


def name_of(network):
    return f"{network.cell}-{network.layers}-{network.directions}"


@pytest.mark.parametrize("network", NETWORKS, ids=name_of)
def test_values_and_gradients(network):
    rng = np.random.default_rng(SEED)
    relu.nearest = 0
    while relu.nearest < 0.01:
        arrays = [rng.uniform(-0.7, 0.7, shape) for shape in network.shapes]
        relu.nearest = np.inf
        want = network.reference(*arrays)
    got = network.call(chx, *map(chx.array, arrays))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(chx.to_numpy(g), w, rtol=1e-10, atol=1e-12)
    leaves = [chx.array(a).require_grad() for a in arrays]
    weights = [chx.array(rng.uniform(-1, 1, w.shape)) for w in want]
    steps = [chx.array(np.full(a.shape, 1e-4)) for a in arrays]
    chx.check_backward(lambda xs: network.call(chx, *xs), leaves, weights, steps, 1e-6, 1e-5)


@pytest.mark.parametrize("directions", [1, 2])
def test_a_layer_equals_its_steps(directions, monkeypatch):
    # So many rows that weights are copied, on all threads.
    network = Network("lstm", 1, directions, (70, 70, 60, 60, 31, 1, 0), hidden=33, size=20)
    rng = np.random.default_rng(SEED)
    arrays = [rng.uniform(-0.7, 0.7, shape).astype("float32") for shape in network.shapes]
    results = []
    for layer in (True, False):
        if not layer:
            monkeypatch.setattr(_recurrent, "_has_lstm_layer", lambda *args: False)
        leaves = [chx.array(a).require_grad() for a in arrays]
        ys = network.call(chx, *leaves)
        weights = [chx.array(np.cos(np.arange(y.size, dtype=y.dtype)).reshape(y.shape)) for y in ys]
        results.append([*ys, *chx.grad(ys, leaves, grad_outputs=weights)])
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(chx.to_numpy(got), chx.to_numpy(want), rtol=1e-4, atol=1e-5)


def test_a_step_depends_on_those_before_it_only():
    network = NETWORKS[0]
    arrays = [chx.array(np.full(shape, 0.1)) for shape in network.shapes]
    arrays[-1].require_grad()
    *_, first_y, last_y = network.call(chx, *arrays)
    assert not first_y.is_backprop_required() and last_y.is_backprop_required()


def test_refusals():
    network = NETWORKS[0]
    arrays = [chx.ones(shape) for shape in network.shapes]
    states, ws, bs, xs = network.split(arrays)
    with pytest.raises(chx.DimensionError, match="grow"):
        chx.n_step_lstm(1, *states, ws, bs, [xs[0][:1], xs[1]])
    with pytest.raises(chx.DimensionError, match="n_step"):
        chx.n_step_lstm(2, *states, ws, bs, xs)
    with pytest.raises(chx.DimensionError):
        chx.n_step_lstm(1, *states, [ws[0][:7]], bs, xs)
    with pytest.raises(ValueError, match="activation"):
        chx.n_step_rnn(1, states[0], ws, bs, xs, "sigmoid")
