"""chx.jit: floats as arguments. Calls with other values are no new recordings, and equal eager mode."""

import copy
import json
import math
import operator
import os
import random

import chx
import numpy as np
import pytest

DTYPES = ("float16", "float32", "float64")
SPECIAL = (0.0, -0.0, 1.0, 1 / 3, -2.5, 1e-8, 65519.9, 1e300, math.inf, -math.inf, math.nan)


def _bits(value):
    if isinstance(value, chx.ndarray):
        return str(value.dtype), value.shape, chx.to_numpy(value).tobytes()
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [_bits(v) for v in value]
    if isinstance(value, dict):
        return {k: _bits(v) for k, v in value.items()}
    return type(value).__name__, np.float64(value).tobytes() if value is not None else None


def test_equal_numbers_are_not_one_number():
    """What is computed once of two calls with equal attributes may vary apart."""

    def f(x, a, b):
        return x * a + chx.tanh(x * b), x * a, x * b

    jitted = chx.jit(f)
    for a, b in ((0.5, 0.5), (0.25, 2.0), (3.0, 3.0), (-1.0, 0.125)):
        x = chx.arange(1, 5, dtype="float32")
        assert _bits(jitted(x, a, b)) == _bits(f(x, a, b))
    assert jitted.cache_info().misses == 1
    assert jitted.cache_info().unplanned == ()


def test_arithmetic_errors_that_the_function_handles():
    def f(x, r):
        try:
            s = 1 / r
        except ZeroDivisionError:
            s = 0.5
        return x * s

    for values in ((0.0, 2.0, 4.0, 0.0), (2.0, 0.0, 4.0, 0.0, 8.0)):
        jitted = chx.jit(f)
        for r in values:
            x = chx.arange(1, 5, dtype="float32")
            assert _bits(jitted(x, r)) == _bits(f(x, r))
        assert jitted.cache_info().currsize == 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv"])
def test_each_operator_casts_as_eager_mode_does(name, dtype):
    function = getattr(operator, name)
    in_place = getattr(operator, "i" + name)
    of_chx = getattr(
        chx, {"sub": "subtract", "mul": "multiply", "truediv": "divide"}.get(name, name)
    )
    values = np.random.default_rng(1).normal(size=(3, 37)).astype(dtype)
    values[0, :5] = [0.0, -0.0, np.nan, np.inf, -np.inf]

    def f(x, s):
        a, b = function(x, s), function(s, x)
        c = x.T.copy()
        c = in_place(c, s)
        v = (x * 1)[::2]
        v = in_place(v, s)
        x0 = x[1, 7]
        return a, b, c, v, function(x0, s), of_chx(x, s), of_chx(s, x), x[:0] * s

    g = chx.jit(f)
    x = chx.array(values)
    for s in (0.7, *SPECIAL, *np.random.default_rng(2).normal(size=20).tolist()):
        assert _bits(g(x, s)) == _bits(f(x, s)), s
    assert g.cache_info()[1:] == (1, 32, 1, ())


def _divide(a, b):
    return a / (abs(b) + 0.25)


