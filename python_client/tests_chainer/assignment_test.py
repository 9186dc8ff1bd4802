"""Setting a variable's array, on the daemon and between it and this process, is as on NumPy."""

import copy

import chainer
import chainer.functions as F
import chainer.links as L
import chx
import numpy as np
import pytest
from chainer import optimizers

CPU = chainer.get_device("@numpy")


def host(array):
    return None if array is None else np.array(CPU.send(array))


def compare(run, device, rtol=1e-5):
    for got, want in zip(run(device), run(CPU), strict=True):
        assert (got is None) == (want is None)
        if want is not None:
            np.testing.assert_allclose(host(got), want, rtol=rtol, atol=rtol / 10)


def test_a_daemon_s_array_moves_a_variable(rng, device):
    values = rng.normal(size=(2, 3)).astype("f")

    def run(place):
        results = []
        late = chainer.Parameter(chainer.initializers.Zero(), name="p")
        for p in (
            chainer.Parameter(np.zeros(3, "f"), name="p"),
            chainer.Variable(np.zeros(3, "f"), name="p"),
            late,
        ):
            assert p.device == CPU
            p.array = place.send(values[0].copy())
            assert p.device == place and p.name == "p" and p.requires_grad
            p.cleargrad()
            F.sum(p * place.send(values[1])).backward()
            results += [p.array, p.grad]
            optimizer = optimizers.SGD(0.5)
            if isinstance(p, chainer.Parameter):
                link = chainer.Link()
                with link.init_scope():
                    link.p = p
                optimizer.setup(link).update(lambda p=p: F.sum(p * p * p))
                results += [p.array, p.grad]
        return results

    compare(run, device)


def test_the_gradient_of_such_a_variable_stays(rng, device):
    values = rng.normal(size=(3, 3)).astype("f")

    def run(place):
        p = chainer.Parameter(values[0].copy())
        p.grad = values[1].copy()
        p.array = place.send(values[2].copy())
        kept = host(p.grad)
        F.sum(p * p).backward()
        return kept, p.grad, p.array

    compare(run, device)
    p = chainer.Parameter(values[0])
    p.to_device(device)
    p.grad = device.send(values[1])
    p.array = values[2]  # and back
    assert p.device == CPU and isinstance(p.array, np.ndarray)
    np.testing.assert_array_equal(p.grad, values[1])
    F.sum(p * 2).backward()
    np.testing.assert_allclose(p.grad, values[1] + 2, rtol=1e-6)


def test_without_a_gradient_required(rng, device):
    v = chainer.Variable(np.ones(3, "f"), requires_grad=False)
    v.array = device.send(np.ones((2, 2), "f"))
    assert v.device == device and v.shape == (2, 2)
    assert not v.requires_grad and not (v * 2).requires_grad


STEPS = {
    "array -=": lambda p, lr: exec("p.array -= lr * p.grad"),
    "data -=": lambda p, lr: exec("p.data -= lr * p.grad"),
    "array =": lambda p, lr: setattr(p, "array", p.array - lr * p.grad),
    "data =": lambda p, lr: setattr(p, "data", p.data - lr * p.grad),
    "subtract in place": lambda p, lr: p.array.__isub__(lr * p.grad),
    "[...] =": lambda p, lr: p.array.__setitem__(..., p.array - lr * p.grad),
}


@pytest.mark.parametrize("way", STEPS)
def test_gradient_descent_by_hand(rng, device, way):
    values = rng.normal(size=(5, 3)).astype("f")
    w = rng.normal(size=(2, 3)).astype("f")

    def run(place):
        model = L.Linear(3, 2, initialW=w).to_device(place)
        twin = model.copy()
        x = place.send(values)
        results = []
        for _ in range(4):
            model.cleargrads()
            loss = F.sum(F.square(model(x) - 1))
            loss.backward()
            for p in model.params():
                STEPS[way](p, 0.05)
            results += [host(a) for a in (loss.array, model.W.array, model.W.grad, twin.b.array)]
        assert not np.array_equal(results[1], w)
        return results

    compare(run, device, 1e-4)


def test_a_rule_s_hook_that_sets_the_array(rng, device):
    w = rng.normal(size=(2, 3)).astype("f")

    def hook(rule, param):
        param.array = param.array * 0.9
        param.grad += 0.5 * param.array

    def run(place):
        model = L.Linear(3, 2, initialW=w).to_device(place)
        optimizer = optimizers.MomentumSGD(0.1).setup(model)
        for p in model.params():
            p.update_rule.add_hook(hook, name="shrink")
        x = place.send(np.ones((2, 3), "f"))
        for _ in range(3):
            optimizer.update(lambda: F.sum(F.square(model(x))))
        return [a for p in model.params() for a in (p.array, p.grad)]

    compare(run, device, 1e-4)


