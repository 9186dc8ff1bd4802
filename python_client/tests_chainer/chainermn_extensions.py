"""Scenarios of chainermn_ranks.py: extensions of trainers, gradients by communicators' names, graphs."""

import os
import shutil

import chainer
import chainer.functions as F
import chainermn
import chainermn.functions as MF
import numpy as np
from chainer import training
from chainer.training import extensions
from chainermn_common import MLP, points, rng_of, scenario, seeded, values_of

HOST = chainer.get_device("@numpy")


def number(x):
    """Of a variable, an array or a number."""
    return float(HOST.send(x.array if isinstance(x, chainer.Variable) else x))


def again(comm):
    """Another communicator of the same ranks."""
    if hasattr(comm, "mpi_comm"):
        return type(comm)(comm.mpi_comm)
    return chainermn.create_communicator("naive")


class Reporting(chainer.Chain):
    """Reports its loss, and what `values` gives for each iteration.

    As a variable on chx. On NumPy as an array: ChainerMN's ObservationAggregator sends variables to
    ChainerX's "native" before it sends them to others.
    """

    def __init__(self, values):
        super().__init__()
        with self.init_scope():
            self.mlp = MLP(5, 3, 6)
        self.values = iter(values)

    def forward(self, x, t):
        loss = F.softmax_cross_entropy(self.mlp(x), t)
        given = F.sum(loss * 0) + next(self.values)
        for name, value in (("loss", loss), ("given", given)):
            local = isinstance(value.array, np.ndarray)
            chainer.report({name: value.array.copy() if local else value}, self)
        return loss


def trainer_of(comm, device, out, name, values=None, stop=(9, "iteration")):
    """Each rank trains for itself, with the rows from its number on."""
    model = seeded(Reporting(range(1000) if values is None else values), name, comm.rank)
    model.to_device(device)
    optimizer = chainer.optimizers.MomentumSGD(0.1).setup(model)
    iterator = chainer.iterators.SerialIterator(points(24)[comm.rank :], 4, shuffle=False)
    updater = training.updaters.StandardUpdater(iterator, optimizer, device=device)
    return training.Trainer(updater, stop, out=out)


@scenario
def observations(comm, device, out):
    """Means over all ranks: of each iteration, in the same place, and of three, by another name."""
    trainer = trainer_of(comm, device, out, "observations")
    aggregator = chainermn.extensions.ObservationAggregator
    trainer.extend(aggregator(comm, "main/loss"), name="mean")
    trainer.extend(
        aggregator(
            comm, "main/given", "largest", comm_trigger=(3, "iteration"), aggregator=largest
        ),
        name="largest",
    )
    seen = {"main/loss": [], "largest": []}

    @training.make_extension(trigger=(1, "iteration"), priority=extensions.LogReport.priority)
    def look(trainer):
        for key, values in seen.items():
            values.append(number(trainer.observation.get(key, -1.0)))

    trainer.extend(look)
    trainer.run()
    assert len(set(comm.allreduce_obj([tuple(seen["main/loss"])]))) == 1
    return {key: np.array(values) for key, values in seen.items()}


def largest(histories):
    """An aggregator: of all ranks' values since the last time, with their number."""
    values = [number(value) for history in histories for value in history]
    return 100 * len(values) + max(values)


@scenario
def stopping_early(comm, device, out):
    """All ranks stop at one iteration, by the mean of values that would stop each at another one."""
    values = rng_of("stopping_early", comm.rank).rand(60) + 3.0 / (1 + np.arange(60))
    values += (np.arange(60) > 10 + 5 * comm.rank) * np.arange(60) / 20
    trigger = chainermn.extensions.MultiNodeEarlyStoppingTrigger(
        comm,
        check_trigger=(2, "iteration"),
        monitor="main/given",
        patience=3,
        max_trigger=(60, "iteration"),
    )
    trainer = trainer_of(comm, device, out, "stopping_early", values, trigger)
    trainer.run()
    stopped = trainer.updater.iteration
    assert 6 <= stopped < 60
    assert set(comm.allreduce_obj([stopped])) == {stopped}
    return {
        "stopped": np.array(stopped),
        **values_of(trainer.updater.get_optimizer("main").target, device),
    }


