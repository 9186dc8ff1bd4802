"""Summaries of what is in the daemon."""

import copy

import chainer
import chainer.links as L
import chx
import numpy as np
import pytest
from chainer import reporter

DTYPES = ["e", "f", "d", "i"]


def fill(summary, values, send):
    """Adds what comes in many forms: variables, weights that are arrays, numbers of Python's."""
    for row in values:
        arrays = [send(np.array(v, t)) for v, t in zip(row, DTYPES, strict=True)]
        summary.add(
            {
                "half": arrays[0],
                "variable": chainer.Variable(arrays[1]),
                "weighted": (arrays[2], 3),
                "by": (arrays[1], chainer.Variable(arrays[2])),
                "integer": arrays[3],
                "local": 1.5,
                "by array": (2.5, arrays[0]),
                "vector": send(np.ones(2)),
                "list": [1, 2],
            }
        )


def both(rng, device, steps=6):
    """A summary on NumPy and one on the device, of the same numbers."""
    values = rng.uniform(1, 9, (steps, len(DTYPES)))
    local, remote = reporter.DictSummary(), reporter.DictSummary()
    fill(local, values, lambda array: array)
    fill(remote, values, device.send)
    return local, remote


def assert_same(actual, expected):
    """The same numbers to the bit, of NumPy's types."""
    assert actual.keys() == expected.keys() and len(actual) >= 7
    for name, value in expected.items():
        assert type(actual[name]) is type(value), name
        assert actual[name] == value or np.isnan([actual[name], value]).all(), name


@pytest.mark.parametrize("method", ["compute_mean", "make_statistics"])
def test_numbers_are_those_of_numpy_and_come_in_one_read(method, rng, device):
    session = chx._core._get_default_session()
    local, remote = both(rng, device)
    before = session.stats()["round_trips"]
    got = getattr(remote, method)()
    assert session.stats()["round_trips"] - before == 2  # floats and integers
    assert_same(got, getattr(local, method)())
    assert session.stats()["round_trips"] - before == 2  # nothing is read again
    assert_same(getattr(remote, method)(), got)


def test_adding_goes_on_after_a_read(rng, device):
    (local, remote), more = both(rng, device), rng.uniform(1, 9, (3, len(DTYPES)))
    remote.compute_mean()
    for summary, send in ((local, np.asarray), (remote, device.send)):
        fill(summary, more, send)
        summary.add({"half": 2.0})  # a number of Python's after one of the daemon's
    assert_same(remote.make_statistics(), local.make_statistics())


def test_a_log_of_numbers(rng, device):
    """A report is a command for each value and one to add them: no wait until it is read."""
    observations = rng.standard_normal((50, 2))
    session = chx._core._get_default_session()
    given = [[chainer.Variable(device.send(np.array(v))) for v in row] for row in observations]
    summary, source = reporter.DictSummary(), reporter.Reporter()
    session.synchronize()
    before = session.stats()
    with source:
        for a, b in given:
            source.observation = {}
            chainer.report({"a": a, "b": b})
            summary.add(source.observation)
            source.observation = None
    session.flush()
    after = session.stats()
    assert after["round_trips"] == before["round_trips"]
    # Of each turn: two views of what is reported, released, and one row.
    assert after["commands"] - before["commands"] < 50 * 4
    mean = summary.compute_mean()
    assert session.stats()["round_trips"] == before["round_trips"] + 1
    assert [mean["a"], mean["b"]] == [sum(column) / 50 for column in observations.T.tolist()]


def test_what_was_added_does_not_change(device):
    summary = reporter.Summary()
    count = device.send(np.array(1.0))
    for _ in range(3):
        summary.add(count)
        count += 1
    assert summary.compute_mean() == 2
    assert summary._x == 6 and summary._n == 3


def test_graphs_are_not_kept(device):
    w = chainer.Parameter(np.ones((3, 4), "f"))
    w.to_device(device)
    summary = reporter.DictSummary()
    summary.add({"loss": chainer.functions.sum(w * w)._data[0]})
    ((number, _),) = summary._summaries["loss"]._chx_pending
    assert not number.row.array.is_backprop_required()
    assert summary.compute_mean() == {"loss": 12}


def test_long_summaries_are_added_up_now_and_then(device):
    """Neither the daemon nor this process keeps all that ever came."""
    session = chx._core._get_default_session()
    summary = reporter.DictSummary()
    one = device.send(np.array(1.0))
    before = session.stats()["round_trips"]
    for _ in range(1000):
        summary.add({"a": one, "b": one})
    assert 1 <= session.stats()["round_trips"] - before <= 4
    arrays = {id(n.row) for s in summary._summaries.values() for n, _ in s._chx_pending}
    assert len(arrays) < 500
    assert summary.compute_mean() == {"a": 1, "b": 1}


def test_a_weight_that_is_no_number(device):
    summary = reporter.DictSummary()
    one = device.send(np.array(1.0))
    with pytest.raises(ValueError, match="not scalar"):
        summary.add({"a": one, "b": (one, device.send(np.ones(2)))})
    summary.add({"b": one})
    assert summary.compute_mean() == {"a": 1, "b": 1}


def test_summaries_are_saved_and_copied(rng, device, tmp_path):
    file = str(tmp_path / "summary.npz")
    summary, local, loaded = reporter.DictSummary(), reporter.DictSummary(), reporter.DictSummary()
    for row in rng.standard_normal((5, 2)):
        local.add({"a": row[0], "b": (np.float32(row[1]), 2)})
        summary.add(
            {"a": device.send(row[:1]).sum(), "b": (device.send(row[1:].astype("f"))[0], 2)}
        )
    again = copy.deepcopy(summary)
    chainer.serializers.save_npz(file, summary)
    loaded.add({"gone": device.send(np.array(1.0))})
    chainer.serializers.load_npz(file, loaded)
    expected = local.make_statistics()
    for found in (summary, again, loaded):
        assert found.make_statistics() == expected


class TrainerOf:
    """What an extension asks of a trainer that has one optimizer."""

    def __init__(self, optimizer):
        self.updater = self
        self.get_all_optimizers = lambda: {"main": optimizer}


def test_fail_on_nonnumber_reads_once(device):
    model = chainer.Sequential(L.Linear(3, 4), L.Linear(4, 2))
    model.to_device(device)
    trainer = TrainerOf(chainer.optimizers.SGD().setup(model))
    extension = chainer.training.extensions.FailOnNonNumber()
    session = chx._core._get_default_session()
    before = session.stats()["round_trips"]
    extension(trainer)
    assert session.stats()["round_trips"] == before + 1
    model[1].b.array[1] = np.nan
    with pytest.raises(RuntimeError, match="'main' diverge"):
        extension(trainer)
