"""One rank of chainermn_test.py: `chainermn_ranks.py (chx|mpi) DIRECTORY`.

Runs each scenario below and of chainermn_extensions.py, on chx or by ChainerMN's own communicator over
MPI on NumPy, and saves what it has computed as DIRECTORY/RANK.npz. The numbers of a scenario depend on
its name and the rank only.
"""

import sys
import warnings

import chainer
import chainer.functions as F
import chainer.links as L
import chainermn
import chainermn.functions as MF
import chainermn_extensions  # noqa: F401  # its scenarios
import numpy as np
from chainer import training
from chainer.training import extensions
from chainermn_common import MLP, SCENARIOS, points, rng_of, scenario, seeded, values_of


@scenario
def primitives(comm, device):
    """Each exchange of arrays, of the device and of NumPy, with shapes that differ where they may."""
    rank, size = comm.rank, comm.size
    rng = rng_of("primitives", rank)
    results = {"ranks": np.array([rank, size, comm.intra_rank, comm.intra_size, comm.inter_size])}
    for kind, put in (("device", lambda x: device.send(np.asarray(x))), ("host", np.asarray)):
        for dtype in ("f", "d", "i", "q"):

            def make(*shape, dtype=dtype, put=put):
                return put(np.asarray(rng.randn(*shape) * 10).astype(dtype))

            got = {
                "allreduce": comm.allreduce(make(3, 2)),
                "bcast": comm.bcast(make(2, 3) if rank == size - 1 else None, size - 1),
                "bcast_0d": comm.bcast(make() if rank == 0 else None, 0),
            }
            for i, y in enumerate(comm.allgather(make(rank + 1, 2))):
                got[f"allgather{i}"] = y
            for i, y in enumerate(comm.alltoall([make(rank + 1, i) for i in range(size)])):
                got[f"alltoall{i}"] = y
            gathered = comm.gather(make(rank, 2), size - 1)
            assert (gathered is None) == (rank != size - 1)
            for i, y in enumerate(gathered or ()):
                got[f"gather{i}"] = y
            rows = tuple(make(i, 3) for i in range(size))
            got["scatter"] = comm.scatter(rows if rank == 0 else None, 0)
            got["scatter_rows"] = comm.scatter(make(size, 2) if rank == 0 else None, 0)
            if size > 1:
                # Both kinds of messages, with tags that are asked for in the order they were sent.
                if rank == 0:
                    comm.send(make(4, 1), 1, 7)
                    comm.send((make(2), make(0, 3)), 1, 8)
                elif rank == 1:
                    got["recv"] = comm.recv(0, 7)
                    got["recv_a"], got["recv_b"] = comm.recv(0, 8)
            for name, y in got.items():
                assert isinstance(y, np.ndarray) == isinstance(put([0]), np.ndarray), name
                results[f"{kind}_{dtype}_{name}"] = chainer.get_device("@numpy").send(y)
    return results


