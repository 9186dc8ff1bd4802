"""How data comes to the daemon: iterators, workers of other processes, converters."""

import collections
import multiprocessing
import os
import pickle

import chainer
import chx
import numpy as np
import pytest
from chainer import iterators
from chainer.dataset import concat_examples, convert

HOST = chainer.get_device("@numpy")


class Squares(chainer.dataset.DatasetMixin):
    """Says which process made an example."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def get_example(self, i):
        return np.full(3, i * i, "f"), np.int32(i), np.int64(os.getpid())


class Touching(Squares):
    """Uses the session that its process was forked with."""

    def __init__(self, size):
        super().__init__(size)
        self.kept = chx.arange(size)

    def get_example(self, i):
        try:
            float(self.kept[i])
        except ConnectionError as error:
            return np.frombuffer(str(error).ljust(100)[:100].encode(), np.uint8)
        return np.full(100, ord("-"), np.uint8)


def backwards(order, position):
    """An order sampler: as Chainer's, but for tests to know the order."""
    return np.arange(len(order) if order is not None else 12)[::-1].copy()


MAKERS = {
    "serial": iterators.SerialIterator,
    "processes": lambda *args, **kw: iterators.MultiprocessIterator(*args, n_processes=2, **kw),
    "processes with a size": lambda *args, **kw: iterators.MultiprocessIterator(
        *args, n_processes=1, n_prefetch=1, shared_mem=10000, **kw
    ),
    "threads": lambda *args, **kw: iterators.MultithreadIterator(*args, n_threads=2, **kw),
}


@pytest.mark.parametrize("name", list(MAKERS))
def test_iterators_feed_the_daemon(name, device):
    """While a session is open, and used between batches; the workers are forked from it."""
    before = chx.arange(6).astype("float32")
    batches = MAKERS[name](Squares(10), 4, repeat=False, shuffle=False)
    seen, workers = [], set()
    total = chx.zeros(())
    for batch in batches:
        squares, indices, pids = concat_examples(batch, device)
        total += squares.sum()
        seen += chx.to_numpy(indices).tolist()
        workers |= set(chx.to_numpy(pids).tolist())
    batches.finalize()
    assert seen == list(range(10))
    assert float(total) == 3 * sum(i * i for i in range(10))
    # Without a size, Chainer makes the first example here, to see how large it is.
    others = workers - {os.getpid()}
    assert bool(others) == ("processes" in name)
    assert os.getpid() in workers or "size" in name
    assert chx.to_numpy(before).tolist() == [0, 1, 2, 3, 4, 5]  # the session is as it was


def test_a_forked_worker_is_refused_the_session(device):
    """It says so, rather than to speak on its parent's connection; the parent goes on."""
    data = Touching(4)
    batches = iterators.MultiprocessIterator(data, 2, repeat=False, shuffle=False, n_processes=1)
    texts = [bytes(example).decode().strip() for batch in batches for example in batch]
    batches.finalize()
    assert set("".join(texts[:2])) == {"-"}  # the first batch is made here
    assert all("connect again after fork" in text for text in texts[2:]), texts
    assert float(data.kept.sum()) == 6


def test_training_with_worker_processes(device, tmp_path):
    """To the weights of an iterator in this process, and a snapshot of it resumes."""
    from example_runs import assert_equal_weights, weights

    def train(make, steps, resume=None):
        np.random.seed(1)
        data = chainer.datasets.TupleDataset(
            np.random.normal(size=(12, 3)).astype("f"), np.arange(12, dtype="i") % 2
        )
        model = chainer.links.Classifier(chainer.links.Linear(3, 2)).to_device(device)
        optimizer = chainer.optimizers.MomentumSGD(0.1).setup(model)
        batches = make(data, 4, order_sampler=backwards)
        updater = chainer.training.updaters.StandardUpdater(batches, optimizer, device=device)
        if resume:
            chainer.serializers.load_npz(resume, updater)
        for _ in range(steps):
            updater.update()
        chainer.serializers.save_npz(str(tmp_path / "updater.npz"), updater)
        updater.finalize()
        return weights(model)

    expected = train(MAKERS["serial"], 7)
    assert_equal_weights(train(MAKERS["processes"], 7), expected)
    train(MAKERS["processes"], 4)
    resumed = train(MAKERS["processes"], 3, str(tmp_path / "updater.npz"))
    assert_equal_weights(resumed, expected)


def test_concat_examples(device, rng):
    """Tuples, dictionaries and plain arrays; padding; and places by name."""
    rows = [rng.normal(size=n).astype("f") for n in (2, 4, 3)]
    padded = concat_examples(rows, device, padding=-1)
    assert isinstance(padded, chx.ndarray) and padded.device.name == "native:0"
    np.testing.assert_array_equal(chx.to_numpy(padded), concat_examples(rows, padding=-1))
    pairs = [(row, i) for i, row in enumerate(rows)]
    a, b = concat_examples(pairs, "native:1", padding=(0, None))
    assert a.device.name == b.device.name == "native:1"
    np.testing.assert_array_equal(chx.to_numpy(a), concat_examples(pairs, padding=(0, None))[0])
    found = concat_examples([{"x": row[:2], "y": i} for i, row in enumerate(rows)], device)
    assert set(found) == {"x", "y"} and found["x"].shape == (3, 2)
    assert chx.to_numpy(found["y"]).tolist() == [0, 1, 2]


def test_concat_examples_of_the_daemon_s_arrays(device, rng):
    rows = rng.normal(size=(3, 4)).astype("f")
    remote = concat_examples([device.send(row) for row in rows], device)
    assert isinstance(remote, chx.ndarray)
    np.testing.assert_array_equal(chx.to_numpy(remote), rows)
    padded = concat_examples([device.send(rows[0, :n]) for n in (1, 3)], device, padding=9)
    expected = concat_examples([rows[0, :n] for n in (1, 3)], padding=9)
    np.testing.assert_array_equal(chx.to_numpy(padded), expected)


