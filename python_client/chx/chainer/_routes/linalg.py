"""Routes of chainer.functions.math that are linear algebra."""

import chainer
import numpy as np
from chainer.functions.math import det, einsum, inv, matmul, sparse_matmul, tensordot

import chx
from chx.chainer._routes._common import cast, precisely, sent, transposed
from chx.chainer._routes._registry import route


def _swapped(a, swap):
    return chx.swapaxes(a, -1, -2) if swap and a.ndim != 1 else a


@route(matmul.MatMul)
def _matmul(f, xs):
    a, b = xs
    transa, transb = f.transa, f.transb
    if f.transc:
        (a, b), (transa, transb) = (b, a), (not transb, not transa)
    y = chx.matmul(_swapped(a, transa), _swapped(b, transb))
    return (y if f.dtype is None else cast(y, f.dtype),)


def _as_matrices(a):
    """(N, K) as a batch of columns (N, K, 1)."""
    return chx.expand_dims(a, 2) if a.ndim == 2 else a


@route(matmul.BatchMatMul)
def _batch_matmul(f, xs):
    a, b = (_as_matrices(x) for x in xs)
    return (chx.matmul(_swapped(a, f.transa), _swapped(b, f.transb)),)


@route(tensordot.TensorDot)
def _tensordot(f, xs):
    if f.a_axes is not None or f.c_axes is not None:
        return chainer.Fallback  # only gradients have them
    y = chx.tensordot(*xs, f.axes)
    return (y if f.dtype is None else cast(y, f.dtype),)


@route(einsum.EinSum)
def _einsum(f, xs):
    if "@" in f.in_subs and "@" not in f.out_sub:
        raise ValueError("[einsum] expects an ellipsis in the output, as it is in an input")
    subscripts = f"{f.in_subs}->{f.out_sub}".replace("@", "...")
    return (cast(chx.einsum(subscripts, *xs), np.result_type(*[x.dtype for x in xs])),)


@route(inv.Inv, inv.BatchInv)
def _inv(f, xs):
    (x,) = xs
    try:
        return (cast(chx.linalg.inv(precisely(x)), x.dtype),)
    except chx.ChainerxError as error:
        raise ValueError(str(error)) from error


@route(det.BatchDet)
def _batch_det(f, xs):
    return (cast(chx.linalg.det(precisely(xs[0])), xs[0].dtype),)


@route(sparse_matmul.CooMatMul)
def _coo_matmul(f, xs):
    """As a dense product: the daemon has no sparse arrays."""
    data, dense = xs
    dtype = f.dtype or np.result_type(data.dtype, dense.dtype)
    rows, columns = (sent(a, data).astype("int64") for a in (f.sp_row, f.sp_col))
    m, n = f.sp_shape
    # Negative rows and columns pad the batch's shorter lists.
    used = rows >= 0
    index = chx.where(used, rows * n + columns, 0)
    data = chx.where(used, cast(data, dtype), 0)
    if data.ndim == 2:
        start = chx.arange(len(data), dtype="int64", device=data.device) * (m * n)
        index = index + chx.expand_dims(start, 1)
    batch = data.shape[:-1]
    flat = transposed(
        lambda x: chx.take(x, index, axis=0), (int(np.prod(batch, dtype=int)) * m * n,), data
    )
    matrix = _swapped(flat.reshape(*batch, m, n), f.transa)
    y = chx.matmul(matrix, _swapped(cast(dense, dtype), f.transb))
    return (_swapped(y, f.transc),)
