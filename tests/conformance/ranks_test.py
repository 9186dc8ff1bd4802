"""Collectives of 2, 3 and 4 ranks against NumPy: values, dtypes, layouts and gradients."""

import chx
import ml_dtypes
import numpy as np
import pytest

from .ranks import World, reduced

FLOATS = ("float16", "bfloat16", "float32", "float64")
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", *FLOATS)
REDUCTIONS = ("sum", "mean", "max", "min", "prod")


@pytest.fixture(scope="module", params=(2, 3, 4))
def world(request):
    with chx.connect():
        made = World(request.param)
        yield made
        made.close()


def dtype_of(name):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def random(rng, shape, dtype):
    if dtype == "bool":
        return rng.random(shape) < 0.5
    x = rng.uniform(-3, 3, shape) if dtype in FLOATS else rng.integers(0, 5, shape)
    x = np.asarray(x).astype(dtype_of(dtype))
    if dtype in FLOATS and x.size > 2:
        x.reshape(-1)[1] = np.nan  # of one rank only, as the others draw other places
        x.reshape(-1)[rng.integers(x.size)] = np.inf
    return x


def same(got, want):
    got = chx.to_numpy(got)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.dtype == ml_dtypes.bfloat16:  # in which NumPy takes NaNs for different
        got, want = got.astype("float32"), want.astype("float32")
    np.testing.assert_array_equal(got, want)


# Each: (call, reference). The call of one rank; what all ranks get of xs, by NumPy. Arrays of the
# second kind have a row for each rank.
def plain(size):
    d = chx.distributed
    root = size - 1
    nothing = [np.empty(0)] * root
    found = {
        f"all_reduce-{op}": (
            lambda x, rank, op=op: d.all_reduce(x, op),
            lambda xs, op=op: [reduced(xs, op)] * size,
        )
        for op in REDUCTIONS
    }
    return found | {
        "reduce": (lambda x, rank: d.reduce(x, root), lambda xs: [*nothing, reduced(xs, "sum")]),
        "reduce-mean": (
            lambda x, rank: d.reduce(x, root, "mean"),
            lambda xs: [*nothing, reduced(xs, "mean")],
        ),
        "broadcast": (lambda x, rank: d.broadcast(x, root), lambda xs: [xs[root]] * size),
        "all_gather": (lambda x, rank: d.all_gather(x), lambda xs: [np.stack(xs)] * size),
        "gather": (lambda x, rank: d.gather(x, root), lambda xs: [*nothing, np.stack(xs)]),
        "send_recv": (
            lambda x, rank: d.send_recv(x, (rank + 1) % size, (rank - 1) % size),
            lambda xs: [xs[rank - 1] for rank in range(size)],
        ),
    }


def with_rows(size):
    d = chx.distributed
    found = {
        f"reduce_scatter-{op}": (
            lambda x, rank, op=op: d.reduce_scatter(x, op),
            lambda xs, op=op: list(reduced(xs, op)),
        )
        for op in REDUCTIONS
    }
    return found | {
        # The others give an array like a row.
        "scatter": (
            lambda x, rank: d.scatter(x if rank == 1 else x[0], 1),
            lambda xs: [np.asarray(row) for row in xs[1]],
        ),
        "all_to_all": (
            lambda x, rank: d.all_to_all(x),
            lambda xs: [np.stack([x[rank] for x in xs]) for rank in range(size)],
        ),
    }


def check(world, call, reference, xs, layout=lambda x: x):
    laid_out = [layout(x) for x in xs]
    got = world.run(lambda rank: call(layout(chx.array(xs[rank])), rank))
    with np.errstate(all="ignore"):
        want = reference(laid_out)
    for rank, (g, w) in enumerate(zip(got, want, strict=True)):
        if w.shape == (0,) and laid_out[rank].shape != (0,):
            assert g.shape == (0,)
        else:
            same(g, np.asarray(w))


def refuses_bool(name):
    return any(word in name for word in ("sum", "mean", "prod")) or name == "reduce"


def cases(size):
    return [
        (name, case, prefix)
        for group, prefix in ((plain(size), ()), (with_rows(size), (size,)))
        for name, case in group.items()
    ]


def test_dtypes_and_shapes(world):
    rng = np.random.default_rng(1)
    for name, (call, reference), prefix in cases(world.size):
        for dtype in DTYPES:
            if dtype == "bool" and refuses_bool(name):
                continue
            for shape in ((), (5,), (0, 2), (3, 4)):
                xs = [random(rng, prefix + shape, dtype) for _ in range(world.size)]
                check(world, call, reference, xs)


