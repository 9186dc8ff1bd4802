"""Learns MNIST's digits with a Trainer, saves models, and tries the last one.

    python -m chx run mnist_trainer.py --device native:0 --schedule drop

--schedule says how the learning rate falls: not at all, tenfold at intervals ("drop"), or to 0
along a polynomial.
"""

import os

import chainer
import chainer.functions as F
import chainer.links as L
import datasets
import options
from chainer import training
from chainer.training import extensions, make_extension


class MLP(chainer.Chain):
    def __init__(self, units, classes=10):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(None, units)
            self.l2 = L.Linear(None, units)
            self.l3 = L.Linear(None, classes)

    def forward(self, x):
        return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))


def schedule(trainer, name, epochs):
    """Extends the trainer with what changes the learning rate."""
    optimizer = trainer.updater.get_optimizer("main")
    if name == "drop":
        rate, interval = optimizer.lr, max(1, epochs // 2)

        # Snapshots don't hold rates: a resumed run works its own out.
        def set_rate(trainer):
            optimizer.lr = rate * 0.1 ** (trainer.updater.epoch // interval)

        trainer.extend(make_extension((1, "epoch"), "drop", initializer=set_rate)(set_rate))
    elif name == "polynomial":
        updater = trainer.updater
        steps = epochs * len(updater.get_iterator("main").dataset)
        shift = extensions.PolynomialShift(
            "lr", 1.0, steps // updater.get_iterator("main").batch_size, optimizer=optimizer
        )
        trainer.extend(shift, trigger=(1, "iteration"))


def begin(optimizer, device, train, test, args):
    """A trainer without extensions, and the minibatches to try the model on."""
    batches = chainer.iterators.SerialIterator(train, args.batch_size)
    test_batches = chainer.iterators.SerialIterator(
        test, args.batch_size, repeat=False, shuffle=False
    )
    updater = training.updaters.StandardUpdater(batches, optimizer, device=device)
    return training.Trainer(updater, (args.epochs, "epoch"), out=args.out), test_batches


def make_trainer(model, device, train, test, args):
    optimizer = chainer.optimizers.MomentumSGD(lr=args.lr, momentum=0.9)
    optimizer.setup(model)
    trainer, test_batches = begin(optimizer, device, train, test, args)
    schedule(trainer, args.schedule, args.epochs)
    trainer.extend(extensions.observe_lr())
    trainer.extend(extensions.Evaluator(test_batches, model, device=device))
    trainer.extend(extensions.LogReport())
    trainer.extend(extensions.snapshot(filename="trainer-{.updater.epoch}.npz"))
    trainer.extend(
        extensions.snapshot_object(model.predictor, "model-{.updater.epoch}.npz"),
        trigger=(1, "epoch"),
    )
    trainer.extend(extensions.DumpGraph("main/loss"))
    trainer.extend(
        extensions.PlotReport(["main/loss", "validation/main/loss"], filename="loss.png")
    )
    columns = ["main/loss", "validation/main/loss", "validation/main/accuracy", "lr"]
    trainer.extend(extensions.PrintReport(["epoch", *columns, "elapsed_time"]))
    return trainer


def main(arguments=None):
    parser = options.parser(
        __doc__, epochs=5, batch_size=100, units=100, lr=0.05, train_size=2000, test_size=1000
    )
    parser.add_argument("--schedule", choices=["none", "drop", "polynomial"], default="none")
    parser.add_argument("--resume", help="a snapshot to go on from")
    args = parser.parse_args(arguments)
    device = options.begin(args)
    train, test = (
        chainer.datasets.TupleDataset(*pair)
        for pair in datasets.mnist(args.train_size, args.test_size)
    )
    model = L.Classifier(MLP(args.units)).to_device(device)
    trainer = make_trainer(model, device, train, test, args)
    if args.resume:
        chainer.serializers.load_npz(args.resume, trainer)
    trainer.run()

    saved = MLP(args.units)
    path = os.path.join(args.out, f"model-{trainer.updater.epoch}.npz")
    chainer.serializers.load_npz(path, saved)
    saved.to_device(device)
    images, labels = chainer.dataset.concat_examples(test[:10], device)
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        found = saved(images).array.argmax(axis=1)
    print(f"predicted {found}\nlabels    {labels}")
    return trainer


if __name__ == "__main__":
    main()
