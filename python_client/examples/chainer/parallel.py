"""One model on two devices of a daemon, three ways; MNIST's digits.

    python -m chx run parallel.py --device native:0 --second native:1 --way updater

The ways: "model" has the layers of the model on both devices; "loop" has a copy of the model on each,
which share batches and add up gradients; "updater" is the same with a Trainer. "single" is on one
device. All give the same weights, but for rounding.
"""

import chainer
import chainer.functions as F
import chainer.links as L
import datasets
import options
from chainer import training
from chainer.dataset import concat_examples
from chainer.training import extensions
from mnist_trainer import MLP


class SplitMLP(chainer.Chain):
    """An MLP whose middle layer is on another device: what goes in and out of it is copied."""

    def __init__(self, model, device, second):
        super().__init__()
        self.places = device, second
        with self.init_scope():
            self.l1 = model.l1
            self.l2 = model.l2
            self.l3 = model.l3
        self.to_device(device)
        self.l2.to_device(second)

    def forward(self, x):
        device, second = self.places
        h = F.relu(self.l1(x))
        with chainer.using_device(second):
            h = F.relu(self.l2(F.copy(h, second)))
        with chainer.using_device(device):
            return self.l3(F.copy(h, device))


def train_single(model, batches, args, device):
    optimizer = chainer.optimizers.SGD(args.lr).setup(model)
    for _ in range(args.steps):
        x, t = concat_examples(batches.next(), device)
        optimizer.update(lambda x=x, t=t: F.softmax_cross_entropy(model(x), t))


def train_copies(model, batches, args, devices):
    """Each device takes every other example; the loss is of all of them."""
    model.to_device(devices[0])
    copies = [model, *(model.copy("copy").to_device(device) for device in devices[1:])]
    optimizer = chainer.optimizers.SGD(args.lr).setup(model)
    for _ in range(args.steps):
        batch = batches.next()
        losses = []
        for i, (copy, device) in enumerate(zip(copies, devices, strict=True)):
            part = batch[i :: len(copies)]
            x, t = concat_examples(part, device)
            with chainer.using_device(device):
                loss = F.softmax_cross_entropy(copy(x), t)
                losses.append(loss * (len(part) / len(batch)))
        for copy in copies:
            copy.cleargrads()
        for loss in losses:
            loss.backward()
        for copy in copies[1:]:
            model.addgrads(copy)
        optimizer.update()
        for copy in copies[1:]:
            copy.copyparams(model)


def train_with_updater(model, batches, args, devices):
    """ParallelUpdater adds up the gradients of each part's mean loss: half the rate for two."""
    classifier = L.Classifier(model)
    optimizer = chainer.optimizers.SGD(args.lr / len(devices)).setup(classifier)
    names = {"main": devices[0], "second": devices[1]}
    updater = training.updaters.ParallelUpdater(batches, optimizer, devices=names)
    trainer = training.Trainer(updater, (args.steps, "iteration"), out=args.out)
    trainer.extend(extensions.LogReport(trigger=(args.steps, "iteration")))
    trainer.run()
    return trainer


def main(arguments=None):
    parser = options.parser(__doc__, steps=50, batch_size=100, units=100, lr=0.2)
    parser.add_argument("--second", default="native:1")
    parser.add_argument("--way", choices=["single", "model", "loop", "updater"], default="updater")
    args = parser.parse_args(arguments)
    device = options.begin(args)
    devices = [device, chainer.get_device(args.second)]
    train, test = datasets.mnist(2000, 1000)
    batches = chainer.iterators.SerialIterator(
        chainer.datasets.TupleDataset(*train), args.batch_size
    )
    model = MLP(args.units)
    model(train[0][:1])  # gives the parameters their shapes, before they are copied
    if args.way == "single":
        train_single(model.to_device(device), batches, args, device)
    elif args.way == "model":
        model = SplitMLP(model, *devices)
        train_single(model, batches, args, device)
    elif args.way == "loop":
        train_copies(model, batches, args, devices)
    else:
        train_with_updater(model, batches, args, devices)
    x, t = device.send(test)
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        accuracy = float(F.accuracy(model(x), t).array)
    print(f"{args.way}: accuracy {accuracy:.3f}")
    return model, accuracy


if __name__ == "__main__":
    main()
