"""chx.safetensors: files of the library and of PyTorch's layout, several files, and hostile ones."""

import json
import os
import stat
import struct

import chx
import numpy as np
import pytest
import safetensors
import safetensors.numpy

pytestmark = pytest.mark.usefixtures("seeded_session")

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64"]
SHAPES = [(), (0,), (5,), (2, 0, 3), (3, 4, 5), (70000,)]


def random_values(rng, dtype, shape):
    values = rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    if dtype == "bool":
        return np.asarray(values.reshape(shape) > 127)
    return values.view(dtype).reshape(shape)


@pytest.fixture
def arrays(rng):
    return {
        f"{dtype}.{i}": random_values(rng, dtype, shape)
        for dtype in DTYPES
        for i, shape in enumerate(SHAPES)
    }


def check_equal(got, want):
    assert set(got) == set(want)
    for name, value in want.items():
        found = chx.to_numpy(got[name]) if isinstance(got[name], chx.ndarray) else got[name]
        assert (found.dtype, found.shape) == (value.dtype, value.shape), name
        assert found.tobytes() == value.tobytes(), name


def test_files_of_the_library_are_loaded(tmp_path, arrays):
    """Bit for bit, NaNs too."""
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(arrays, path, {"epoch": "5"})
    loaded = chx.safetensors.load_file(path)
    check_equal(loaded, arrays)
    assert chx.safetensors.load_metadata(path) == {"epoch": "5"}
    path.unlink()
    check_equal(loaded, arrays)


def test_the_library_loads_what_is_saved(tmp_path, arrays):
    path = str(tmp_path / "model.safetensors")
    chx.safetensors.save_file({name: chx.array(a) for name, a in arrays.items()}, path)
    check_equal(safetensors.numpy.load_file(path), arrays)
    assert chx.safetensors.load_metadata(path) == {}
    # Arrays of NumPy, of any order of bytes and elements, and parts of arrays.
    matrix = np.arange(12.0).reshape(3, 4)
    mixed = {
        "transposed": chx.array(matrix).T,
        "part": chx.array(matrix)[1:, ::2],
        "fortran": np.asfortranarray(matrix),
        "big": matrix.astype(">f4"),
        "leaf": chx.array(matrix).require_grad() * 2,
    }
    chx.safetensors.save_file(mixed, path, {"format": "pt"})
    want = {
        "transposed": matrix.T.copy(),
        "part": matrix[1:, ::2].copy(),
        "fortran": matrix,
        "big": matrix.astype("<f4"),
        "leaf": matrix * 2,
    }
    check_equal(safetensors.numpy.load_file(path), want)
    check_equal(chx.safetensors.load_file(path), want)
    assert chx.safetensors.load_metadata(path) == {"format": "pt"}


