"""Learns MNIST's digits with a loop of its own: batches, backward, update, and tests.

    python -m chx run mnist_loop.py --device native:0

After each epoch it writes the model, the optimizer and the iterator; --resume goes on from there.
"""

import os

import chainer
import chainer.functions as F
import datasets
import options
from chainer import serializers
from chainer.dataset import concat_examples
from mnist_trainer import MLP


def evaluate(model, batches, device):
    """Mean loss and accuracy over all batches of an iterator, which starts anew."""
    batches.reset()
    losses, accuracies, count = 0.0, 0.0, 0
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        for batch in batches:
            x, t = concat_examples(batch, device)
            y = model(x)
            losses += float(F.softmax_cross_entropy(y, t).array) * len(batch)
            accuracies += float(F.accuracy(y, t).array) * len(batch)
            count += len(batch)
    return losses / count, accuracies / count


def files(out, things):
    """Pairs of the file of each thing to save, and the thing."""
    return [(os.path.join(out, f"{name}.npz"), thing) for name, thing in things.items()]


def main(arguments=None):
    parser = options.parser(
        __doc__, epochs=5, batch_size=100, units=100, lr=0.05, train_size=2000, test_size=1000
    )
    parser.add_argument("--resume", action="store_true", help="go on from what is in --out")
    args = parser.parse_args(arguments)
    device = options.begin(args)
    train, test = (
        chainer.datasets.TupleDataset(*pair)
        for pair in datasets.mnist(args.train_size, args.test_size)
    )
    batches = chainer.iterators.SerialIterator(train, args.batch_size)
    test_batches = chainer.iterators.SerialIterator(test, args.batch_size, False, False)
    model = MLP(args.units).to_device(device)
    optimizer = chainer.optimizers.MomentumSGD(lr=args.lr, momentum=0.9).setup(model)
    saved = files(args.out, {"model": model, "optimizer": optimizer, "iterator": batches})
    if args.resume:
        for path, thing in saved:
            serializers.load_npz(path, thing)
    os.makedirs(args.out, exist_ok=True)
    history = []
    losses = []
    while batches.epoch < args.epochs:
        x, t = concat_examples(batches.next(), device)
        loss = F.softmax_cross_entropy(model(x), t)
        model.cleargrads()
        loss.backward()
        optimizer.update()
        losses.append(loss.array)
        if batches.is_new_epoch:
            train_loss = sum(float(value) for value in losses) / len(losses)
            losses.clear()
            history.append((train_loss, *evaluate(model, test_batches, device)))
            print(
                "epoch {}: loss {:.4f}, tests: loss {:.4f}, accuracy {:.4f}".format(
                    batches.epoch, *history[-1]
                )
            )
            for path, thing in saved:
                serializers.save_npz(path, thing)
    return model, history


if __name__ == "__main__":
    main()