def _expression(rng, numbers):
    """A number that is computed from those that vary."""
    a = rng.choice(numbers)
    for _ in range(rng.randrange(3)):
        b = rng.choice([rng.choice(numbers), rng.uniform(0.5, 2), rng.randrange(1, 4), True])
        function = rng.choice([operator.add, operator.sub, operator.mul, _divide])
        a = function(a, b) if rng.random() < 0.5 else function(b, a)
        a = rng.choice([a, -a, abs(a), a**2, 0.9**a, a // 0.25, a % 3.0])
    return a


def _program(seed):
    """A step of random operators on two parameters, with gradients."""

    def step(params, x, hp, rate):
        rng = random.Random(seed)
        numbers = [hp["a"], hp["list"][0], hp["list"][1][0], rate]
        arrays = [x, *params]
        for _ in range(rng.randrange(3, 12)):
            a, b = rng.choice(arrays), rng.choice(arrays)
            s = _expression(rng, numbers)
            kind = rng.randrange(8)
            if kind < 4:
                function = [operator.add, operator.sub, operator.mul, operator.truediv][kind]
                arrays.append(function(a, s) if rng.random() < 0.6 else function(s, a))
            elif kind == 4:
                arrays.append(a * b)
            elif kind == 5:
                arrays.append(chx.tanh(a * s) + b)
            elif kind == 6:
                arrays.append(chx.multiply(a, s) - b)
            else:
                arrays.append((a[::-1] if a.ndim else a) * s)
        loss = chx.sum(arrays[-1] * arrays[-2]) * _expression(rng, numbers)
        loss = loss + sum(chx.sum(p * p * rate) for p in params)
        (g,) = chx.grad([loss], params[:1])
        loss.backward()
        grads = [p.grad for p in params] + [g * numbers[0] / 7]
        for p, g in zip(params, grads):
            target = p.as_grad_stopped()
            target -= (rate * 1e-3) * g
            target *= 1 - numbers[1] * 1e-3
            p.cleargrad()
        return {
            "loss": loss,
            "grads": grads,
            "number": _expression(rng, numbers),
            "last": arrays[-1],
        }

    return step


@pytest.mark.parametrize("part", range(8))
def test_random_programs_equal_eager_mode(part):
    base = int(os.environ.get("CHX_JIT_SEED", "7")) * 1000 + part * 100
    for seed in range(base, base + int(os.environ.get("CHX_JIT_PROGRAMS", "12"))):
        rng = np.random.default_rng(seed)
        dtype = DTYPES[seed % 3]
        shape = [(3, 4), (1,), (), (2, 1, 3), (0, 2)][rng.integers(5)]
        starts = [rng.normal(size=shape).astype(dtype) for _ in range(2)]
        program = _program(seed)
        found = []
        calls = [
            (rng.normal(size=shape).astype(dtype), *rng.uniform(0.1, 3, 4).tolist(), int(times))
            for times in (1, 1, 1, 3, 1)
        ]
        for jitted in (False, True):
            params = [chx.array(s).require_grad() for s in starts]
            step = chx.jit(program) if jitted else program
            results = []
            for x, a, b, c, rate, times in calls:
                x, hp = chx.array(x), {"a": a, "list": [b, (c,)]}
                if jitted:
                    result = step.repeat(times, params, x, hp, rate)
                else:
                    for _ in range(times):
                        result = step(params, x, hp, rate)
                assert hp == {"a": a, "list": [b, (c,)]}
                assert {type(v) for v in (hp["a"], hp["list"][0], hp["list"][1][0])} == {float}
                results.append(_bits(result))
            found.append((results, _bits(params)))
        assert found[0] == found[1], f"seed {seed}"
        info = step.cache_info()
        assert (*info[:2], info.unplanned) == (4, 1, ()), f"seed {seed}"


USES = {
    "comparison": lambda s: 2.0 if s > 1 else 3.0,
    "equality": lambda s: 2.0 if s == 0.5 else 3.0,
    "bool": lambda s: 2.0 if s else 3.0,
    "int": lambda s: 1.0 + int(s),
    "float": lambda s: float(s),
    "round": lambda s: round(s, 1),
    "floor": lambda s: math.floor(s) + 0.5,
    "math": lambda s: math.sqrt(s),
    "divmod": lambda s: divmod(s, 2)[1] + divmod(3, s)[0],
    "format": lambda s: float(f"{s:.3f}"),
    "sum": lambda s: math.fsum([s, 1]),
    "str": lambda s: float(str(s)) + float(repr(s)),
    "dict": lambda s: {0.5: 2.0}.get(s, 3.0),
    "copy": lambda s: copy.deepcopy(s) + copy.copy(s),
    "numpy number": lambda s: float(np.float32(s)),
    "numpy operand": lambda s: float(np.ones(2, "float32").__mul__(s)[0]),
    "numpy array": lambda s: float(np.array([s, 1])[0]),
    "numpy function": lambda s: float(np.maximum(s, 1.5)) + float(np.where(True, s, 0)),
    "max": lambda s: max(s, 1.2),
    "method": lambda s: s.as_integer_ratio()[0] / 2.0**53 + s.is_integer() + s.real,
    "complex power": lambda s: abs((s - 2) ** s),
    "json": lambda s: json.loads(json.dumps({"s": float(s)}))["s"],
    "of another": lambda s: float(s * 2) * s,
}


@pytest.mark.parametrize("use", list(USES))
def test_who_sees_a_value_has_a_recording_of_its_own(use):
    f = lambda x, s: x * USES[use](s)  # noqa: E731
    g = chx.jit(f)
    x = chx.array(np.linspace(-2, 2, 7, dtype="float32"))
    values = (0.5, 1.25, 2.5, 0.5, 1.25)
    for s in values:
        assert _bits(g(x, s)) == _bits(f(x, s)), s
    assert g.cache_info()[:2] == (2, 3)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, s: chx.maximum(x, s),
        lambda x, s: x**s,
        lambda x, s: s**x,
        lambda x, s: x > s,
        lambda x, s: x // s,
        lambda x, s: x % s,
        lambda x, s: chx.where(x > 0, s, x),
        lambda x, s: chx.clip(x, -s, s),
        lambda x, s: chx.full((3,), s, "float32") + x[0],
        lambda x, s: chx.astype(x, "int32") * s,
        lambda x, s: chx.array([s, 2.0]) * x[0],
        lambda x, s: chx.leaky_relu(x, s),
        lambda x, s: chx.linspace(0, s, 3) + x[0],
        lambda x, s: chx.arange(0, s, 0.25) * x[0],
        lambda x, s: x + np.float32(s),
        lambda x, s: x + [s] * 7,
    ],
)
def test_operators_that_see_the_value(function):
    g = chx.jit(function)
    x = chx.array(np.linspace(-2, 2, 7, dtype="float32"))
    for s in (0.5, 1.5, 0.5):
        assert _bits(g(x, s)) == _bits(function(x, s))
    assert g.cache_info()[:2] == (1, 2)


