"""Translates sentences into themselves backwards: an LSTM reads, another writes.

    python -m chx run seq2seq.py --device native:0

Sentences are made up and written to two files of text in the folder --out, from which they are read
as those of any two languages would be. Translations are scored by BLEU, which is from the package
nltk.
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
from nltk.translate import bleu_score

END = 0
WORDS = 9  # with the end


def concatenated(arrays):
    """A row of arrays or variables, and where to split it."""
    splits = np.cumsum([len(array) for array in arrays[:-1]])
    return F.concat(arrays, axis=0), splits


class Translator(chainer.Chain):
    """Sentences are arrays (length,) of words; a call gives the loss of translating some."""

    def __init__(self, words, units, layers, dropout):
        super().__init__()
        with self.init_scope():
            self.read = L.EmbedID(words, units)
            self.write = L.EmbedID(words, units)
            self.encoder = L.NStepLSTM(layers, units, units, dropout)
            self.decoder = L.NStepLSTM(layers, units, units, dropout)
            self.out = L.Linear(units, words)

    def embedded(self, link, sentences):
        row, splits = concatenated(sentences)
        return F.split_axis(link(row), splits, 0)

    def encode(self, sources):
        state, cell, _ = self.encoder(
            None, None, self.embedded(self.read, [source[::-1] for source in sources])
        )
        return state, cell

    def forward(self, sources, targets):
        end = self.xp.full(1, END, dtype=np.int32)
        given = [F.concat([end, target], axis=0) for target in targets]
        wanted, _ = concatenated([F.concat([target, end], axis=0) for target in targets])
        state, cell = self.encode(sources)
        _, _, outputs = self.decoder(state, cell, self.embedded(self.write, given))
        logits = self.out(concatenated(outputs)[0])
        losses = F.softmax_cross_entropy(logits, wanted, reduce="no")
        loss = F.sum(losses) / len(sources)
        per_word = F.sum(losses) / len(wanted)
        chainer.report({"loss": loss, "per_word": per_word}, self)
        return loss

    def translate(self, sources, longest):
        """The most likely words one after the other, until the end; lists of NumPy arrays."""
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            state, cell = self.encode(sources)
            words = self.xp.full(len(sources), END, dtype=np.int32)
            columns = []
            for _ in range(longest):
                embedded = F.split_axis(self.write(words), len(sources), 0)
                state, cell, outputs = self.decoder(state, cell, embedded)
                logits = self.out(F.concat(outputs, axis=0))
                words = self.xp.argmax(logits.array, axis=1).astype(np.int32)
                columns.append(words)
            table = chainer.get_device("@numpy").send(self.xp.stack(columns)).T
        return [row[: int(np.argmax(np.append(row, END) == END))] for row in table]


@chainer.dataset.converter()
def send(batch, device):
    """Sends all sentences of a batch in two arrays, of which each is a part."""

    def parts(sentences):
        ends = np.cumsum([0] + [len(sentence) for sentence in sentences])
        row = device.send(np.concatenate(sentences))
        return [row[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)]

    sources, targets = zip(*batch, strict=True)
    return {"sources": parts(sources), "targets": parts(targets)}


class ExactMatch(training.Extension):
    """Reports how many of some sentences the model translates word by word as they should be."""

    trigger = (1, "epoch")
    priority = training.extension.PRIORITY_WRITER

    def __init__(self, model, data, device):
        self.model = model
        self.data = data
        self.device = device

    def __call__(self, trainer):
        batch = send(self.data, self.device)
        found = self.model.translate(batch["sources"], 8)
        right = [np.array_equal(y, t) for y, (_, t) in zip(found, self.data, strict=True)]
        chainer.report({"validation/exact": float(np.mean(right))})


class CalculateBleu(training.Extension):
    """Reports the BLEU score of translating some sentences: of all their words and pairs of words.

    Args:
      model: the Translator.
      data: pairs of a sentence and its one right translation.
      device: where the model is.
      batch_size: so many are translated at a time.
      longest: of a translation.
    """

    trigger = (1, "epoch")
    priority = training.extension.PRIORITY_WRITER

    def __init__(self, model, data, device, batch_size=100, longest=8):
        self.model = model
        self.data = data
        self.device = device
        self.batch_size = batch_size
        self.longest = longest

    def score(self):
        references = [[target.tolist()] for _, target in self.data]
        found = []
        for i in range(0, len(self.data), self.batch_size):
            batch = send(self.data[i : i + self.batch_size], self.device)
            found += self.model.translate(batch["sources"], self.longest)
        hypotheses = [words.tolist() for words in found]
        # Pairs only: the shortest sentences have no longer n-grams, which would count as wrong.
        # Smoothing is for a model that finds no pair yet.
        smoothing = bleu_score.SmoothingFunction().method1
        return bleu_score.corpus_bleu(references, hypotheses, (0.5, 0.5), smoothing)

    def __call__(self, trainer):
        chainer.report({"validation/bleu": self.score()})


def write_corpus(out, pairs):
    """Writes the sentences, a line each, as letters; returns the paths."""
    os.makedirs(out, exist_ok=True)
    paths = []
    for i, name in enumerate(("source.txt", "target.txt")):
        paths.append(os.path.join(out, name))
        with open(paths[-1], "w") as file:
            for pair in pairs:
                file.write(" ".join(chr(96 + word) for word in pair[i]) + "\n")
    return paths


def parse(lines):
    return tuple(np.array([ord(word) - 96 for word in line.split()], np.int32) for line in lines)


def main(arguments=None):
    parser = options.parser(
        __doc__,
        epochs=6,
        sentences=3000,
        longest=4,
        units=64,
        layers=1,
        dropout=0.1,
        batch_size=50,
        alpha=0.01,
    )
    args = parser.parse_args(arguments)
    device = options.begin(args)
    pairs = datasets.reversals(args.sentences, WORDS - 1, args.longest, first=1)
    lines = chainer.datasets.TextDataset(write_corpus(args.out, pairs))
    corpus = chainer.datasets.TransformDataset(lines, parse)
    train, held_out = chainer.datasets.split_dataset(corpus, len(corpus) * 9 // 10)
    model = Translator(WORDS, args.units, args.layers, args.dropout).to_device(device)
    optimizer = chainer.optimizers.Adam(args.alpha)
    optimizer.setup(model)
    optimizer.add_hook(chainer.optimizer_hooks.GradientClipping(5))
    batches = chainer.iterators.SerialIterator(train, args.batch_size)
    updater = training.updaters.StandardUpdater(batches, optimizer, converter=send, device=device)
    trainer = training.Trainer(updater, (args.epochs, "epoch"), out=args.out)
    trainer.extend(ExactMatch(model, held_out[:], device))
    trainer.extend(CalculateBleu(model, held_out[:], device))
    trainer.extend(extensions.LogReport())
    trainer.extend(
        extensions.PrintReport(
            ["epoch", "main/loss", "validation/exact", "validation/bleu", "elapsed_time"]
        )
    )
    trainer.run()
    return trainer


if __name__ == "__main__":
    main()
