"""Cases of op_bench.py: what models of today are made of."""

import chx
import numpy as np
import torch
import torch.nn.functional as F
from op_attention_cases import attentions
from op_case import Case, distinct, integers, normal, positive
from torch.utils.checkpoint import checkpoint


def model_cases():
    yield from normalizations_of_rows()
    yield from attentions()
    yield from classes()
    yield from losses()
    yield from embeddings()
    yield from selections()
    yield from images()
    yield from segments()
    yield from recurrent()
    yield from narrow()


def normalizations_of_rows():
    """What normalizes each sample by itself. PyTorch has rms_norm since 2.4."""
    names = ["layer_norm"] + (["rms_norm"] if hasattr(F, "rms_norm") else [])
    for n, width in ((1, 64), (64, 768), (4096, 1024)):
        make = lambda n=n, w=width: [normal(n, w), positive(w), normal(w)]  # noqa: E731
        for name in names:
            parameters = 2 if name == "layer_norm" else 1
            call = lambda f, w=width, p=parameters: (  # noqa: E731
                lambda x, *a: f(x, (w,), *a[:p], eps=1e-5))  # fmt: skip
            sides = call(getattr(chx, name)), call(getattr(F, name))
            yield Case("layer", name, f"{n} x {width}", make, *sides, rtol=1e-4)
            yield Case("layer", f"{name}, gradients", f"{n} x {width}", make, *sides,
                       wrt=tuple(range(1 + parameters)), rtol=1e-3)  # fmt: skip
    for n, c, side in ((8, 64, 56), (8, 512, 7)):
        make = lambda n=n, c=c, s=side: [normal(n, c, s, s), positive(c), normal(c)]  # noqa: E731
        for name, ours, theirs in (
            ("group_norm", lambda x, w, b: chx.group_norm(x, 32, w, b),
             lambda x, w, b: F.group_norm(x, 32, w, b)),
            ("instance_norm", lambda x, w, b: chx.instance_norm(x, w, b),
             lambda x, w, b: F.instance_norm(x, weight=w, bias=b)),
        ):  # fmt: skip
            size = f"{n} x {c} x {side}^2"
            yield Case("layer", name, size, make, ours, theirs, rtol=1e-3)
            yield Case("layer", name + ", gradients", size, make, ours, theirs, wrt=(0, 1, 2),
                       rtol=1e-3)  # fmt: skip


def classes():
    """Losses of classification."""
    ours = chx.softmax_cross_entropy
    theirs = lambda x, t: F.cross_entropy(x, t, reduction="none")  # noqa: E731
    for n, c in ((1, 10), (100, 10), (256, 1000), (100, 100_000)):
        make = lambda n=n, c=c: [normal(n, c), integers(c, n)]  # noqa: E731
        yield Case("layer", "softmax_cross_entropy", f"{n} x {c}", make, ours, theirs, rtol=1e-4)
        yield Case("layer", "softmax_cross_entropy, gradient", f"{n} x {c}", make, ours, theirs,
                   wrt=(0,), rtol=1e-4)  # fmt: skip
    smooth = [
        lambda x, t, f=f: f(x, t, label_smoothing=0.1) for f in (chx.cross_entropy, F.cross_entropy)
    ]
    for n, c in ((100, 10), (256, 1000), (100, 100_000)):
        make = lambda n=n, c=c: [normal(n, c), integers(c, n)]  # noqa: E731
        for name, pair in (("cross_entropy", (chx.cross_entropy, F.cross_entropy)),
                           ("cross_entropy, smooth", smooth),
                           ("nll_loss", (chx.nll_loss, F.nll_loss))):  # fmt: skip
            yield Case("layer", name, f"{n} x {c}", make, *pair, rtol=1e-4)
            yield Case("layer", name + ", gradient", f"{n} x {c}", make, *pair, wrt=(0,),
                       rtol=1e-4)  # fmt: skip
        weighted = [lambda x, t, w, f=f: f(x, t, w) for f in (chx.cross_entropy, F.cross_entropy)]
        make = lambda n=n, c=c: [normal(n, c), integers(c, n), positive(c)]  # noqa: E731
        for suffix, wrt in (("", ()), (", gradient", (0,))):
            yield Case("layer", f"cross_entropy, weights{suffix}", f"{n} x {c}", make, *weighted,
                       wrt=wrt, rtol=1e-4)  # fmt: skip


