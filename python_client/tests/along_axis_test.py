"""Functions along an axis against NumPy: differences, and elements taken and put at indices."""

import chx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("seeded_session")


def same(got, want):
    got = chx.to_numpy(got)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("axis", [2, 7, -3, -4])
def test_bad_axes(rng, axis):
    x = chx.array(rng.standard_normal((2, 3)))
    at = chx.zeros((2, 3), "int64")
    for name, call in {
        "diff": lambda: chx.diff(x, axis=axis),
        "put_along_axis": lambda: chx.put_along_axis(x, at, 1.0, axis),
        "take_along_axis": lambda: chx.take_along_axis(x, at, axis),
        "expand_dims": lambda: chx.expand_dims(x, (0, axis + np.sign(axis) * 2)),
        "roll": lambda: chx.roll(x, (1, 2), (0, axis)),
        "average": lambda: chx.average(x, axis),
        "cross": lambda: chx.cross(x, x, axis=axis),
        "tensordot": lambda: chx.tensordot(x, x, ([0], [axis])),
        "size": lambda: chx.size(x, axis),
        "norm": lambda: chx.linalg.norm(x, "fro", (0, axis)),
        "tensorsolve": lambda: chx.linalg.tensorsolve(x, x, [axis]),
    }.items():
        with pytest.raises(chx.DimensionError, match=rf"\[{name}\] expects an axis in \[-\d, \d\)"):
            call()


@pytest.mark.parametrize("axis", [0, 1, -1, -2, None])
@pytest.mark.parametrize("given", [chx.array, np.asarray, lambda a: a.tolist()])
def test_take_and_put(rng, axis, given):
    a = rng.standard_normal((3, 4))
    count = {None: (12, 20), 0: (3, 5), 1: (4, 5)}.get(axis if axis is None else axis % 2)
    shape = (20,) if axis is None else (5, 4) if axis % 2 == 0 else (3, 5)
    at = rng.integers(-count[0], count[0], shape)
    same(chx.take_along_axis(chx.array(a), given(at), axis), np.take_along_axis(a, at, axis))
    once = rng.permuted(np.broadcast_to(np.arange(count[0]), (*shape[:0], 6, count[0])), axis=1)
    if axis is None:
        at = once[0, :7] - count[0]
    else:
        at = once[: a.shape[1 - axis % 2], :2] - count[0] * rng.integers(2)
        at = at if axis % 2 else at.T
    values = rng.standard_normal(at.shape)
    for value in (values, 99.0):
        x, want = chx.array(a), a.copy()
        chx.put_along_axis(x, given(at), value, axis)
        np.put_along_axis(want, at, value, axis)
        same(x, want)
    if axis is None:
        return
    x, want = chx.array(a.T).T, a.T.copy().T
    one = at[:1] if axis % 2 else at[:, :1]  # broadcasts over the other axis
    chx.put_along_axis(x, given(one), value, axis)
    np.put_along_axis(want, one, value, axis)
    same(x, want)
    same(chx.take_along_axis(x, given(one), axis), np.take_along_axis(want, one, axis))


def test_put_without_axis_into_a_view(rng):
    a = rng.standard_normal((3, 4))
    x, want = chx.array(a).T, a.copy().T
    chx.put_along_axis(x, [0, -1], [7.0, 8.0], None)
    want.flat[[0, -1]] = [7.0, 8.0]  # put_along_axis refuses views since NumPy 2
    same(x, want)


def test_take_has_gradients_where_it_broadcasts(rng):
    x = chx.array(rng.standard_normal((1, 4))).require_grad()
    chx.sum(chx.take_along_axis(x, [[0], [0], [3]], 1)).backward()
    same(x.grad, np.array([[2.0, 0, 0, 1]]))


@pytest.mark.parametrize("given", [chx.array, np.asarray, lambda a: a.tolist()])
@pytest.mark.parametrize("bad", [3, -4, 2**40])
def test_indices_out_of_range(given, bad):
    x = chx.zeros((2, 3))
    with pytest.raises(IndexError, match=rf"\[put_along_axis\] index {bad} .* axis 1 of size 3"):
        chx.put_along_axis(x, given(np.array([[bad], [0]])), 99.0, 1)
    same(x, np.zeros((2, 3), "float32"))
    with pytest.raises(IndexError, match=rf"\[take_along_axis\] index {bad}"):
        chx.to_numpy(chx.take_along_axis(x, given(np.array([[bad], [0]])), 1))


def test_indices_that_are_none():
    x = chx.zeros((2, 3))
    with pytest.raises(IndexError, match=r"\[put_along_axis\] expects an array of integers"):
        chx.put_along_axis(x, [[0.5], [0.0]], 1.0, 1)
    for bad in (chx.array([[0.5], [0.0]]), chx.array([[True], [False]])):
        with pytest.raises(IndexError, match=r"\[take_along_axis\] expects an array of integers"):
            chx.take_along_axis(x, bad, 1)
    with pytest.raises(chx.DimensionError, match=r"\[put_along_axis\] expects indices of 2"):
        chx.put_along_axis(x, [0], 1.0, 1)
    with pytest.raises(chx.DimensionError, match=r"\[take_along_axis\] expects shapes that agree"):
        chx.take_along_axis(x, [[0], [0], [0]], 1)
    same(chx.take_along_axis(x, [[], []], 1), np.zeros((2, 0), "float32"))
