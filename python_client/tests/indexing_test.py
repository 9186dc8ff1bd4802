"""Indexing of ndarray against NumPy: read, write, refusals."""

import chx
import numpy as np
import pytest


def check(actual, expected):
    """The same values, shape and dtype."""
    expected = np.asarray(expected)
    assert type(actual) is chx.ndarray
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(chx.to_numpy(actual), expected)


INDICES = [
    0,
    -1,
    np.int8(1),
    np.uint64(1),
    slice(None),
    slice(1, None),
    slice(None, None, -1),
    slice(-100, 100),
    slice(2, 1),
    slice(10**30, -(10**30), -1),
    slice(np.int64(1), None, np.int8(2)),
    None,
    Ellipsis,
    (),
    (0, 1, 2),
    (slice(None), 1),
    (Ellipsis, -1),
    (0, Ellipsis, 1),
    (None, 0, slice(None, None, 2), None),
    (Ellipsis, slice(1, 3), None),
    (slice(0, 0), 1),
    (1, slice(None), slice(3, 0, -2)),
]


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_getitem_and_setitem(index):
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    a = chx.array(values)
    part = a[index]
    check(part, values[index])
    assert part is not a
    for value in [7, np.float32(-1), np.arange(np.asarray(values[index]).size)]:
        if isinstance(value, np.ndarray):
            value = value.reshape(np.shape(values[index])).astype(np.float32)
        values[index] = value
        a[index] = chx.array(value) if isinstance(value, np.ndarray) else value
        check(a, values)
        check(part, values[index])


@pytest.mark.parametrize(
    "index",
    [
        2,
        -3,
        (0, 3),
        (0, 0, 0),
        (Ellipsis, Ellipsis),
        "a",
        1.0,
        [0, 1],
        True,
        np.array([0, 1]),
        10**30,
    ],
    ids=repr,
)
def test_index_errors_come_at_once(index):
    a = chx.zeros((2, 3))
    with pytest.raises(IndexError):
        a[index]


@pytest.mark.parametrize("index", [2, -3, (0, 3), (0, 0, 0), "a", 1.0, 10**30, [0, 2]], ids=repr)
def test_setting_at_a_bad_index(index):
    a = chx.zeros((2, 3))
    with pytest.raises(IndexError):
        a[index] = 0
    assert a.tolist() == np.zeros((2, 3)).tolist()


def test_setitem_converts_and_broadcasts():
    values = np.zeros((2, 3), np.int32)
    a = chx.array(values)
    for index, value in [(0, [1, 2, 3]), (slice(None), np.array([4.7, 5.2, 6.9])), ((1, 2), True)]:
        a[index] = value
        values[index] = value
        check(a, values)
    a[...] = chx.array([[1.5], [2.5]])
    check(a, np.array([[1, 1, 1], [2, 2, 2]], np.int32))
    with pytest.raises(chx.DimensionError):
        a[0] = [1, 2]
    with pytest.raises(TypeError):
        del a[0]


def test_setitem_of_overlapping_memory():
    values = np.arange(8.0)
    a = chx.array(values)
    a[1:] = a[:-1]
    values[1:] = values[:-1]
    check(a, values)


def test_iteration():
    a = chx.array([[1, 2], [3, 4]])
    assert [row.tolist() for row in a] == [[1, 2], [3, 4]]
    assert list(chx.zeros(0)) == []
