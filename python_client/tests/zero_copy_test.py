"""NumPy arrays and chx arrays over the same memory, between processes of one host."""

import gc
import os
import threading
import time

import chx
import numpy as np
import pytest


@pytest.fixture(scope="module", autouse=True)
def session():
    with chx.connect() as session:
        yield session


def view(array):
    out = chx.to_numpy(array, copy=False)
    assert type(out.base).__name__ == "SharedMemory"
    return out


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float16", "float32"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (300, 400)])
def test_writes_go_both_ways(dtype, shape):
    a = chx.zeros(shape, dtype)
    v = view(a)
    assert v.shape == shape and v.dtype == dtype and v.flags.writeable
    v[...] = 1
    np.testing.assert_array_equal(chx.to_numpy(a), np.ones(shape, dtype))
    a.fill(0)
    np.testing.assert_array_equal(v, np.zeros(shape, dtype))


def test_strides_are_the_arrays():
    a = chx.arange(60, dtype="float32").reshape(3, 4, 5)
    whole = view(a)
    for part, expected in [
        (a[1], whole[1]),
        (a[:, ::-2], whole[:, ::-2]),
        (a.T, whole.T),
        (a[2, 3, 4], whole[2, 3, 4, ...]),
        (a[::-1, 1:3, ::2], whole[::-1, 1:3, ::2]),
    ]:
        v = view(part)
        assert v.strides == part.strides
        np.testing.assert_array_equal(v, expected)
        v[...] = -1
        np.testing.assert_array_equal(chx.to_numpy(part), v)
        np.testing.assert_array_equal(chx.to_numpy(a), whole)
    assert np.shares_memory(view(a[1]), whole)


def test_what_was_made_before_the_export_moves_along():
    a = chx.arange(12, dtype="float64").reshape(3, 4)
    part = a[1]
    v = view(a)
    v[1] = 7
    assert chx.to_numpy(part).tolist() == [7, 7, 7, 7]
    part += 1
    assert v[1].tolist() == [8, 8, 8, 8]


def test_broadcast_memory_is_read_only_and_empty_arrays_are_copies():
    a = chx.broadcast_to(chx.array([1.0, 2.0]), (3, 2))
    v = view(a)
    assert v.strides == (0, 8) and not v.flags.writeable
    assert chx.to_numpy(chx.zeros((0, 3)), copy=False).shape == (0, 3)


def test_the_view_keeps_the_memory():
    v = view(chx.full((1000, 100), 3.0))
    gc.collect()
    others = [chx.full((1000, 100), float(i)) for i in range(20)]
    chx.to_numpy(others[-1])
    assert (v == 3).all()
    row = v[5]
    del v
    gc.collect()
    others = [chx.full((1000, 100), float(i)) for i in range(20)]
    chx.to_numpy(others[-1])
    assert (row == 3).all()


def test_export_waits_for_all_that_was_called():
    """Not only for what made the array: W must have been read before NumPy writes it."""
    w = chx.full((512, 512), 1.0, "float32")
    x = chx.ones((512, 512), "float32")
    seen = view(w)
    del seen
    for _ in range(20):
        y = x.dot(w)
    small = chx.ones((3,), "float32")
    held = view(small)
    # w has no live view, so nothing waited for its products but the export above.
    again = view(w)
    again[...] = 0
    assert (chx.to_numpy(y) == 512).all()
    assert held.tolist() == [1, 1, 1]


@pytest.mark.parametrize("operator", ["dot", "negative", "in place", "slice", "copyto"])
def test_operators_on_exported_memory_are_done_when_they_return(operator):
    a = chx.full((700, 700), 2.0, "float32")
    other = chx.ones((700, 700), "float32")
    v = view(a)
    for i in range(5):
        v[...] = i + 1
        if operator == "dot":
            b, expected = a.dot(other), 700 * (i + 1)
        elif operator == "negative":
            b, expected = -a, -(i + 1)
        elif operator == "in place":
            a += 10
            assert (v == i + 11).all()
            continue
        elif operator == "slice":
            part = a[1:, ::2]
            b, expected = part * 2, 2 * (i + 1)
        else:
            b, expected = chx.zeros_like(a), i + 1
            b[...] = a
        v[...] = -100
        assert (chx.to_numpy(b) == expected).all()


