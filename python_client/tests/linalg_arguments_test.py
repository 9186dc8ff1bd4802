"""chx.linalg of integers, of nothing, and with arrays of tolerances, against NumPy."""

import chx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("seeded_session")


def close(got, want):
    if isinstance(want, tuple):
        for g, w in zip(got, want, strict=True):
            close(g, w)
        return
    got = chx.to_numpy(got) if isinstance(got, chx.ndarray) else np.asarray(got)
    want = np.asarray(want)
    assert (got.dtype.kind, got.shape) == (want.dtype.kind, want.shape)
    if want.dtype.kind == "f":
        assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", ["int64", "int8", "bool"])
@pytest.mark.parametrize(
    "call",
    [
        lambda m, a: m.linalg.det(a),
        lambda m, a: m.linalg.slogdet(a),
        lambda m, a: m.linalg.inv(a),
        lambda m, a: m.linalg.pinv(a),
        lambda m, a: m.linalg.cond(a),
        lambda m, a: m.linalg.cond(a, 1),
        lambda m, a: m.linalg.matrix_rank(a),
        lambda m, a: m.linalg.solve(a, a[:, :1]),
        lambda m, a: m.linalg.solve(a, [1.0, 2, 3]),
        lambda m, a: m.linalg.tensorinv(a, 1),
        lambda m, a: m.linalg.tensorsolve(a, a[0]),
        lambda m, a: m.linalg.lstsq(a, a[0], rcond=None),
        lambda m, a: m.linalg.svd(a, compute_uv=False),
        lambda m, a: m.linalg.eigvalsh(a),
        lambda m, a: m.linalg.matrix_power(a, 0),
        lambda m, a: m.linalg.matrix_power(a, 1),
        lambda m, a: m.linalg.matrix_power(a, 5),
        lambda m, a: m.linalg.matrix_power(a, -2),
        lambda m, a: m.linalg.norm(a),
        lambda m, a: m.linalg.norm(a, 0, 1),
        lambda m, a: m.linalg.norm(a, np.inf),
        lambda m, a: m.linalg.norm(a, 3.5, 0),
        lambda m, a: m.linalg.norm(a, "nuc"),
    ],
)
def test_integers(call, dtype):
    a = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]]).astype(dtype)
    if dtype != "bool":
        a = a * 3 - 1
    close(call(chx, chx.array(a)), call(np, a))


def test_solve_of_an_integer_and_a_float(rng):
    a, b = np.array([[2, 1], [1, 3]]), rng.standard_normal(2).astype("float32")
    close(chx.linalg.solve(chx.array(a), chx.array(b)), np.linalg.solve(a, b))


@pytest.mark.parametrize(("m", "n"), [(0, 2), (3, 0), (0, 0)])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_lstsq_of_nothing(rng, m, n, columns):
    a, b = np.zeros((m, n)), rng.standard_normal((m, *columns))
    close(chx.linalg.lstsq(chx.array(a), chx.array(b)), np.linalg.lstsq(a, b, rcond=None))


@pytest.mark.parametrize("shape", [(4, 3, 2), (4, 2, 3), (4, 3, 3)])
def test_pinv_with_tolerances(rng, shape):
    a = rng.standard_normal(shape)
    rcond = np.array([1e-15, 0.5, 0.99, 2.0])
    want = np.linalg.pinv(a, rcond)
    for given in (rcond, rcond.tolist(), chx.array(rcond)):
        close(chx.linalg.pinv(chx.array(a), given), want)
    x = chx.array(a).require_grad()
    weights = rng.standard_normal(want.shape)
    chx.sum(chx.linalg.pinv(x, rcond) * chx.array(weights)).backward()
    step = rng.standard_normal(shape) * 1e-6
    slope = ((np.linalg.pinv(a + step, rcond) - np.linalg.pinv(a - step, rcond)) * weights).sum()
    np.testing.assert_allclose((chx.to_numpy(x.grad) * step).sum() * 2, slope, rtol=1e-4)
