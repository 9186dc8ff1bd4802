"""chainer.static_graph on a daemon's device: recorded in test mode, and equal to what is written."""

import gc
import logging
import weakref

import chainer
import chainer.functions as F
import chainer.links as L
import chx
import numpy as np


def bits(y):
    return chx.to_numpy(y.array if isinstance(y, chainer.Variable) else y).tobytes()


def make(device, body, decorate=True):
    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            self.calls = 0
            with self.init_scope():
                self.first = L.Linear(5, 6)
                self.norm = L.BatchNormalization(6)

        def forward(self, *args, **kwargs):
            self.calls += 1
            return body(self, *args, **kwargs)

        forward = chainer.static_graph(forward) if decorate else forward

    np.random.seed(1)
    return Net().to_device(device)


def outputs(net, x):
    h = F.tanh(net.norm(net.first(x)))
    return h, [F.sum(h, axis=1), {"x": x}]


def test_test_mode_is_recorded(device):
    nets = [make(device, outputs, decorate) for decorate in (False, True)]
    rng = np.random.RandomState(2)
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        for i, rows in enumerate((4, 4, 4, 2, 4, 4, 4)):
            x = rng.normal(size=(rows, 5)).astype("f")
            found = []
            for net in nets:
                h, (sums, rest) = net(chainer.Variable(device.send(x)))
                found.append((bits(h), bits(sums), bits(rest["x"])))
                assert not h.requires_grad and isinstance(sums, chainer.Variable)
                if i == 2:  # in place, and by another array
                    W = net.first.W.array
                    W *= 2
                if i == 5:
                    net.norm.avg_mean = net.norm.avg_mean + 1
            assert found[0] == found[1]
    assert nets[0].calls == 7
    assert nets[1].calls == 3  # two shapes, and the other array


def test_training_is_as_it_is_written(device):
    nets = [make(device, outputs, decorate) for decorate in (False, True)]
    found = []
    for net in nets:
        optimizer = chainer.optimizers.Adam().setup(net)
        for i in range(3):
            optimizer.update(lambda x: F.sum(net(x)[0]), device.send(np.full((3, 5), i, "f")))  # noqa: B023
        found.append([bits(p.array) for _, p in sorted(net.namedparams())])
    assert found[0] == found[1] and nets[1].calls == 3


def reads(net, x):
    return x * float(chx.to_numpy(F.sum(x).array))


def test_what_cannot_be_recorded_runs_as_it_is_written(device, caplog):
    net = make(device, reads)
    x = device.send(np.ones((2, 5), "f"))
    test_mode = chainer.using_config("train", False)
    with caplog.at_level(logging.WARNING, "chx"), test_mode, chainer.no_backprop_mode():
        for _ in range(3):
            assert chx.to_numpy(net(x=x)).tolist() == [[10] * 5] * 2
    (record,) = caplog.records
    assert "forward of Net is not recorded" in record.getMessage()


def test_a_chain_is_freed_with_its_recordings(device):
    net = make(device, outputs)
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        for _ in range(2):
            net(device.send(np.ones((2, 5), "f")))
    ref = weakref.ref(net)
    del net
    gc.collect()
    assert ref() is None