def test_backward_on_exported_memory_is_done_when_it_returns():
    w = chx.ones((400, 400), "float32").require_grad()
    x = chx.ones((400, 400), "float32").require_grad()
    v = view(w)
    for _ in range(5):
        y = (x.dot(w)).sum()
        x.cleargrad()
        w.cleargrad()
        y.backward()
        v[...] = 3
        assert (chx.to_numpy(x.grad) == 400).all()
        v[...] = 1
    y = x.dot(w).sum()
    (gx,) = chx.grad([y], [x])
    v[...] = 3
    assert (chx.to_numpy(gx) == 400).all()


def test_sgd_through_a_cached_view():
    """Chainer's update: the parameter's view is made once and written for good."""
    rng = np.random.RandomState(0)
    x, t = rng.rand(64, 5).astype("f"), rng.rand(64, 1).astype("f")
    w = chx.zeros((5, 1), "float32").require_grad()
    data = view(w)
    expected = np.zeros((5, 1), "f")
    for _ in range(20):
        w.cleargrad()
        error = chx.array(x).dot(w) - chx.array(t)
        (error * error).sum().backward()
        data -= 0.005 * view(w.grad)
        expected -= 0.005 * 2 * x.T.dot(x.dot(expected) - t)
    np.testing.assert_allclose(chx.to_numpy(w), expected, rtol=1e-4, atol=1e-6)


def test_a_gradient_that_is_another_arrays_memory():
    """The mirror does not know that both gradients are one array; operators wait all the same."""
    a = chx.ones((600, 600), "float32").require_grad()
    b = chx.ones((600, 600), "float32").require_grad()
    (a + b).sum().backward()
    v = chx.to_numpy(a.grad, copy=False)
    before = float(v[0, 0])
    doubled = b.grad * 2
    if v.flags.writeable:
        v[...] = 0
    assert (chx.to_numpy(doubled) == 2 * before).all()


def test_known_memory_is_aliased():
    a = chx.arange(24, dtype="float32").reshape(4, 6)
    v = view(a)
    for make in (lambda x: chx.array(x, copy=False), chx.asarray):
        for part in (v, v[1:], v.T, v[::-1, ::3], v[2, 3:4], v.reshape(-1)):
            b = make(part)
            assert b.shape == part.shape and b.strides == part.strides and b.dtype == part.dtype
            b += 1
            np.testing.assert_array_equal(chx.to_numpy(b), part)
            part -= 1
            np.testing.assert_array_equal(chx.to_numpy(b), part)
    assert v.reshape(-1).tolist() == list(range(24))
    b = chx.asarray(v[1])
    del a, v
    gc.collect()
    noise = [chx.zeros((4, 6), "float32") for _ in range(10)]
    chx.to_numpy(noise[-1])
    assert chx.to_numpy(b).tolist() == [6, 7, 8, 9, 10, 11]


def test_all_else_is_copied():
    mine = np.arange(4.0)
    b = chx.asarray(mine)
    b += 1
    assert mine.tolist() == [0, 1, 2, 3]
    a = chx.arange(8, dtype="float64")
    v = view(a)
    for other in (
        chx.array(v),
        chx.asarray(v, dtype="float32"),
        chx.asarray(v.view(">f8")),
        chx.asarray(v.view(np.int8)[1:9].view("float64")),  # not aligned
    ):
        other.fill(5)
        assert chx.to_numpy(a).tolist() == list(range(8))
    bits = chx.asarray(v.view(np.int64))  # another dtype of the same memory is fine
    bits.fill(0)
    assert v.tolist() == [0] * 8


def test_alias_is_in_no_graph():
    a = chx.ones((3,), "float32").require_grad()
    b = chx.asarray(view(a))
    assert not b.is_backprop_required()


def test_a_failed_array_raises():
    a = chx.zeros((3,)).take(chx.array([5]), 0)
    with pytest.raises(IndexError):
        chx.to_numpy(a, copy=False)


def test_large_transfers():
    rng = np.random.RandomState(1)
    for shape in [(1 << 17,), (513, 1027), (3, 1 << 20)]:
        values = rng.rand(*shape).astype("f")
        a = chx.array(values)
        np.testing.assert_array_equal(chx.to_numpy(a), values)
        np.testing.assert_array_equal(chx.to_numpy(a.T), values.T)
        np.testing.assert_array_equal(chx.to_numpy(a + 1), values + 1)
        got = chx.to_numpy(a)
        got[...] = 0
        np.testing.assert_array_equal(chx.to_numpy(a), values)


def mapped():
    with open("/proc/self/maps") as file:
        return file.read().count("memfd:")


def test_many_transfers_keep_their_memory(session):
    values = np.ones(1 << 20, "float32")
    for _ in range(3):
        chx.to_numpy(chx.array(values) + 1)
    before = len(os.listdir("/proc/self/fd"))
    maps = mapped()
    for _ in range(200):
        chx.to_numpy(chx.array(values) + 1)
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    assert mapped() <= maps + 3


