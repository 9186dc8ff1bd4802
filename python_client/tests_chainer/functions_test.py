"""Every function of Chainer's with a route, against NumPy's Chainer: values, gradients, their own."""

import importlib
import inspect

import chainer
import chainer.functions as F
import chx
import numpy as np
import pytest
from cases import CASES

for _group in (
    "activation array connection evaluation loss math math_special noise normalization pooling"
).split():
    importlib.import_module(f"cases.{_group}")

# Compared by what they do on average.
NOISY = set("dropout gaussian gumbel_softmax rrelu simplified_dropconnect zoneout".split())


def wrappers():
    """The functions of chainer.functions, by name: aliases once."""
    functions = {
        name: value
        for name, value in vars(F).items()
        if inspect.isfunction(value) and value.__module__.split(".")[0] in ("chainer", "chx")
    }
    return {name for name in functions if not name.startswith("_")} - {"theano_function"}


def test_all_functions_have_routes():
    """Of each there is a case below, or one in noise_test.py; and a fallback is an error there."""
    names = wrappers()
    assert len(names) == 216
    assert {case.name for case in CASES} | NOISY == names


def to_host(x):
    x = chainer.as_array(x)
    return x if x is None else chainer.get_device("@numpy").send(x)


class Run:
    """A case on a device: outputs, gradients and the gradients' gradients, as NumPy arrays."""

    def __init__(self, case, values, seed, device, double):
        rng = np.random.default_rng(seed)
        with chainer.using_device(device):
            inputs = [device.send(v) for v in values]
            self.xs = [chainer.Variable(x) if x.dtype.kind == "f" else x for x in inputs]
            outputs = case.call(*self.xs)
            outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
            self.outputs = [to_host(y) for y in outputs]
            self.grads = self.double = []
            if not case.grads:
                return
            ys = [y for y in outputs if isinstance(y, chainer.Variable) and y.dtype.kind == "f"]
            xs = [x for x in self.xs if isinstance(x, chainer.Variable)]

            def like(v):
                return chainer.Variable(device.send(rng.uniform(-1, 1, v.shape).astype(v.dtype)))

            gys = [like(y) for y in ys]
            if not double:
                chainer.backward(ys, gys)
                self.grads = [to_host(x.grad) for x in xs]
                return
            gxs = chainer.grad(ys, xs, gys, enable_double_backprop=True)
            self.grads = [None if g is None else to_host(g.array) for g in gxs]
            total = [F.sum(g * g * like(g)) for g in gxs if g is not None]
            total = sum(total[1:], total[0])
            if not total.requires_grad:
                return
            total.backward()
            self.double = [to_host(v.grad) for v in (*xs, *gys)]


def agree(actual, expected, tolerance, what):
    assert len(actual) == len(expected), what
    for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
        if b is None or a is None:
            # No gradient and a gradient of zeros are the same.
            other = a if b is None else b
            assert other is None or not other.any(), f"{what} {i}"
            continue
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{what} {i}"
        np.testing.assert_allclose(a, b, tolerance, tolerance, err_msg=f"{what} {i}")


def as_single(values):
    return [v.astype("f") if v.dtype.kind == "f" else v for v in values]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_like_numpy(case, rng, device):
    seed = int(rng.integers(2**31))
    values = case.inputs(np.random.default_rng(seed))
    tolerance = case.tolerance
    if case.single:
        values, tolerance = as_single(values), 1e-5
    expected = Run(case, values, seed, chainer.get_device("@numpy"), case.double)
    actual = Run(case, values, seed, device, case.double)
    agree(actual.outputs, expected.outputs, tolerance, "output")
    agree(actual.grads, expected.grads, 10 * tolerance, "gradient")
    agree(actual.double, expected.double, 100 * tolerance, "gradient of gradients")
    if case.grads:
        assert any(g is not None and g.any() for g in expected.grads) or case.name in (
            "softmax_cross_entropy",
        )
    assert chx.chainer.fallbacks() == {}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_like_numpy_in_float32(case, rng, device):
    """float32, without double backprop: dtypes are what this is about."""
    seed = int(rng.integers(2**31))
    values = case.inputs(np.random.default_rng(seed))
    values = as_single(values)
    expected = Run(case, values, seed, chainer.get_device("@numpy"), False)
    actual = Run(case, values, seed, device, False)
    agree(actual.outputs, expected.outputs, 1e-4, "output")
    agree(actual.grads, expected.grads, 1e-3, "gradient")
