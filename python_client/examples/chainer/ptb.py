"""A language model: two layers of LSTM read a text and say which word comes next.

    python -m chx run ptb.py --device native:0

Backpropagation is truncated: it goes back --bptt words, while the LSTMs' memories go on. The text is
made up, as the Penn Treebank's is not free: each word has three that may follow, so that a perplexity
of 3 is perfect.
"""

import math

import chainer
import chainer.functions as F
import chainer.links as L
import datasets
import numpy as np
import options
from chainer import training
from chainer.training import extensions

WORDS = 40


class RNN(chainer.Chain):
    """Logits (N, words) of the words after words (N,) and all that were given before."""

    def __init__(self, words, units, dropout):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(words, units)
            self.lstm1 = L.LSTM(units, units)
            self.lstm2 = L.LSTM(units, units)
            self.out = L.Linear(units, words)
        self.dropout = dropout
        for param in self.params():
            param.array[...] = np.random.uniform(-0.1, 0.1, param.shape)

    def reset_state(self):
        self.lstm1.reset_state()
        self.lstm2.reset_state()

    def forward(self, x):
        h = self.embed(x)
        h = self.lstm1(F.dropout(h, self.dropout))
        h = self.lstm2(F.dropout(h, self.dropout))
        return self.out(F.dropout(h, self.dropout))


class Stretches(chainer.dataset.Iterator):
    """Goes along a text in many places at once, each a stretch of the same length.

    A batch is a list of pairs, one for each place: a word and the next.
    """

    def __init__(self, text, places, repeat=True):
        self.length = (len(text) - 1) // places
        self.starts = np.arange(places) * self.length
        self.dataset = text
        self.batch_size = places
        self.repeat = repeat
        self.reset()

    def reset(self):
        self.steps = 0
        self.is_new_epoch = False

    def __next__(self):
        if not self.repeat and self.steps == self.length:
            raise StopIteration
        at = self.starts + self.steps % self.length
        self.steps += 1
        self.is_new_epoch = self.steps % self.length == 0
        return list(zip(self.dataset[at], self.dataset[at + 1], strict=True))

    @property
    def epoch(self):
        return self.steps // self.length

    @property
    def epoch_detail(self):
        return self.steps / self.length

    def serialize(self, serializer):
        self.steps = serializer("steps", self.steps)
        self.is_new_epoch = serializer("is_new_epoch", self.is_new_epoch)


class Updater(training.updaters.StandardUpdater):
    """An update after every few words; each epoch begins without a memory."""

    def __init__(self, iterator, optimizer, bptt, device):
        super().__init__(iterator, optimizer, device=device)
        self.bptt = bptt

    def update_core(self):
        words = self.get_iterator("main")
        optimizer = self.get_optimizer("main")
        loss = 0
        for _ in range(self.bptt):
            x, t = self.converter(words.next(), self.device)
            loss += optimizer.target(x, t)
            if words.is_new_epoch:
                break
        optimizer.target.cleargrads()
        loss.backward()
        loss.unchain_backward()
        optimizer.update()
        if words.is_new_epoch:
            optimizer.target.predictor.reset_state()


def add_perplexity(entry):
    for name in ("main", "validation/main"):
        if f"{name}/loss" in entry:
            entry[f"{name}/perplexity"] = math.exp(entry[f"{name}/loss"])


def make_evaluator(model, text, device):
    """Evaluates with a copy of the model that has a memory of its own and the same parameters."""
    copy = model.copy()
    copy.predictor.reset_state()
    return extensions.Evaluator(
        Stretches(text, 1, repeat=False),
        copy,
        device=device,
        eval_hook=lambda _: copy.predictor.reset_state(),
    )


def make_trainer(model, text, validation, device, args):
    optimizer = chainer.optimizers.Adam(args.alpha)
    optimizer.setup(model)
    optimizer.add_hook(chainer.optimizer_hooks.GradientClipping(5))
    updater = Updater(Stretches(text, args.batch_size), optimizer, args.bptt, device)
    trainer = training.Trainer(updater, (args.epochs, "epoch"), out=args.out)
    trainer.extend(make_evaluator(model, validation, device))
    trainer.extend(extensions.LogReport(postprocess=add_perplexity))
    columns = ["epoch", "main/perplexity", "validation/main/perplexity", "elapsed_time"]
    trainer.extend(extensions.PrintReport(columns))
    trainer.extend(extensions.snapshot(filename="trainer-{.updater.epoch}.npz"))
    return trainer


def generate(model, device, first, count):
    """A text: each word is drawn as likely as the model says, after `first`."""
    rng = np.random.RandomState(1)
    model.reset_state()
    words = [first]
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        while len(words) < count:
            y = F.softmax(model(device.send(np.array(words[-1:], np.int32)))).array
            chances = chainer.get_device("@numpy").send(y)[0].astype(np.float64)
            words.append(int(rng.choice(len(chances), p=chances / chances.sum())))
    return words


def main(arguments=None):
    parser = options.parser(
        __doc__,
        epochs=8,
        words=20000,
        batch_size=20,
        bptt=20,
        units=64,
        dropout=0.2,
        alpha=0.005,
    )
    parser.add_argument("--resume", help="a snapshot to go on from")
    args = parser.parse_args(arguments)
    device = options.begin(args)
    text = datasets.markov_text(args.words, WORDS)
    tenth = len(text) // 10
    text, validation, test = np.split(text, [8 * tenth, 9 * tenth])
    model = L.Classifier(RNN(WORDS, args.units, args.dropout)).to_device(device)
    model.compute_accuracy = False
    trainer = make_trainer(model, text, validation, device, args)
    if args.resume:
        chainer.serializers.load_npz(args.resume, trainer)
    trainer.run()
    result = make_evaluator(model, test, device)()
    perplexity = math.exp(float(result["main/loss"]))
    written = generate(model.predictor, device, 0, 20)
    print(f"perplexity of the rest {perplexity:.3f}; a text: {written}")
    return trainer, perplexity


if __name__ == "__main__":
    main()
