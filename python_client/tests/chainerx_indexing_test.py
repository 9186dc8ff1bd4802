"""Integer arrays, lists and masks as keys, and setting parts of arrays, as programs for ChainerX see them."""

import chx
import numpy as np
import pytest


@pytest.fixture(scope="module", autouse=True)
def two_devices():
    session = chx.connect(devices="native:0,native:1")
    yield session
    session.close()


@pytest.fixture(params=[None, "native:1"], ids=["default", "native:1"])
def device(request):
    return request.param


def check(actual, expected, device=None):
    """The same values, shape and dtype, on a device."""
    expected = np.asarray(expected)
    assert type(actual) is chx.ndarray
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    assert actual.device is chx.get_device(device)
    np.testing.assert_array_equal(chx.to_numpy(actual), expected)


def leaf(values):
    return chx.array(values).require_grad()


KEYS = [
    np.array([True, False, True]),
    np.array([[True, False]] * 3),
    np.array([2, 0, -1]),
    np.array([[1], [0]], np.int8),
    np.array(1),
    np.zeros(0, np.int64),
    (np.array([0, 2]), np.array([1, 0])),
    (np.array([0, 2]), slice(None, None, -1)),
    (Ellipsis, np.array([1])),
    (None, np.array([False, True, True])),
]


def as_arrays(key):
    if isinstance(key, tuple):
        return tuple(map(as_arrays, key))
    return chx.array(key) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_arrays_as_keys(key, device):
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    a = chx.array(values, device=device)
    check(a[as_arrays(key)], values[key], device)
    view = a[:]
    for k, value in [(as_arrays(key), 7), (key, chx.array(values[key] * 2, device=device))]:
        a[k] = value
        values[key] = chx.to_numpy(value) if isinstance(value, chx.ndarray) else value
        check(view, values, device)
    with pytest.raises(IndexError):
        a[chx.array([7])]
    with pytest.raises(IndexError):
        a[chx.array([7])] = 0
    check(a, values, device)


@pytest.mark.parametrize("key", [[0, 2], [True, False, True], ([0, 1], 1), (0, [0])], ids=repr)
def test_lists_as_keys(key):
    values = np.arange(6.0).reshape(3, 2)
    a = chx.array(values)
    check(a[key], values[key])
    a[key] = -1
    values[key] = -1
    check(a, values)


def test_setting_a_part_of_a_view():
    values = np.zeros((3, 4), np.int32)
    a = chx.array(values)
    a[:, ::2][chx.array([True, False, True])] = [[1, 2], [3, 4]]
    values[:, ::2][np.array([True, False, True])] = [[1, 2], [3, 4]]
    check(a, values)
    with pytest.raises(chx.DimensionError):
        a[[0, 1]] = [1, 2, 3]


def test_indexing_of_connected_arrays():
    x = leaf([1.0, 2.0, 3.0])
    mask = chx.array([True, False, True])
    for y in (x, x * 2):
        for key in (0, slice(None), mask, [0]):
            with pytest.raises(RuntimeError, match="setitem"):
                y[key] = 1.0
        assert y[mask].is_backprop_required()
        assert y[0].is_backprop_required()
    with chx.no_backprop_mode():
        assert x[mask].tolist() == [1.0, 3.0]
    x.as_grad_stopped()[mask] = 0
    assert x.tolist() == [0.0, 2.0, 0.0]


def test_graphs_that_are_gone_do_not_count():
    x = chx.array([1.5, 2.5, 3.5])
    with chx.backprop_scope("inner") as backprop_id:
        x.require_grad(backprop_id)
        with pytest.raises(RuntimeError):
            x[0] = 0
        with pytest.raises(RuntimeError):
            chx.fix(x)
    x[0] = 7
    x[[1]] = 8
    assert x.tolist() == [7.0, 8.0, 3.5] and chx.fix(x).tolist() == [7.0, 8.0, 3.0]
