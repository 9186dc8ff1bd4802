"""Functions of chx.linalg that are made of operators, against NumPy."""

import chx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("seeded_session")


def close(got, want, rtol=1e-9):
    want = np.asarray(want)
    got = chx.to_numpy(got) if isinstance(got, chx.ndarray) else np.asarray(got)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-11)


def check_slope(rng, function, *arrays):
    """The gradient of the sum of the results' tanh, along a random direction."""
    leaves = [chx.array(a).require_grad() for a in arrays]
    chx.sum(chx.tanh(function(*leaves))).backward()
    steps = [rng.standard_normal(a.shape) for a in arrays]
    eps = 1e-6

    def total(t):
        moved = [chx.array(a + t * s) for a, s in zip(arrays, steps, strict=True)]
        return float(chx.sum(chx.tanh(function(*moved))))

    want = (total(eps) - total(-eps)) / (2 * eps)
    got = sum((chx.to_numpy(x.grad) * s).sum() for x, s in zip(leaves, steps, strict=True))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("m", "n"), [(5, 3), (3, 3), (2, 4), (4, 1)])
@pytest.mark.parametrize("k", [None, 1, 2])
def test_lstsq(rng, m, n, k):
    a = rng.standard_normal((m, n))
    b = rng.standard_normal((m,) if k is None else (m, k))
    x, residuals, rank, s = chx.linalg.lstsq(chx.array(a), chx.array(b))
    want = np.linalg.lstsq(a, b, rcond=None)
    close(x, want[0])
    close(residuals, want[1])
    assert rank == want[2]
    close(s, want[3])
    check_slope(rng, lambda a, b: chx.linalg.lstsq(a, b)[0], a, b)
    if m > n:
        check_slope(rng, lambda a, b: chx.linalg.lstsq(a, b)[1], a, b)


def test_lstsq_of_a_lower_rank(rng):
    a = rng.standard_normal((5, 1)) @ rng.standard_normal((1, 3))
    b = rng.standard_normal(5)
    got, want = chx.linalg.lstsq(chx.array(a), chx.array(b)), np.linalg.lstsq(a, b, rcond=None)
    close(got[0], want[0])
    assert got[1].shape == want[1].shape == (0,) and got[2] == want[2] == 1
    got = chx.linalg.lstsq(chx.array(np.diag([1.0, 0.1])), chx.array([1.0, 1.0]), rcond=0.5)
    assert got[2] == 1 and got[0].tolist() == [1, 0]
    single = chx.linalg.lstsq(chx.array(a, "float32"), chx.array(b, "float32"))
    assert single[0].dtype == "float32" and single[2] == 1
    with pytest.raises(chx.DimensionError, match="lstsq"):
        chx.linalg.lstsq(chx.array(a), chx.array(b[:4]))


def test_cond(rng):
    # Singular values that differ: at equal ones there is no gradient, near 0 rounding is amplified.
    u, _, v = np.linalg.svd(rng.standard_normal((2, 3, 3)))
    a = u * [3.0, 2.0, 1.0] @ v
    for p in (None, 1, -1, 2, -2, np.inf, -np.inf, "fro"):
        close(chx.linalg.cond(chx.array(a), p), np.linalg.cond(a, p))
        check_slope(rng, lambda x, p=p: chx.linalg.cond(x, p), a)
    close(chx.linalg.cond(chx.array(a[0, :2])), np.linalg.cond(a[0, :2]))
    assert float(chx.linalg.cond(chx.array([[1.0, 0.0], [0.0, 0.0]]))) == np.inf


def test_matrix_rank(rng):
    a = rng.standard_normal((4, 2)) @ rng.standard_normal((2, 5))
    stack = np.stack([a, rng.standard_normal((4, 5)), np.zeros((4, 5))])
    close(chx.linalg.matrix_rank(chx.array(stack)), np.linalg.matrix_rank(stack))
    close(chx.linalg.matrix_rank(chx.array(stack), tol=2.0), np.linalg.matrix_rank(stack, tol=2.0))
    close(chx.linalg.matrix_rank(chx.array(a @ a.T), hermitian=True), 2)
    assert [int(chx.linalg.matrix_rank(chx.array(v))) for v in ([0.0, 1.0], [0.0])] == [1, 0]


@pytest.mark.parametrize(
    "shapes",
    [
        [(2, 3), (3, 4)],
        [(10, 3), (3, 20), (20, 1)],
        [(3,), (3, 4), (4, 5), (5,)],
        [(3,), (3, 4)],
        [(2, 3), (3, 5), (5, 1), (1, 6), (6,)],
    ],
)
def test_multi_dot(rng, shapes):
    arrays = [rng.standard_normal(s) for s in shapes]
    got = chx.linalg.multi_dot([chx.array(a) for a in arrays])
    close(got, np.linalg.multi_dot(arrays))
    check_slope(rng, lambda *a: chx.linalg.multi_dot(a), *arrays)


