"""Arrays by DLPack from others, and from memory of ours that others show."""

import chx
import numpy as np
import pytest
from chx import array_api as xp

OURS = [
    chx.from_dlpack,
    lambda x, device=None, copy=None: xp.from_dlpack(x, device=device, copy=copy),
]


class Producer:
    """Shows a NumPy array, as a library of the newest protocol would."""

    def __init__(self, values, device=(1, 0)):
        self.values, self.device, self.asked = values, device, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **asked):
        self.asked.append(asked)
        return chx._core._dlpack_export(self.values, bool(asked), False)


class Old(Producer):
    """As before DLPack 1."""

    def __dlpack__(self, stream=None):
        return super().__dlpack__()


@pytest.fixture(scope="module", autouse=True)
def session():
    with chx.connect(devices="native:0,native:1") as session:
        yield session


@pytest.fixture(params=[Producer, Old])
def producer(request):
    return request.param


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint8", "float16", "float64"])
def test_others_are_copied(rng, producer, dtype):
    for shape in [(), (0, 3), (4,), (3, 5, 2)]:
        values = rng.integers(0, 2, shape).astype(dtype)
        for seen in (values, values.T, values[::-1, ::2] if values.ndim > 1 else values):
            before = seen.copy()
            for copy in (None, True):
                x = chx.from_dlpack(producer(seen), copy=copy)
                assert x.dtype == dtype and x.shape == seen.shape
                np.testing.assert_array_equal(chx.to_numpy(x), seen)
                x.fill(1)
                np.testing.assert_array_equal(seen, before)


def test_large_arrays_of_strides(rng):
    values = rng.standard_normal((700, 1100))
    for seen in (values.T, values[::2, ::-1], np.broadcast_to(values[0], (700, 1100))):
        x = chx.from_dlpack(seen)
        np.testing.assert_array_equal(chx.to_numpy(x), seen)


@pytest.mark.parametrize("from_dlpack", OURS)
def test_memory_of_ours_comes_back(from_dlpack, producer):
    x = chx.arange(24, dtype="float32", device="native:1").reshape(4, 6)
    shown = chx.to_numpy(x, copy=False)
    for part in (shown, shown[1:, ::2], shown.T, shown[2, 3:4]):
        for copy in (None, False):
            y = from_dlpack(producer(part), copy=copy)
            assert y.device == x.device and y.strides == part.strides
            y += 1
            np.testing.assert_array_equal(chx.to_numpy(y), part)
    apart = from_dlpack(producer(shown), copy=True)
    apart.fill(0)
    assert (shown > 0).any()
    moved = from_dlpack(producer(shown), device="native:0")
    assert moved.device.name == "native:0"
    with pytest.raises(ValueError, match=r"\[from_dlpack\] expects copy=None or True"):
        from_dlpack(producer(shown), device="native:0", copy=False)


@pytest.mark.parametrize("from_dlpack", OURS)
def test_own_arrays(from_dlpack):
    x = chx.ones((2, 3))
    for copy in (None, False):
        from_dlpack(x, copy=copy)[...] = 5
        assert x.tolist() == [[5] * 3] * 2
        x.fill(1)
    from_dlpack(x, copy=True).fill(0)
    w = x.require_grad()
    from_dlpack(w).fill(0)
    assert w.tolist() == [[1] * 3] * 2 and not from_dlpack(w).is_backprop_required()
    assert from_dlpack(x, device="native:1").device.name == "native:1"
    for bad in ({"device": "native:1"}, {}):
        with pytest.raises(ValueError, match=r"\[from_dlpack\] expects copy=None or True"):
            from_dlpack(w if not bad else x, copy=False, **bad)


@pytest.mark.parametrize("from_dlpack", OURS)
def test_refuses(from_dlpack):
    for error in (ValueError, BufferError):  # the standard names both
        with pytest.raises(error, match="expects copy=None or True"):
            from_dlpack(np.ones(3), copy=False)
    with pytest.raises(AttributeError, match=r"__dlpack__\(\), got list"):
        from_dlpack([1])
    with pytest.raises(chx.DtypeError):
        from_dlpack(np.ones(3, "uint32"))
    with pytest.raises(BufferError, match="not taken"):
        chx._core._dlpack_import(np.ones(3))


def test_what_is_asked():
    for device, copy, asked in (
        ((1, 0), None, {"max_version": (1, 0)}),
        ((1, 0), True, {"max_version": (1, 0)}),
        ((2, 3), None, {"max_version": (1, 0), "dl_device": (1, 0)}),
    ):
        x = Producer(np.ones(3), device)
        chx.from_dlpack(x, copy=copy)
        assert x.asked == [asked]
    x = Producer(np.ones(3))
    with pytest.raises(ValueError, match="expects copy"):
        chx.from_dlpack(x, copy=False)
    assert x.asked == [{"max_version": (1, 0), "copy": False}]


def test_read_only_arrays_of_numpy():
    values = np.arange(3.0)
    values.flags.writeable = False
    assert chx.from_dlpack(values).tolist() == [0, 1, 2]


def test_a_capsule_is_taken_once():
    capsule = chx.ones(3).__dlpack__(max_version=(1, 0))
    assert np.asarray(chx._core._dlpack_import(capsule)).tolist() == [1, 1, 1]
    with pytest.raises(BufferError, match="not taken"):
        chx._core._dlpack_import(capsule)
