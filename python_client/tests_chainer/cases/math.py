"""chainer.functions.math."""

import chainer
import chainer.functions as F
import numpy as np

from cases import case, distinct, grid, matrices, positive, u

for (
    _name
) in "absolute arcsin arccos arctan arctanh cos cosh erf exp expm1 sin sinh square tan".split():
    case(_name, getattr(F, _name), lambda r: [u(r, 4, 5, low=-0.9, high=0.9)])
for _name in "log log10 log1p log2 rsqrt sqrt".split():
    case(_name, getattr(F, _name), lambda r: [positive(r, 4, 5)])
for _name in "ceil fix floor sign".split():
    case(_name, getattr(F, _name), lambda r: [grid(r, 4, 5)], grads=False, double=False)
for _name in "argmax argmin".split():
    case(_name, getattr(F, _name), lambda r: [grid(r, 4, 5)], grads=False, double=False)
    case(
        _name,
        lambda x, n=_name: getattr(F, n)(x, axis=1),
        lambda r: [grid(r, 4, 5)],
        grads=False,
        double=False,
    )

case("add", F.add, [(3, 4), (3, 4)])
case("add", F.add, [(3, 4), (3, 4), (3, 4)])
case("add", lambda x, y: x + y, [(3, 1), (4,)])
case("add", lambda x: 2 + x + np.float64(1.5), (3, 4))
case("add", lambda x: x - 2, (3, 4))
case("add", lambda x: 2 - x, (3, 4))
case("add", lambda x, y: x - y, [(3, 4), (3, 1)])
case("add", lambda x: x * 3, (3, 4))
case("add", lambda x, y: x * y, [(3, 4), (4,)])
case("add", lambda x: -x, (3, 4))
case("add", lambda x: x / 3, (3, 4))
case("add", lambda x: 3 / x, lambda r: [positive(r, 3, 4)])
case("add", lambda x, y: x / y, lambda r: [u(r, 3, 4), positive(r, 4)])
case("add", lambda x: x**2, (3, 4))
case("add", lambda x: x**-1.5, lambda r: [positive(r, 3, 4)])
case("add", lambda x: 2**x, (3, 4))
case("add", lambda x, y: x**y, lambda r: [positive(r, 3, 4), u(r, 3, 4)])
case("add", lambda x, y: x @ y, [(3, 4), (4, 2)])
case("add", lambda x: abs(x), lambda r: [grid(r, 4, 5)])
case("arctan2", F.arctan2, lambda r: [distinct(r, 4, 5) - 0.03, positive(r, 4, 5)])
case("average", F.average, (3, 4))
case("average", lambda x: F.average(x, 1, keepdims=True), (3, 4))
case("average", lambda x, w: F.average(x, 0, w), lambda r: [u(r, 3, 4), positive(r, 3)])
case("batch_inv", F.batch_inv, lambda r: [matrices(r, 2, 3, 3)])
case("batch_det", F.batch_det, lambda r: [matrices(r, 2, 3, 3)])
case("batch_l2_norm_squared", F.batch_l2_norm_squared, (3, 4, 2))
case("batch_matmul", F.batch_matmul, [(2, 3, 4), (2, 4, 5)], single=True)
case(
    "batch_matmul", lambda a, b: F.batch_matmul(a, b, True, True), [(2, 3), (2, 5, 3)], single=True
)
case("bias", F.bias, [(2, 3, 4), (3,)])
case("cholesky", F.cholesky, lambda r: [matrices(r, 3, 3)])
case("clip", lambda x: F.clip(x, -1.0, 1.5), lambda r: [grid(r, 4, 5)])
case("clip", lambda x: F.clip(x, None, 0.5), lambda r: [grid(r, 4, 5)])
case("cumprod", lambda x: F.cumprod(x, 1), lambda r: [positive(r, 3, 4)])
case("cumprod", F.cumprod, lambda r: [positive(r, 2, 3)])
case("cumsum", lambda x: F.cumsum(x, 0), (3, 4))
case("cumsum", F.cumsum, (3, 4))
case("det", F.det, lambda r: [matrices(r, 3, 3)])
case("einsum", lambda a, b: F.einsum("ij,jk->ik", a, b), [(2, 3), (3, 4)])
case("einsum", lambda a, b, c: F.einsum("...ij,jk,ik->...i", a, b, c), [(5, 2, 3), (3, 4), (2, 4)])
case("einsum", lambda a: F.einsum("ii->i", a), (3, 3))
case("fft", lambda *x: F.fft(x), [(3, 7), (3, 7)])
case("ifft", lambda *x: F.ifft(x), [(3, 6), (3, 6)])
case("fmod", F.fmod, lambda r: [u(r, 4, 5) * 4, positive(r, 4, 5)])
case("identity", F.identity, (3, 4))
case("identity", F.identity, [(3, 4), (2,)])
case("inv", F.inv, lambda r: [matrices(r, 3, 3)])
case("linear_interpolate", F.linear_interpolate, [(3, 4)] * 3)
case("logsumexp", F.logsumexp, (3, 4))
case("logsumexp", lambda x: F.logsumexp(x, 1), (3, 4, 2))
for _a, _b in (((3, 4), (4, 5)), ((4,), (4, 5)), ((2, 3, 4), (4, 5)), ((4,), (4,))):
    case("matmul", F.matmul, [_a, _b])
case("matmul", lambda a, b: F.matmul(a, b, True, True), [(2, 4, 3), (5, 4)])
for _name in ("max", "min"):
    case(_name, getattr(F, _name), lambda r: [distinct(r, 3, 4)])
    case(_name, lambda x, n=_name: getattr(F, n)(x, 1, True), lambda r: [grid(r, 3, 6)])
for _name in ("maximum", "minimum"):
    case(_name, getattr(F, _name), lambda r: [grid(r, 3, 8), grid(r, 3, 8)])
    case(_name, getattr(F, _name), lambda r: [distinct(r, 3, 4), distinct(r, 1, 4) + 0.05])
case("mean", F.mean, (3, 4))
case("prod", lambda x: F.prod(x, 1), lambda r: [positive(r, 3, 4)])
case("prod", F.prod, lambda r: [positive(r, 2, 3)])
case("scale", F.scale, [(2, 3, 4), (3,)])


def _coo(call):
    def run(data, *rest):
        xp = chainer.backend.get_array_module(data)
        rows, columns = xp.array(np.array([0, 2, 1, 2], "i")), xp.array(np.array([1, 0, 3, 3], "i"))
        matrix = chainer.utils.CooMatrix(data.array, rows, columns, (3, 4))
        matrix.data = data
        return call(matrix, *rest)

    return run


case("sparse_matmul", _coo(F.sparse_matmul), [(4,), (4, 2)])
case("sparse_matmul", _coo(lambda m, b: F.sparse_matmul(b, m, transb=True)), [(4,), (2, 4)])
case("sum", F.sum, (3, 4))
case("sum", lambda x: F.sum(x, (0, 2), True), (3, 4, 2))
case("sum_to", lambda x: F.sum_to(x, (3, 1)), (2, 3, 4))
case("tensordot", lambda a, b: F.tensordot(a, b, 2), [(2, 3, 4), (3, 4, 5)])
case("tensordot", lambda a, b: F.tensordot(a, b, ((0, 2), (1, 0))), [(2, 3, 4), (4, 2, 5)])
