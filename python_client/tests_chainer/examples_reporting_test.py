"""What a user reads: names of what is reported, and the texts of type errors, as on NumPy."""

import re

import chainer
import chainer.functions as F
import chainer.links as L
import chx
import numpy as np
import pytest
from chainer.utils import type_check


class Inner(chainer.Chain):
    """Reports under its own name."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.full = L.Linear(3, 2, initialW=1)

    def forward(self, x):
        y = self.full(x)
        chainer.report({"total": F.sum(y), "rows": len(y)}, self)
        return y


class Outer(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.inner = Inner()
            self.list = chainer.ChainList(Inner(), Inner())

    def forward(self, x):
        loss = F.mean(self.inner(x)) + F.mean(self.list[1](x))
        chainer.report({"loss": loss}, self)
        chainer.report({"nobody's": 1})
        return loss


def observed(place):
    """What a model reports on a device, its loss, and the model."""
    model = Outer().to_device(place)
    reporter = chainer.Reporter()
    reporter.add_observer("main", model)
    reporter.add_observers("main", model.namedlinks(skipself=True))
    observation = {}
    with reporter.scope(observation):
        loss = model(place.send(np.ones((4, 3), "f")))
    return observation, loss, model


def test_names_of_reports(device):
    results = [observed(place)[0] for place in (chainer.get_device("@numpy"), device)]
    assert set(results[1]) == {
        "main/inner/total",
        "main/inner/rows",
        "main/list/1/total",
        "main/list/1/rows",
        "main/loss",
        "nobody's",
    }
    values = [{k: float(chainer.as_array(v)) for k, v in r.items()} for r in results]
    assert values[0] == values[1] and values[1]["main/inner/total"] == 24


def test_reports_are_outside_of_graphs_unless_they_are_kept(device):
    for place in (chainer.get_device("@numpy"), device):
        observation, loss, model = observed(place)
        reported = observation["main/loss"]
        assert reported is not loss and reported.creator is None and loss.creator is not None
        model.cleargrads()
        reported.backward()
        w = model.inner.full.W
        assert w.grad is None
        loss.backward()
        assert w.grad is not None
    with chainer.using_config("keep_graph_on_report", True):
        observation, loss, _ = observed(device)
    assert observation["main/loss"] is loss


def test_an_unknown_observer(device):
    with pytest.raises(KeyError, match="not registered"), chainer.Reporter():
        chainer.report({"x": 1}, Inner())


def test_evaluators_prefix_the_names(device, rng):
    """An Evaluator outside of a Trainer; the mean is weighted as on NumPy."""
    data = chainer.datasets.TupleDataset(
        rng.normal(size=(10, 3)).astype("f"), rng.integers(0, 2, 10).astype("i")
    )
    model = L.Classifier(L.Linear(3, 2))
    results = []
    for place in (chainer.get_device("@numpy"), device):
        batches = chainer.iterators.SerialIterator(data, 4, repeat=False, shuffle=False)
        model.to_device(place)
        evaluator = chainer.training.extensions.Evaluator(batches, model, device=place)
        evaluator.name = "held out"
        results.append(evaluator())
    local, remote = results
    assert set(remote) == {"held out/main/loss", "held out/main/accuracy"}
    for name, value in local.items():
        np.testing.assert_allclose(float(remote[name]), float(value), rtol=1e-6)


def test_summaries(device, rng):
    values = rng.normal(size=(5,)).astype("f")
    summaries = [chainer.reporter.DictSummary() for _ in range(2)]
    for summary, place in zip(summaries, (chainer.get_device("@numpy"), device), strict=True):
        for value in place.send(values):
            summary.add({"value": value, "weighted": (value, 2), "plain": 1.5})
    local, remote = (
        {k: float(v) for k, v in summary.make_statistics().items()} for summary in summaries
    )
    assert remote.keys() == local.keys() >= {"value", "value.std", "weighted", "plain"}
    for name, value in local.items():
        np.testing.assert_allclose(remote[name], value, rtol=1e-5, atol=1e-6)


class Picky(chainer.FunctionNode):
    """Has an opinion of its inputs; its backward is not needed."""

    def __init__(self, check):
        self.check_type_forward = check

    def forward(self, inputs):
        return (inputs[0],)


def of_two(types):
    type_check._argname(types, ("x", "w"))
    x, w = types
    type_check.expect(x.ndim == 2, w.ndim >= 2, x.shape[1] * 2 == w.shape[0] + 1)


def of_kinds(types):
    type_check.expect(
        types.size() == 2, types[0].dtype.kind == "f", types[0].dtype == types[1].dtype
    )


def of_any(types):
    type_check.expect(types[0].shape == types[1].shape)


def arithmetic(types):
    n = type_check.make_variable(7, "n")
    type_check.expect(types[0].shape[-1] // 2 + n % 4 - 1 < -n, n != 7)


def text_of(call):
    with pytest.raises(type_check.InvalidType) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("check", [of_two, of_kinds, of_any, arithmetic])
def test_texts_of_checks_of_the_user(check, device):
    texts = []
    for place in (chainer.get_device("@numpy"), device):
        x, w = place.send((np.zeros((2, 3), "f"), np.zeros((4, 2), "d")))
        texts.append(text_of(lambda x=x, w=w: Picky(check).apply((x, w))))
    assert texts[1] == texts[0]
    assert re.search(r"Picky \(Forward\)", texts[1]) and "Actual: " in texts[1]


def test_exact_texts_of_common_mistakes(device):
    """A wrong number of features, and float64 where the weights are float32."""
    link = L.Linear(5, 2).to_device(device)
    text = text_of(lambda: link(device.send(np.zeros((3, 4), "f"))))
    assert [line for line in text.split("\n") if line] == [
        "Invalid operation is performed in: LinearFunction (Forward)",
        "Expect: x.shape[1] == W.shape[1]",
        "Actual: 4 != 5",
    ]
    text = text_of(lambda: link(device.send(np.zeros((3, 5), "d"))))
    assert "Invalid operation is performed in: LinearFunction (Forward)" in text
    assert re.search(r"Expect: b.dtype == x.dtype\s+Actual: float32 != float64", text)
    text = text_of(lambda: F.maximum(device.send(np.zeros(2, "f")), device.send(np.zeros(2, "d"))))
    assert "Maximum (Forward)" in text


def test_arrays_of_two_places_do_not_mix(device):
    local = np.zeros(2, "f")
    with pytest.raises(TypeError, match="incompatible array types are mixed"):
        F.maximum(local, device.send(local))
    with pytest.raises(chx.DeviceError):
        F.maximum(*(chx.zeros(2, device=name) for name in ("native:0", "native:1")))
