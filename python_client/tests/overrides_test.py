"""Operators that chx overrides, with all of NumPy's arguments, against NumPy."""

import warnings

import chx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("seeded_session")


def same(got, want):
    if isinstance(want, (list, tuple)):
        assert type(got) is type(want)
        for g, w in zip(got, want, strict=True):
            same(g, w)
        return
    got, want = chx.to_numpy(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda m, a, b: m.where(a > 0),
        lambda m, a, b: m.where(a > 0, a, np.ones((3, 4, 5))),
        lambda m, a, b: m.where(a > 0, np.arange(5.0).tolist(), b),
        lambda m, a, b: m.where(np.arange(5) > 2, a, b),
        lambda m, a, b: m.roll(a, (1, 2), 0),
        lambda m, a, b: m.roll(a, (1, 2)),
        lambda m, a, b: m.roll(a, (1, -2), (0, -1)),
        lambda m, a, b: m.roll(a, 2, (0, 1)),
        lambda m, a, b: m.roll(a, (1, 2, 3), (1, 1, 0)),
        lambda m, a, b: m.roll(a, np.array([1, 2]), (0, 1)),
        lambda m, a, b: m.roll(a, 3),
        lambda m, a, b: m.roll(a, 3, -1),
        lambda m, a, b: m.roll(a, (), ()),
        lambda m, a, b: m.expand_dims(a, (0, 2)),
        lambda m, a, b: m.expand_dims(a, (-1, 0, 2)),
        lambda m, a, b: m.expand_dims(a, ()),
        lambda m, a, b: m.expand_dims(a, 1),
        lambda m, a, b: m.flip(a, axis=1),
        lambda m, a, b: m.flip(a, axis=(0, -1)),
        lambda m, a, b: m.flip(a, 1),
        lambda m, a, b: m.flip(a),
        lambda m, a, b: list(m.atleast_1d(a, b, b[0, 0, 0])),
        lambda m, a, b: list(m.atleast_2d(a, b[0, 0])),
        lambda m, a, b: list(m.atleast_3d(b[0, 0], b[0])),
        lambda m, a, b: m.atleast_3d(b[0]),
        lambda m, a, b: m.sort(a, kind="stable"),
        lambda m, a, b: m.sort(a, 0, "quicksort"),
        lambda m, a, b: m.argsort(a, kind="stable"),
        lambda m, a, b: m.argsort(a, axis=None, kind="mergesort"),
        lambda m, a, b: m.trace(a, dtype="float32"),
        lambda m, a, b: m.trace(a > 0, 1, 1, 2, dtype="int32"),
        lambda m, a, b: m.trace(a, 1, 1, 2),
        lambda m, a, b: m.nancumsum(b),
        lambda m, a, b: m.nancumsum(b, 1),
        lambda m, a, b: m.nancumprod(b, axis=-1),
        lambda m, a, b: m.nancumsum(a > 0, 0),
        lambda m, a, b: m.isclose(a, 1),
        lambda m, a, b: m.isclose(a, np.round(np.ones((4, 5)))),
        lambda m, a, b: m.isclose(0.5, a, atol=1),
        lambda m, a, b: m.isclose(a, [0.0, 1, 2, 3, 4], atol=1),
        lambda m, a, b: np.isclose(a, np.ones(5), atol=1),
        lambda m, a, b: np.dot(np.ones((2, 3)), a[:, :, 0]),
        lambda m, a, b: np.dot(a[:, :, 0], np.ones((4, 2))),
        lambda m, a, b: np.concatenate([np.ones((1, 4, 5)), a]),
        lambda m, a, b: np.tensordot(np.ones((2, 3)), a, 1),
        lambda m, a, b: np.cross(np.ones((4, 5, 3)), a.transpose(1, 2, 0)),
        lambda m, a, b: m.cross(a[:, :, 0].T, [1.0, 2, 3]),
        lambda m, a, b: m.column_stack([[1.0, 2, 3], a[:, :, 0]]),
        lambda m, a, b: getattr(m, "row_stack", np.vstack)([a[0], np.ones((2, 5))]),
        lambda m, a, b: m.divmod(a, [1.0, 2, 3, 4, 5]),
        lambda m, a, b: m.linalg.multi_dot([a[0], np.ones((5, 2)).tolist(), np.ones(2)]),
    ],
)
def test_arguments(rng, call):
    a, b = rng.integers(-3, 4, (3, 4, 5)) * 0.5, rng.standard_normal((3, 4, 5))
    a += np.arange(60).reshape(a.shape) * 1e-3
    b[rng.uniform(size=b.shape) < 0.3] = np.nan
    b[0, 0, 0] = 2.0
    same(call(chx, chx.array(a), chx.array(b)), call(np, a, b))


