"""The loop of the examples with convolutional networks."""

import chainer
import chainer.functions as F
import datasets
import numpy as np


def digits(count, width=28, channels=1):
    """Images (count, channels, width, width) of MNIST's digits, in a frame of 0, and labels.

    Images have the dtype of Chainer's configuration.
    """
    (images, labels), _ = datasets.mnist(count, 0, ndim=3)
    margin = (width - 28) // 2
    images = np.pad(images, [(0, 0), (0, 0), (margin, margin), (margin, margin)])
    return np.repeat(images, channels, axis=1).astype(chainer.get_dtype()), labels


def train(model, optimizer, data, device, steps, batch_size):
    """Steps over batches that go round the data; returns the losses as arrays of the device."""
    optimizer.setup(model)
    images, labels = data
    losses = []
    for step in range(steps):
        chosen = np.arange(step * batch_size, (step + 1) * batch_size) % len(labels)
        x, t = device.send((images[chosen], labels[chosen]))
        loss = F.softmax_cross_entropy(model(x), t)
        model.cleargrads()
        loss.backward()
        optimizer.update()
        losses.append(loss.array)
    return losses


def accuracy(model, data, device):
    """How much of the data the model recognizes, when it is not training."""
    x, t = device.send(data)
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        return float(F.accuracy(model(x), t).array)