def test_layouts(world):
    rng = np.random.default_rng(2)
    for _name, (call, reference), prefix in cases(world.size):
        for layout in (
            lambda x: x[..., ::-1],
            lambda x: x[..., ::-2],
            lambda x: x.swapaxes(-1, -2),
            lambda x: x[..., 1:],
        ):
            xs = [random(rng, (*prefix, 4, 4), "float32") for _ in range(world.size)]
            check(world, call, reference, xs, layout)


def test_messages(world):
    """Ranks send before any receives, and receive by tag."""
    d = chx.distributed

    def run(rank):
        others = [peer for peer in range(world.size) if peer != rank]
        sent = [
            d.send(chx.full((tag + 1,), float(10 * rank + i)), peer, tag)
            for peer in others
            for i in range(2)
            for tag in (0, 7)
        ]
        assert all(nothing.shape == (0,) for nothing in sent)
        for peer in reversed(others):
            for tag in (7, 0):
                for i in range(2):
                    got = d.recv(chx.empty((tag + 1,), "float32"), peer, tag)
                    assert got.tolist() == [10.0 * peer + i] * (tag + 1)

    world.run(run)


def test_large_arrays(world):
    """More than one thread works on them."""
    rng = np.random.default_rng(3)
    for name, (call, reference), prefix in cases(world.size):
        if name in ("all_reduce-sum", "all_gather", "reduce_scatter-mean", "all_to_all"):
            shape = (world.size, 100_003) if prefix else (300_007,)
            xs = [rng.random(shape, dtype="float32") for _ in range(world.size)]
            check(world, call, reference, xs)


def test_lists(world):
    rng = np.random.default_rng(4)
    shapes = ((3,), (), (0,), (2, 5))
    xs = [[random(rng, s, "float32") for s in shapes] for _ in range(world.size)]
    got = world.run(
        lambda rank: chx.distributed.all_reduce([chx.array(x) for x in xs[rank]], "mean")
    )
    for results in got:
        for i, result in enumerate(results):
            same(result, reduced([x[i] for x in xs], "mean"))
    assert world.run(lambda rank: chx.distributed.all_reduce([])) == [[]] * world.size
    one = world.run(lambda rank: chx.distributed.all_reduce([chx.ones(2)]))
    assert all(isinstance(o, list) and o[0].tolist() == [world.size] * 2 for o in one)


def flat(arrays):
    return np.concatenate([np.ravel(a) for a in arrays])


class Reference:
    """The gradient of the sum of all ranks' losses, sum(w y^2), of all ranks' inputs at once."""

    def __init__(self, reference, shapes, w):
        self.reference, self.shapes, self.w = reference, shapes, w
        self.ends = np.cumsum([int(np.prod(s)) for s in shapes])[:-1]

    def y(self, x):
        parts = np.split(x, self.ends)
        return flat(self.reference([p.reshape(s) for p, s in zip(parts, self.shapes)]))

    def gradient(self, x, h=1e-4):
        # Each output is linear in each one input, near x.
        columns = [(self.y(x + h * e) - self.y(x - h * e)) / (2 * h) for e in np.eye(len(x))]
        return np.stack(columns) @ (2 * self.w * self.y(x))

    def second(self, x, v, h=1e-5):
        return (self.gradient(x + h * v) - self.gradient(x - h * v)) / (2 * h)


def check_gradients(world, name, call, reference, shapes):
    rng = np.random.default_rng(5)
    xs = [rng.uniform(-1, 1, s) for s in shapes]
    vs = [rng.uniform(-1, 1, s) for s in shapes]
    ws = [rng.uniform(-1, 1, y.shape) for y in reference(xs)]

    def gradients(rank):
        x = chx.array(xs[rank]).require_grad()
        y = call(x, rank)
        loss = chx.sum(chx.array(ws[rank]) * y * y)
        (first,) = chx.grad([loss], [x], enable_double_backprop=True)
        (second,) = chx.grad([chx.sum(first * chx.array(vs[rank]))], [x])
        return chx.to_numpy(first), chx.to_numpy(second)

    got = world.run(gradients)
    expected = Reference(reference, shapes, flat(ws))
    for values, want in zip(
        (flat(g[0] for g in got), flat(g[1] for g in got)),
        (expected.gradient(flat(xs)), expected.second(flat(xs), flat(vs))),
        strict=True,
    ):
        np.testing.assert_allclose(values, want, rtol=1e-5, atol=1e-6, err_msg=name)