@scenario
def snapshots(comm, device, out):
    """One rank of each set of ranks writes them; all ranks of the set go on from its parameters."""
    results = {}
    for i, sets in enumerate(([], [0], [range(comm.size)])):
        folder = os.path.join(out, f"snapshots {i}")
        if comm.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)  # of what ran before
        for stop in (5, 7):
            trainer = trainer_of(comm, device, folder, "snapshots", stop=(stop, "iteration"))
            snapshot = extensions.snapshot(
                filename="at-{.updater.iteration}", autoload=True, n_retains=1
            )
            snapshot = chainermn.extensions.multi_node_snapshot(comm, snapshot, sets)
            trainer.extend(snapshot, trigger=(2, "iteration"))
            made = []

            @training.make_extension(trigger=(1, "iteration"))
            def count(trainer, made=made):
                made.append(trainer.updater.iteration)

            trainer.extend(count)
            comm.allreduce_obj(0)  # all have written what they write
            trainer.run()
        assert made == [5, 6, 7]
        comm.allreduce_obj(0)
        masters = {0, 1} if sets == [0] and comm.size > 1 else {0}
        assert set(os.listdir(folder)) == {f"at-6.{rank}" for rank in masters}
        model = trainer.updater.get_optimizer("main").target
        results.update({f"{i} {name}": x for name, x in values_of(model, device).items()})
    return results


class Errors(chainermn.extensions.GenericMultiNodeEvaluator):
    """Which rows are taken for another class, and the largest loss of one: no means."""

    def calc_local(self, x, t):
        y = self._targets["main"](x)
        losses = F.softmax_cross_entropy(y, t, reduce="no")
        found = HOST.send(y.array).argmax(1)
        return found, HOST.send(t), number(F.max(losses))

    def aggregate(self, results):
        found, right, losses = zip(*results)
        return np.concatenate(found), np.concatenate(right), max(losses)


