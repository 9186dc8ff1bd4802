"""Learns MNIST's digits in several processes, by ChainerMN.

    mpiexec -n 4 python -m chx run mnist_ranks.py --device native:0

$CHX_SERVER names the daemon. Each process, a rank, has its share of the images; all have the same
model. Its parameters begin as those of rank 0, which writes the log.
"""

import chainer
import chainer.links as L
import chainermn
import datasets
import options
from chainer.training import extensions
from mnist_trainer import MLP, begin


def shares(args, comm):
    """This rank's images to train with, and to try the model on."""
    pairs = datasets.mnist(args.train_size, args.test_size) if comm.rank == 0 else (None, None)
    whole = [None if pair is None else chainer.datasets.TupleDataset(*pair) for pair in pairs]
    train = chainermn.scatter_dataset(whole[0], comm, shuffle=True, seed=args.seed)
    return train, chainermn.scatter_dataset(whole[1], comm)


def make_trainer(model, device, comm, args):
    train, test = shares(args, comm)
    optimizer = chainermn.create_multi_node_optimizer(
        chainer.optimizers.MomentumSGD(lr=args.lr, momentum=0.9), comm
    )
    optimizer.setup(model)
    trainer, test_batches = begin(optimizer, device, train, test, args)
    evaluator = extensions.Evaluator(test_batches, model, device=device)
    trainer.extend(chainermn.create_multi_node_evaluator(evaluator, comm))
    # Rank 0's, as it has further extensions, and one for all others.
    snapshot = extensions.snapshot(filename="trainer-{.updater.epoch}.npz")
    trainer.extend(chainermn.extensions.multi_node_snapshot(comm, snapshot, [0]))
    if comm.rank == 0:
        trainer.extend(extensions.LogReport())
        columns = ["main/loss", "validation/main/loss", "validation/main/accuracy"]
        trainer.extend(extensions.PrintReport(["epoch", *columns, "elapsed_time"]))
    return trainer


def main(arguments=None):
    parser = options.parser(
        __doc__, epochs=5, batch_size=50, units=100, lr=0.05, train_size=2000, test_size=1000
    )
    parser.add_argument("--communicator", default="pure_nccl")
    args = parser.parse_args(arguments)
    comm = chainermn.create_communicator(args.communicator)
    args.seed += comm.rank
    device = options.begin(args)
    model = L.Classifier(MLP(args.units)).to_device(device)
    trainer = make_trainer(model, device, comm, args)
    trainer.run()
    return trainer


if __name__ == "__main__":
    main()