def test_converters(device, rng):
    @chainer.dataset.converter()
    def doubled(batch, device):
        return device.send(np.stack(batch) * 2)

    rows = rng.normal(size=(3, 4)).astype("f")
    np.testing.assert_array_equal(chx.to_numpy(doubled(list(rows), device)), rows * 2)
    sent = convert.to_device(device, rows)
    assert isinstance(sent, chx.ndarray)
    back = convert.to_device(HOST, sent)
    np.testing.assert_array_equal(back, rows)


Batch = collections.namedtuple("Batch", "x t")


def plain(batch, device=None):
    return concat_examples(batch, device)


def into_names(batch, device):
    assert device == -1  # as for NumPy
    x, t = concat_examples(batch, device)
    return {"x": x, "t": t}


def into_a_named_tuple(batch, device):
    return Batch(*concat_examples(batch, device))


def into_variables(batch, device):
    return tuple(chainer.Variable(a) for a in concat_examples(batch, device))


CONVERTERS = {
    "plain": lambda: plain,
    "names": lambda: into_names,
    "named tuple": lambda: into_a_named_tuple,
    "variables": lambda: into_variables,
    "asynchronous": convert.ConcatWithAsyncTransfer,
}


@pytest.mark.parametrize("name", list(CONVERTERS))
def test_converters_that_know_no_chainerx(name, device, rng):
    """In an updater and an evaluator: weights and losses as on NumPy."""
    x = rng.normal(size=(8, 3)).astype("f")
    t = rng.integers(0, 2, 8).astype("i")
    w = rng.normal(size=(2, 3)).astype("f")

    def train(place):
        linear = chainer.links.Linear(3, 2, initialW=w)
        key = "t" if name == "names" else -1
        model = chainer.links.Classifier(linear, label_key=key).to_device(place)
        optimizer = chainer.optimizers.SGD(0.1).setup(model)
        data = chainer.datasets.TupleDataset(x, t)
        converter = CONVERTERS[name]()
        updater = chainer.training.updaters.StandardUpdater(
            iterators.SerialIterator(data, 4, shuffle=False),
            optimizer,
            converter=converter,
            device=place,
        )
        for _ in range(3):
            updater.update()
        assert isinstance(model.predictor.W.array, place.supported_array_types)
        batches = iterators.SerialIterator(data, 4, repeat=False, shuffle=False)
        evaluator = chainer.training.extensions.Evaluator(
            batches, model, converter=converter, device=place
        )
        return HOST.send(model.predictor.W.array), float(evaluator()["main/loss"])

    (want, loss), (got, there) = train(HOST), train(device)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert there == pytest.approx(loss, rel=1e-5)


def test_what_a_converter_made_is_sent(device):
    """Arrays in lists and dictionaries; names and numbers stay what they are."""

    def mixed(batch, device):
        return [np.arange(3)], {"name": "a", "n": 3}, np.array(["a", None]), None

    (numbers,), words, objects, nothing = convert._call_converter(mixed, [], device)
    assert isinstance(numbers, chx.ndarray) and chx.to_numpy(numbers).tolist() == [0, 1, 2]
    assert words == {"name": "a", "n": 3} and objects.tolist() == ["a", None] and nothing is None
    with pytest.raises(TypeError, match="uint32 is not supported"):
        convert._call_converter(lambda batch, device: np.ones(2, np.uint32), [], device)


def test_concat_with_async_transfer_called_directly(device, rng):
    rows = [rng.normal(size=n).astype("f") for n in (2, 4, 3)]
    converter = convert.ConcatWithAsyncTransfer()
    for place in (device, "native:0", device.device):
        a, b = converter([(row, i) for i, row in enumerate(rows)], place, padding=(7, None))
        assert isinstance(a, chx.ndarray) and isinstance(b, chx.ndarray)
        np.testing.assert_array_equal(chx.to_numpy(a), concat_examples(rows, padding=7))
    with pytest.raises(ValueError, match="batch is empty"):
        converter([], device)
    on_host = convert.ConcatWithAsyncTransfer()([row[:2] for row in rows], -1)
    np.testing.assert_array_equal(on_host, [row[:2] for row in rows])


def test_datasets_of_the_daemon_s_arrays(device, rng):
    """Examples may be arrays that are there already: parts of one."""
    x = device.send(rng.normal(size=(6, 2)).astype("f"))
    data = chainer.datasets.TupleDataset(x, np.arange(6, dtype="i"))
    first, second = chainer.datasets.split_dataset(data, 4)
    assert len(first) == 4 and len(second) == 2
    a, t = concat_examples(second[:], device)
    np.testing.assert_array_equal(chx.to_numpy(a), chx.to_numpy(x[4:]))
    assert chx.to_numpy(t).tolist() == [4, 5]


def test_variables_and_links_are_pickled(device):
    """What goes to another process is values; there they are on the device of the same name."""
    link = chainer.links.Linear(3, 2).to_device(device)
    again = pickle.loads(pickle.dumps(link))
    assert again.W.device == link.W.device and again.W.array is not link.W.array
    np.testing.assert_array_equal(chx.to_numpy(again.W.array), chx.to_numpy(link.W.array))
    again.W.array[...] = 0
    assert float(abs(link.W.array).max()) > 0


def test_spawned_workers_have_sessions_of_their_own():
    """Processes that are not forked start their own daemon, or share $CHX_SERVER's."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_sum_in_a_session, (list(range(5)),)) == 10


def _sum_in_a_session(values):
    return float(chx.array(values, dtype="float32").sum())