def test_multi_dot_refuses():
    for shapes in ([(2, 3), (2, 3)], [(2, 3), (3,), (3, 2)], [(1, 2, 2), (2, 2)]):
        with pytest.raises(chx.DimensionError, match="multi_dot"):
            chx.linalg.multi_dot([chx.ones(s) for s in shapes])
    with pytest.raises(ValueError, match="multi_dot"):
        chx.linalg.multi_dot([chx.ones((2, 2))])


def test_tensor_inverses(rng):
    a = rng.standard_normal((4, 6, 8, 3))
    close(chx.linalg.tensorinv(chx.array(a)), np.linalg.tensorinv(a))
    a = rng.standard_normal((2, 3, 6))
    b = rng.standard_normal((2, 3))
    close(chx.linalg.tensorsolve(chx.array(a), chx.array(b)), np.linalg.tensorsolve(a, b))
    a = rng.standard_normal((6, 2, 3))
    got = chx.linalg.tensorsolve(chx.array(a), chx.array(b), axes=[0])
    close(got, np.linalg.tensorsolve(a, b, axes=[0]))
    check_slope(rng, lambda a, b: chx.linalg.tensorsolve(a, b, axes=[0]), a, b)


def test_norms_by_name(rng):
    a = rng.standard_normal((2, 3, 4))
    for name in ("fro", "nuc"):
        for axis in ((0, 1), (2, 0), (-1, 1)):
            for keepdims in (False, True):
                got = chx.linalg.norm(chx.array(a), name, axis, keepdims)
                close(got, np.linalg.norm(a, name, axis, keepdims))
        close(chx.linalg.norm(chx.array(a[0]), name), np.linalg.norm(a[0], name))
        check_slope(rng, lambda x, n=name: chx.linalg.norm(x, n), a[0])
    for wrong in (("fro", None), ("nuc", 1), ("max", (0, 1)), (3, (0, 1)), (2, (0, 1, 2))):
        with pytest.raises(ValueError, match="norm"):
            chx.linalg.norm(chx.array(a), *wrong)


def test_complex_eigenvalues_are_an_error(rng):
    turn = chx.array([[0.0, -1.0], [1.0, 0.0]])
    for function in (chx.linalg.eig, chx.linalg.eigvals):
        with pytest.raises(chx.linalg.LinAlgError, match="real eigenvalues, got complex"):
            function(turn)
        stack = chx.stack([chx.eye(2), turn])
        with pytest.raises(chx.linalg.LinAlgError, match="for matrix 1"):
            function(stack)
        with pytest.raises(chx.DimensionError):
            function(chx.ones((2, 3)))
    w, v = chx.linalg.eig(chx.array(rng.standard_normal((4, 4)) + np.diag([0, 20, 40, 60.0])))
    np.testing.assert_allclose(chx.to_numpy(chx.linalg.norm(v, axis=0)), 1)


def test_a_singular_matrix_is_a_linalg_error():
    with pytest.raises(chx.linalg.LinAlgError):
        chx.linalg.inv(chx.zeros((2, 2)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_is_a_linalg_error(dtype, value):
    a = chx.array(np.where(np.arange(9).reshape(3, 3) % 4 == 1, value, 33.0), dtype)
    lower, linalg = a.T, chx.linalg
    for function in (
        lambda: linalg.eig(a),
        lambda: linalg.eigvals(a),
        lambda: linalg.eigh(lower),
        lambda: linalg.eigvalsh(a, "U"),
        lambda: linalg.svd(a),
        lambda: linalg.svd(a, compute_uv=False),
        lambda: linalg.pinv(a),
        lambda: linalg.norm(a, 2),
        lambda: linalg.norm(a, "nuc"),
        lambda: linalg.cond(a),
        lambda: linalg.matrix_rank(a),
        lambda: linalg.lstsq(a, a[0]),
    ):
        with pytest.raises(linalg.LinAlgError, match="expects finite elements, got -?(inf|nan)"):
            print(function())
    assert chx.isnan(linalg.solve(a, a)).any()
    assert chx.isnan(linalg.cofactors(a)).all()


def test_second_gradients_of_determinants_beside_what_is_not_finite():
    n = 128
    rotations = np.linalg.qr(np.random.default_rng(0).standard_normal((2, n, n)))[0]
    rotations[1, 2, 3] = np.nan
    a = chx.array(rotations, "float32").require_grad()
    (grad,) = chx.grad([chx.sum(chx.linalg.det(a))], [a], enable_double_backprop=True)
    (second,) = chx.grad([chx.sum(grad)], [a])
    assert chx.isfinite(second[0]).all()
    assert chx.isnan(second[1]).any()
