"""What op_bench.py measures: each operator in chx and in PyTorch, on the same float32 values."""

import chx
import numpy as np
import torch
import torch.nn.functional as F
from op_case import Case, integers, normal, positive
from op_model_cases import model_cases

SIZES = (1, 1_000, 100_000, 10_000_000)
# Rows and columns of matrices of about so many elements.
SIDES = {1: (1, 1), 1_000: (10, 100), 100_000: (100, 1000), 10_000_000: (1000, 10000)}


def label(n):
    exponent = len(str(n)) - 1
    return "1" if n == 1 else f"10^{exponent}"


def elementwise():
    unary = [
        ("negative", torch.neg),
        ("abs", torch.abs),
        ("square", torch.square),
        ("relu", torch.relu),
        ("exp", torch.exp),
        ("expm1", torch.expm1),
        ("tanh", torch.tanh),
        ("sigmoid", torch.sigmoid),
        ("sin", torch.sin),
        ("cos", torch.cos),
        ("arctan", torch.arctan),
        ("erf", torch.erf),
        ("floor", torch.floor),
        ("isnan", torch.isnan),
        ("gelu", F.gelu),
        ("silu", F.silu),
        ("mish", F.mish),
        ("hardswish", F.hardswish),
        ("softplus", F.softplus),
    ]
    of_positive = [("sqrt", torch.sqrt), ("log", torch.log), ("log1p", torch.log1p)]
    binary = [
        ("add", torch.add),
        ("multiply", torch.multiply),
        ("divide", torch.divide),
        ("maximum", torch.maximum),
        ("power", torch.pow),
        ("remainder", torch.remainder),
        ("arctan2", torch.arctan2),
        ("greater", torch.greater),
    ]
    for n in SIZES:
        for values, functions in ((normal, unary), (positive, of_positive)):
            for name, theirs in functions:
                yield Case(
                    "elementwise",
                    name,
                    label(n),
                    lambda n=n, v=values: [v(n)],
                    getattr(chx, name),
                    theirs,
                )
        square = lambda x: x**2  # noqa: E731
        yield Case("elementwise", "x ** 2", label(n), lambda n=n: [normal(n)], square, square)
        for name in ("gelu", "silu", "mish", "hardswish", "softplus"):
            yield Case(
                "elementwise",
                f"{name}, gradient",
                label(n),
                lambda n=n: [normal(n)],
                getattr(chx, name),
                getattr(F, name),
                wrt=(0,),
            )
        for name, theirs in binary:
            yield Case(
                "elementwise",
                name,
                label(n),
                lambda n=n: [positive(n), positive(n)[::-1].copy()],
                getattr(chx, name),
                theirs,
            )
        yield Case(
            "elementwise",
            "add a number",
            label(n),
            lambda n=n: [normal(n)],
            lambda x: x + 1.5,
            lambda x: x + 1.5,
        )
        yield Case(
            "elementwise",
            "where",
            label(n),
            lambda n=n: [normal(n) > 0, normal(n), positive(n)],
            chx.where,
            torch.where,
        )
        yield Case(
            "elementwise",
            "to float64",
            label(n),
            lambda n=n: [normal(n)],
            lambda x: x.astype("float64"),
            lambda x: x.to(torch.float64),
        )


def one_matrix(r, c):
    return [normal(r, c)]


def near_one(r, c):
    return [1 + normal(r, c) / np.float32(1e4)]


def both(name, *arguments):
    """The function of that name and these arguments, in chx and in PyTorch."""
    return (
        lambda a: getattr(chx, name)(a, *arguments),
        lambda a: getattr(torch, name)(a, *arguments),
    )