def losses():
    """Losses of distances and distributions."""
    huber = (
        lambda x, t: chx.mean(chx.huber_loss(x, t, 1.0)),
        lambda x, t: F.huber_loss(x, t),
    )
    divergence = [lambda x, t, f=f: f(x, t, reduction="batchmean") for f in (chx.kl_div, F.kl_div)]
    for n, c in ((1, 10), (100, 100), (1000, 1000)):
        make = lambda n=n, c=c: [normal(n, c), positive(n, c)]  # noqa: E731
        for name, pair in (("kl_div", divergence), ("huber_loss, mean", huber)):
            yield Case("layer", name, f"{n} x {c}", make, *pair, rtol=1e-4)
            yield Case("layer", name + ", gradient", f"{n} x {c}", make, *pair, wrt=(0,),
                       rtol=1e-4)  # fmt: skip
    for steps, n, c, s in ((50, 16, 30, 10), (200, 16, 100, 30)):
        make = lambda t=steps, n=n, c=c, s=s: [  # noqa: E731
            normal(t, n, c), 1 + integers(c - 1, n, s), np.full(n, t), np.full(n, s)]  # fmt: skip
        ours = lambda x, *ts: chx.ctc_loss(chx.log_softmax(x, 2), *ts)  # noqa: E731
        theirs = lambda x, *ts: F.ctc_loss(F.log_softmax(x, 2), *ts)  # noqa: E731
        size = f"{steps} x {n} x {c}, {s} labels"
        yield Case("layer", "ctc_loss", size, make, ours, theirs, rtol=1e-4)
        yield Case("layer", "ctc_loss, gradient", size, make, ours, theirs, wrt=(0,), rtol=1e-3)


def embeddings():
    for n, v, d in ((100, 1000, 64), (4096, 50_000, 256)):
        make = lambda n=n, v=v, d=d: [integers(v, n), normal(v, d)]  # noqa: E731
        size = f"{n} of {v} x {d}"
        yield Case("layer", "embedding", size, make, chx.embedding, F.embedding)
        yield Case("layer", "embedding, gradient", size, make, chx.embedding, F.embedding,
                   wrt=(1,), rtol=1e-4)  # fmt: skip
    for n, c in ((100, 10), (1000, 1000)):
        yield Case("layer", "one_hot", f"{n} of {c}", lambda n=n, c=c: [integers(c, n)],
                   lambda x, c=c: chx.one_hot(x, c, "int64"),
                   lambda x, c=c: F.one_hot(x, c))  # fmt: skip


def selections():
    for n, c in ((1, 10), (100, 1000), (1000, 10_000)):
        size = f"{n} x {c}"
        one = lambda n=n, c=c: [normal(n, c)]  # noqa: E731
        apart = lambda n=n, c=c: [distinct(n, c)]  # noqa: E731
        masked = lambda n=n, c=c: [normal(n, c), normal(n, c) > 0]  # noqa: E731
        moved = lambda n=n, c=c: [normal(n, c), integers(n, n, c), positive(n, c)]  # noqa: E731
        tops = lambda a: chx.topk(a, 10)[0], lambda a: torch.topk(a, 10)[0]
        fills = (
            lambda x, m: chx.masked_fill(x, m, -1.0),
            lambda x, m: torch.masked_fill(x, m, -1.0),
        )
        scatters = (
            lambda x, i, s: chx.scatter_reduce(x, i, s, 0, "sum"),
            lambda x, i, s: torch.scatter_reduce(x, 0, i, s, "sum"),
        )
        for name, make, pair in (("topk of 10", apart, tops), ("masked_fill", masked, fills),
                                 ("scatter_reduce, sum", moved, scatters)):  # fmt: skip
            yield Case("layer", name, size, make, *pair, rtol=1e-4)
            yield Case("layer", name + ", gradient", size, make, *pair, wrt=(0,), rtol=1e-4)
        for suffix, wrt in (("", ()), (", gradient", (0,))):
            yield Case("layer", "dropout" + suffix, size, one, chx.dropout, F.dropout, wrt=wrt,
                       random=True)  # fmt: skip
    yield from checkpoints()