def test_indices_that_change_meanwhile_harm_nobody():
    """The daemon looks at a private copy of indices that the client can write at any time."""
    data = chx.arange(1000, dtype="float32")
    indices = chx.zeros((1 << 18,), "int64")
    v = view(indices)
    stop = threading.Event()

    def write():
        while not stop.is_set():
            v[...] = 1 << 40
            v[...] = 5

    writer = threading.Thread(target=write)
    writer.start()
    try:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            try:
                out = chx.to_numpy(chx.take(data, indices, 0))
                assert ((out >= 0) & (out < 1000)).all()
            except IndexError:
                pass
            order = chx.to_numpy(chx.argsort(indices))
            assert (np.sort(order) == np.arange(1 << 18)).all()
    finally:
        stop.set()
        writer.join()
    assert float(chx.ones(()) + 1) == 2


def test_views_outlive_the_session(beside):
    v = view(chx.full((400, 400), 4.0, device=beside.devices[0]))
    beside.close()
    assert (v == 4).all()
    v[...] = 5
    assert (v == 5).all()


def test_views_in_a_forked_child():
    v = view(chx.full((100,), 4.0))
    pid = os.fork()
    if pid == 0:
        ok = (v == 4).all()
        del v
        os._exit(0 if ok else 1)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64", "float16", "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (3, 4)])
def test_arrays_are_buffers(dtype, shape):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    a = chx.array(values)
    v = memoryview(a)
    expected = memoryview(values)
    assert (v.shape, v.format, v.itemsize) == (shape, expected.format, expected.itemsize)
    assert v.tobytes() == values.tobytes()


def test_a_buffer_is_the_arrays_memory():
    a = chx.arange(12, dtype="float32").reshape(3, 4)
    v = memoryview(a[::2, ::-1])
    assert v.strides == (32, -4) and not v.readonly
    v[1, 0] = 50
    assert a[2, 3].item() == 50
    n = np.asarray(a)
    n += 1
    np.testing.assert_array_equal(chx.to_numpy(a), n)
    a.fill(3)
    assert v.tolist() == [[3] * 4] * 2
    copied = np.array(a)
    copied += 1
    assert (n == 3).all()
    with pytest.raises(TypeError, match="C-contiguous"):
        memoryview(a.T).cast("B")


def test_a_buffer_outlives_its_array():
    a = chx.full((1000,), 2.0)
    v = memoryview(a)
    del a
    gc.collect()
    assert v.tolist() == [2.0] * 1000


def test_what_goes_wrong_in_a_buffer_is_not_lost():
    """NumPy drops what memoryview() raises, and asks for __array__()."""
    x = chx.take(chx.arange(3), chx.array([9]), axis=0)
    for convert in (np.asarray, np.array, memoryview, chx.to_numpy):
        with pytest.raises(IndexError):
            convert(x)
    np.testing.assert_array_equal(chx.ones(3).__array__(), np.ones(3))


def test_who_asks_for_an_array_may_say_whether_it_is_a_copy():
    """NumPy 2 does."""
    x = chx.ones(3)
    copied, shared = x.__array__(copy=True), x.__array__(copy=False)
    shared[0] = 5
    assert x.tolist() == [5, 1, 1] and copied.tolist() == [1, 1, 1]
    assert x.__array__("float64", copy=None).dtype == "float64"
    with pytest.raises(ValueError, match=r"\[__array__\] expects copy=True or None for float32 as"):
        x.__array__("float64", copy=False)


def test_buffers_of_arrays_in_graphs_are_read_only():
    x = chx.ones(3).require_grad()
    y = chx.sum(x * x)
    for array in (x, x * 2):
        n = np.asarray(array)
        with pytest.raises(ValueError, match="read-only"):
            n[0] = 100
    y.backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_numpy_writes_to_no_copy():
    """NumPy's functions take arrays of both kinds, but those that write are NumPy's own."""
    z = np.zeros(3)
    for write in (
        lambda: np.copyto(z, chx.ones(3, "float64")),
        lambda: np.put(z, [0], chx.ones(1)),
        lambda: np.putmask(z, chx.ones(3, "bool"), 1),
        lambda: np.place(z, chx.ones(3, "bool"), [1]),
        lambda: np.put_along_axis(z, chx.zeros(1, "int64"), 1, 0),
    ):
        with pytest.raises(TypeError):
            write()
    assert not z.any()