def matrices():
    """Operators on matrices of SIDES."""
    table = [
        ("broadcast", "add a row", chx.add, torch.add, lambda r, c: [normal(r, c), positive(c)]),
        ("broadcast", "add a column", chx.add, torch.add,
         lambda r, c: [normal(r, c), positive(r, 1)]),
        ("broadcast", "add outer", chx.add, torch.add, lambda r, c: [normal(r, 1), positive(1, c)]),
        ("broadcast", "add transposed", lambda a, b: a + b.T, lambda a, b: a + b.T,
         lambda r, c: [normal(r, c), positive(c, r)]),
        ("copy", "transpose", lambda a: a.T.copy(), lambda a: a.T.clone(
            memory_format=torch.contiguous_format), one_matrix),
        ("copy", "every second row", lambda a: a[::2].copy(), lambda a: a[::2].clone(), one_matrix),
        ("copy", "concatenate", lambda a: chx.concatenate([a, a], 1),
         lambda a: torch.cat([a, a], 1), one_matrix),
        ("reduce", "mean, axis 0", *both("mean", 0), one_matrix),
        ("reduce", "var, axis 0", lambda a: chx.var(a, 0),
         lambda a: torch.var(a, 0, correction=0), one_matrix),
        ("reduce", "var, axis 1", lambda a: chx.var(a, 1),
         lambda a: torch.var(a, 1, correction=0), one_matrix),
        ("reduce", "prod, axis 1", *both("prod", 1), near_one),
        ("reduce", "softmax, axis 1", *both("softmax", 1), one_matrix),
        ("reduce", "log_softmax, axis 1", *both("log_softmax", 1), one_matrix),
        ("sort", "sort, axis 0", lambda a: chx.sort(a, 0), lambda a: torch.sort(a, 0)[0],
         one_matrix),
        ("sort", "sort, axis 1", lambda a: chx.sort(a, 1), lambda a: torch.sort(a, 1)[0],
         one_matrix),
        ("sort", "sort, flat", lambda a: chx.sort(a, None),
         lambda a: torch.sort(a.reshape(-1))[0], one_matrix),
        ("sort", "argsort, axis 1", lambda a: chx.argsort(a, 1),
         lambda a: torch.argsort(a, dim=1, stable=True), one_matrix),
    ]  # fmt: skip
    for name in ("sum", "amax", "argmax", "logsumexp", "cumsum"):
        if name in ("sum", "amax"):
            table.append(("reduce", f"{name}, all", *both(name), one_matrix))
        for axis in (0, 1):
            table.append(("reduce", f"{name}, axis {axis}", *both(name, axis), one_matrix))
    table.sort(key=lambda row: row[0])
    for n in SIZES:
        r, c = SIDES[n]
        for group, name, ours, theirs, inputs in table:
            # Sums of numbers that cancel are compared with the largest.
            rtol = 1e-3 if name[:3] in ("sum", "mea", "cum", "var") else 2e-5
            yield Case(
                group,
                name,
                label(n),
                lambda r=r, c=c, inputs=inputs: inputs(r, c),
                ours,
                theirs,
                rtol=rtol,
            )
        yield from indexing(n, r, c)


def indexing(n, r, c):
    size = label(n)
    rows = lambda: [normal(r, c), integers(r, r)]  # noqa: E731
    items = lambda: [normal(n), integers(n, n)]  # noqa: E731
    along = lambda: [normal(r, c), integers(c, r, c)]  # noqa: E731
    yield Case("index", "take rows", size, rows,
               lambda a, i: chx.take(a, i, 0), lambda a, i: a.index_select(0, i))  # fmt: skip
    yield Case("index", "take items", size, items,
               lambda a, i: chx.take(a, i, 0), lambda a, i: a.index_select(0, i))  # fmt: skip
    yield Case("index", "take_along_axis", size, along,
               lambda a, i: chx.take_along_axis(a, i, 1),
               lambda a, i: torch.gather(a, 1, i))  # fmt: skip
    yield Case("index", "take rows, gradient", size, rows,
               lambda a, i: chx.take(a, i, 0), lambda a, i: a.index_select(0, i),
               wrt=(0,), rtol=1e-4)  # fmt: skip
    yield Case("index", "take items, gradient", size, items,
               lambda a, i: chx.take(a, i, 0), lambda a, i: a.index_select(0, i),
               wrt=(0,), rtol=1e-4)  # fmt: skip
    yield Case("index", "take_along_axis, gradient", size, along,
               lambda a, i: chx.take_along_axis(a, i, 1), lambda a, i: torch.gather(a, 1, i),
               wrt=(0,), rtol=1e-4)  # fmt: skip


