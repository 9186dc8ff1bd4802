"""Learns which mushrooms are poisonous, with a Trainer and everything that it can report.

    python -m chx run mushrooms.py --device native:0 --out result

It writes log, loss.png, accuracy.png, cg.dot (the graph of the first loss) and snapshots.
"""

import chainer
import chainer.functions as F
import chainer.links as L
import datasets
import numpy as np
import options
from chainer import training
from chainer.training import extensions


def make_model(units):
    hidden = chainer.Sequential(L.Linear(None, units), F.relu)
    network = hidden.repeat(2)
    network.append(L.Linear(None, 1))
    return L.Classifier(network, lossfun=F.sigmoid_cross_entropy, accfun=F.binary_accuracy)


def make_trainer(model, device, train, test, args):
    optimizer = chainer.optimizers.SGD(lr=args.lr)
    optimizer.setup(model)
    batches = chainer.iterators.SerialIterator(train, args.batch_size)
    test_batches = chainer.iterators.SerialIterator(
        test, args.batch_size, repeat=False, shuffle=False
    )
    updater = training.updaters.StandardUpdater(batches, optimizer, device=device)
    trainer = training.Trainer(updater, (args.epochs, "epoch"), out=args.out)
    trainer.extend(extensions.Evaluator(test_batches, model, device=device))
    trainer.extend(extensions.DumpGraph("main/loss"))
    trainer.extend(extensions.snapshot(), trigger=(args.snapshot_epochs, "epoch"))
    trainer.extend(extensions.LogReport())
    for what in ("loss", "accuracy"):
        keys = [f"main/{what}", f"validation/main/{what}"]
        trainer.extend(
            extensions.PlotReport(
                keys, "epoch", (args.plot_epochs, "epoch"), filename=f"{what}.png"
            )
        )
    columns = ["main/loss", "validation/main/loss", "main/accuracy", "validation/main/accuracy"]
    trainer.extend(extensions.PrintReport(["epoch", "iteration", *columns, "elapsed_time"]))
    return trainer


def main(arguments=None):
    parser = options.parser(
        __doc__,
        epochs=50,
        batch_size=100,
        units=44,
        lr=0.01,
        snapshot_epochs=10,
        plot_epochs=5,
    )
    parser.add_argument("--resume", help="a snapshot to go on from")
    args = parser.parse_args(arguments)
    device = options.begin(args)
    data = chainer.datasets.TupleDataset(*datasets.mushrooms())
    # Whole batches: an epoch ends with one, and a resumed run needs no new order for it.
    size = int(len(data) * 0.7) // args.batch_size * args.batch_size
    train, test = chainer.datasets.split_dataset_random(data, size, args.seed)
    model = make_model(args.units).to_device(device)
    trainer = make_trainer(model, device, train, test, args)
    if args.resume:
        chainer.serializers.load_npz(args.resume, trainer)
    trainer.run()

    x, t = test[np.random.randint(len(test))]
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        y = model.predictor(device.send(x[None]))
    chance = float(F.sigmoid(y).array)
    print(f"a mushroom is poisonous with a chance of {chance:.3f}; in truth it is {t[0]}")
    return trainer


if __name__ == "__main__":
    main()