def test_a_file_is_replaced_when_the_new_one_is_complete(tmp_path):
    path = tmp_path / "model.safetensors"
    chx.safetensors.save_file({"w": chx.ones(3)}, path)
    before = path.read_bytes()
    with pytest.raises(chx.DtypeError, match="complex128 for 'b'"):
        chx.safetensors.save_file({"w": chx.zeros(3), "b": np.zeros(2, "complex128")}, path)
    with pytest.raises(ValueError):
        chx.safetensors.save_file({"\ud800": chx.zeros(3)}, path)
    with pytest.raises(TypeError):
        chx.safetensors.save_file({"w": chx.zeros(3)}, path, {"epoch": 5})
    assert path.read_bytes() == before
    with pytest.raises(FileNotFoundError):
        chx.safetensors.save_file({"w": chx.zeros(3)}, tmp_path / "none" / "model.safetensors")
    chx.safetensors.save_file({"w": chx.zeros(3)}, path)
    assert path.read_bytes() != before
    assert os.listdir(tmp_path) == ["model.safetensors"]
    (tmp_path / "other").touch()
    mode = stat.S_IMODE((tmp_path / "other").stat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def write_file(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


HOSTILE = {
    "empty": b"",
    "short": b"\1\0\0",
    "no JSON": struct.pack("<Q", 4) + b"\x80\x04K.",  # a pickle
    "endless header": struct.pack("<Q", 2**63) + b"{}",
    "header of 200 MB": struct.pack("<Q", 200 << 20) + b"{}",
    "deep header": struct.pack("<Q", 200000) + b"[" * 200000,
    "header that is a list": struct.pack("<Q", 2) + b"[]",
}
HOSTILE_HEADERS = {
    "overlap": {"a": entry("F32", [2], 0, 8), "b": entry("F32", [1], 4, 8)},
    "hole": {"a": entry("F32", [1], 0, 4), "b": entry("F32", [0], 8, 8)},
    "beyond the end": {"a": entry("F32", [3], 0, 12)},
    "before the end": {"a": entry("F32", [1], 0, 4)},
    "begin behind end": {"a": entry("F32", [2], 8, 0)},
    "negative": {"a": entry("F32", [-2], 0, 8)},
    "other size": {"a": entry("F32", [3], 0, 8)},
    "overflow": {"a": entry("F32", [2**62, 2**62, 2], 0, 8)},
    "dtype": {"a": entry("float32", [2], 0, 8)},
    "shape": {"a": {"dtype": "F32", "shape": "2", "data_offsets": [0, 8]}},
    "no shape": {"a": {"dtype": "F32", "data_offsets": [0, 8]}},
    "metadata": {"a": entry("F32", [2], 0, 8), "__metadata__": {"a": 1}},
    "too many dimensions": {"a": entry("U8", [1] * 99 + [8], 0, 8)},
    "absurd dimensions": {"a": entry("U8", [8], 0, 8), "b": entry("F32", [2**63, 0], 8, 8)},
}


@pytest.mark.parametrize("name", [*HOSTILE, *HOSTILE_HEADERS])
def test_hostile_files_are_refused(tmp_path, name):
    path = tmp_path / "evil.safetensors"
    if name in HOSTILE:
        path.write_bytes(HOSTILE[name])
    else:
        write_file(path, HOSTILE_HEADERS[name], b"12345678")
    with pytest.raises(ValueError, match=r"\[load_file\] .*evil\.safetensors"):
        chx.safetensors.load_file(path)


def test_every_truncation_and_every_changed_byte(tmp_path, rng):
    """An error that says which file, or arrays of the bytes that their shapes say."""
    good = write_file(
        tmp_path / "good",
        {"a": entry("F32", [2, 1], 0, 8), "b": entry("BOOL", [3], 8, 11)},
        b"1" * 11,
    ).read_bytes()
    path = tmp_path / "evil.safetensors"
    for size in range(len(good)):
        path.write_bytes(good[:size])
        with pytest.raises(ValueError, match="evil"):
            chx.safetensors.load_file(path)
    refused = 0
    for place in range(len(good)):
        changed = bytearray(good)
        changed[place] ^= int(rng.integers(1, 256))
        path.write_bytes(changed)
        try:
            loaded = chx.safetensors.load_file(path)
        except (ValueError, TypeError) as error:
            assert "evil" in str(error)
            refused += 1
        else:
            assert all(chx.to_numpy(a).nbytes == a.nbytes <= 11 for a in loaded.values())
    assert refused > len(good) / 2


def test_bools_are_made_of_any_byte(tmp_path):
    path = write_file(
        tmp_path / "model.safetensors", {"a": entry("BOOL", [4], 0, 4)}, b"\0\1\2\xff"
    )
    loaded = chx.safetensors.load_file(path)["a"]
    assert loaded.tolist() == [False, True, True, True]
    assert int(chx.sum(loaded)) == 3


@pytest.mark.parametrize("code", ["F8_E4M3", "U32", "C64"])
def test_dtypes_that_chx_lacks(tmp_path, code):
    size = {"F8_E4M3": 1, "U32": 4, "C64": 8}[code]
    path = write_file(tmp_path / "model.safetensors", {"a": entry(code, [1], 0, size)}, b"1" * size)
    with pytest.raises(chx.DtypeError, match=f"got {code} for 'a'"):
        chx.safetensors.load_file(path)


def test_what_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        chx.safetensors.load_file(tmp_path / "none.safetensors")
    os.mkfifo(tmp_path / "pipe.safetensors")
    for name in ("pipe.safetensors", ""):
        with pytest.raises((ValueError, IsADirectoryError)):
            chx.safetensors.load_file(tmp_path / name)


@pytest.fixture
def sharded(tmp_path, arrays):
    """The path of the index of a model in three files."""
    names = sorted(arrays)
    files = {}
    for i in range(3):
        shard = f"model-{i + 1:05}-of-00003.safetensors"
        part = names[i::3]
        safetensors.numpy.save_file({name: arrays[name] for name in part}, tmp_path / shard)
        files |= dict.fromkeys(part, shard)
    index = tmp_path / "model.safetensors.index.json"
    total = sum(a.nbytes for a in arrays.values())
    index.write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": files}))
    return index


def test_models_in_several_files(sharded, arrays, monkeypatch):
    check_equal(chx.safetensors.load_file(sharded), arrays)
    monkeypatch.chdir(sharded.parent)
    check_equal(chx.safetensors.load_file(sharded.name), arrays)


def test_models_are_saved_in_several_files(tmp_path, arrays):
    """As many as their sizes need, which the library reads one by one."""
    index = tmp_path / "model.safetensors.index.json"
    given = {name: chx.array(a) for name, a in arrays.items()}
    chx.safetensors.save_file(given, index, {"format": "pt"}, shard_bytes=400000)
    written = json.loads(index.read_text())
    assert written["metadata"]["total_size"] == sum(a.nbytes for a in arrays.values())
    shards = sorted(set(written["weight_map"].values()))
    count = len(shards)
    assert count > 3
    assert shards == [f"model-{i + 1:05}-of-{count:05}.safetensors" for i in range(count)]
    assert sorted(os.listdir(tmp_path)) == sorted([*shards, index.name])
    parts = [safetensors.numpy.load_file(tmp_path / shard) for shard in shards]
    assert all(sum(a.nbytes for a in part.values()) <= 400000 or len(part) == 1 for part in parts)
    check_equal({name: a for part in parts for name, a in part.items()}, arrays)
    assert all(written["weight_map"][n] == s for s, part in zip(shards, parts) for n in part)
    check_equal(chx.safetensors.load_file(index), arrays)
    assert chx.safetensors.load_metadata(tmp_path / shards[-1]) == {"format": "pt"}
    # All in one, also if there is nothing.
    for model in (given, {}):
        chx.safetensors.save_file(model, tmp_path / "one.safetensors.index.json")
        check_equal(
            chx.safetensors.load_file(tmp_path / "one.safetensors.index.json"),
            {name: arrays[name] for name in model},
        )
    assert (tmp_path / "one-00001-of-00001.safetensors").exists()


def test_shards_are_beside_the_index(sharded, tmp_path):
    (tmp_path / "folder").mkdir()
    secret = tmp_path / "secret.safetensors"
    safetensors.numpy.save_file({"a": np.ones(1)}, secret)
    index = tmp_path / "folder" / "model.safetensors.index.json"
    outside = ["../secret.safetensors", str(secret), "folder/../../secret.safetensors"]
    for shard in [*outside, "", ".", "..", "a\0b", 1, None, ["x"]]:
        index.write_text(json.dumps({"weight_map": {"a": shard}}))
        with pytest.raises(ValueError, match="expects a file beside the index for 'a'"):
            chx.safetensors.load_file(index)
    index.write_text(json.dumps({"weight_map": {"a": "none.safetensors"}}))
    with pytest.raises(FileNotFoundError):
        chx.safetensors.load_file(index)


def test_hostile_indices(sharded):
    shard = "model-00001-of-00003.safetensors"
    sharded.write_text(json.dumps({"weight_map": {"unknown": shard}}))
    with pytest.raises(ValueError, match="expects 'unknown' in .*00001-of-00003"):
        chx.safetensors.load_file(sharded)
    for text in [
        "",
        "[]",
        "{}",
        "1",
        '{"weight_map": []}',
        "[" * 200000,
        "\udcff",
        '{"weight_map"',
    ]:
        sharded.write_text(text, errors="surrogateescape")
        with pytest.raises(ValueError, match=r"\[load_file\] .*index\.json"):
            chx.safetensors.load_file(sharded)
    with open(sharded, "w") as file:
        file.truncate((100 << 20) + 1)  # a file with a hole
    with pytest.raises(ValueError, match="at most"):
        chx.safetensors.load_file(sharded)


def test_without_the_library(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "safetensors.numpy", None)
    with pytest.raises(ImportError, match=r"pip install 'chx\[safetensors\]'"):
        chx.safetensors.load_file(tmp_path / "model.safetensors")
