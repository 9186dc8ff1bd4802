"""chx.distributed.GradientReducer: ranks are threads with sessions of their own."""

from concurrent.futures import ThreadPoolExecutor

import chx
import numpy as np
import pytest

SIZES = (7, 9, 5)  # of the layers
STEPS = 4


def on_ranks(size, run):
    """run(rank) on each rank, as a list."""

    def rank(number):
        chx.set_default_context(chx.Context())
        try:
            chx.distributed.init(number, size)
            return run(number)
        finally:
            chx.distributed.destroy()

    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(rank, range(size)))


@pytest.fixture(params=[1, 2, 3])
def size(request):
    return request.param


@pytest.fixture
def rng():
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    return np.random.default_rng(seed)


def model_of(rng):
    return [rng.normal(size=shape) for pair in zip(SIZES, SIZES[1:]) for shape in (pair, pair[1:])]


def loss_of(params, x):
    for w, b in zip(params[::2], params[1::2]):
        x = chx.tanh(x.dot(w) + b)
    return chx.sum(x * x)


def gradients(params, x):
    """In NumPy."""
    inputs, y = [], x
    for w, b in zip(params[::2], params[1::2]):
        inputs.append(y)
        y = np.tanh(y @ w + b)
    found, gy = [], 2 * y
    for i in reversed(range(len(inputs))):
        gz = gy * (1 - y * y)
        found = [inputs[i].T @ gz, gz.sum(0), *found]
        gy, y = gz @ params[2 * i].T, inputs[i]
    return found


@pytest.mark.parametrize("bucket_bytes", [1, 200, 8 << 20])
def test_gradients_are_the_mean_of_all_ranks(size, rng, bucket_bytes):
    params = model_of(rng)
    data = rng.normal(size=(size, 6, SIZES[0]))
    data[0, 2] = np.nan if bucket_bytes == 200 else 0.5
    expected = np.mean([np.concatenate([g.ravel() for g in gradients(params, x)]) for x in data], 0)

    def run(rank):
        leaves = [chx.array(p).require_grad() for p in params]
        reducer = chx.distributed.GradientReducer(leaves, bucket_bytes=bucket_bytes)
        reducer.backward(loss_of(leaves, chx.array(data[rank])), loss_scale=64.0)
        return np.concatenate([chx.to_numpy(leaf.grad).ravel() for leaf in leaves])

    for found in on_ranks(size, run):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_delayed_training_is_that_with_the_gradients_of_the_step_before(size, rng):
    first = model_of(rng)
    data = rng.normal(size=(STEPS, size, 3, SIZES[0]))
    expected, before = [p.copy() for p in first], [np.zeros_like(p) for p in first]
    for batch in data:
        new = [np.mean(g, 0) for g in zip(*(gradients(expected, x) for x in batch))]
        expected = [p - 0.05 * g for p, g in zip(expected, before)]
        before = new

    def run(rank):
        leaves = [chx.array(p).require_grad() for p in first]
        reducer = chx.distributed.GradientReducer(leaves, bucket_bytes=100, delayed=True)
        for batch in data:
            for leaf in leaves:
                leaf.cleargrad()
            reducer.backward(loss_of(leaves, chx.array(batch[rank])))
            leaves = [(p.as_grad_stopped() - 0.05 * p.grad).require_grad() for p in leaves]
            reducer.params = leaves
        return [chx.to_numpy(leaf) for leaf in leaves]

    for found in on_ranks(size, run):
        for a, b in zip(found, expected):
            np.testing.assert_allclose(a, b, rtol=1e-10)


def steps_of(rng, size):
    """First parameters, a batch for each step and rank, and the parameters at the end."""
    first = model_of(rng)
    data = rng.normal(size=(STEPS, size, 3, SIZES[0]))
    params = first
    for batch in data:
        means = [np.mean(g, 0) for g in zip(*(gradients(params, x) for x in batch))]
        params = [p - 0.05 * g for p, g in zip(params, means)]
    return first, data, params


def descend(reducer, x):
    for p in reducer.params:
        p.cleargrad()
    loss = loss_of(reducer.params, x)
    reducer.backward(loss)
    for p in reducer.params:
        with chx.no_backprop_mode():
            p -= 0.05 * p.grad
    return loss