@pytest.mark.parametrize("other", [1, 1.0, np.float32(1), np.ones((2, 3)), [1.0, 1, 1]])
def test_allclose(other):
    x = chx.ones((2, 3), "float32")
    assert bool(chx.allclose(x, other)) and bool(chx.allclose(other, x)) and np.allclose(x, other)
    assert not bool(chx.allclose(x + 1, other))
    with pytest.raises(TypeError, match=r"\[allclose\] expects at least one array"):
        chx.allclose(1, other)


def test_refused():
    x = chx.ones((2, 3))
    for call, error, text in (
        (lambda: chx.where(x, x), ValueError, r"\[where\] expects both x and y"),
        (lambda: chx.sort(x, kind="bubble"), ValueError, r"\[sort\] expects one of .*'bubble'"),
        (lambda: chx.argsort(x, kind="b"), ValueError, r"\[argsort\] expects one of .*'b'"),
        (lambda: chx.flip(x, 0, axis=1), TypeError, r"\[flip\] expects axes or axis"),
        (lambda: chx.expand_dims(x, (0, 0)), ValueError, r"\[expand_dims\] expects each axis once"),
        (lambda: chx.roll(x, (1, 2, 3), (0, 1)), ValueError, r"\[roll\] expects one shift"),
    ):
        with pytest.raises(error, match=text):
            call()


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1), -1])
@pytest.mark.parametrize("ddof", [0, 1, 3, 4, 12, 13, 50, 0.0, 2.0, 0.5, 2.5, 7.5, -1])
def test_deviations(rng, axis, ddof):
    a = rng.standard_normal((3, 4))
    for name in ("var", "std"):
        for keepdims in (False, True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                want = getattr(np, name)(a, axis, ddof=ddof, keepdims=keepdims)
                nothing = getattr(np, name)(a * 0, axis, ddof=ddof)
            x = chx.array(a)
            same(getattr(chx, name)(x, axis, keepdims, ddof), want)
            same(getattr(x, name)(axis, keepdims, ddof=ddof), want)
            same(getattr(chx, name)(x * 0, axis, ddof=ddof), nothing)


@pytest.mark.parametrize("ddof", [1, 0.5])
def test_deviations_have_gradients(rng, ddof):
    a = rng.standard_normal(5)
    for function in (chx.var, chx.std):
        x = chx.array(a).require_grad()
        function(x, ddof=ddof).backward()
        centred = (a - a.mean()) / (5 - ddof)
        want = 2 * centred if function is chx.var else centred / np.std(a, ddof=ddof)
        np.testing.assert_allclose(chx.to_numpy(x.grad), want, rtol=1e-10)


def test_cumulative_ones_have_gradients(rng):
    a = rng.standard_normal(4)
    a[1] = np.nan
    x = chx.array(a).require_grad()
    chx.sum(chx.nancumsum(x)).backward()
    np.testing.assert_array_equal(chx.to_numpy(x.grad), [4, 0, 2, 1])


def test_methods(rng):
    a = rng.standard_normal((3, 4))
    x = chx.array(a)
    same(x.argsort(kind="stable"), a.argsort(kind="stable"))
    x.sort(0, kind="stable")
    same(x, np.sort(a, 0))


def test_errors_name_the_line_outside_of_this_package():
    a = chx.ones(10**6)
    with pytest.raises(chx.OutOfMemoryError, match=r"at: .*overrides_test\.py:"):
        chx.outer(a, a)[0, 0].item()
