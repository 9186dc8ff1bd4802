import numpy as np

from ..table import ALL, row

INDICES = {
    "int": 1,
    "negative": -1,
    "ints": (1, -2),
    "slice": slice(1, 3),
    "step": (slice(None), slice(None, None, 2)),
    "reverse": (slice(None, None, -1), slice(2, None, -1)),
    "newaxis": (None, 0, ..., None),
    "ellipsis": (..., slice(0, 2)),
    "all": ...,
    "empty": slice(2, 2),
    "clipped": slice(-100, 100),
}
for name, index in INDICES.items():
    row(
        "getitem",
        lambda chx, a, i=index: a[i],
        lambda a, i=index: a[i].copy(),
        [(3, 4)],
        dtypes=[ALL],
        grad=[0],
        exact=True,
        name=f"getitem-{name}",
    )


def through_gradient(chx, a):
    """getitem_grad is what the gradient of an index is made of."""
    whole = chx.zeros((3, 4), a.dtype).require_grad()
    return chx.grad([whole[1:, ::2]], [whole], grad_outputs=[a])[0]


def placed(a):
    whole = np.zeros((3, 4), a.dtype)
    whole[1:, ::2] = a
    return whole


row("getitem_grad", through_gradient, placed, [(2, 2)], exact=True)


def indices_for(size):
    return lambda rng, shape: rng.integers(0, size, shape)


INTEGERS = ("int64", "int32", "int8", "uint8")
for axis, shape in ((0, (2,)), (1, (3, 2)), (-1, ()), (0, (0,))):
    row(
        "take",
        lambda chx, a, i, x=axis: chx.take(a, i, x),
        lambda a, i, x=axis: np.take(a, i, x),
        [(4, 5), shape],
        dtypes=[ALL, INTEGERS],
        grad=[0],
        domain=[(-2, 2), indices_for(4)],
        same_dtypes=False,
        exact=True,
        name=f"take-{axis}-{shape}",
    )
for mode in ("wrap", "clip"):
    row(
        "take",
        lambda chx, a, i, m=mode: chx.take(a, i, 0, mode=m),
        lambda a, i, m=mode: np.take(a, i, 0, mode=m),
        [(4, 2), (6,)],
        dtypes=[ALL, ("int64",)],
        domain=[(-2, 2), lambda rng, shape: rng.integers(-9, 9, shape)],
        grad=[0],
        same_dtypes=False,
        exact=True,
        name=f"take-{mode}",
    )


def take_gradient(chx, gy, i):
    whole = chx.zeros((4, 3), gy.dtype).require_grad()
    return chx.grad([chx.take(whole, i, 0)], [whole], grad_outputs=[gy])[0]


def added(gy, i):
    whole = np.zeros((4, 3), gy.dtype)
    np.add.at(whole, i, gy)
    return whole


row(
    "take_grad",
    take_gradient,
    added,
    [(6, 3), (6,)],
    dtypes=[("float32", "float64"), ("int64",)],
    domain=[(-2, 2), indices_for(4)],
    same_dtypes=False,
)
