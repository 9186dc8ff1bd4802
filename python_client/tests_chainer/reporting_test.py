"""Summaries of what is in the daemon."""

import chainer
import chainer.links as L
import chx
import numpy as np
import pytest
from chainer import reporter


def fill(summary, device, values):
    for a, b in values:
        a, b = np.float32(a), np.float64(b)
        if device is not None:
            a, b = device.send(np.array(a)), device.send(np.array(b))
        summary.add({"a": a, "b": chainer.Variable(b) if device else b, "c": (a, 2), "d": 1.5})


def test_numbers_come_in_one_read_per_dtype(rng, device):
    values = rng.standard_normal((6, 2))
    local, remote = reporter.DictSummary(), reporter.DictSummary()
    fill(local, None, values)
    fill(remote, device, values)
    session = chx._core._get_default_session()
    for method in ("compute_mean", "make_statistics"):
        before = session.stats()["round_trips"]
        got = getattr(remote, method)()
        assert session.stats()["round_trips"] - before == 2
        want = getattr(local, method)()
        assert set(got) == set(want)
        for name, value in want.items():
            assert not isinstance(got[name], chx.ndarray)
            np.testing.assert_allclose(float(got[name]), value, rtol=1e-5, atol=1e-6)


def test_a_log_of_numbers(rng, device):
    """Reports in a loop cost no round trip; the log is read at once."""
    observations = [float(v) for v in rng.standard_normal(5)]
    summary = reporter.DictSummary()
    session = chx._core._get_default_session()
    values = [device.send(np.array(v)) for v in observations]
    before = session.stats()["round_trips"]
    for value in values:
        summary.add({"loss": value})
    assert session.stats()["round_trips"] == before
    assert abs(float(summary.compute_mean()["loss"]) - np.mean(observations)) < 1e-9
    assert session.stats()["round_trips"] == before + 1


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
