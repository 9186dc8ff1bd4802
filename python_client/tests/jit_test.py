"""chx.jit: what is repeated is what the function does, to the last bit."""

import contextlib
import threading
import xml.etree.ElementTree

import chx
import numpy as np
import pytest


def _model(seed):
    rng = np.random.default_rng(seed)
    shapes = ((12, 8), (8,), (8, 4), (4,))
    return [chx.array(rng.normal(0, 0.3, s).astype("float32")).require_grad() for s in shapes]


def _loss(params, x, t):
    w1, b1, w2, b2 = params
    y = chx.tanh(x @ w1 + b1) @ w2 + b2
    return chx.mean((y - t) ** 2)


def _batches(count, seed=3, rows=5):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x, t = rng.normal(size=(rows, 12)), rng.normal(size=(rows, 4))
        yield chx.array(x.astype("float32")), chx.array(t.astype("float32"))


@pytest.mark.parametrize("name", ["SGD", "MomentumSGD", "Adam", "AMSGrad", "RMSprop", "AdaDelta"])
@pytest.mark.parametrize("clears", ["before", "after"])
def test_training(name, clears):
    found = []
    for wrap in (lambda f: f, chx.jit):
        params = _model(1)
        optimizer = getattr(chx.optimizers, name)().setup(params)
        optimizer.add_hook(chx.optimizers.WeightDecay(1e-3))

        def step(x, t, params=params, optimizer=optimizer):
            if clears == "before":
                optimizer.cleargrads()
            loss = _loss(params, x, t)
            loss.backward()
            optimizer.update()
            if clears == "after":
                optimizer.cleargrads()
            return {"loss": loss, "count": 1}

        step = wrap(step)
        losses = []
        for i, (x, t) in enumerate(_batches(12)):
            if i == 6 and hasattr(optimizer, "lr"):
                optimizer.lr *= 0.5
            losses.append(float(step(x, t)["loss"]))
        grads = [p.grad is None or chx.to_numpy(p.grad).tobytes() for p in params]
        found.append((losses, [chx.to_numpy(p).tobytes() for p in params], grads, optimizer.t))
    assert found[0] == found[1]
    assert step.cache_info()._replace(maxsize=0) == (11, 1, 0, 1, ())


def test_other_shapes_and_values_are_recorded_anew():
    calls = []

    @chx.jit
    def scaled(x, factor, *, shift=0):
        calls.append(x.shape)
        return x * factor + shift

    for n in (2, 3, 2, 3):
        np.testing.assert_array_equal(chx.to_numpy(scaled(chx.ones(n), 2.0)), np.full(n, 2))
    assert calls == [(2,), (3,)]
    assert chx.to_numpy(scaled(chx.ones(2), 3.0, shift=1)).tolist() == [4, 4]
    assert chx.to_numpy(scaled(chx.ones(2), 2, shift=1)).dtype == chx.ones(2).dtype
    assert scaled.cache_info()[:2] == (2, 4)
    scaled.cache_clear()
    assert scaled.cache_info()[:2] == (0, 0)
    scaled(chx.ones(2), 2.0)
    assert len(calls) == 5


def test_the_cache_is_bounded():
    """What was used longest ago makes room, not what was recorded first."""
    f = chx.jit(lambda x: x + 1, maxsize=2)
    hits = []
    for n in (1, 2, 1, 3, 1, 2, 1, 3):
        before = f.cache_info().hits
        assert chx.to_numpy(f(chx.zeros(n))).tolist() == [1] * n
        hits.append(f.cache_info().hits - before)
    assert hits == [0, 0, 1, 0, 1, 0, 1, 0]
    assert f.cache_info()[:4] == (3, 5, 2, 2)


def test_repeat():
    state = chx.zeros(3)

    @chx.jit
    def step(x):
        nonlocal state
        state += x
        return state * 2

    x = chx.array(np.arange(3, dtype="float32"))
    assert chx.to_numpy(step.repeat(10, x)).tolist() == [0, 20, 40]
    assert chx.to_numpy(step.repeat(90, x)).tolist() == [0, 200, 400]
    assert chx.to_numpy(state).tolist() == [0, 100, 200]
    with pytest.raises(ValueError, match="expects 1 time"):
        step.repeat(0, x)