def test_gradients_of_ties_and_zeros(world):
    """As amax and prod have them: all that is greatest; and the product of the others."""

    def run(rank):
        x = chx.array([3.0, float(rank), 0.0 if rank == 0 else 2.0], dtype="float64").require_grad()
        found = []
        for op in ("max", "prod"):
            y = chx.distributed.all_reduce(x, op)
            (grad,) = chx.grad([chx.sum(y)], [x])
            found.append(grad.tolist())
        return found

    n = world.size
    for rank, (greatest, product) in enumerate(world.run(run)):
        assert greatest == [n, n * (rank == n - 1), n * (rank > 0 or n == 1)]
        ranks = np.arange(n, dtype="float64")
        others = [3.0 ** (n - 1), np.prod(np.delete(ranks, rank)), 0.0 if rank else 2.0 ** (n - 1)]
        np.testing.assert_allclose(product, n * np.array(others))


def test_gradients(world):
    """Of the sum of all ranks' losses, sum(w y^2), and of its gradients."""
    for name, (call, reference), prefix in cases(world.size):
        shapes = [(*prefix, 2)] * world.size
        if name == "scatter":  # as its call makes them
            shapes = [(world.size, 2) if rank == 1 else (2,) for rank in range(world.size)]
            call = scatter_from_1
        check_gradients(world, name, call, reference, shapes)


def scatter_from_1(x, rank):
    return chx.distributed.scatter(x, 1)


def test_groups(world):
    """A group in which a backward pass has failed is broken."""
    d = chx.distributed

    def run(rank):
        x = chx.ones(2).require_grad()
        failed = chx.take(chx.ones(2), chx.array([5]), axis=0)
        chx.grad([chx.sum(d.all_reduce(x)) + chx.sum(failed)], [x])
        with pytest.raises(chx.ContextError, match="has not finished a backward pass"):
            d.all_reduce(chx.ones(1)).tolist()
        d.destroy()
        with pytest.raises(chx.ContextError, match="expects chx.distributed.init"):
            d.get_rank()
        group = d.init(rank, world.size, name="again")
        assert (d.get_rank(), d.get_size()) == (rank, world.size)
        with pytest.raises(ValueError, match="without a default group"):
            d.init(rank, world.size)
        d.barrier()
        # The first two ranks, in the other order, and all of them beside the default one.
        pair = d.new_group([1, 0])
        every = d.new_group(range(world.size), name="every")
        assert (pair is None) == (rank > 1)
        x = chx.full((2,), float(rank))
        if pair is not None:
            assert (d.get_rank(pair), d.get_size(pair)) == (1 - rank, 2)
            assert d.all_gather(x, group=pair)[0].tolist() == [1.0, 1.0]
            d.barrier(pair)
        total = float(sum(range(world.size)))
        assert d.all_reduce(x, group=every).tolist() == [total, total]
        assert d.all_reduce(x, group=group).tolist() == [total, total]
        with pytest.raises(ValueError, match="expects different ranks"):
            d.new_group([0, 0])
        d.barrier()
        d.destroy(every)
        assert d.all_reduce(x).tolist() == [total, total]

    world.run(run)


def test_recorded_steps(world):
    """A plan of a jitted function has its collectives, and backward passes'."""

    def run(rank):
        w = chx.zeros(3).require_grad()
        optimizer = chx.optimizers.SGD(lr=0.5).setup([w])

        @chx.jit
        def step(x):
            loss = chx.sum(chx.square(w - x))
            loss.backward()
            w.set_grad(chx.distributed.all_reduce(w.grad, "mean"))
            optimizer.update()
            w.cleargrad()
            return loss

        for i in range(4):
            step(chx.full((3,), float(rank + i)))
        assert "all_reduce" in step.explain()
        assert "by its commands" not in step.explain()
        return w.tolist()

    want = np.zeros(3)
    for i in range(4):
        want -= 0.5 * np.mean([2 * (want - (rank + i)) for rank in range(world.size)], axis=0)
    for got in world.run(run):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_plans_have_each_collective(world):
    """Also those whose results nobody uses, or that look like others: the ranks stay in step."""

    def run(rank):
        def step(x):
            chx.distributed.all_reduce(x)
            first = chx.distributed.all_reduce(x * 2)
            second = chx.distributed.all_reduce(x * 2)
            return first + second, chx.distributed.all_gather(x)

        # The first rank goes by commands.
        jitted = step if rank == 0 else chx.jit(step)
        results = [jitted(chx.full((5,), float(rank + i))) for i in range(3)]
        return [(both.tolist(), rows.tolist()) for both, rows in results]

    for got in world.run(run):
        for i, (both, rows) in enumerate(got):
            numbers = [float(rank + i) for rank in range(world.size)]
            assert both == [4 * sum(numbers)] * 5
            assert rows == [[number] * 5 for number in numbers]


