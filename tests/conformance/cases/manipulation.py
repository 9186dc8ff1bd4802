import numpy as np

from ..table import ALL, row


def same(op, call, ref, shapes, name, **kwargs):
    row(
        op,
        call,
        ref,
        shapes,
        dtypes=[ALL] * len(shapes),
        grad=range(len(shapes)),
        exact=True,
        name=f"{op}-{name}",
        **kwargs,
    )


for i, (shape, new) in enumerate(
    [
        ((2, 3), (3, 2)),
        ((2, 3, 4), (6, -1)),
        ((4,), (2, 1, 2)),
        ((), (1, 1)),
        ((0, 3), (3, 0)),
        ((1,), ()),
    ]
):
    same("reshape", lambda chx, a, n=new: a.reshape(n), lambda a, n=new: a.reshape(n), [shape], i)
same("reshape", lambda chx, a: a.T.reshape(6), lambda a: a.T.reshape(6), [(2, 3)], "copies")
same(
    "reshape",
    lambda chx, a: a[:, ::2].reshape(2, 2, 1),
    lambda a: a[:, ::2].reshape(2, 2, 1),
    [(2, 4)],
    "strided",
)
same("ravel", lambda chx, a: chx.ravel(a), np.ravel, [(2, 3)], "2d")
same("ravel", lambda chx, a: chx.ravel(a.T), lambda a: a.T.ravel(), [(2, 3)], "transposed")
for axes in (None, (0, 1, 2), (2, 0, 1), (-1, 1, 0)):
    same(
        "transpose",
        lambda chx, a, x=axes: chx.transpose(a, x),
        lambda a, x=axes: a.transpose(x),
        [(2, 3, 4)],
        str(axes),
    )
same("transpose", lambda chx, a: a.T, lambda a: a.T, [()], "0d")
for axis in (None, 0, (0, 2), -1):
    same(
        "squeeze",
        lambda chx, a, x=axis: chx.squeeze(a, x),
        lambda a, x=axis: a.squeeze(x),
        [(1, 3, 1)],
        str(axis),
    )
for axis in (0, 1, -1):
    same(
        "expand_dims",
        lambda chx, a, x=axis: chx.expand_dims(a, x),
        lambda a, x=axis: np.expand_dims(a, x),
        [(2, 3)],
        str(axis),
    )
for shape, new in (((3,), (2, 3)), ((2, 1), (4, 2, 3)), ((), (2,)), ((1, 0), (3, 0))):
    same(
        "broadcast_to",
        lambda chx, a, n=new: chx.broadcast_to(a, n),
        lambda a, n=new: np.broadcast_to(a, n),
        [shape],
        f"{shape}{new}",
    )
for axis in (0, 1, -1):
    same(
        "concatenate",
        lambda chx, a, b, x=axis: chx.concatenate([a, b, a], axis=x),
        lambda a, b, x=axis: np.concatenate([a, b, a], axis=x),
        [(2, 3), (2, 3)],
        str(axis),
    )
    same(
        "stack",
        lambda chx, a, b, x=axis: chx.stack([a, b], axis=x),
        lambda a, b, x=axis: np.stack([a, b], axis=x),
        [(2, 3), (2, 3)],
        str(axis),
    )
same(
    "concatenate",
    lambda chx, a, b: chx.concatenate((a, b)),
    lambda a, b: np.concatenate((a, b)),
    [(2, 3), (0, 3)],
    "empty",
)
same(
    "split",
    lambda chx, a: chx.split(a, 2, axis=1),
    lambda a: np.split(a, 2, axis=1),
    [(3, 4)],
    "sections",
)
same(
    "split",
    lambda chx, a: chx.split(a, (1, 3)),
    lambda a: np.split(a, (1, 3)),
    [(5, 2)],
    "indices",
)
same(
    "split",
    lambda chx, a: chx.split(a, (4, 2)),
    lambda a: np.split(a, (4, 2)),
    [(5, 2)],
    "unordered",
)