def test_random_numbers_go_on():
    def noisy(x):
        y = x + chx.random.normal(size=x.shape, dtype="float32")
        return y * (rng.random(x.shape, dtype="float32") < 0.5)

    x = chx.zeros((100,), "float32")
    found = []
    for wrap in (lambda f: f, chx.jit):
        chx.random.seed(7)
        rng = chx.random.default_rng(8)
        f = wrap(noisy)
        found.append([chx.to_numpy(f(x)) for _ in range(4)])
        found[-1].append(chx.to_numpy(chx.random.normal(size=(5,))))
    for eager, recorded in zip(*found):
        np.testing.assert_array_equal(eager, recorded)
    assert not np.array_equal(found[0][0], found[0][1])
    assert f.cache_info().unplanned == ()
    g = chx.jit(lambda x: x + chx.random.normal(size=x.shape, dtype="float32"))
    chx.random.seed(9)
    draws = [chx.to_numpy(g(x)) for _ in range(6)]
    chx.random.seed(9)
    np.testing.assert_array_equal(chx.to_numpy(g.repeat(6, x)), draws[5])


def test_views_and_containers():
    @chx.jit
    def f(pairs):
        (a, b), rest = pairs["pair"], pairs["rest"]
        rest[0][:, 1] = 5
        return [a.T, (b[1:], None)], "text", rest[0]

    for i in range(3):
        a = chx.array(np.arange(6.0).reshape(2, 3) + i)
        rest = chx.zeros((2, 2))
        (at, (b, none)), text, last = f({"pair": (a, a + 1), "rest": [rest]})
        np.testing.assert_array_equal(chx.to_numpy(at), chx.to_numpy(a).T)
        np.testing.assert_array_equal(chx.to_numpy(b), chx.to_numpy(a)[1:] + 1)
        assert (none, text) == (None, "text")
        assert chx.to_numpy(rest).tolist() == [[0, 5], [0, 5]]
        assert chx.to_numpy(last).tolist() == [[0, 5], [0, 5]]


def test_arguments_in_graphs_get_gradients():
    @chx.jit
    def step(x):
        chx.sum(x * x).backward()

    for value in (1.0, 2.0, 3.0):
        x = chx.array([value, -value]).require_grad()
        step(x)
        assert chx.to_numpy(x.grad).tolist() == [2 * value, -2 * value]
        step(x)
        assert chx.to_numpy(x.grad).tolist() == [4 * value, -4 * value]


def test_one_array_twice_is_not_two():
    f = chx.jit(lambda x, y: x - y)
    a, b = chx.full((2,), 5.0), chx.full((2,), 3.0)
    assert chx.to_numpy(f(a, a)).tolist() == [0, 0]
    assert chx.to_numpy(f(a, b)).tolist() == [2, 2]
    assert chx.to_numpy(f(b, b)).tolist() == [0, 0]
    assert f.cache_info().misses == 2


def test_an_argument_that_is_held_is_read_within_its_bounds():
    base = chx.array(np.arange(100000, dtype="float32"))
    f = chx.jit(lambda x: base + x)
    assert f(base[:1]).shape == (100000,)
    for value in (1.0, 2.0):
        np.testing.assert_array_equal(
            chx.to_numpy(f(chx.full((1,), value, "float32"))), np.arange(100000) + value
        )


def test_arguments_that_are_given_away():
    f = chx.jit(lambda x: (x + 1) * x)
    f(chx.ones(4))
    w = chx.ones(4).require_grad()
    assert chx.to_numpy(f(w * 2)).tolist() == [6] * 4
    assert chx.to_numpy(f.repeat(3, w * 2)).tolist() == [6] * 4


def test_constants_are_not_results():
    with pytest.raises(chx.NotImplementedError, match="result that the function has made"):
        chx.jit(lambda x: chx.array([1.0, 2.0]))(chx.ones(1))


def test_the_state_of_an_optimizer_may_be_loaded():
    found = []
    for wrap in (lambda f: f, chx.jit):
        params = _model(1)
        optimizer = chx.optimizers.Adam().setup(params)

        def step(x, t, params=params, optimizer=optimizer):
            optimizer.cleargrads()
            loss = _loss(params, x, t)
            loss.backward()
            optimizer.update()
            return loss

        step = wrap(step)
        batches = list(_batches(6))
        for x, t in batches[:3]:
            step(x, t)
        saved = {
            name: chx.to_numpy(value) if isinstance(value, chx.ndarray) else value
            for name, value in optimizer.state_dict().items()
        }
        for x, t in batches[3:]:
            step(x, t)
        optimizer.load_state_dict(saved)
        found.append([float(step(x, t)) for x, t in batches])
    assert found[0] == found[1]


