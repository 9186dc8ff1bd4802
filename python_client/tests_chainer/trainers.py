"""A small trainer, for tests of what goes with trainers."""

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer import training

HOST = chainer.get_device("@numpy")


def make_trainer(device, out, epochs=2, optimizer="MomentumSGD", seed=0):
    """A trainer of 4 steps an epoch, its optimizer and its model."""
    rng = np.random.RandomState(seed)
    data = chainer.datasets.TupleDataset(
        rng.normal(size=(32, 5)).astype("f"), rng.randint(0, 3, 32).astype("i")
    )
    np.random.seed(seed)
    model = L.Classifier(chainer.Sequential(L.Linear(5, 6), F.relu, L.Linear(6, 3)))
    model.to_device(device)
    optimizer = getattr(chainer.optimizers, optimizer)()
    optimizer.setup(model)
    batches = chainer.iterators.SerialIterator(data, 8, shuffle=False)
    updater = training.updaters.StandardUpdater(batches, optimizer, device=device)
    return training.Trainer(updater, (epochs, "epoch"), out=str(out)), optimizer, model, data


def log_of(trainer):
    return trainer.get_extension("LogReport").log


def floats(entry):
    return {k: v for k, v in entry.items() if isinstance(v, float) and k != "elapsed_time"}