def test_another_shape_and_dtype(rng, device):
    w = rng.normal(size=(4, 2)).astype("d")

    def run(place):
        model = L.Linear(3, 2).to_device(place)
        model.cleargrads()
        model.W.array = place.send(w.copy())
        model.b.array = place.send(np.zeros(4))
        y = model(place.send(np.ones((1, 2))))
        model.cleargrads()
        F.sum(y * y).backward()
        assert y.dtype == np.float64 and model.W.node.shape == (4, 2)
        return y.array, model.W.grad

    compare(run, device, 1e-9)


def test_functions_that_it_went_into_still_give_it_gradients(rng, device):
    """Also through two arrays that the variable had before. Here they are linear: NumPy's may
    compute with the new values what they had computed with the old ones."""
    a, b = rng.normal(size=(2, 3)).astype("f")

    def run(place):
        x = chainer.Variable(place.send(a.copy()))
        c = place.send(b)
        y = F.sum(x * c)
        x.array = x.array + 1
        z = F.sum(x * 3)
        x.array = x.array * 2
        x.array = x.array - c
        x.cleargrad()
        y.backward()
        found = [host(x.grad)]
        z.backward()
        found.append(host(x.grad))
        F.sum(x * x).backward()
        found.append(host(x.grad))
        (g,) = chainer.grad([y, z], [x])
        x.cleargrad()
        found += [x.grad, g.array]
        (y + z).backward(retain_grad=True)
        found.append(host(x.grad))
        x.cleargrad()
        y.backward()
        x.grad = c
        found.append(x.grad)
        return found

    compare(run, device)


@pytest.mark.parametrize("debug", [False, True])
def test_in_debug_mode_and_in_graphs_of_gradients(rng, device, debug):
    a = rng.uniform(0.5, 1.5, 3)

    def run(place):
        x = chainer.Variable(place.send(a.copy()))
        with chainer.using_config("debug", debug):
            y = F.sum(x * 3)
            x.array = x.array * 2
            z = F.sum(x**3)
            y.backward()
            z.backward(enable_double_backprop=True)
            found = [host(x.grad)]
            g = x.grad_var
            x.array = x.array.copy()
            x.cleargrad()
            F.sum(g).backward()
        return [*found, x.grad]

    compare(run, device, 1e-9)


def test_an_array_that_is_put_back(rng, device):
    """As in averages of parameters and finite differences."""
    w = rng.normal(size=(1, 3)).astype("f")

    def run(place):
        model = L.Linear(3, 1, initialW=w).to_device(place)
        x = place.send(np.ones((2, 3), "f"))
        before = model.W.array
        results = []
        for difference in (0.5, -0.5):
            model.W.array = before + difference
            results.append(F.sum(model(x)).array)
        model.W.array = before
        assert model.W.array is before
        optimizer = optimizers.Adam(0.1).setup(model)
        optimizer.update(lambda: F.sum(model(x)))
        assert model.W.array is before and not np.array_equal(host(before), w)
        return [*results, before]

    compare(run, device)


def test_former_arrays_are_freed(rng, device):
    x = chainer.Variable(device.send(np.ones(3, "f")))
    for _ in range(5):
        y = F.sum(x * 2)
        x.array = x.array + 1
        assert len(x._formers) <= 2
    del y
    x.array = x.array + 1
    assert x._formers == ()


def test_no_array_and_another_one(rng, device):
    """A parameter and its shallow copy lose their array, and get one of this process."""
    values = rng.normal(size=3).astype("f")
    p = chainer.Parameter(device.send(np.ones(2, "f")), name="p")
    q = copy.copy(p)
    p.array = None
    assert p.array is None and q.array is None and q.device == device and not q.is_initialized
    q.to_device("native:1")
    assert q.name == "p" and q.device.device.name == "native:1"
    p.array = values
    assert p.device == CPU and q.array is None
    r = copy.copy(p)
    p.to_device(device)
    assert r.array is values
    s = copy.copy(p)
    s.array = values
    assert p.array is values and p.device == s.device == CPU
    p.cleargrad()
    F.sum(p * 2).backward()
    np.testing.assert_array_equal(p.grad, 2.0)


def test_what_cannot_be_set(device):
    x = chainer.Variable(device.send(np.ones(3, "f")))
    y = F.relu(x)
    with pytest.raises(ValueError, match="no function made.*ReLU made"):
        y.array = y.array + 1
    with pytest.raises(ValueError, match=r"outside of graphs.*got float32\(3,\) of a graph"):
        x.array = y.chx_array
    local = F.relu(chainer.Variable(np.ones(3, "f")))
    with pytest.raises(ValueError, match="no function made.*ReLU made"):
        local.array = device.send(np.ones(3, "f"))
    y.unchain()
    y.array = y.array + 1
    F.sum(y * y).backward()
    np.testing.assert_array_equal(host(y.grad), 4.0)
    assert x.grad is None
    # What an array of ChainerX's that requires a gradient refuses, its variable's array does not.
    leaf = device.send(np.ones(3, "f")).require_grad()
    with pytest.raises(chx.ChainerxError, match="requiring grad"):
        leaf -= 1
    assert isinstance(x.array, chx.ndarray)