def test_an_endless_repeat_can_be_cancelled():
    x = chx.ones(3)
    for f in (chx.jit(lambda x: x), chx.jit(lambda x: x + 1)):
        f(x)
        y = f.repeat(2**39, x)
        x.device.backend._session.cancel()
        with contextlib.suppress(chx.CancelledError):
            chx.to_numpy(y)
        assert chx.to_numpy(x + 1).tolist() == [2, 2, 2]


def test_modes_are_recorded_apart():
    w = chx.ones(2).require_grad()

    @chx.jit
    def f(x):
        y = x * w
        if y.is_backprop_required():
            chx.sum(y).backward()
        return y

    for count in (1, 2):
        with chx.no_backprop_mode():
            f(chx.full((2,), 3.0))
        f(chx.full((2,), 3.0))
        assert chx.to_numpy(w.grad).tolist() == [3 * count] * 2


def test_results_are_in_no_graph():
    w = chx.ones(2).require_grad()
    f = chx.jit(lambda x: x * w)
    for _ in range(2):
        assert not f(chx.ones(2)).is_backprop_required()


def test_other_layouts_give_the_same():
    f = chx.jit(lambda x: chx.sum(x, axis=0) - x[0])
    base = np.arange(12.0).reshape(3, 4)
    x = chx.array(base)
    for array, values in (
        (x, base),
        (chx.array(base.T.copy()).T, base),
        (chx.array(np.repeat(base, 2, 0))[::2], base),
        (x[::-1], base[::-1]),
        (x, base),
    ):
        np.testing.assert_array_equal(chx.to_numpy(f(array)), values.sum(0) - values[0])


def test_nan_and_empty_arrays():
    f = chx.jit(lambda x: chx.maximum(x, 0) * 2)
    for values in ([np.nan, -1, 1], [np.inf, np.nan, -np.inf]):
        x = np.array(values, "float32")
        np.testing.assert_array_equal(chx.to_numpy(f(chx.array(x))), np.maximum(x, 0) * 2)
    for _ in range(2):
        assert f(chx.zeros((0, 3))).shape == (0, 3)
        assert float(f(chx.array(2.0))) == 4


@pytest.mark.parametrize("first", ["recorded", "eager"])
def test_gradients_and_their_use_in_two_functions(first):
    """What the one leaves as gradients the other finds; so does eager code."""
    found = []
    for jit in (chx.jit, lambda function: function):
        chx.random.seed(1)
        w = chx.random.normal(size=(4, 2), dtype="float32").require_grad()
        b = chx.zeros(2, "float32").require_grad()
        optimizer = chx.optimizers.MomentumSGD(lr=0.1).setup([w, b])

        @jit
        def differentiate(x, w=w, b=b):
            loss = chx.mean(chx.tanh(x @ w + b))
            loss.backward()
            return loss

        @jit
        def update(optimizer=optimizer):
            optimizer.update()
            optimizer.cleargrads()

        losses = []
        for i in range(6):
            x = chx.random.normal(size=(3, 4), dtype="float32")
            losses.append(float(differentiate(x)))
            if i % 3 == (2 if first == "recorded" else 0):
                assert w.grad is not None
                optimizer.update()
                optimizer.cleargrads()
            else:
                update()
            assert b.grad is None
        found.append((losses, chx.to_numpy(w).tolist(), chx.to_numpy(b).tolist()))
        if jit is chx.jit:
            for function in (differentiate, update):
                assert function.cache_info().misses == 1
                assert function.cache_info().unplanned == ()
    assert found[0] == found[1]


def test_what_cannot_be_recorded_raises_at_its_line():
    @chx.jit
    def reads(x):
        return x * float(chx.sum(x))

    with pytest.raises(chx.NotImplementedError, match="waits for a value"):
        reads(chx.ones(2))
    assert float(chx.sum(chx.ones(2))) == 2  # and it goes on
    w = chx.ones(2).require_grad()
    y = w * 2
    with pytest.raises(
        chx.NotImplementedError, match="computed from arrays that require gradients"
    ):
        chx.jit(lambda x: x * y)(chx.ones(2))
    constant = np.ones(2, "float32")

    @chx.jit
    def writes_constant(x):
        a = chx.array(constant)
        a += x
        return a

    with pytest.raises(chx.NotImplementedError, match="made of host memory"):
        writes_constant(chx.ones(2))
    with pytest.raises(TypeError, match="expects chx arrays"):
        chx.jit(lambda x: x)(constant)

    @chx.jit
    def fails(x):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fails(chx.ones(2))
    assert chx.jit(lambda x: x + 1)(chx.ones(1)).shape == (1,)


