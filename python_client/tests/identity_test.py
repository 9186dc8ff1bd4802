"""One Python object per array while it lives, and nothing left behind."""

import copy
import gc
import pickle
import sys
import threading
import tracemalloc
import weakref

import chx
import numpy as np
import pytest


def test_gradient_and_device_are_always_the_same_object():
    x = chx.array([1.0, 2.0]).require_grad()
    (x * x).backward()
    assert x.grad is x.grad
    address = id(x.grad)
    keep = x.grad
    assert id(keep) == address or keep is x.grad
    assert x.device is x.device is chx.get_device("native:0")
    assert x.dtype is x.dtype is np.dtype("float64")


def test_set_gradient_comes_back():
    x, g = chx.array([1.0]).require_grad(), chx.array([5.0])
    x.grad = g
    assert x.grad is g
    reference = weakref.ref(g)
    del g
    assert reference() is None  # the object may go; the gradient stays
    assert x.grad.tolist() == [5.0]


def test_views_are_new_objects():
    a = chx.zeros((2, 2))
    for other in [a[...], a.view(), a.as_grad_stopped(), a.reshape(2, 2), a.T]:
        assert other is not a


def test_weakref():
    a = chx.zeros(2)
    called = []
    reference = weakref.ref(a, called.append)
    assert reference() is a
    del a
    assert reference() is None and called == [reference]


def test_an_array_leaves_at_once():
    a = chx.zeros(2)
    b = a + 1
    assert sys.getrefcount(a) == 2 and sys.getrefcount(b) == 2
    reference = weakref.ref(b)
    del b
    assert reference() is None


CALLS = {
    "operator": lambda a: a + a,
    "scalar": lambda a: a * 2.5,
    "numpy scalar": lambda a: a * np.float32(2),
    "comparison": lambda a: a < 1,
    "function": lambda a: chx.tanh(a),
    "keywords": lambda a: chx.sum(a, axis=(0,), keepdims=True),
    "method": lambda a: a.reshape(2, 3),
    "variadic": lambda a: chx.concatenate([a, a], 0),
    "list": lambda a: chx.split(a, 2),
    "creation": lambda a: chx.zeros((2, 3), "int32"),
    "upload": lambda a: chx.array([1.0, 2.0]),
    "getitem": lambda a: a[1, None, ::-1],
    "setitem": lambda a: a.__setitem__(0, 2.0),
    "setitem of a list": lambda a: a.__setitem__(0, [1, 2, 3]),
    "fetch": lambda a: (a.tolist(), float(a[0, 0]), repr(a)),
    "metadata": lambda a: (a.shape, a.strides, a.dtype, a.device, a.T, a.nbytes),
    "gradient": lambda a: chx.grad([chx.array([1.0]).require_grad() * 2], [a]),
    "leaf": lambda a: (a * 1).require_grad().set_grad(a),
    "mode": lambda a: a.as_grad_stopped(),
    "random": lambda a: chx.random.normal(size=3),
    "in place": lambda a: a.__iadd__(1),
    "not implemented": lambda a: a.__add__("x"),
    "astype": lambda a: (a.astype("int8"), a.astype(a.dtype, copy=False)),
    "device": lambda a: (chx.get_device("native:0").name, a.to_device("native:0")),
    "array as key": lambda a: (a[chx.array([1, 0])], a[chx.array(1), 1:]),
    "mask": lambda a: a.__setitem__(chx.array([True, False]), [1, 2, 3]),
    "numpy": lambda a: (np.asarray(a), np.float32(2) < a),
    "view of memory": lambda a: (memoryview(a).shape, bytes(a)),
    "pickle": lambda a: (pickle.loads(pickle.dumps(a)), copy.deepcopy([a, a.device])),
    "python methods": lambda a: (a.clip(0, 1), a._debug_flat_data, a.__remainder__(2)),
    "context": lambda a: a.device.context.get_device("native", 0).backend.context,
    "scope": lambda a: chx.using_device("native").__enter__().__exit__(),
    "context scope": lambda a: chx.context_scope(a.device.context).__enter__().__exit__(),
    "signature": lambda a: (chx.sum.__doc__, chx.sum.__text_signature__, chx.sum.__signature__),
}
ERRORS = {
    "shapes": lambda a: a + chx.zeros(7),
    "dtype": lambda a: chx.zeros(2, "uint16"),
    "index": lambda a: a[5],
    "bad index": lambda a: a[(0, "x")],
    "type": lambda a: chx.sum(a, axis="x"),
    "keyword": lambda a: chx.sum(a, no_such=1),
    "mixed list": lambda a: chx.concatenate([a, 1]),
    "grad": lambda a: a.grad,
    "item": lambda a: a.item(),
    "choice": lambda a: chx.take(a, a, 0, "no such"),
    "device": lambda a: chx.get_device("no:1"),
    "device index": lambda a: a.to_device("native", 9),
    "none": lambda a: a < None,
    "buffer": lambda a: memoryview(a).cast("f"),
    "array as key": lambda a: a[chx.array([9])],
    "mask": lambda a: a.__setitem__(chx.array([True]), 0),
    "connected": lambda a: (a * 1).require_grad().__setitem__(0, 0),
    "setitem": lambda a: a.__setitem__(0, [1, 2]),
}


def blocks_after(call, rounds):
    for _ in range(rounds):
        call()
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.parametrize("name", [*CALLS, *ERRORS])
def test_no_python_object_is_left_behind(name):
    a = chx.zeros((2, 3))

    def call():
        if name in CALLS:
            CALLS[name](a)
        if name in ERRORS:
            try:
                ERRORS[name](a)
            except Exception:  # , the test is about what it leaves
                pass
            else:
                raise AssertionError("no error")

    blocks_after(call, 50)
    counts = [sys.getrefcount(o) for o in (None, a, a.dtype, a.device, True)]
    # Caches fill up, here and in NumPy: the best of some rounds counts.
    blocks = [blocks_after(call, 300) for _ in range(2)]
    while len(blocks) < 20 and blocks[-1] - blocks[-2] >= 20:
        blocks.append(blocks_after(call, 300))
    assert min(np.diff(blocks)) < 20
    for object_, count in zip((None, a, a.dtype, a.device, True), counts, strict=True):
        assert sys.getrefcount(object_) - count < 50


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_a_training_loop_does_not_grow():
    w = chx.zeros((32, 32)).require_grad()
    x = chx.array(np.ones((8, 32), np.float32))

    def steps(n):
        for _ in range(n):
            w.cleargrad()
            chx.mean(chx.square(chx.tanh(x @ w) - 1)).backward()
            stopped = w.as_grad_stopped()
            stopped -= w.grad * 0.01
        return float(w[0, 0])

    steps(300)
    tracemalloc.start()
    steps(10)
    first, before = tracemalloc.get_traced_memory()[0], resident_bytes()
    steps(1500)
    assert tracemalloc.get_traced_memory()[0] - first < 20_000
    assert resident_bytes() - before < 8 << 20
    tracemalloc.stop()


def test_many_threads_use_the_free_list():
    failures = []

    def work():
        try:
            a = chx.zeros(2)
            for _ in range(500):
                kept = [a + i for i in range(20)]
                assert all(type(k) is chx.ndarray for k in kept)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