def checkpoints():
    """The gradient through a function that is computed again for it."""
    make = lambda: [normal(100, 256), normal(256, 256) / 16]  # noqa: E731
    body = lambda m: lambda x, w: m.tanh(m.matmul(m.tanh(m.matmul(x, w)), w))  # noqa: E731
    yield Case("layer", "checkpoint, gradients", "100 x 256, two products", make,
               lambda x, w: chx.checkpoint(body(chx))(x, w),
               lambda x, w: checkpoint(body(torch), x, w, use_reentrant=False),
               wrt=(0, 1), rtol=1e-3)  # fmt: skip


def images():
    for n, c, side in ((1, 32, 28), (8, 64, 56)):
        make = lambda n=n, c=c, s=side: [normal(n, c, s, s), normal(c, 1, 3, 3)]  # noqa: E731
        ours = lambda x, w, c=c: chx.conv2d(x, w, None, 1, 1, 1, c)  # noqa: E731
        theirs = lambda x, w, c=c: F.conv2d(x, w, None, 1, 1, 1, c)  # noqa: E731
        size = f"{n} x {c} x {side}^2"
        for suffix, wrt in (("", ()), (", gradients", (0, 1))):
            yield Case("layer", "conv2d, depthwise" + suffix, size, make, ours, theirs, wrt=wrt,
                       rtol=2e-3)  # fmt: skip
        line = lambda n=n, c=c, s=side: [normal(n, c, s), normal(c, c, 3)]  # noqa: E731
        block = lambda n=n, c=c, s=side // 4: [  # noqa: E731
            normal(n, c, s, s, s), normal(c, c, 3, 3, 3)]  # fmt: skip
        for name, shape, values in (("conv1d", f"{n} x {c} x {side}", line),
                                    ("conv3d", f"{n} x {c} x {side // 4}^3", block)):  # fmt: skip
            pair = [lambda x, w, m=m, n=name: getattr(m, n)(x, w, None, 1, 1) for m in (chx, F)]
            yield Case("layer", name, shape, values, *pair, rtol=2e-3)
            yield Case("layer", name + ", gradients", shape, values, *pair, wrt=(0, 1), rtol=2e-3)
        longer = [
            lambda x, m=m: m.interpolate(x, scale_factor=2.0, mode="linear") for m in (chx, F)
        ]
        one = lambda n=n, c=c, s=side: [normal(n, c, s * s)]  # noqa: E731
        for suffix, wrt in (("", ()), (", gradient", (0,))):
            yield Case("layer", "interpolate, linear" + suffix, f"{n} x {c} x {side * side}", one,
                       *longer, wrt=wrt, rtol=1e-4)  # fmt: skip
        one = lambda n=n, c=c, s=side: [normal(n, c, s, s)]  # noqa: E731
        for name, mine, other in (
            ("interpolate, nearest", lambda x: chx.interpolate(x, scale_factor=2.0),
             lambda x: F.interpolate(x, scale_factor=2.0)),
            ("interpolate, bilinear",
             lambda x: chx.interpolate(x, scale_factor=2.0, mode="bilinear"),
             lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear")),
            ("adaptive_average_pool", lambda x: chx.adaptive_average_pool(x, (7, 7)),
             lambda x: F.adaptive_avg_pool2d(x, (7, 7))),
            ("pixel_shuffle", lambda x: chx.pixel_shuffle(x, 2), lambda x: F.pixel_shuffle(x, 2)),
            ("adaptive_max_pool", lambda x: chx.adaptive_max_pool(x, (5, 5)),
             lambda x: F.adaptive_max_pool2d(x, (5, 5))),
        ):  # fmt: skip
            yield Case("layer", name, size, one, mine, other, rtol=1e-4)
            yield Case("layer", name + ", gradient", size, one, mine, other, wrt=(0,), rtol=1e-4)


def segments():
    for n, d, count in ((1000, 16, 50), (100_000, 64, 1000)):
        make = lambda n=n, d=d, k=count: [normal(n, d), integers(k, n)]  # noqa: E731
        for name, reduce in (("sum", "sum"), ("max", "amax")):
            ours = lambda x, i, f=name, k=count: getattr(chx, f"segment_{f}")(x, i, k)  # noqa: E731
            theirs = lambda x, i, r=reduce, k=count, d=d: (  # noqa: E731
                torch.full((k, d), 0.0 if r == "sum" else -torch.inf).index_reduce(0, i, x, r)
                if r != "sum" else torch.zeros(k, d).index_add(0, i, x))  # fmt: skip
            for suffix, wrt in (("", ()), (", gradient", (0,))):
                yield Case("index", f"segment_{name}{suffix}", f"{n} x {d} to {count}", make, ours,
                           theirs, wrt=wrt, rtol=1e-4)  # fmt: skip


def recurrent():
    """One LSTM layer over a sequence."""
    for steps, n, i, h in ((1, 1, 16, 16), (20, 32, 128, 256), (50, 64, 512, 512)):
        make = lambda t=steps, n=n, i=i, h=h: [  # noqa: E731
            normal(t, n, i), normal(1, n, h), positive(1, n, h),
            normal(4 * h, i) / i, positive(4 * h, h) / h, normal(4 * h), positive(4 * h)]  # fmt: skip

        def ours(x, h, c, wx, wh, bx, bh, steps=steps):
            ws = chx.split(wx, 4) + chx.split(wh, 4)
            bs = chx.split(bx, 4) + chx.split(bh, 4)
            xs = [x[t] for t in range(steps)]
            _, _, ys = chx.n_step_lstm(1, h, c, [ws], [bs], xs)
            return chx.stack(ys)

        def theirs(x, h, c, wx, wh, bx, bh):
            weights = (wx, wh, bx, bh)
            return torch._VF.lstm(x, (h, c), weights, True, 1, 0.0, False, False, False)[0]

        size = f"{steps} steps, {n} x {i} to {h}"
        yield Case("layer", "LSTM", size, make, ours, theirs, rtol=1e-3)
        yield Case("layer", "LSTM, gradients", size, make, ours, theirs, wrt=(0, 3, 4, 5),
                   rtol=1e-3)  # fmt: skip


def narrow():
    """In bfloat16, but for products."""
    for n, width in ((64, 768), (4096, 1024)):
        one = lambda n=n, w=width: [normal(n, w)]  # noqa: E731
        two = lambda n=n, w=width: [normal(n, w), positive(n, w)]  # noqa: E731
        parameters = lambda n=n, w=width: [normal(n, w), positive(w), normal(w)]  # noqa: E731
        for name, make, ours, theirs in (
            ("add", two, chx.add, torch.add),
            ("gelu", one, chx.gelu, F.gelu),
            ("softmax", one, lambda x: chx.softmax(x, 1), lambda x: F.softmax(x, 1)),
            ("layer_norm", parameters, lambda x, w, b: chx.layer_norm(x, (x.shape[1],), w, b),
             lambda x, w, b: F.layer_norm(x, (x.shape[1],), w, b)),
        ):  # fmt: skip
            for suffix, wrt in (("", ()), (", gradient", (0,))):
                yield Case("layer", f"{name}, bfloat16{suffix}", f"{n} x {width}", make, ours,
                           theirs, wrt=wrt, rtol=3e-2, dtype="bfloat16")  # fmt: skip