def products():
    for n in (1, 8, 32, 128, 512, 2048):
        yield Case("product", "matmul", f"{n} x {n}", lambda n=n: [normal(n, n), positive(n, n)],
                   chx.matmul, torch.matmul, rtol=1e-3)  # fmt: skip
    for b, n in ((10, 8), (64, 32), (64, 128)):
        yield Case("product", "matmul, batched", f"{b} x {n} x {n}",
                   lambda b=b, n=n: [normal(b, n, n), positive(b, n, n)],
                   chx.matmul, torch.matmul, rtol=1e-3)  # fmt: skip
    for n in (100, 3000):
        yield Case("product", "matrix by vector", f"{n} x {n}",
                   lambda n=n: [normal(n, n), positive(n)], chx.dot, torch.matmul,
                   rtol=1e-3)  # fmt: skip
    for b, i, o in ((1, 784, 32), (100, 784, 1000), (1000, 1000, 1000)):
        make = lambda b=b, i=i, o=o: [normal(b, i), positive(o, i), positive(o)]  # noqa: E731
        yield Case("product", "linear", f"{b} x {i} to {o}", make, chx.linear, F.linear, rtol=1e-3)
        yield Case("product", "linear, gradients", f"{b} x {i} to {o}", make, chx.linear, F.linear,
                   wrt=(0, 1, 2), rtol=1e-3)  # fmt: skip
    # Of bfloat16, for which processors have instructions or not.
    narrow = {"rtol": 2e-2, "dtype": "bfloat16"}
    for n in (128, 512, 2048):
        yield Case("product", "matmul, bfloat16", f"{n} x {n}",
                   lambda n=n: [normal(n, n), positive(n, n)], chx.matmul, torch.matmul,
                   **narrow)  # fmt: skip
    yield Case("product", "linear, bfloat16", "100 x 784 to 1000",
               lambda: [normal(100, 784), positive(1000, 784), positive(1000)], chx.linear,
               F.linear, **narrow)  # fmt: skip
    yield Case("product", "conv, bfloat16", "8 x 256 x 14^2, 256 of 3^2 / 1",
               lambda: [normal(8, 256, 14, 14), normal(256, 256, 3, 3)],
               lambda x, w: chx.conv(x, w, None, 1, 1), lambda x, w: F.conv2d(x, w, None, 1, 1),
               **narrow)  # fmt: skip


# Batch, channels, image side, outputs, kernel, stride, pad: of ResNet-50, and a tiny one.
CONVOLUTIONS = [
    (1, 1, 5, 1, 3, 1, 1),
    (1, 64, 56, 64, 1, 1, 0),
    (8, 3, 224, 64, 7, 2, 3),
    (8, 64, 56, 64, 3, 1, 1),
    (8, 256, 56, 64, 1, 1, 0),
    (8, 128, 28, 128, 3, 1, 1),
    (8, 128, 56, 128, 3, 2, 1),
    (8, 512, 28, 1024, 1, 2, 0),
    (8, 256, 14, 256, 3, 1, 1),
    (8, 512, 7, 512, 3, 1, 1),
    (1, 512, 7, 2048, 1, 1, 0),
]


