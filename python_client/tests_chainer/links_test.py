"""Every link of Chainer's computes on the daemon what it computes on NumPy, and its gradients."""

import chainer
import chainer.functions as F
import chainer.initializers as I
import chainer.links as L
import chx
import numpy as np
import pytest
from cases.links import FALL_BACK, LINKS, OTHERS

HOST = chainer.get_device("@numpy")


def values_of(spec, rng):
    if isinstance(spec, list):
        return [values_of(part, rng) for part in spec]
    if spec and isinstance(spec[-1], tuple):
        return rng.integers(0, spec[0], spec[1]).astype("i")
    return rng.uniform(-1, 1, spec).astype("f")


def sent(value, device, variables):
    """The value on a device, floats as variables, which are listed, too."""
    if isinstance(value, list):
        return [sent(part, device, variables) for part in value]
    value = device.send(value.copy())
    if value.dtype.kind != "f":
        return value
    variables.append(chainer.Variable(value))
    return variables[-1]


def flat(results):
    if isinstance(results, (tuple, list)):
        return [y for part in results for y in flat(part)]
    return [results]


def results_of(link, values, call, device):
    """Outputs, gradients of inputs and parameters, and what the link remembers, as NumPy's."""
    variables = []
    inputs = sent(values, device, variables)
    link.cleargrads()
    with chainer.using_device(device):
        outputs = flat(call(link, *inputs))
        loss = sum(F.sum(F.square(y)) for y in outputs if y.dtype.kind == "f")
        loss.backward()
    found = {f"output {i}": y.array for i, y in enumerate(outputs)}
    found.update((f"gradient of input {i}", x.grad) for i, x in enumerate(variables))
    found.update((f"gradient of {name}", p.grad) for name, p in link.namedparams())
    saved = chainer.serializers.npz.serialize(link)
    found.update((name, value) for name, value in saved.items() if value.dtype != object)
    return {name: None if value is None else HOST.send(value) for name, value in found.items()}


@pytest.mark.parametrize("name", list(LINKS))
def test_link(name, device, rng):
    make, specs, *call = LINKS[name]
    call = call[0] if call else lambda link, *inputs: link(*inputs)
    if name in FALL_BACK:
        chx.config.fallback = "allow"
    link = make()
    for p in link.params():
        p.array[...] += rng.uniform(-0.1, 0.1, p.shape)  # biases are 0
    remote = link.copy("copy").to_device(device)
    values = [values_of(spec, rng) for spec in specs]
    state = np.random.get_state()
    expected = results_of(link, values, call, HOST)
    np.random.set_state(state)  # of what samples
    found = results_of(remote, values, call, device)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if value is None:
            assert found[key] is None, key
            continue
        assert found[key].dtype == value.dtype, key
        scale = max(1, np.abs(value).max(initial=0))
        np.testing.assert_allclose(found[key], value, 1e-3, 1e-4 * scale, err_msg=key)
    fell = {f.rpartition(".")[0].removeprefix("chainer.") for f in chx.chainer.fallbacks()}
    assert fell == FALL_BACK.get(name, set())


def test_all_links_are_tried():
    names = {n for n in dir(L) if isinstance(getattr(L, n), type)}
    assert {n for n in names if issubclass(getattr(L, n), chainer.Link)} == set(LINKS) | OTHERS


INITIALIZERS = {
    "Constant": (lambda: I.Constant(2.5), (3, 4)),
    "DownsamplingConvFilter": (lambda: I.DownsamplingConvFilter("linear"), (2, 2, 4, 4)),
    "GlorotNormal": (lambda: I.GlorotNormal(), (3, 4)),
    "GlorotUniform": (lambda: I.GlorotUniform(), (3, 4)),
    "HeNormal": (lambda: I.HeNormal(fan_option="fan_out"), (3, 4, 2, 2)),
    "HeUniform": (lambda: I.HeUniform(), (3, 4)),
    "Identity": (lambda: I.Identity(2), (4, 4)),
    "LeCunNormal": (lambda: I.LeCunNormal(), (3, 4)),
    "LeCunUniform": (lambda: I.LeCunUniform(), (3, 4)),
    "NaN": (lambda: I.NaN(), (3, 4)),
    "Normal": (lambda: I.Normal(0.3), (3, 4)),
    "One": (lambda: I.One(), (3, 4)),
    "Orthogonal": (lambda: I.Orthogonal(1.5), (3, 4)),
    "Uniform": (lambda: I.Uniform(0.3), (3, 4)),
    "UpsamplingDeconvFilter": (lambda: I.UpsamplingDeconvFilter("linear"), (2, 2, 4, 4)),
    "Zero": (lambda: I.Zero(), (3, 4)),
}


@pytest.mark.parametrize("name", list(INITIALIZERS))
def test_initializer(name, device):
    """The same numbers from NumPy's generator."""
    make, shape = INITIALIZERS[name]
    state = np.random.get_state()
    results = []
    for place in (HOST, device):
        np.random.set_state(state)
        with chainer.using_device(place):
            array = I.generate_array(make(), shape, place.xp, device=place)
        assert isinstance(array, place.supported_array_types) and array.dtype == np.float32
        results.append(HOST.send(array))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)
    assert not chx.chainer.fallbacks()


def test_all_initializers_are_tried():
    base = chainer.Initializer
    names = {n for n in dir(I) if isinstance(getattr(I, n), type) and n[0].isupper()}
    assert {n for n in names if issubclass(getattr(I, n), base)} == set(INITIALIZERS)


def test_initializers_of_the_user(device):
    """Functions of the array, scalars and arrays."""

    def sevens(array):
        array[...] = 7

    for given, expected in ((sevens, 7), (3, 3), (np.full((2, 3), 5, "f"), 5)):
        link = L.Linear(3, 2, initialW=given).to_device(device)
        np.testing.assert_array_equal(chx.to_numpy(link.W.array), np.full((2, 3), expected))
        late = L.Linear(None, 2, initialW=given).to_device(device)
        late(device.send(np.ones((1, 3), "f")))
        np.testing.assert_array_equal(chx.to_numpy(late.W.array), np.full((2, 3), expected))