@pytest.mark.parametrize("bucket_bytes", [1, 200, 8 << 20])
def test_recorded_ranks_meet_those_that_are_not(size, rng, bucket_bytes):
    first, data, expected = steps_of(rng, size)

    def run(rank):
        leaves = [chx.array(p).require_grad() for p in first]
        reducer = chx.distributed.GradientReducer(leaves, bucket_bytes=bucket_bytes)
        step = chx.jit(lambda x: descend(reducer, x))
        for batch in data:
            (descend if rank == 1 else lambda _, x: step(x))(reducer, chx.array(batch[rank]))
        text = "" if rank == 1 else step.explain()
        return [chx.to_numpy(leaf) for leaf in leaves], text

    buckets = {1: 4, 200: 2, 8 << 20: 1}[bucket_bytes]
    for rank, (found, text) in enumerate(on_ranks(size, run)):
        for a, b in zip(found, expected):
            np.testing.assert_allclose(a, b, rtol=1e-10)
        if rank != 1:
            assert text.count("all_reduce") == buckets, text


def test_recorded_and_delayed_it_runs_by_its_commands(rng):
    def run(rank):
        w = chx.ones(2).require_grad()
        reducer = chx.distributed.GradientReducer([w], delayed=True)

        def step(x):
            w.cleargrad()
            reducer.backward(chx.sum(w * x))
            return w.grad.copy()

        step = chx.jit(step)
        found = [step(chx.full(2, rank + float(i))).tolist() for i in range(4)]
        return found, step.explain()

    for found, text in on_ranks(2, run):
        assert found == [[0.0] * 2, [0.5] * 2, [1.5] * 2, [2.5] * 2]
        assert "goes on after its backward pass" in text


def test_recorded_with_another_dtype_and_a_parameter_without_gradient(rng):
    def run(rank):
        w, unused = chx.ones(2).require_grad(), chx.ones(3).require_grad()
        reducer = chx.distributed.GradientReducer([w, unused], dtype="bfloat16")

        def step(x):
            for p in reducer.params:
                p.cleargrad()
            reducer.backward(chx.sum(w * x))
            return w.grad.copy(), unused.grad.copy()

        step = chx.jit(step)
        found = [[g.tolist() for g in step(chx.full(2, rank + float(i)))] for i in range(3)]
        return found, step.explain()

    for found, text in on_ranks(2, run):
        assert found == [[[0.5 + i] * 2, [0.0] * 3] for i in range(3)]
        assert text.count("all_reduce") == 1


def test_exchanged_in_another_dtype(rng):
    values = rng.normal(size=(2, 1000)).astype("float32")

    def run(rank):
        w = chx.zeros(1000).require_grad()
        loss = chx.sum(w * chx.array(values[rank]))
        chx.distributed.GradientReducer([w], op="sum", dtype="bfloat16").backward(loss)
        assert w.grad.dtype == "float32"
        return chx.to_numpy(w.grad)

    for found in on_ranks(2, run):
        np.testing.assert_allclose(found, values.sum(0), atol=0.04)
        assert not np.array_equal(found, values.sum(0))


def test_beside_other_gradients_and_functions_of_the_client(rng):
    def run(rank):
        w = chx.full((3,), 2.0).require_grad()
        own = chx.full((3,), 1.0).require_grad()
        unused = chx.ones(2).require_grad()
        outside = chx.checkpoint(lambda x, w: x * w * w)(own * float(rank + 1), w)
        reducer = chx.distributed.GradientReducer([w, unused], bucket_bytes=1)
        for _ in range(2):
            reducer.backward([chx.sum(outside)])
        return w.grad.tolist(), own.grad.tolist(), unused.grad.tolist()

    for rank, (w, own, unused) in enumerate(on_ranks(2, run)):
        assert w == [12.0] * 3  # twice the mean of 4 and 8
        assert own == [8.0 * (rank + 1)] * 3
        assert unused == [0.0] * 2


def test_what_it_refuses():
    def run(rank):
        w = chx.ones(2).require_grad()
        reducer = chx.distributed.GradientReducer([w])
        with pytest.raises(chx.GradientError, match="parameters that require a gradient"):
            chx.distributed.GradientReducer([chx.ones(2)]).backward(chx.sum(w))
        with pytest.raises(ValueError, match="expects parameters to reduce"):
            chx.distributed.GradientReducer([]).backward(chx.sum(w))
        with pytest.raises(ValueError, match="expects op to be one of"):
            chx.distributed.GradientReducer([w], op="median")
        reducer.backward(chx.sum(w))
        return w.grad.tolist()

    assert on_ranks(1, run) == [[1.0, 1.0]]


def test_a_rank_that_fails_is_named():
    def run(rank):
        w = chx.ones(2).require_grad()
        reducer = chx.distributed.GradientReducer([w])
        if rank == 1:
            chx.distributed.destroy()
            return ""
        with pytest.raises(chx.ContextError) as error:
            reducer.backward(chx.sum(w))
            w.grad.tolist()
        return str(error.value)

    assert "rank 1 has left" in on_ranks(2, run)[0]