@scenario
def evaluators(comm, device):
    """Of numbers of rows that differ: rank r has more minibatches than rank r - 1; at each root."""
    model = seeded(MLP(4, 3, 6), "evaluators").to_device(device)
    rows = points(60)[: 7 + 13 * comm.rank]
    results = {}
    for root in range(comm.size):
        iterator = chainer.iterators.SerialIterator(rows, 4, repeat=False, shuffle=False)
        seen = []
        evaluator = Errors(
            comm, iterator, model, device=device, root=root, progress_hook=seen.append
        )
        for _ in range(2):  # iterators begin anew
            got = evaluator(None)
        assert (got is None) == (comm.rank != root)
        assert len(seen) == (2 * -(-len(rows) // 4) if comm.rank == root else 0)
        if got is not None:
            assert len(got[0]) == sum(7 + 13 * rank for rank in range(comm.size))
            results.update({f"{root} {i}": np.array(x) for i, x in enumerate(got)})
    # What it does if nothing is overridden: rank 0 gets all that the target gives.
    inputs = [x for x, _ in rows]
    iterator = chainer.iterators.SerialIterator(inputs, 4, repeat=False, shuffle=False)
    plain = chainermn.extensions.GenericMultiNodeEvaluator(comm, iterator, model, device=device)
    got = plain(None)
    if comm.rank == 0:
        results["plain"] = np.concatenate([HOST.send(y.array) for y in got])
    return results


#: As chx.chainermn has them, which a process without chx does not know.
NAMES = ["naive", "flat", "hierarchical", "two_dimensional", "single_node"]
NAMES += ["non_cuda_aware", "pure_nccl", "dummy"]


@scenario
def mean_gradients(comm, device):
    """By each name what `naive` computes, the only one that ChainerMN has without CuPy; but `dummy`."""
    results = {}
    for name in NAMES:
        named = comm
        if device.xp is not np:
            named = chainermn.create_communicator(name)
            if name == "pure_nccl":
                named.set_config("allreduce_grad_dtype", "float16")
        for zero_fill in (False, True):
            model = chainer.Chain()
            with model.init_scope():
                for dtype in ("f", "d", "e"):
                    setattr(model, dtype, chainer.Parameter(np.zeros((3, 2), dtype)))
                model.lacking = chainer.Parameter(np.zeros(4, "f"))
                model.unknown = chainer.Parameter()  # has no shape yet
            model.to_device(device)
            for param in (model.f, model.d, model.e):
                # Small multiples of the size: also the sums and means in float16 are exact.
                grad = rng_of("mean_gradients", comm.rank).randint(-9, 9, (3, 2)) * comm.size
                param.grad = device.send(grad.astype(param.dtype))
            if zero_fill and comm.rank == 0:
                model.lacking.grad = device.send(np.full(4, comm.size, "f"))
            if device.xp is not np or name != "dummy":
                named.multi_node_mean_grad(model, zero_fill)
            elif zero_fill:
                model.lacking.grad = np.full(4, comm.size * (comm.rank == 0), "f")
            assert (model.lacking.grad is None) != zero_fill
            for key, param in sorted(model.namedparams()):
                if param.is_initialized and param.grad is not None:
                    results[f"{name} {zero_fill} {key}"] = HOST.send(param.grad)
    return results


@scenario
def connections(comm, device):
    """pseudo_connect(): the variables' values, and their gradients and those behind the delegate."""
    if comm.size == 1:
        return {}
    rng = rng_of("connections", comm.rank)

    def variable(*shape):
        return chainer.Variable(device.send(np.asarray(rng.randn(*shape), "f")))

    results = {}
    if comm.rank == 0:
        sent, a, b = variable(3), variable(2, 2), variable()
        connected = MF.pseudo_connect(MF.send(sent, comm, 1, 5), a, b)
        assert [y.shape for y in connected] == [(2, 2), ()]
        (F.sum(connected[0] ** 2) + connected[1] * 3).backward()
        results = {"a": connected[0], "b": connected[1]}
        results.update({"sent_g": sent.grad_var, "a_g": a.grad_var, "b_g": b.grad_var})
    elif comm.rank == 1:
        own = variable(3)
        F.sum(MF.recv(comm, 0, tag=5) * own).backward()
        results = {"own_g": own.grad_var}
    alone = variable(2)  # without a delegate
    (y,) = MF.pseudo_connect(None, alone)
    F.sum(y * y).backward()
    results.update({"y": y, "alone_g": alone.grad_var})
    return {key: HOST.send(y.array) for key, y in results.items()}


@scenario
def two_communicators(comm, device):
    """Of the same ranks, which receive in another order than is sent: ChainerMN's objects only, as
    each of its arrays waits for its receiver.
    """
    comms = [again(comm), again(comm)]
    if comm.size == 1 or comm.rank > 1:
        return {}
    rng = rng_of("two_communicators", comm.rank)
    xs = [chainer.Variable(device.send(rng.randn(3).astype("f"))) for _ in comms]
    if comm.rank == 0:
        for i in (0, 1):
            comms[i].send_obj(f"message {i}", 1, tag=i)
        sent = [MF.send(xs[i], comms[i], 1, 2 + i) for i in (0, 1)]
        for i in (0, 1):
            F.sum(sent[i]).backward()
        return {f"gx{i}": HOST.send(xs[i].grad) for i in (0, 1)}
    for i in (1, 0):
        assert comms[i].recv_obj(0, tag=i) == f"message {i}"
    order = (0, 1) if device.xp is np else (1, 0)
    got = {i: MF.recv(comms[i], 0, tag=2 + i) for i in order}
    for i in order:
        F.sum(got[i] * xs[i]).backward()
    results = {f"y{i}": HOST.send(got[i].array) for i in order}
    return {**results, **{f"gx{i}": HOST.send(xs[i].grad) for i in order}}
