"""chx.linalg: errors that depend on values, and the forms of what is returned."""

import importlib
import inspect

import chx
import numpy as np
import pytest


@pytest.fixture(scope="module", autouse=True)
def session():
    with chx.connect() as session:
        yield session


@pytest.mark.parametrize("n", [2, 40])
@pytest.mark.parametrize("name", ["inv", "cholesky"])
def test_values_fail_at_the_call(name, n):
    zeros = chx.zeros((3, n, n), "float64")
    with pytest.raises(chx.ChainerxError, match=rf"\[(solve|{name})\] expects"):
        getattr(chx.linalg, name)(zeros)
    # The session goes on, and the error has been told.
    assert float(chx.ones((2, 2)).sum()) == 4
    assert not chx.get_default_device().synchronize()


def test_solve_fails_at_the_call():
    with pytest.raises(chx.ChainerxError, match="not singular"):
        chx.linalg.solve(chx.ones((2, 2)), chx.ones((2,)))


def test_not_positive_definite_names_the_matrix():
    a = np.stack([np.eye(2), -np.eye(2)])
    with pytest.raises(chx.ChainerxError, match="positive definite.*for matrix 1"):
        chx.linalg.cholesky(chx.array(a))


def test_wrong_shapes_are_refused():
    for name in ("inv", "cholesky", "eigh", "eigvalsh", "det"):
        for shape in [(2,), (2, 3), ()]:
            with pytest.raises(chx.DimensionError):
                getattr(chx.linalg, name)(chx.ones(shape))
    with pytest.raises(chx.DimensionError):
        chx.linalg.solve(chx.ones((2, 2)), chx.ones((3,)))


def test_forms_of_results():
    a = chx.array(np.diag([3.0, 2.0]))
    assert isinstance(chx.linalg.svd(a), tuple)
    assert isinstance(chx.linalg.svd(a, compute_uv=False), chx.ndarray)
    assert isinstance(chx.linalg.qr(a, "r"), chx.ndarray)
    w, v = chx.linalg.eigh(a)
    assert w.shape == (2,) and v.shape == (2, 2)
    with pytest.raises(ValueError):
        chx.linalg.qr(a, "full")
    for name in ("eigh", "eigvalsh"):
        function = getattr(chx.linalg, name)
        for wrong, error in [("lower", ValueError), ("X", chx.ChainerxError), (None, TypeError)]:
            with pytest.raises(error):
                function(a, wrong)


def test_pinv_of_equal_singular_values_has_gradients():
    a = chx.array(np.eye(3) * 2).require_grad()
    (grad,) = chx.grad([chx.linalg.pinv(a)[0, 1]], [a], enable_double_backprop=True)
    expected = np.zeros((3, 3))
    expected[0, 1] = -0.25
    np.testing.assert_allclose(chx.to_numpy(grad), expected)
    (second,) = chx.grad([grad[0, 1]], [a])
    assert np.isfinite(chx.to_numpy(second)).all()


def test_gradients_that_do_not_exist():
    a = chx.array(np.eye(3) + 0.1).require_grad()
    for output in (chx.linalg.svd(a)[0], chx.linalg.qr(a, "r")):
        (grad,) = chx.grad([output.sum()], [a])
        with pytest.raises(chx.NotImplementedError, match="has (a|no) gradient"):
            float(grad.sum())
    wide = chx.ones((2, 3)).require_grad()
    (grad,) = chx.grad([chx.linalg.qr(wide)[0].sum()], [wide])
    with pytest.raises(chx.NotImplementedError, match="only where R is square"):
        float(grad.sum())


def test_module():
    assert importlib.import_module("chx.linalg") is chx.linalg
    assert chx.linalg._is_lapack_available() is True
    assert not hasattr(chx, "solve")
    assert str(chx.linalg.qr.__signature__) == "(a, mode='reduced')"
    assert inspect.signature(chx.linalg.pinv).parameters["rcond"].default == 1e-15
