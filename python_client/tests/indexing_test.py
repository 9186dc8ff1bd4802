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
        [0, 2],
        np.array([0, 2]),
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


def random_key(rng, shape):
    """A key of integer arrays, masks, lists, integers, slices, None and Ellipsis."""
    items = []
    axis = 0
    shape_of_all = tuple(rng.integers(1, 4, rng.integers(0, 3)))
    while axis < len(shape):
        kind = rng.integers(0, 8)
        size = shape[axis]
        if kind == 0 and axis + 2 <= len(shape):
            return (*items, rng.random(shape[axis : axis + 2]) < 0.5)
        if kind <= 2:
            index = rng.integers(-size, size, shape_of_all)
            items.append(index.tolist() if index.ndim and rng.random() < 0.3 else index)
        elif kind == 3:
            items.append(int(rng.integers(-size, size)))
        elif kind == 4:
            items.append(None)
            continue
        elif kind == 5 and len(items) < 5:
            flag = bool(rng.random() < 0.8)
            items.append(np.array(flag))
            continue
        else:
            items.append(slice(*sorted(rng.integers(0, size + 1, 2))))
        axis += 1
    if rng.random() < 0.3:
        items[-1] = Ellipsis
    return tuple(items)


def on_device(key, rng):
    """Some of the arrays as arrays of ours."""
    return tuple(
        chx.array(item) if isinstance(item, np.ndarray) and rng.random() < 0.5 else item
        for item in key
    )


def test_advanced_indexing_reads_writes_and_has_gradients():
    seed = np.random.SeedSequence().entropy % 2**32
    print("seed", seed)
    rng = np.random.default_rng(seed)
    checked = 0
    while checked < 150:
        shape = tuple(rng.integers(1, 5, rng.integers(1, 5)))
        key = random_key(rng, shape)
        if not any(isinstance(item, (np.ndarray, list)) for item in key):
            continue
        if len(shape) + len(key) > 8:
            continue  # perhaps of more dimensions on the way than the ten that arrays have here
        values = rng.standard_normal(shape)
        try:
            want = values[key]
        except IndexError:
            with pytest.raises(IndexError):
                chx.array(values)[key]
            continue
        checked += 1
        mixed = on_device(key, rng)
        a = chx.array(values).require_grad()
        got = a[mixed]
        np.testing.assert_array_equal(chx.to_numpy(got), want)
        weight = rng.standard_normal(want.shape)
        chx.sum(got * chx.array(weight)).backward()
        gradient = np.zeros(shape)
        np.add.at(gradient, key, weight)
        np.testing.assert_allclose(chx.to_numpy(a.grad), gradient, atol=1e-12)
        # Written to a strided part.
        whole = np.zeros((*shape, 2))
        b = chx.array(whole)
        new = rng.standard_normal(want.shape[-1:] if rng.random() < 0.5 else want.shape)
        whole[..., 0][key] = new
        b[..., 0][mixed] = chx.array(new)
        np.testing.assert_array_equal(chx.to_numpy(b), whole)


def test_sequences_index_as_numpy_s():
    values = np.arange(24.0).reshape(4, 3, 2)
    for key in [
        ((0, 2),),
        (slice(1, None), (0, 2)),
        range(2),
        range(0),
        [],
        [[]],
        ((),),
        (None, 1, range(2)),
        (range(1, 3), (True, False, True)),
        ((0, -1), slice(None), [1, 1]),
    ]:
        a, want = chx.array(values), values.copy()
        check(a[key], want[key])
        a[key] = -1
        want[key] = -1
        check(a, want)
    for key in [((0, 9),), ((0.5,),), ("ab",), ({0},), ((0, 1), (0, 1, 2))]:
        with pytest.raises(IndexError):
            chx.array(values)[key]


def test_masks():
    values = np.arange(12.0).reshape(3, 4)
    a = chx.array(values)
    check(a[a > 4], values[values > 4])
    check(a[values[:, 0] > 3], values[values[:, 0] > 3])
    a[a > 4] = -1
    values[values > 4] = -1
    check(a, values)
    a[:, a[0] > 1] = chx.array([[7.0], [8.0], [9.0]])
    values[:, values[0] > 1] = [[7.0], [8.0], [9.0]]
    check(a, values)
    for key in [np.ones(2, bool), (0, np.ones(3, bool)), np.zeros((0, 2), bool), np.array([0.5])]:
        with pytest.raises(IndexError):
            a[key]
    yes, no = np.array(True), np.array(False)
    for key in [yes, no, (slice(None), yes), np.zeros(0, bool), np.zeros((3, 0), bool)]:
        check(a[key], values[key])
    a[yes], values[yes] = -2, -2
    a[no] = 5
    check(a, values)
    scalar = chx.array(3.0)
    check(scalar[yes], np.array([3.0]))
    check(scalar[chx.array(False)], np.zeros(0))
    for got, want in zip(chx.nonzero(a), np.nonzero(values), strict=True):
        check(got, want)
    with pytest.raises(chx.DimensionError):
        chx.nonzero(chx.ones(()))


def test_indices_out_of_range():
    a = chx.zeros((3, 4))
    for key in [np.array([0, 3]), ([0, -4],), (slice(None), np.array([4])), ([0], [1, 5])]:
        with pytest.raises(IndexError, match="out of bounds"):
            a[key]
        with pytest.raises(IndexError, match="out of bounds"):
            a[key] = 1
    for key in [chx.array([3]), (chx.array([0]), np.array([4])), ([0], chx.array([[-5]]))]:
        with pytest.raises(IndexError, match="out of bounds"):
            a[key]
        with pytest.raises(IndexError, match="out of bounds"):
            a[key] = 1
    with pytest.raises(IndexError, match="broadcast"):
        a[[0, 1], [0, 1, 2]]
    with pytest.raises(RuntimeError):
        a.require_grad()[[0]] = 1


