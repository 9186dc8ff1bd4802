"""What serializers write of arrays in the daemon, and how often they wait for it."""

import chainer
import chainer.links as L
import chx
import h5py
import numpy as np
import pytest
from chainer import serializers
from chainer.serializers import DictionarySerializer, HDF5Serializer
from example_runs import assert_equal_weights, weights
from trainers import HOST, make_trainer


class Things(chainer.Chain):
    """Arrays of many kinds; some of them have no values yet."""

    def __init__(self, rng, empty=True):
        super().__init__()
        with self.init_scope():
            self.first = L.Linear(3, 4)
            self.later = L.Linear(None, 2)
            self.norm = L.BatchNormalization(3)
            self.scalar = chainer.Parameter(np.float32(rng.standard_normal()))
            self.half = chainer.Parameter(rng.standard_normal((2, 3)).astype("e"))
            self.wide = chainer.Parameter(rng.standard_normal((4, 3)))
        self.add_persistent("count", rng.integers(0, 99, 3))
        self.add_persistent("mask", rng.integers(0, 2, (2, 2)).astype(bool))
        if empty:
            self.add_persistent("nothing", np.zeros((0, 3), "f"))
        self.add_persistent("number", 3)
        self.add_persistent("tag", np.int32(7))


def values_of(link):
    s = DictionarySerializer()
    s.save(link)
    return s.target


def assert_same(actual, expected):
    assert list(actual) == list(expected)
    for name, value in expected.items():
        assert isinstance(actual[name], np.ndarray), name
        assert actual[name].dtype == value.dtype
        np.testing.assert_array_equal(actual[name], value, err_msg=name)


def trips():
    return chx._core._get_default_session().stats()["round_trips"]


def test_dictionaries(rng, device):
    things = Things(rng)
    expected = values_of(things)
    assert expected["later/W"].dtype == object  # None
    things.to_device(device)
    before = trips()
    found = values_of(things)
    # Arrays of halves, floats, doubles, integers and bools, and the one without elements.
    assert trips() - before <= 5 + 1
    assert_same(found, expected)
    found["first/W"][...] = 0  # NumPy's alone
    assert_same(values_of(things), expected)


@pytest.mark.parametrize("kind", ["npz", "hdf5"])
def test_files(kind, rng, device, tmp_path):
    save, load = (getattr(serializers, f"{verb}_{kind}") for verb in ("save", "load"))
    path = str(tmp_path / "file")
    empty = kind == "npz"  # HDF5 does not load it on NumPy
    things = Things(rng, empty)
    expected = values_of(things)
    things.to_device(device)
    save(path, things)
    for place in (device, HOST):
        other = Things(np.random.default_rng(1), empty).to_device(place)
        load(path, other)
        assert_same(values_of(other), expected)


@pytest.mark.parametrize("kind", ["npz", "hdf5"])
def test_a_model_and_its_optimizer_are_two_waits(kind, device, tmp_path):
    save = getattr(serializers, f"save_{kind}")
    model = chainer.Sequential(*[L.Linear(20, 20) for _ in range(15)])
    model.to_device(device)
    optimizer = chainer.optimizers.Adam().setup(model)
    y = model(device.send(np.ones((2, 20), "f")))
    y.backward()
    optimizer.update()
    for name, thing in (("model", model), ("optimizer", optimizer)):
        before = trips()
        save(str(tmp_path / name), thing)
        assert 1 <= trips() - before <= 2, name


def test_large_arrays(rng, device):
    """Some are read by themselves, and others when they have come together."""
    link = chainer.Chain()
    # 30 MB: of 2 MB, and of 700 kB.
    with link.init_scope():
        for i in range(5):
            setattr(link, f"a{i}", chainer.Parameter(rng.standard_normal((500, 1000), "f")))
            setattr(link, f"c{i}", chainer.Parameter(rng.standard_normal(3)))
        for i in range(29):
            setattr(link, f"b{i}", chainer.Parameter(rng.standard_normal((175, 1000), "f")))
    expected = values_of(link)
    link.to_device(device)
    before = trips()
    found = values_of(link)
    assert trips() - before <= 32  # for each MB or two, not for each of 39 arrays
    assert_same(found, expected)


@pytest.mark.parametrize("kind", ["npz", "hdf5"])
def test_without_save(kind, device, tmp_path):
    """What is put into a serializer is there at once."""
    array = device.send(np.arange(6.0).reshape(2, 3))
    with h5py.File(tmp_path / "file", "w") as file:
        target = {} if kind == "npz" else file
        serializer = DictionarySerializer(target) if kind == "npz" else HDF5Serializer(file)
        assert serializer("x", array) is array
        array += 1
        serializer["y"]("z", array)
        np.testing.assert_array_equal(target["x"], np.arange(6.0).reshape(2, 3))
        np.testing.assert_array_equal(target["y/z"], np.arange(1.0, 7).reshape(2, 3))


