"""DLPack: capsules as an independent reader of their structures, by ctypes, sees them."""

import ctypes
import gc
import os
import sys
import threading

import chx
import numpy as np
import pytest

sys.path.insert(0, os.getcwd())  # the runfiles
from tests.integration.daemon import Daemon

I64 = ctypes.POINTER(ctypes.c_int64)
CODES = {"b": 6, "i": 0, "u": 1, "f": 2}
KINDS = {code: kind for kind, code in CODES.items()}
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64"]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", I64),
        ("strides", I64),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]
    name, flags, major = b"dltensor", 0, 0


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]
    name = b"dltensor_versioned"


def api(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


is_valid = api("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
pointer = api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
set_name = api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
new_capsule = api(
    "PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)


class Taken:
    """What was in a capsule. It is let go of by close(), without Python's lock."""

    def __init__(self, capsule):
        kind = Versioned if is_valid(capsule, Versioned.name) else Managed
        self.managed = kind.from_address(pointer(capsule, kind.name))
        self._used = b"used_" + kind.name
        set_name(capsule, self._used)
        tensor = self.managed.tensor
        assert list(tensor.device) == [1, 0] and tensor.lanes == 1
        self.read_only, self.copied = (bool(self.managed.flags & bit) for bit in (1, 2))
        shape, strides = tensor.shape[: tensor.ndim], tensor.strides[: tensor.ndim]
        self.dtype = np.dtype(f"{KINDS[tensor.code]}{tensor.bits // 8}")
        self.address = (tensor.data or 0) + tensor.byte_offset
        size = self.dtype.itemsize
        self.strides = tuple(s * size for s in strides)
        steps = [(n - 1) * s for n, s in zip(shape, self.strides, strict=True)]
        first = self.address + sum(step for step in steps if step < 0)
        count = 0 if 0 in shape else sum(abs(step) for step in steps) + size
        memory = (ctypes.c_char * count).from_address(first) if count else bytearray()
        offset = self.address - first if count else 0
        self.values = np.ndarray(shape, self.dtype, memory, offset, self.strides)

    def close(self):
        delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.managed.deleter)
        self.values = None
        delete(ctypes.addressof(self.managed))


@pytest.fixture(scope="module", autouse=True)
def session(seeded_session):
    return seeded_session


@pytest.fixture
def take():
    taken = []

    def take(x, version=(1, 0), **asked):
        taken.append(Taken(x.__dlpack__(max_version=version, **asked)))
        return taken[-1]

    yield take
    for each in taken:
        each.close()


def address_of(x):
    return chx.to_numpy(x, copy=False).ctypes.data


def random_view(rng, dtype):
    shape = tuple(rng.integers(0, 5, rng.integers(0, 5)))
    values = rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    x = chx.array(values)
    for axis in range(len(shape)):
        step = int(rng.choice([1, 2, -1]))
        index = (slice(None),) * axis + (slice(None, None, step),)
        x, values = x[index], values[index]
    order = [int(i) for i in rng.permutation(len(shape))]
    return x.transpose(order), values.transpose(order)


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 2)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_views(rng, take, dtype, version):
    for _ in range(20):
        x, values = random_view(rng, dtype)
        for copy in (None, True) if 0 in x.shape else (None, True, False):
            t = take(x, version, copy=copy)
            assert t.managed.major == (version is not None and version[0])
            assert t.dtype == dtype and not t.read_only
            np.testing.assert_array_equal(t.values, values)
            back = any(s < 0 and n > 1 for n, s in zip(x.shape, x.strides, strict=True))
            if x.size and copy is not True and not (back and copy is None):
                assert t.address == address_of(x) and not t.copied
                stepped = [(n, s) for n, s in zip(x.shape, x.strides, strict=True) if n > 1]
                assert stepped == [(n, s) for n, s in zip(x.shape, t.strides, strict=True) if n > 1]
            elif x.size:
                assert t.address != address_of(x) and t.copied == (t.managed.major == 1)
            shown = np.asarray(chx._core._dlpack_import(x.__dlpack__(max_version=version)))
            assert shown.dtype == dtype
            np.testing.assert_array_equal(shown, values)


def test_writes_go_both_ways(take):
    x = chx.zeros((3, 4), "float32")
    t = take(x[:, ::2])
    t.values[...] = 7
    assert x.tolist() == [[7, 0, 7, 0]] * 3
    x += 1
    assert t.values.tolist() == [[8, 8]] * 3
    copied = take(x, copy=True)
    copied.values[...] = 0
    assert x[0, 0].item() == 8 and not copied.read_only


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_what_is_read_only(take, version):
    w = chx.ones(3).require_grad()
    for x in (w, w * 2, chx.broadcast_to(chx.array([1.0, 2.0]), (3, 2))):
        t = take(x, version)
        assert t.read_only == (version is not None) and t.copied == 0
        assert (t.address == address_of(x)) == (version is not None)
        assert t.values.tolist() == x.tolist()
        if version is None:
            with pytest.raises(BufferError, match=r"expects copy=None or True: .* read-only"):
                x.__dlpack__(copy=False)


def test_what_other_sessions_have_is_copied(session, take):
    x = chx.array([1.0, 2.0, 3.0])
    with chx.connect(session.address) as other:
        chx._core._set_default_session(session)
        theirs = chx.open(x.share(), session=other)
        t = take(theirs)
        assert t.copied and not t.read_only and t.values.tolist() == [1, 2, 3]
        wide = take(chx.broadcast_to(theirs, (2, 3)))
        assert wide.copied and not wide.read_only
        shown = take(theirs, copy=False)
        assert shown.read_only and not shown.copied and shown.values.tolist() == [1, 2, 3]


def test_the_capsule_keeps_the_memory(beside, take):
    x = chx.full((300, 40), 3.0, device=beside.devices[0])
    t, unused = take(x), x.__dlpack__()
    del x, unused
    gc.collect()
    others = [chx.full((300, 40), float(i), device=beside.devices[0]) for i in range(10)]
    chx.to_numpy(others[-1])
    assert (t.values == 3).all()
    del others
    beside.close()
    assert (t.values == 3).all()
    t.values[...] = 4


def test_an_export_ends_with_its_capsule():
    x = chx.ones((4, 4))
    held = address_of(x)
    capsule = x.__dlpack__()
    known = np.ndarray((4, 4), "float32", (ctypes.c_char * 64).from_address(held))
    assert chx._core._import(held, known.dtype, (4, 4), (16, 4), None) is not None
    del capsule
    assert chx._core._import(held, known.dtype, (4, 4), (16, 4), None) is None


def test_over_tcp_all_is_copied(session, take):
    with Daemon(listen="127.0.0.1:0") as daemon, chx.connect(daemon.address) as remote:
        chx._core._set_default_session(session)
        x = chx.array([[1.0, 2.0], [3.0, 4.0]], device=remote.devices[0])
        for version in (None, (1, 0)):
            t = take(x.T, version)
            assert t.copied == (version is not None) and not t.read_only
            assert t.values.tolist() == [[1, 3], [2, 4]]
        with pytest.raises(BufferError, match="does not share the memory of native:0"):
            x.__dlpack__(copy=False)
        assert chx.from_dlpack(np.array(t.values), remote.devices[0]).tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"stream": 1}, "stream=None"),
        ({"dl_device": (2, 0)}, r"dl_device=\(1, 0\)"),
        ({"dl_device": (1, 1), "copy": True}, r"dl_device=\(1, 0\)"),
    ],
)
def test_refuses(asked, why):
    with pytest.raises(BufferError, match=why):
        chx.ones(3).__dlpack__(**asked)


def test_what_dlpack_does_not_carry():
    for values in (np.array(["a"]), np.ones(2, "complex64"), np.ones(2, ">f4")):
        with pytest.raises(BufferError, match="expects bool, integers or floats"):
            chx._core._dlpack_export(values, True, False)


def test_an_arrays_error():
    x = chx.take(chx.arange(3), chx.array([9]), axis=0)
    with pytest.raises(IndexError):
        x.__dlpack__()


def test_threads():
    """Capsules are made, and let go of, in many threads beside operators."""
    x, failed = chx.ones((50, 50), "float32"), []

    def work():
        try:
            for _ in range(50):
                t = Taken(x.__dlpack__(max_version=(1, 0)))
                assert (t.values == 1).all() and chx.sum(x).item() == 2500
                t.close()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed
