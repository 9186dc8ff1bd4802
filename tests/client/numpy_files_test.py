"""Files between C++ and NumPy, and between C++ and an independent reader of safetensors."""

import json
import os
import struct
import subprocess

import chx
import numpy as np
import pytest

from tests.integration.daemon import Daemon

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "f2", "f4", "f8"]
SAFE = dict(
    zip(DTYPES, ["BOOL", "I8", "I16", "I32", "I64", "U8", "F16", "F32", "F64"], strict=True)
)


@pytest.fixture(scope="module")
def daemon():
    with Daemon() as daemon:
        yield daemon


@pytest.fixture
def convert(daemon, tmp_path):
    def run(source, target, *args, ok=True):
        command = [os.environ["FILES_PROGRAM"], daemon.address, source, target, *args]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == ok, done.stderr
        return done.stderr

    return run


def values(dtype, shape):
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) * 3 % 101).astype(dtype)


def arrays():
    """Every dtype: without dimensions, empty, in both orders of elements and of bytes, a view."""
    found = {}
    for dtype in DTYPES:
        for order in "<>":
            typed = np.dtype(dtype).newbyteorder(order)
            found[f"{dtype}{order}0d"] = values(typed, ())
            found[f"{dtype}{order}empty"] = values(typed, (2, 0, 3))
            found[f"{dtype}{order}c"] = values(typed, (2, 3, 4))
            found[f"{dtype}{order}fortran"] = np.asfortranarray(values(typed, (4, 3, 2)))
            found[f"{dtype}{order}strided"] = values(typed, (6, 5))[::2, ::-1]
    found["größe/of.many"] = values("f4", (700, 301))
    return found


def same(got, want):
    assert set(got) == set(want)
    for name, array in want.items():
        assert got[name].dtype == array.dtype.newbyteorder("="), name
        assert got[name].shape == array.shape, name
        assert np.array_equal(got[name], array), name


@pytest.mark.parametrize("read", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("write", [(), ("compressed",)])
def test_npz(convert, tmp_path, read, write):
    source, target = tmp_path / "in.npz", tmp_path / "out.npz"
    read(source, **arrays())
    convert(source, target, *write)
    with np.load(target, allow_pickle=False) as loaded:
        same({name: loaded[name] for name in loaded.files}, arrays())


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy(convert, tmp_path, version):
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    for name, array in list(arrays().items())[::7]:
        with open(source, "wb") as file:
            np.lib.format.write_array(file, array, version)
        convert(source, target)
        same({name: np.load(target, allow_pickle=False)}, {name: array})


def test_files_of_the_python_client(convert, daemon, tmp_path):
    source, target = tmp_path / "in.npz", tmp_path / "out.npz"
    with chx.connect(daemon.address):
        param = chx.array([1.0, 2.0]).require_grad()
        adam = chx.optimizers.Adam(alpha=0.25).setup({"w": param})
        (param * param).sum().backward()
        adam.update()
        chx.savez(source, **adam.state_dict())
        convert(source, target)
        other = chx.optimizers.Adam().setup({"w": param})
        other.load_state_dict(chx.load(target))
        assert (other.t, other.alpha) == (1, 0.25)
        assert np.array_equal(
            chx.to_numpy(other.state["w"]["v"]), chx.to_numpy(adam.state["w"]["v"])
        )


def test_safetensors(convert, tmp_path):
    source, target = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    native = {n: np.ascontiguousarray(a, a.dtype.newbyteorder("=")) for n, a in arrays().items()}
    native = {n: a.reshape(arrays()[n].shape) for n, a in native.items()}
    write_safetensors(source, native)
    convert(source, target)
    same(read_safetensors(target), native)


def test_between_the_formats(convert, tmp_path):
    paths = [tmp_path / "a.npz", tmp_path / "b.safetensors", tmp_path / "c.npz"]
    np.savez(paths[0], **arrays())
    convert(paths[0], paths[1])
    same(read_safetensors(paths[1]), arrays())
    convert(paths[1], paths[2])
    with np.load(paths[2], allow_pickle=False) as loaded:
        same({name: loaded[name] for name in loaded.files}, arrays())


@pytest.mark.parametrize(
    "array",
    [
        np.array([{}, None], dtype=object),
        np.zeros(2, "u2"),
        np.zeros(2, "c8"),
        np.array(["text"]),
        np.zeros(2, [("a", "f4")]),
    ],
    ids=["object", "uint16", "complex", "str", "record"],
)
def test_refused_dtypes(convert, tmp_path, array):
    source = tmp_path / "in.npz"
    np.savez(source, good=np.zeros(2), bad=array)
    message = convert(source, tmp_path / "out.npz", ok=False)
    assert str(source) in message
    assert "'bad.npy'" in message
    assert "dtype" in message
    assert not (tmp_path / "out.npz").exists()


def write_safetensors(path, native):
    header, data = {"__metadata__": {"by": "a test"}}, b""
    for name, array in native.items():
        end = len(data) + array.nbytes
        code = SAFE[array.dtype.char if array.dtype == bool else array.dtype.str[1:]]
        header[name] = {
            "dtype": code,
            "shape": list(array.shape),
            "data_offsets": [len(data), end],
        }
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    data = content[8 + length :]
    dtypes = {code: dtype for dtype, code in SAFE.items()}
    assert length % 8 == 0
    assert sum(
        entry["data_offsets"][1] - entry["data_offsets"][0] for entry in header.values()
    ) == (len(data))
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype = np.dtype(dtypes[entry["dtype"]])
        assert begin % dtype.itemsize == 0
        found[name] = np.frombuffer(data[begin:end], dtype).reshape(entry["shape"])
    return found
