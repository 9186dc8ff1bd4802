"""Vectors of words from the company they keep (skip-gram; Mikolov et al. 2013).

    python -m chx run word2vec.py --device native:0

The text is made up: its words come in pairs of which either may stand where the other does. Words of
a pair get vectors that are each other's nearest. They are in vectors.npz in the folder --out.
"""

import os

import chainer
import chainer.functions as F
import chainer.links as L
import datasets
import numpy as np
import options
from chainer import training
from chainer.training import extensions


class SkipGram(chainer.Chain):
    """The loss of guessing words' neighbours (N, 2 * window) from the words (N,)."""

    def __init__(self, words, units):
        super().__init__()
        with self.init_scope():
            start = chainer.initializers.Uniform(1 / units)
            self.embed = L.EmbedID(words, units, initialW=start)
            self.out = L.Linear(units, words, initialW=0)

    def forward(self, centres, neighbours):
        count, around = neighbours.shape
        vectors = self.embed(F.broadcast_to(centres[:, None], (count, around)))
        logits = self.out(F.reshape(vectors, (count * around, vectors.shape[2])))
        loss = F.softmax_cross_entropy(logits, neighbours.reshape(count * around))
        chainer.report({"loss": loss}, self)
        return loss


class Windows(chainer.dataset.Iterator):
    """Places in a text in random order: a batch is of arrays, words (N,) and their neighbours."""

    def __init__(self, text, window, batch_size, repeat=True):
        self.text = text
        self.around = np.append(np.arange(-window, 0), np.arange(1, window + 1))
        self.order = np.random.permutation(len(text) - 2 * window) + window
        self.batch_size = batch_size
        self.repeat = repeat
        self.epoch = 0
        self.is_new_epoch = False
        self.position = 0

    def __next__(self):
        if self.epoch > 0 and not self.repeat:
            raise StopIteration
        places = self.order[self.position : self.position + self.batch_size]
        self.position += self.batch_size
        self.is_new_epoch = self.position >= len(self.order)
        if self.is_new_epoch:
            np.random.shuffle(self.order)
            self.epoch += 1
            self.position = 0
        return self.text[places], self.text[places[:, None] + self.around]

    @property
    def epoch_detail(self):
        return self.epoch + self.position / len(self.order)

    def serialize(self, serializer):
        for name in ("position", "epoch", "is_new_epoch", "order"):
            setattr(self, name, serializer(name, getattr(self, name)))


@chainer.dataset.converter()
def send(batch, device):
    return tuple(device.send(array) for array in batch)


def nearest(vectors, word, count=1):
    """The words, other than itself, whose vectors point most nearly where a word's does."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    likeness = unit @ unit[word]
    likeness[word] = -np.inf
    return np.argsort(-likeness)[:count]


def main(arguments=None):
    parser = options.parser(
        __doc__, epochs=3, words=6000, pairs=6, units=24, window=1, batch_size=100, alpha=0.02
    )
    args = parser.parse_args(arguments)
    device = options.begin(args)
    text = datasets.paired_text(args.words, args.pairs)
    validation = datasets.paired_text(args.words // 10, args.pairs, seed=1)
    model = SkipGram(3 * args.pairs, args.units).to_device(device)
    optimizer = chainer.optimizers.Adam(args.alpha)
    optimizer.setup(model)
    batches = Windows(text, args.window, args.batch_size)
    others = Windows(validation, args.window, args.batch_size, repeat=False)
    updater = training.updaters.StandardUpdater(batches, optimizer, converter=send, device=device)
    trainer = training.Trainer(updater, (args.epochs, "epoch"), out=args.out)
    trainer.extend(extensions.Evaluator(others, model, converter=send, device=device))
    trainer.extend(extensions.LogReport())
    trainer.extend(
        extensions.PrintReport(["epoch", "main/loss", "validation/main/loss", "elapsed_time"])
    )
    trainer.extend(
        extensions.snapshot_object(model, filename="vectors.npz"), trigger=(args.epochs, "epoch")
    )
    trainer.run()
    with np.load(os.path.join(args.out, "vectors.npz")) as saved:
        vectors = saved["embed/W"]
    for word in range(0, 2 * args.pairs, 2):
        print(f"word {word}: nearest is {nearest(vectors, word)[0]}")
    return trainer, vectors


if __name__ == "__main__":
    main()