def layers():
    for n, c, side, o, k, stride, pad in CONVOLUTIONS:
        size = f"{n} x {c} x {side}^2, {o} of {k}^2 / {stride}"
        make = lambda n=n, c=c, s=side, o=o, k=k: [  # noqa: E731
            normal(n, c, s, s), normal(o, c, k, k)]  # fmt: skip
        ours = lambda x, w, s=stride, p=pad: chx.conv(x, w, None, (s, s), (p, p))  # noqa: E731
        theirs = lambda x, w, s=stride, p=pad: F.conv2d(x, w, None, s, p)  # noqa: E731
        for suffix, wrt in (("", ()), (", gradient of x", (0,)), (", gradient of w", (1,))):
            yield Case("layer", "conv" + suffix, size, make, ours, theirs, wrt=wrt, rtol=2e-3)
    for suffix, wrt in (("", ()), (", gradients", (0, 1))):
        yield Case("layer", "conv_transpose" + suffix, "8 x 128 x 14^2, 64 of 4^2 / 2",
                   lambda: [normal(8, 128, 14, 14), normal(128, 64, 4, 4)],
                   lambda x, w: chx.conv_transpose(x, w, None, (2, 2), (1, 1)),
                   lambda x, w: F.conv_transpose2d(x, w, None, 2, 1), wrt=wrt,
                   rtol=2e-3)  # fmt: skip
    for n, c, side, k, stride, pad in ((1, 1, 4, 2, 2, 0), (8, 64, 112, 3, 2, 1),
                                       (8, 256, 28, 2, 2, 0)):  # fmt: skip
        size = f"{n} x {c} x {side}^2, {k}^2 / {stride}"
        make = lambda n=n, c=c, s=side: [normal(n, c, s, s)]  # noqa: E731
        for name, ours, theirs in (
            ("max_pool",
             lambda x, k=k, s=stride, p=pad: chx.max_pool(x, (k, k), (s, s), (p, p)),
             lambda x, k=k, s=stride, p=pad: F.max_pool2d(x, k, s, p)),
            ("average_pool",
             lambda x, k=k, s=stride, p=pad: chx.average_pool(x, (k, k), (s, s), (p, p), 'ignore'),
             lambda x, k=k, s=stride, p=pad: F.avg_pool2d(x, k, s, p, False, False)),
        ):  # fmt: skip
            yield Case("layer", name, size, make, ours, theirs)
            yield Case("layer", name + ", gradient", size, make, ours, theirs, wrt=(0,))
    yield from normalizations()


def normalizations():
    for n, c, side in ((8, 16, 1), (8, 64, 56), (8, 256, 56), (8, 2048, 7)):
        size = f"{n} x {c} x {side}^2"
        make = lambda n=n, c=c, s=side: [  # noqa: E731
            normal(n, c, s, s), positive(c), normal(c), np.zeros(c, np.float32),
            np.ones(c, np.float32)]  # fmt: skip
        ours = lambda x, g, b, m, v: chx.batch_norm(  # noqa: E731
            x, g, b, m, v, eps=1e-5, decay=0.9, axis=(0, 2, 3))  # fmt: skip
        theirs = lambda x, g, b, m, v: F.batch_norm(  # noqa: E731
            x, m, v, g, b, training=True, momentum=0.1, eps=1e-5)  # fmt: skip
        fixed = lambda x, g, b, m, v: chx.fixed_batch_norm(  # noqa: E731
            x, g, b, m, v, eps=1e-5, axis=(0, 2, 3))  # fmt: skip
        their_fixed = lambda x, g, b, m, v: F.batch_norm(x, m, v, g, b, eps=1e-5)  # noqa: E731
        yield Case("layer", "batch_norm", size, make, ours, theirs, rtol=1e-3)
        yield Case("layer", "batch_norm, gradients", size, make, ours, theirs, wrt=(0, 1, 2),
                   rtol=1e-3)  # fmt: skip
        yield Case("layer", "fixed_batch_norm", size, make, fixed, their_fixed, rtol=1e-3)


def all_cases():
    yield from elementwise()
    yield from matrices()
    yield from products()
    yield from layers()
    yield from model_cases()