class Counting:
    """Changes an array while it is saved, and saves another thing apart."""

    def __init__(self, device):
        self.array = device.send(np.zeros(3))
        self.inner = None

    def serialize(self, serializer):
        for i in range(3):
            serializer(str(i), self.array)
            self.array += 1
        self.inner = values_of(L.Scale(W_shape=(2,)).to_device("native:0"))
        apart = DictionarySerializer()
        L.Bias(shape=(2,)).to_device("native:0").serialize(apart)
        self.apart = {name: np.array(value) for name, value in apart.target.items()}


@pytest.mark.parametrize("kind", ["npz", "hdf5"])
def test_things_that_change_while_they_are_saved(kind, device, tmp_path):
    path = str(tmp_path / "file.npz")
    counting = Counting(device)
    getattr(serializers, f"save_{kind}")(path, counting)
    with np.load(path) if kind == "npz" else h5py.File(path) as file:
        for i in range(3):
            np.testing.assert_array_equal(file[str(i)], np.full(3, i))
    np.testing.assert_array_equal(counting.inner["W"], np.ones(2))
    np.testing.assert_array_equal(counting.apart["b"], np.zeros(2))


class Failing:
    def __init__(self, device):
        self.array = device.send(np.zeros(3))

    def serialize(self, serializer):
        serializer("x", self.array)
        raise KeyError("not this")


def test_after_an_exception(rng, device):
    things = Things(rng)
    expected = values_of(things)
    things.to_device(device)
    with pytest.raises(KeyError, match="not this"):
        values_of(Failing(device))
    assert_same(values_of(things), expected)


def test_when_the_daemon_has_no_room(rng):
    """Saving needs no more of it than there is."""
    default = chx._core._get_default_session()
    with chx.connect():
        model = chainer.Sequential(*[L.Linear(10, 30) for _ in range(20)])
        expected = values_of(model)
        device = chainer.get_device("native:0")
        model.to_device(device)
        full = []
        size = 1 << 31
        while size >= 8:
            full.append(chx.empty(size, "int8"))
            try:
                full[-1][:1].tolist()
            except chx.OutOfMemoryError:
                full.pop()
                size //= 2
        with pytest.raises(chx.OutOfMemoryError):
            values = [p.array.copy() for p in model.params()]
            [value.tolist() for value in values]
        del values
        assert_same(values_of(model), expected)
    chx._core._set_default_session(default)


@pytest.mark.parametrize("optimizer", ["Adam", "MomentumSGD"])
def test_hdf5_snapshots_resume(device, tmp_path, optimizer):
    """To the same bits on the device, and on NumPy. (Chainer's LogReport has text, which is refused.)"""
    extension = chainer.training.extensions.snapshot(
        savefun=serializers.save_hdf5, filename="at-{.updater.epoch}"
    )

    def trainer_on(place, out, snapshot=None):
        trainer, _, model, _ = make_trainer(place, out, 4, optimizer, seed=3)
        if snapshot is not None:
            trainer.extend(snapshot)
        return trainer, model

    whole, expected = trainer_on(device, tmp_path, extension)
    start = weights(expected)
    whole.run()
    assert not np.array_equal(weights(expected)["/predictor/0/W"], start["/predictor/0/W"])
    for place in (device, HOST):
        trainer, model = trainer_on(place, tmp_path / place.name.strip("@"))
        serializers.load_hdf5(str(tmp_path / "at-2"), trainer)
        assert trainer.updater.iteration == 8
        trainer.run()
        if place is device:
            assert_equal_weights(weights(model), weights(expected))
        else:
            for name, value in weights(model).items():
                np.testing.assert_allclose(value, weights(expected)[name], 1e-4, 1e-5)


def test_hdf5_of_numpy_s_chainer(device, tmp_path):
    """A model and its optimizer go from NumPy's Chainer to the daemon, and on from there."""
    first, optimizer, model, data = make_trainer(HOST, tmp_path, optimizer="Adam")
    first.run()
    for name, thing in (("model", model), ("optimizer", optimizer)):
        serializers.save_hdf5(str(tmp_path / name), thing)
    _, other_optimizer, other, _ = make_trainer(device, tmp_path, optimizer="Adam", seed=1)
    serializers.load_hdf5(str(tmp_path / "model"), other)
    serializers.load_hdf5(str(tmp_path / "optimizer"), other_optimizer)
    assert_equal_weights(weights(other), weights(model))
    for one, place in ((optimizer, HOST), (other_optimizer, device)):
        one.update(one.target, *(place.send(column) for column in columns_of(data)))
    assert isinstance(other.predictor[2].W.update_rule.state["v"], chx.ndarray)
    for name, value in weights(other).items():
        np.testing.assert_allclose(value, weights(model)[name], 1e-5, 1e-6)


def columns_of(data):
    return [np.array(column) for column in zip(*data[:], strict=True)]
