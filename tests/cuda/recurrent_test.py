"""n_step_* as one operator, by what cuDNN computes, against the same networks step by step on native."""

import itertools

import chx
import numpy as np
import pytest

SEED = np.random.SeedSequence().entropy % 2**32
GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}


@pytest.fixture(scope="module", autouse=True)
def session():
    print("seed", SEED)
    with chx.connect(devices="native:0,cuda:0") as session:
        yield session


class Network:
    def __init__(self, mode, layers, directions, rows, batch=None, dtype="float64"):
        rng = np.random.default_rng(SEED)
        self.mode, self.layers, self.directions = mode, layers, directions
        self.batch = rows[0] if batch is None else batch
        self.states = 2 if mode == "lstm" else 1
        self.count = layers * directions
        self.each = 2 * GATES[mode]
        hidden, size = 3, 2
        shapes = [(self.count, self.batch, hidden)] * self.states
        for part in range(self.count):
            width = size if part < directions else hidden * directions
            shapes += [(hidden, width)] * GATES[mode] + [(hidden, hidden)] * GATES[mode]
        shapes += [(hidden,)] * (self.each * self.count) + [(n, size) for n in rows]
        self.arrays = [rng.uniform(-1, 1, shape).astype(dtype) for shape in shapes]
        self.rng = rng

    def call(self, arrays):
        groups = self.each * self.count
        flat = iter(arrays)
        states = list(itertools.islice(flat, self.states))
        ws, bs = (
            [list(itertools.islice(flat, self.each)) for _ in range(self.count)] for _ in range(2)
        )
        assert sum(map(len, ws)) == groups
        name = f"n_step_{'bi' if self.directions == 2 else ''}"
        name += self.mode if self.each > 2 else "rnn"
        options = [self.mode] if self.each == 2 else []
        *finals, ys = getattr(chx, name)(self.layers, *states, ws, bs, list(flat), *options)
        return [*finals, *ys]

    def leaves(self, device):
        return [chx.array(a, device=device).require_grad() for a in self.arrays]

    def run(self, device):
        """Results, gradients of a sum of them, and gradients of a sum of those."""
        leaves = self.leaves(device)
        outs = self.call(leaves)
        rng = np.random.default_rng(SEED + 1)

        def weigh(arrays):
            weighed = [
                (chx.tanh(a) * chx.array(rng.uniform(-1, 1, a.shape), a.dtype, device=device)).sum()
                for a in arrays
            ]
            return sum(weighed[1:], weighed[0])

        first = chx.grad([weigh(outs)], leaves, enable_double_backprop=True)
        second = chx.grad([weigh(first)], leaves)
        return [[chx.to_numpy(a) for a in arrays] for arrays in (outs, first, second)]


@pytest.fixture
def calls(monkeypatch):
    """The calls of the operator."""
    made = []
    rnn = chx._core.rnn

    def counted(*args):
        made.append(args)
        return rnn(*args)

    monkeypatch.setattr(chx._core, "rnn", counted)
    return made


NETWORKS = [
    (mode, layers, directions, rows, batch)
    for mode in GATES
    for layers, directions, rows, batch in (
        (1, 1, (2, 2), 2),
        (2, 1, (3, 1, 1), 3),
        (1, 2, (4, 3, 1), 4),
        (2, 2, (3, 3, 2, 1), 3),
        (2, 2, (2, 1, 0), 3),  # not by cuDNN
        (1, 2, (0,), 2),
    )
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", NETWORKS, ids=str)
def test_the_same_as_on_native(shape, dtype, calls):
    network = Network(*shape, dtype=dtype)
    tolerance = 1e-11 if dtype == "float64" else 1e-4
    on_cuda = network.run("cuda:0")
    assert len(calls) == 1
    on_native = network.run("native:0")
    assert len(calls) == 1
    for got, want in zip(on_cuda, on_native, strict=True):
        for g, w in zip(got, want, strict=True):
            assert g.dtype == w.dtype and g.shape == w.shape
            np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)


def test_the_setting_decides(session, calls):
    network = Network("gru", 1, 2, (3, 2))
    whole = network.run("cuda:0")
    assert len(calls) == 1
    session.configure(use_cudnn=False)
    try:
        by_steps = network.run("cuda:0")
    finally:
        session.configure(use_cudnn=True)
    assert len(calls) == 1
    for got, want in zip(whole, by_steps, strict=True):
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-11, atol=1e-11)


def test_a_gradient_of_some_results_only():
    network = Network("lstm", 2, 2, (3, 2))
    grads = []
    for device in ("cuda:0", "native:0"):
        leaves = network.leaves(device)
        hy = network.call(leaves)[0]
        wanted = [leaves[0], leaves[5], leaves[-1]]
        grads.append([chx.to_numpy(g) for g in chx.grad([hy], wanted)])
    for got, want in zip(*grads, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


def errors_of(make):
    """What both devices say: the error, or the results' dtypes."""
    said = []
    for device in ("cuda:0", "native:0"):
        network = Network("lstm", 1, 1, (3, 2))
        arrays = [chx.array(a, device=device) for a in network.arrays]
        make(arrays, device)
        try:
            said.append([str(a.dtype) for a in network.call(arrays)])
        except Exception as error:
            said.append((type(error), str(error)))
    return said


def replace(i, shape, dtype="float64"):
    def make(arrays, device):
        arrays[i] = chx.ones(shape, dtype, device=device)

    return make


def integers(arrays, device):
    arrays[:] = [a.astype("int64") for a in arrays]


@pytest.mark.parametrize(
    "make",
    [
        replace(2, (3, 5)),  # a weight for another x
        replace(6, (3, 4)),
        replace(10, (2,)),
        replace(1, (1, 2, 3)),  # a cell's state for fewer sequences
        replace(-1, (2, 3)),  # steps of different widths
        replace(-1, (4, 2)),
        replace(-1, (2, 2), "int64"),
        replace(0, (1, 3, 3), "float32"),
        replace(1, (2, 3, 3)),
        integers,
    ],
)
def test_the_same_errors_and_dtypes_as_on_native(make, calls):
    on_cuda, on_native = errors_of(make)
    assert on_cuda == on_native
    assert not calls


@pytest.mark.parametrize("steps", [4096, 4097])
def test_as_many_steps_as_the_operator_takes_and_more(steps, calls):
    network = Network("tanh", 1, 1, (1,) * steps, dtype="float32")
    results = []
    for device in ("cuda:0", "native:0"):
        leaves = network.leaves(device)
        hy, *ys = network.call(leaves)
        (gradient,) = chx.grad([ys[-1].sum()], [leaves[1]])
        results.append([chx.to_numpy(a) for a in (hy, ys[1000], gradient)])
    assert len(calls) == (steps == 4096)
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