@pytest.mark.parametrize(
    "key",
    [
        True,
        False,
        (True, 0),
        (slice(None), True),
        (0, False),
        (slice(None), (0, 1)),
        ((0, 1), (0, 1)),
        ((0, 1), slice(1, 3)),
        range(2),
        (range(2), range(1, 3)),
        (Ellipsis, (2, 0)),
        ((), slice(None)),
        (((0, 1), (1, 0)), 2),
    ],
)
def test_bools_and_sequences(key):
    a = np.arange(6.0).reshape(2, 3)
    x = chx.array(a)
    got = chx.to_numpy(x[key])
    assert got.shape == a[key].shape
    np.testing.assert_array_equal(got, a[key])
    for value in (7.0, -np.arange(a[key].size + 1.0)[1:].reshape(1, 1, 1, *a[key].shape)):
        x[key] = value if isinstance(value, float) else chx.array(value)
        a[key] = value
        np.testing.assert_array_equal(chx.to_numpy(x), a)
    leaf = chx.array(a).require_grad()
    chx.sum(leaf[key]).backward()
    counts = np.zeros_like(a)
    np.add.at(counts, key, 1)
    np.testing.assert_array_equal(chx.to_numpy(leaf.grad), counts)


def test_sequences_that_are_no_indices():
    x = chx.ones((2, 3))
    for key in (((0.5, 1),), "a", (0, "a"), 1.5, ((0, 5),)):
        with pytest.raises(IndexError, match=r"\[getitem\]"):
            x[key]


@pytest.mark.parametrize("key", [np.True_, np.False_, (np.True_, 0), (slice(None), np.True_)])
def test_numpys_bools_are_bools(key):
    a = np.arange(6.0).reshape(2, 3)
    got = chx.to_numpy(chx.array(a)[key])
    assert got.shape == a[key].shape
    np.testing.assert_array_equal(got, a[key])


@pytest.mark.parametrize("key", [0, (0, 1), slice(None), (Ellipsis, 1)])
def test_what_is_written_may_have_leading_ones(key):
    a = np.arange(6.0).reshape(2, 3)
    x = chx.array(a)
    value = -np.arange(1.0, 1 + a[key].size).reshape(1, 1, *np.shape(a[key]))
    a[key] = value[0, 0]  # NumPy 2 refuses leading ones at an element
    for written in (chx.array(value), value, value.tolist()):
        y = x.copy()
        y[key] = written
        np.testing.assert_array_equal(chx.to_numpy(y), a)
    with pytest.raises(chx.DimensionError):
        x[0] = chx.ones((2, 1, 3))


def test_gradients_of_parts_add_up():
    """Parts of an array, once or again, beside the whole of it: also where a gradient is somebody else's."""
    rng = np.random.default_rng()
    values = rng.standard_normal((4, 3))
    for double in (False, True):
        x, y = chx.array(values).require_grad(), chx.array(values).require_grad()
        # A sum gives both of its inputs one gradient.
        a, b = x * 1.0, y * 1.0
        total = a + b
        parts = (a[1] * 2.0).sum() + (a[::-2] * 3.0).sum() + (a[1, None, :2] * 5.0).sum() + a[0, 0]
        parts = parts + (a[1:3] * chx.array(values[1:3])).sum() + (a[0:0] * 7.0).sum()
        (total.sum() + parts).backward(enable_double_backprop=double)
        want = np.ones_like(values)
        want[1] += 2
        want[::-2] += 3
        want[1, :2] += 5
        want[0, 0] += 1
        want[1:3] += values[1:3]
        np.testing.assert_allclose(chx.to_numpy(x.grad), want, rtol=1e-12)
        np.testing.assert_array_equal(chx.to_numpy(y.grad), np.ones_like(values))
    # Gradients that outputs start from, and those that arrays have kept.
    x = chx.array(values).require_grad()
    z = x * 1.0
    start, ones = chx.array(values), chx.ones((), "float64")
    outputs = [z, z[2].sum(), z[2].sum()]
    (got,) = chx.grad(outputs, [x], grad_outputs=[start, ones, ones])
    want = values.copy()
    want[2] += 2
    np.testing.assert_allclose(chx.to_numpy(got), want, rtol=1e-12)
    np.testing.assert_array_equal(chx.to_numpy(start), values)
    kept = []
    for row in (3, 1):
        (x[row].sum() + x[row].sum()).backward()
        kept.append(x.grad)
    want = np.zeros_like(values)
    for row, grad in zip((3, 1), kept, strict=True):
        want[row] += 2
        np.testing.assert_array_equal(chx.to_numpy(grad), want)


def test_gradients_of_parts_in_a_program():
    values = np.random.default_rng().standard_normal((6, 2, 3)).astype("float32")

    def gradient(x):
        x = x.as_grad_stopped().require_grad()
        (chx.stack([x[t] * float(t) for t in range(6)]).sum() + (x[2] * x[2]).sum()).backward()
        return x.grad

    want = np.zeros_like(values) + np.arange(6, dtype="float32")[:, None, None]
    want[2] += 2 * values[2]
    recorded = chx.jit(gradient)
    for _ in range(3):
        for function in (gradient, recorded):
            np.testing.assert_allclose(chx.to_numpy(function(chx.array(values))), want, rtol=1e-6)
