import numpy as np

from ..table import ALL, FLOATS, row
from .indexing import INTEGERS, indices_for

for shape, table in (
    ((2, 3), (4, 5)),
    ((), (4, 2)),
    ((0,), (4, 2)),
    ((3,), (4,)),
    ((3,), (4, 2, 2)),
):
    row(
        "embedding",
        lambda chx, i, w: chx.embedding(i, w),
        lambda i, w: w[i],
        [shape, table],
        dtypes=[INTEGERS, ALL],
        grad=[1],
        domain=[indices_for(4), (-2, 2)],
        same_dtypes=False,
        exact=True,
        name=f"embedding-{shape}-{table}",
    )


def embedding_gradient(padding):
    def call(chx, i, gy):
        weight = chx.zeros((4, 3), gy.dtype).require_grad()
        y = chx.embedding(i, weight, padding)
        return chx.grad([y], [weight], grad_outputs=[gy])[0]

    def reference(i, gy):
        weight = np.zeros((4, 3), gy.dtype)
        np.add.at(weight, i, gy)
        weight[padding] = 0
        return weight

    return call, reference


for padding in (2, -1):
    row(
        "embedding",
        *embedding_gradient(padding),
        [(6, 2), (6, 2, 3)],
        dtypes=[INTEGERS[:3], ("float32", "float64")],
        domain=[indices_for(4), (-2, 2)],
        same_dtypes=False,
        name=f"embedding-padding-{padding}",
    )

MASK = ("bool",)
for shapes in ([(3, 4), (3, 4)], [(3, 4), (4,)], [(4,), (3, 1)], [(), ()], [(0, 2), (2,)]):
    row(
        "masked_fill",
        lambda chx, x, m: chx.masked_fill(x, m, 1),
        lambda x, m: np.where(m, x.dtype.type(1), x),
        shapes,
        dtypes=[ALL[1:], MASK],
        grad=[0],
        same_dtypes=False,
        exact=True,
        name=f"masked_fill-{shapes}",
    )
row(
    "masked_fill",
    lambda chx, x, m, v: chx.masked_fill(x, m, v),
    lambda x, m, v: np.where(m, v.astype(x.dtype), x),
    [(3, 4), (3, 4), ()],
    dtypes=[FLOATS, MASK, FLOATS],
    grad=[0, 2],
    same_dtypes=False,
    exact=True,
    name="masked_fill-array",
)