def test_only_what_is_seen_is_a_part_of_the_key():
    def f(x, a, b, c):
        if a > 0:
            return x * b + c
        return (x - c) * (b if b > 1 else 5.0)

    g = chx.jit(f)
    x = chx.ones((3,), "float32")
    rng = random.Random(5)
    for _ in range(60):
        a, b, c = rng.choice([-1.0, 1.0]), rng.choice([0.5, 2.0]), rng.random()
        assert _bits(g(x, a, b, c)) == _bits(f(x, a, b, c))
    assert g.cache_info()[:2] == (57, 3)
    h = chx.jit(f, maxsize=2)
    for _ in range(60):
        a, b, c = rng.choice([-1.0, 1.0]), rng.choice([0.5, 2.0]), rng.random()
        assert _bits(h(x, a, b, c)) == _bits(f(x, a, b, c))
    assert h.cache_info().currsize == 2
    assert sum(map(len, h._fixed.values())) <= 2


def test_one_list_twice_is_not_two():
    def f(x, first, second):
        return x * first[0] + second[0]

    g = chx.jit(f)
    x = chx.ones((2,), "float32")
    one = [2.0]
    for lists in ((one, one), ([2.0], [2.0]), ([2.0], [3.0]), (one, one), ([4.0], [5.0])):
        assert _bits(g(x, *lists)) == _bits(f(x, *lists))