def test_a_plan_that_fails(world):
    """At one rank, before its collectives: the others learn it, and all go on."""

    def run(rank):
        @chx.jit
        def step(x, labels):
            loss = chx.sum(chx.softmax_cross_entropy(x, labels))
            total = chx.distributed.all_reduce(loss)
            return total, chx.distributed.all_reduce(total)

        x = chx.zeros((2, 4), "float32")
        said = []
        for labels in ([0, 1], [2, 3], [0, 9 if rank == 1 else 1], [1, 1]):
            try:
                said.append([a.item() for a in step(x, chx.array(labels))])
            except IndexError as error:
                said.append(str(error).splitlines()[0])
        assert "all_reduce" in step.explain()
        return said

    total = world.size * 2 * np.log(4)
    for rank, said in enumerate(world.run(run)):
        for works in (0, 1, 3):
            np.testing.assert_allclose(said[works], [total, world.size * total], rtol=1e-5)
        assert ("got 9" if rank == 1 else "rank 1") in said[2]


def test_large_collectives_go_on_beside_other_steps(world):
    """Until what they read is written, or what they write is used."""
    shape = (200, 200)

    def run(rank):
        w = chx.full(shape, float(rank))
        y = chx.full(shape, 1 / 200)

        @chx.jit
        def step(x):
            total = chx.distributed.all_reduce(w)
            rows = chx.distributed.all_gather(x)
            z = y.dot(x.dot(y))  # of ones: x's element
            w.__iadd__(z)
            return total + z, rows[0] * 2

        results = []
        for i in range(4):
            both, first = step(chx.full(shape, float(i)))
            results.append((both[3, 5].item(), first[7, 0].item(), w[1, 1].item()))
        assert "go on while other steps run: 2" in step.explain()
        return results

    total = sum(range(world.size))
    for rank, results in enumerate(world.run(run)):
        added = 0.0
        for i, got in enumerate(results):
            want = (total + world.size * added + i, 2 * i, rank + added + i)
            np.testing.assert_allclose(got, want, rtol=1e-5)
            added += i


def test_large_messages_in_plans(world):
    def run(rank):
        d = chx.distributed
        after, before = (rank + 1) % world.size, (rank - 1) % world.size

        @chx.jit
        def step(x):
            d.send(x, rank)
            d.send(x * 2, after)
            own = d.recv(x, rank)
            got = d.recv(x, before)
            total = d.all_reduce(got)
            return own + chx.tanh(x), total

        x = chx.full(40000, float(rank))
        results = [step(x) for _ in range(3)]
        return [(own[-1].item(), total[0].item()) for own, total in results]

    for rank, results in enumerate(world.run(run)):
        total = 2 * sum(range(world.size))
        np.testing.assert_allclose(results, [(rank + np.tanh(rank), total)] * 3, rtol=1e-6)


def test_a_plan_that_fails_beside_a_collective(world):
    """What has begun ends at all ranks; they learn of the failure at the next one, and go on."""

    def run(rank):
        @chx.jit
        def step(x, y, labels):
            total = chx.distributed.all_reduce(x)
            loss = chx.sum(chx.softmax_cross_entropy(y.dot(y), labels))
            return chx.sum(total), chx.distributed.all_reduce(loss)

        x, y = chx.ones(40000), chx.zeros((4, 4))
        said = []
        for label in (0, 1, 9 if rank == 1 else 1, 1):
            try:
                said.append([a.item() for a in step(x, y, chx.array([label] * 4))])
            except IndexError as error:
                said.append(str(error).splitlines()[0])
        assert "go on while other steps run: 1" in step.explain()
        return said

    want = [40000.0 * world.size, world.size * 4 * np.log(4)]
    for rank, said in enumerate(world.run(run)):
        for works in (0, 1, 3):
            np.testing.assert_allclose(said[works], want, rtol=1e-5)
        assert ("got 9" if rank == 1 else "rank 1") in said[2]


def test_windows_that_repeat(world):
    """A step that is sent again and again is no plan where it waits for others."""

    def run(rank):
        x = chx.full((8,), float(rank + 1))
        w = chx.zeros(8)
        for _ in range(60):
            w = w * 0.5 + chx.distributed.all_reduce(x * 2.0)
        return w.tolist()

    total = 2.0 * sum(range(1, world.size + 1))
    want = 0.0
    for _ in range(60):
        want = want * 0.5 + total
    for got in world.run(run):
        np.testing.assert_allclose(got, [want] * 8, rtol=1e-6)