@scenario
def objects(comm, device):
    rank, size = comm.rank, comm.size
    large = list(range(1000 * (rank + 1)))
    sent = {"large": large, "root": rank} if rank == size - 1 else None
    assert comm.bcast_obj(sent, root=size - 1)["root"] == size - 1
    gathered = comm.gather_obj((rank, large))
    assert (
        gathered is None
        if rank
        else [len(o[1]) // 1000 for o in gathered] == [i + 1 for i in range(size)]
    )
    assert comm.allreduce_obj(rank + 0.5) == sum(i + 0.5 for i in range(size))
    if size > 1 and rank == 0:
        for tag in (1, 2, 3):
            comm.send_obj(("tag", tag), dest=1, tag=tag)
    if rank == 1:
        assert [comm.recv_obj(source=0, tag=t)[1] for t in (2, 1, 3)] == [2, 1, 3]
    parts = comm.split(rank % 2, -rank)
    total = parts.allreduce(device.send(np.full(2, rank, "f")))
    return {
        "parts": np.array([parts.rank, parts.size]),
        "sum": chainer.get_device("@numpy").send(total),
    }


def train(comm, device, out, double_buffering=False):
    data = chainermn.scatter_dataset(
        points(48) if comm.rank == 0 else None, comm, shuffle=True, seed=1
    )
    test = chainermn.scatter_dataset(points(24) if comm.rank == 0 else None, comm)
    model = seeded(L.Classifier(MLP(8, 3, 6)), "train", comm.rank)  # rank 0's parameters count
    model.to_device(device)
    optimizer = chainermn.create_multi_node_optimizer(
        chainer.optimizers.Adam(0.05), comm, double_buffering=double_buffering
    )
    optimizer.setup(model)
    iterator = chainer.iterators.SerialIterator(data, 4, shuffle=False)
    updater = training.updaters.StandardUpdater(iterator, optimizer, device=device)
    trainer = training.Trainer(updater, (3, "epoch"), out=out)
    tests = chainer.iterators.SerialIterator(test, 4, repeat=False, shuffle=False)
    evaluator = extensions.Evaluator(tests, model, device=device)
    trainer.extend(chainermn.create_multi_node_evaluator(evaluator, comm))
    log = extensions.LogReport(filename=f"log{comm.rank}")
    trainer.extend(log)
    trainer.run()
    results = values_of(model, device)
    for key in ("validation/main/loss", "validation/main/accuracy"):
        results[key] = np.array([float(entry[key]) for entry in log.log])
    return results


@scenario
def data_parallel(comm, device, out):
    return train(comm, device, out)


@scenario
def model_parallel(comm, device):
    """A network that begins at rank 0, and whose layers are at ranks 0, 1, ... in turn."""
    model = chainermn.MultiNodeChainList(comm)
    sizes = [6] + [5] * (comm.size - 1) + [3]
    link = seeded(L.Linear(sizes[comm.rank], sizes[comm.rank + 1]), "model_parallel", comm.rank)
    before, after = comm.rank - 1, comm.rank + 1
    model.add_link(
        link,
        rank_in=None if comm.rank == 0 else before,
        rank_out=None if after == comm.size else after,
    )
    model.to_device(device)
    optimizer = chainer.optimizers.SGD(0.1).setup(model)
    x, t = (device.send(np.array(a)) for a in zip(*points(12)))
    losses = []
    for _ in range(3):
        model.cleargrads()
        y = model(x) if comm.rank == 0 else model()
        if comm.rank == comm.size - 1:
            y = F.softmax_cross_entropy(y, t)
            losses.append(float(y.array))
        y.backward()
        optimizer.update()
    return {**values_of(model, device), "losses": np.array(losses)}


@scenario
def dual_parallel(comm, device):
    """Pairs of ranks have a model each, which goes from rank to rank and back; the pairs share its
    gradients, and have data of their own.
    """
    if comm.size % 2 != 0:
        return {}
    of_model = comm.split(comm.rank // 2, comm.rank)
    of_data = comm.split(comm.rank % 2, comm.rank)
    model = chainermn.MultiNodeChainList(of_model)
    first = of_model.rank == 0
    if first:
        model.add_link(seeded(L.Linear(6, 5), "dual_parallel 0"), rank_in=None, rank_out=1)
        model.add_link(seeded(L.Linear(4, 3), "dual_parallel 2"), rank_in=1, rank_out=None)
    else:
        model.add_link(seeded(L.Linear(5, 4), "dual_parallel 1"), rank_in=0, rank_out=0)
    model.to_device(device)
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.SGD(0.1), of_data)
    optimizer.setup(model)
    x, t = (device.send(np.array(a)) for a in zip(*points(24)[of_data.rank :: of_data.size]))
    losses = []

    def loss():
        if not first:
            return model()
        y = F.softmax_cross_entropy(model(x), t)
        losses.append(float(y.array))
        return y

    for _ in range(4):
        optimizer.update(loss)
    return {**values_of(model, device), "losses": np.array(losses)}


@scenario
def seq2seq(comm, device):
    """Pairs of ranks, an encoder and a decoder, which learn to reverse. All encoders share gradients, and
    all decoders do; each pair has words of its own. A last rank without another one has nothing to do.
    """
    pair = comm.split(comm.rank // 2, comm.rank)
    of_data = comm.split(comm.rank % 2 if pair.size == 2 else 2, comm.rank)
    if pair.size == 1:
        return {}
    encodes = pair.rank == 0
    rng = rng_of("seq2seq", of_data.rank)
    words = [rng.randint(0, 7, n).astype("i") for n in (4, 3, 3)]
    model = chainer.Chain()
    with model.init_scope():
        model.embed = seeded(L.EmbedID(8, 5), "seq2seq", pair.rank)
        model.rnn = chainermn.links.create_multi_node_n_step_rnn(
            seeded(L.NStepLSTM(1, 5, 5, 0.0), "seq2seq rnn", pair.rank),
            pair,
            None if encodes else 0,
            1 if encodes else None,
        )
        model.out = seeded(L.Linear(5, 8), "seq2seq out")
    model.to_device(device)
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.SGD(0.5), of_data)
    optimizer.setup(model)
    losses = []
    for _ in range(5):
        model.cleargrads()
        if encodes:
            *_, delegate = model.rnn([model.embed(device.send(w)) for w in words])
            delegate.backward()
        else:
            targets = [w[::-1] for w in words]
            begun = [np.concatenate([[7], t[:-1]]).astype("i") for t in targets]
            *_, ys, _ = model.rnn([model.embed(device.send(w)) for w in begun])
            t = device.send(np.concatenate(targets))
            loss = F.softmax_cross_entropy(model.out(F.concat(ys, 0)), t)
            losses.append(float(loss.array))
            loss.backward()
        optimizer.update()
    assert encodes or losses[-1] < losses[0]
    return {**values_of(model, device), "losses": np.array(losses)}


@scenario
def functions(comm, device):
    """The differentiable exchanges: results, and gradients of a sum weighted by rank."""
    rng = rng_of("functions", comm.rank)
    host = chainer.get_device("@numpy")
    results = {}

    def check(name, ys, xs):
        ys = [y for y in (ys if isinstance(ys, (tuple, list)) else [ys]) if y.array is not None]
        loss = sum(F.sum(y * y) * (comm.rank + 1) for y in ys)
        loss.backward()
        for i, y in enumerate(ys):
            results[f"{name}_y{i}"] = host.send(y.array)
        for i, x in enumerate(xs):
            results[f"{name}_g{i}"] = host.send(x.grad)

    def variable(*shape):
        return chainer.Variable(device.send(rng.randn(*shape).astype("f")))

    x = variable(2, 3)
    check("allgather", MF.allgather(comm, x), [x])
    xs = tuple(variable(2) for _ in range(comm.size))
    check("alltoall", MF.alltoall(comm, xs), xs)
    root = comm.size - 1
    x = variable(3)
    if comm.rank == root:
        check("bcast", MF.bcast(comm, x, root), [x])
    else:
        check("bcast", MF.bcast(comm, None, root), [])
    x = variable(2, 2)
    check("gather", MF.gather(comm, x, root), [x])
    xs = tuple(variable(2) for _ in range(comm.size))
    if comm.rank == root:
        check("scatter", MF.scatter(comm, xs, root), xs)
    else:
        check("scatter", MF.scatter(comm, None, root), [])
    if comm.size > 1 and comm.rank < 2:
        x = variable(4)
        if comm.rank == 0:
            phi = MF.send(x, comm, 1)
            y = MF.recv(comm, 1, delegate_variable=phi)
            check("send_recv", y, [x])
        else:
            y = MF.recv(comm, 0)
            phi = MF.send(y * x, comm, 0)
            phi.backward()
            results["send_recv_g"] = host.send(x.grad)
    return results


@scenario
def normalization(comm, device):
    """Batch normalization over all ranks' rows."""
    model = chainer.Sequential(L.Linear(6, 5), L.BatchNormalization(5), L.Linear(5, 3))
    model = chainermn.links.create_mnbn_model(seeded(model, "normalization"), comm)
    model.to_device(device)
    rng = rng_of("normalization", comm.rank)
    x = chainer.Variable(device.send(rng.randn(4, 6).astype("f")))
    y = model(x)
    F.sum(y * y).backward()
    host = chainer.get_device("@numpy")
    results = {"y": host.send(y.array), "gx": host.send(x.grad)}
    comm.multi_node_mean_grad(model)
    results.update({name: host.send(p.grad) for name, p in sorted(model.namedparams())})
    persistent = chainermn.extensions.AllreducePersistent(model, comm)
    persistent(None)
    results["mean"] = host.send(model[1].avg_mean)
    results["var"] = host.send(model[1].avg_var)
    return results


@scenario
def sequences(comm, device):
    """A stack of LSTMs whose states go from rank to rank."""
    if comm.size == 1:
        return {}
    rng = rng_of("sequences", comm.rank)
    link = seeded(L.NStepLSTM(2, 4, 4, 0.0), "sequences", comm.rank)
    before = None if comm.rank == 0 else comm.rank - 1
    after = None if comm.rank == comm.size - 1 else comm.rank + 1
    model = chainermn.links.create_multi_node_n_step_rnn(link, comm, before, after)
    model.to_device(device)
    xs = [chainer.Variable(device.send(rng.randn(n, 4).astype("f"))) for n in (3, 2, 2)]
    *_, ys, delegate = model(xs)
    if after is None:
        loss = F.sum(F.concat(ys, 0) ** 2)
        loss.backward()
    else:
        delegate.backward()
    host = chainer.get_device("@numpy")
    results = {name: host.send(p.grad) for name, p in sorted(model.namedparams())}
    return {**results, "y": host.send(F.concat(ys, 0).array)}


@scenario
def iterators(comm, device, out):
    """Multi-node iterators, a trigger and a checkpoint."""
    own = chainer.iterators.SerialIterator(np.arange(10.0, dtype="f"), 4, shuffle=False)
    iterator = chainermn.iterators.create_multi_node_iterator(own, comm)
    batches = [np.array(iterator.next()) for _ in range(4)]
    synchronized = chainermn.iterators.create_synchronized_iterator(
        chainer.iterators.SerialIterator(list(range(8)), 8), comm
    )
    order = np.array(synchronized.next())
    assert len(set(comm.allreduce_obj([tuple(order)]))) == 1
    begin, end = chainermn.scatter_index(11, comm)
    model = seeded(MLP(4, 2, 3), "iterators", comm.rank)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        checkpointer = chainermn.create_multi_node_checkpointer("run", comm, path=out)
    for i in range(2):
        checkpointer.save(model, i)
    other = MLP(4, 2, 3)
    checkpointer.maybe_load(other)
    for a, b in zip(model.params(), other.params()):
        assert (a.array == b.array).all()
    empty = chainermn.datasets.create_empty_dataset(list(range(3)))
    return {"batches": np.concatenate(batches), "part": np.array([begin, end, len(empty)])}


def main():
    kind, out = sys.argv[1:3]
    if kind == "mpi":
        from chainermn.communicators.naive_communicator import NaiveCommunicator
        from mpi4py import MPI

        comm, device = NaiveCommunicator(MPI.COMM_WORLD), chainer.get_device("@numpy")
    else:
        comm = chainermn.create_communicator("flat")
        device = chainer.get_device("native:0")
    device.use()
    results = {}
    for name, function in SCENARIOS.items():
        arguments = (comm, device, out)[: function.__code__.co_argcount]
        np.random.seed(0)
        got = function(*arguments)
        results.update({f"{name}/{key}": value for key, value in got.items()})
    if kind == "chx":
        stale = train(
            chainermn.create_communicator("pure_nccl"), device, out, double_buffering=True
        )
        assert all(np.isfinite(value).all() for value in stale.values())
        comm.finalize()
    np.savez(f"{out}/{comm.rank}.npz", **results)


if __name__ == "__main__":
    main()