def test_a_function_in_a_function_is_a_part_of_it():
    inner = chx.jit(lambda x: x + 1)
    outer = chx.jit(lambda x: inner(x) * inner(x))
    for value in (1, 2):
        assert chx.to_numpy(outer(chx.full((2,), value))).tolist() == [(value + 1) ** 2] * 2
    assert inner.cache_info().misses == 0


def test_methods():
    class Model:
        def __init__(self, w):
            self.w = chx.array([w])

        @chx.jit
        def __call__(self, x):
            return x * self.w

    models = Model(2.0), Model(3.0)
    for _ in range(2):
        assert [float(m(chx.ones(1))[0]) for m in models] == [2, 3]
    assert float(models[0].__call__.repeat(2, chx.ones(1))[0]) == 2
    assert models[0].__call__.cache_info().misses == 2


def test_an_error_names_the_line_of_the_function():
    values = chx.array([10.0, 20.0])
    f = chx.jit(lambda i: chx.take(values, i, axis=0))
    assert float(f(chx.array([1]))[0]) == 20
    y = f(chx.array([5]))
    with pytest.raises(IndexError, match="jit_test.py"):
        chx.to_numpy(y)
    assert float(f(chx.array([0]))[0]) == 10


def test_other_threads_wait_outside():
    inside, outcome = threading.Event(), []

    def other():
        inside.wait(10)
        try:
            chx.ones(2) + 1
            outcome.append("ran")
        except chx.ContextError as error:
            outcome.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()

    @chx.jit
    def f(x):
        inside.set()
        thread.join(10)
        return x + 1

    f(chx.ones(2))
    assert "another thread records" in outcome[0]
    assert chx.to_numpy(chx.ones(2) + 1).tolist() == [2, 2]


def test_large_arrays_give_the_bits_of_eager_mode():
    rng = np.random.default_rng()
    for shape in [(30000,), (200, 301), (8192,), (9, 1, 2000)]:
        x = chx.array(rng.normal(size=shape).astype("float32"))
        row = chx.array(rng.normal(size=shape[-1:]).astype("float32"))

        def f(x, row):
            mean = chx.mean(x, axis=-1, keepdims=True)
            y = (x - mean) * row + 0.5
            return 0.5 * y * (1 + chx.erf(y / 2**0.5)) + x

        step = chx.jit(f)
        step(x, row)
        assert chx.to_numpy(step(x, row)).tobytes() == chx.to_numpy(f(x, row)).tobytes()
        assert "fused, in blocks of" in step.explain()


def test_explain(tmp_path):
    @chx.jit
    def step(x):
        y = chx.exp(x) * 2 + chx.exp(x)
        chx.log(x)
        return chx.sum(y)

    assert step.explain() == "nothing has been recorded"
    x = chx.ones((3, 4), "float32")
    step(x)
    text = step.explain(profile=True)
    assert text.splitlines()[0].endswith("step(float32(3, 4)): runs by a plan")
    calls = [line.strip().split("(")[0] for line in text.splitlines() if "->" in line]
    assert calls == ["exp", "multiply", "add", "sum"]
    assert "computed once, used again: exp" in text
    assert "left out, as nothing depends on it: log" in text
    assert "measured" not in text
    step.repeat(5, x)
    svg = tmp_path / "step.svg"
    text = step.explain(svg=svg)
    assert "measured: 5 runs of" in text
    root = xml.etree.ElementTree.fromstring(svg.read_text(encoding="utf-8"))
    drawn = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "sum(float32(3, 4)) → float32()" in drawn
    step(chx.ones((0,), "float32"))
    assert step.explain().count("runs by a plan") == 2


def test_explain_says_why_there_is_no_plan():
    @chx.jit
    def step(x, y):
        return x + y

    x = chx.ones(3, "float32")
    step(x, x[1:2])
    why = step.cache_info().unplanned[0]
    assert "share memory" in why
    assert step.explain().endswith(f"step(float32(3,), float32(1,)): runs by its commands: {why}")
