"""Data of the examples: real mushrooms and digits, and made-up texts, images and sentences."""

import csv
import gzip
import os

import numpy as np

_DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")


def mushrooms():
    """Attributes (8124, 22) float32, each letter as its rank in its column; labels (8124, 1) int32."""
    with open(os.path.join(_DATA, "mushrooms.csv"), newline="") as file:
        rows = np.array(list(csv.reader(file))[1:])
    table = np.stack([np.unique(column, return_inverse=True)[1] for column in rows.T], axis=1)
    return table[:, 1:].astype(np.float32), table[:, :1].astype(np.int32)


def _idx(name):
    with gzip.open(os.path.join(_DATA, name)) as file:
        data = file.read()
    ndim = data[3]
    shape = np.frombuffer(data, ">i4", ndim, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * ndim).reshape(shape)


def mnist(size, test_size, ndim=1):
    """Two pairs of images in [0, 1], float32, and labels, int32: to train with, and others.

    Images are (784,), or (1, 28, 28) if ndim is 3. There are 3,000 in all.
    """
    images = _idx("mnist-images.gz").astype(np.float32) / 255
    images = images.reshape(-1, 784) if ndim == 1 else images[:, None]
    labels = _idx("mnist-labels.gz").astype(np.int32)
    if size + test_size > len(labels):
        raise ValueError(f"there are {len(labels)} images, not {size + test_size}")
    first, second = slice(0, size), slice(len(labels) - test_size, len(labels))
    return (images[first], labels[first]), (images[second], labels[second])


def markov_text(length, words=40, followers=3, seed=0):
    """Words (length,) int32, each followed by one of a few others: perplexity about `followers`."""
    rng = np.random.RandomState(seed)
    table = np.array([rng.choice(words, followers, replace=False) for _ in range(words)])
    choices = rng.randint(0, followers, length)
    text = np.zeros(length, np.int32)
    for i in range(1, length):
        text[i] = table[text[i - 1], choices[i]]
    return text


def paired_text(length, pairs=6, seed=0):
    """A text in which the words 2k and 2k + 1 mean the same, as each stands where the other may.

    Sentences are of three words: a topic's own word, one of its pair, its own word again. Topic k's
    own word is 2 * pairs + k.
    """
    rng = np.random.RandomState(seed)
    topics = rng.randint(0, pairs, length // 3)
    own = 2 * pairs + topics
    either = 2 * topics + rng.randint(0, 2, len(topics))
    return np.stack([own, either, own], axis=1).reshape(-1).astype(np.int32)


def patterned_images(size, width=32, seed=0):
    """Images (size, 3, width, width) float32 in [-1, 1]: soft spots of colour on a ground."""
    rng = np.random.RandomState(seed)
    y, x = np.mgrid[:width, :width].astype(np.float32) / width
    images = np.empty((size, 3, width, width), np.float32)
    for image in images:
        cy, cx = rng.uniform(0.3, 0.7, 2)
        spot = np.exp(-((y - cy) ** 2 + (x - cx) ** 2) * 20)
        colour = rng.uniform(0.4, 1, (3, 1, 1))
        image[:] = 2 * colour * spot - 1
    return images


def reversals(size, words=8, longest=5, first=0, seed=0):
    """Pairs of a sequence of words from `first` on, int32, and the same backwards."""
    rng = np.random.RandomState(seed)
    sources = [
        rng.randint(first, first + words, rng.randint(2, longest + 1)).astype(np.int32)
        for _ in range(size)
    ]
    return [(source, source[::-1].copy()) for source in sources]