def test_results_and_containers():
    def f(x, hp, pair, *, rate):
        hp["seen"] = hp.get("seen", 0) + 1
        return [x * rate, rate, rate * 2 + pair[0], {"pair": pair, "list": hp["list"]}, 3.0]

    g = chx.jit(f)
    for i in range(3):
        x = chx.ones((2,), "float32")
        hp, pair, rate = {"list": [0.5 * i, 1], "seen": 0}, (float(i), "text"), i / 3
        hp2 = copy.deepcopy(hp)
        mine, eager = g(x, hp, pair, rate=rate), f(x, hp2, pair, rate=rate)
        assert _bits(mine[:3]) == _bits(eager[:3])
        assert mine[3:] == eager[3:]
        assert type(mine[1]) is float and type(mine[2]) is float
        assert hp["list"] == hp2["list"] and type(hp["list"][0]) is float
    assert hp["seen"] == 0 and g.cache_info().misses == 1


def test_an_error_in_the_arithmetic_is_that_of_the_call():
    g = chx.jit(lambda x, s: x * (1 / s))
    x = chx.ones((2,), "float32")
    g(x, 2.0)
    with pytest.raises(ZeroDivisionError):
        g(x, 0.0)
    assert chx.to_numpy(g(x, 4.0)).tolist() == [0.25, 0.25]


def test_a_number_may_outlive_its_recording():
    kept = []

    @chx.jit
    def f(x, s):
        kept.append(s)
        kept.append(s * 2)
        return x * s

    x = chx.ones((2,), "float32")
    f(x, 2.0)
    assert [type(k * 3) for k in kept] == [float, float]
    assert chx.to_numpy(x * kept[1]).tolist() == [4, 4]
    g = chx.jit(lambda x, s: x * kept[0] * s)
    for s in (1.0, 2.0):
        assert chx.to_numpy(g(x, s)).tolist() == [2 * s] * 2
    assert chx.to_numpy(f(x, kept[1])).tolist() == [4, 4]
    assert (f.cache_info().misses, g.cache_info().misses) == (1, 1)
    assert isinstance(kept[0], float) and kept[0] == 2.0


def test_long_arithmetic():
    def f(x, s):
        total, power = s, s
        for _ in range(3000):
            power = power * 0.999
            total = total + power + power
        return x * total

    g = chx.jit(f)
    x = chx.ones((2,), "float64")
    for s in (1.0, 2.0, 3.0):
        assert _bits(g(x, s)) == _bits(f(x, s))
    assert g.cache_info().misses == 1

    def longer(x, s):
        for _ in range(12000):
            s = s * 0.9999
        return x * s

    g = chx.jit(longer)
    for s in (1.0, 2.0):
        assert _bits(g(x, s)) == _bits(longer(x, s))
    assert g.cache_info().misses == 2


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
def test_a_rate_for_an_optimizer(name):
    found = []
    attribute = "alpha" if name == "Adam" else "lr"
    for wrap in (lambda f: f, chx.jit):
        params = [chx.array(np.linspace(-1, 1, 5, dtype="float32")).require_grad()]
        optimizer = getattr(chx.optimizers, name)().setup(params)

        def step(x, rate, optimizer=optimizer, params=params):
            optimizer.cleargrads()
            loss = chx.sum((params[0] * x - 1) ** 2)
            loss.backward()
            setattr(optimizer, attribute, rate * 0.5)
            optimizer.update()
            return loss

        step = wrap(step)
        for i in range(8):
            step(chx.array(np.linspace(0, 1, 5, dtype="float32") + i), 0.1 / (i + 1))
            assert type(getattr(optimizer, attribute)) is float
        found.append((_bits(params), getattr(optimizer, attribute), optimizer.t))
    assert found[0] == found[1]
    assert step.cache_info()[:2] == (7, 1)


def test_modes_and_layouts():
    w = chx.array([2.0, 3.0]).require_grad()

    def f(x, s):
        with chx.no_backprop_mode():
            y = x * s
        return y + (w * s).as_grad_stopped()

    g = chx.jit(f)
    base = chx.array(np.arange(8.0).reshape(4, 2))
    for i, x in enumerate((base, base[::-1], base.T.copy().T, base)):
        assert _bits(g(x, i + 0.25)) == _bits(f(x, i + 0.25))
    assert g.cache_info()[:2] == (3, 1)
