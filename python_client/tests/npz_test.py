"""chx.load of .npz files: bit for bit as NumPy reads them, mapped where possible, hostile ones refused."""

import gzip
import io
import lzma
import pickle
import struct
import zipfile
import zlib

import chx
import numpy as np
import pytest
from chx._numpy import mapped

pytestmark = pytest.mark.usefixtures("seeded_session")

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "f2", "f4", "f8"]
DIRECTORY = struct.Struct("<4s6H3L5H2L")  # an entry of the zip's directory


@pytest.fixture
def arrays(rng):
    found = {}
    for code in DTYPES:
        for order in "<>":
            dtype = np.dtype(code).newbyteorder(order)
            for shape in [(), (0,), (2, 0, 3), (3, 4, 5), (70000,)]:
                values = rng.integers(0, 100, shape).astype(dtype)
                found[f"{code}{order}{shape}"] = values
                found[f"{code}{order}{shape}.fortran"] = np.asfortranarray(values)
    return found


@pytest.fixture
def uploaded(monkeypatch):
    """The shapes that came from mapped memory."""
    shapes = []
    upload = mapped.MappedFile.upload

    def noted(self, begin, dtype, shape, *args):
        shapes.append(shape)
        return upload(self, begin, dtype, shape, *args)

    monkeypatch.setattr(mapped.MappedFile, "upload", noted)
    return shapes


def check_equal(got, want):
    assert list(got) == list(want)
    for name, value in want.items():
        found = chx.to_numpy(got[name])
        native = value.astype(value.dtype.newbyteorder("="))
        assert (found.dtype, found.shape) == (native.dtype, native.shape), name
        assert found.tobytes() == native.tobytes(), name


def test_arrays_come_from_the_mapped_file(tmp_path, arrays, uploaded):
    path = tmp_path / "arrays.npz"
    np.savez(path, **arrays)
    loaded = chx.load(path)
    path.unlink()
    check_equal(loaded, arrays)
    assert len(uploaded) == len(arrays)
    assert all(a.flags["C_CONTIGUOUS"] for a in map(chx.to_numpy, loaded.values()))


def test_other_files_and_compressed_entries(tmp_path, arrays, uploaded):
    path = tmp_path / "arrays.npz"
    np.savez_compressed(path, **arrays)
    check_equal(chx.load(path), arrays)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    buffer.seek(0)
    check_equal(chx.load(buffer), arrays)
    with gzip.open(tmp_path / "arrays.npz.gz", "wb") as file:
        file.write(buffer.getvalue())
    with gzip.open(tmp_path / "arrays.npz.gz") as file:
        check_equal(chx.load(file), arrays)
    assert not uploaded
    # Behind other bytes, and from an open file.
    path.write_bytes(b"#!/bin/sh\n" + buffer.getvalue())
    with pytest.raises(ValueError):
        chx.load(path)
    path.write_bytes(buffer.getvalue())
    with open(path, "rb") as file:
        check_equal(chx.load(file), arrays)
    assert len(uploaded) == len(arrays)


def test_mixed_archives(tmp_path, uploaded):
    """Compressed or not, names without .npy, and two that differ only by it."""
    values = {name: np.arange(9.0) + i for i, name in enumerate(["a", "b.npy", "c", "c.npy"])}
    path = tmp_path / "mixed.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for i, (name, array) in enumerate(values.items()):
            buffer = io.BytesIO()
            np.save(buffer, array)
            kind = zipfile.ZIP_DEFLATED if i == 1 else zipfile.ZIP_STORED
            archive.writestr(name, buffer.getvalue(), kind)
    with np.load(path) as loaded:
        want = {name: loaded[name] for name in loaded.files}
    check_equal(chx.load(path), want)
    assert len(uploaded) == 3
    with zipfile.ZipFile(path, "w"):
        pass
    assert chx.load(path) == {}


@pytest.mark.parametrize("values", [np.zeros(2, "c8"), np.zeros(2, "u2"), np.array(["a"])])
def test_dtypes_that_chx_lacks(tmp_path, values):
    np.savez(tmp_path / "a.npz", a=values)
    with pytest.raises(chx.DtypeError):
        chx.load(tmp_path / "a.npz")


def test_bools_are_made_of_any_byte(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.frombuffer(b"\0\1\2\xff", "?"))
    loaded = chx.load(path)["a"]
    assert loaded.tolist() == [False, True, True, True]
    assert int(chx.sum(loaded)) == 3


def header(text, version=1):
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode()


def described(descr, shape, order=False):
    return header(f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n")


HOSTILE_ENTRIES = {
    "too many elements": described("<f4", "(3,)"),
    "absurd size": described("<f4", "(4611686018427387904, 4)"),
    "product that overflows": described("<f8", "(4294967296, 4294967296, 2)"),
    "absurd dimension without elements": described("<f4", "(9223372036854775808, 0)"),
    "negative dimension": described("<f4", "(-2,)"),
    "two negative dimensions": described("<f4", "(-2, -1)"),
    "too many dimensions": described("|u1", "(" + "1, " * 99 + "8)"),
    "shape of floats": described("<f4", "(2.0,)"),
    "no shape": header("{'descr': '<f4', 'fortran_order': False}"),
    "no order": described("<f4", "(2,)", "'yes'"),
    "no dtype": described("spam", "(2,)"),
    "no header": header("spam"),
    "a key of bytes": header("{b'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"),
    "calls": header("__import__('os').abort()"),
    "deep header": header("(" * 9000),
    "long header": header(" " * 20000),
    "endless header": b"\x93NUMPY\2\0\xff\xff\xff\xff{}",
    "cut header": b"\x93NUMPY\1\0\xff",
    "version": b"\x93NUMPY\x09\0" + described("<f4", "(2,)")[8:],
    "objects": described("|O", "(1,)"),
    "objects in a structure": header(
        "{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,)}"
    ),
}


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("name", HOSTILE_ENTRIES)
def test_hostile_entries_are_refused(tmp_path, name, compression):
    path = tmp_path / "evil.npz"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("evil.npy", HOSTILE_ENTRIES[name] + b"12345678")
    # NumPy itself asks for the memory that compressed entries say they need.
    stored = compression == zipfile.ZIP_STORED
    with pytest.raises(ValueError if stored else (ValueError, MemoryError)):
        chx.load(path)


class Evil:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_nothing_is_unpickled(tmp_path, save):
    path = tmp_path / "evil.npz"
    save(path, a=np.array([Evil()], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        chx.load(path)
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ValueError, match="pickle"):
        chx.load(path)


def changed(path, entry, **fields):
    """The file with fields of an entry of its directory, or of an entry's own header, changed."""
    names = ["signature", "made", "needed", "flags", "method", "time", "date", "crc"]
    names += ["compressed", "size", "name", "extra", "comment", "disk", "internal", "external"]
    names += ["offset"]
    data = bytearray(path.read_bytes())
    place = -1
    for _ in range(entry + 1):
        place = data.index(b"PK\1\2", place + 1)
    values = dict(zip(names, DIRECTORY.unpack_from(data, place)))
    own = fields.pop("own_extra", None)
    if own is not None:
        struct.pack_into("<H", data, values["offset"] + 28, own)
    values.update(fields)
    DIRECTORY.pack_into(data, place, *values.values())
    path.write_bytes(data)


# In these words where zipfile does not look itself.
BEYOND = "expects 76 bytes for 'a.npy'|Overlapped entries: 'a.npy'"
HOSTILE_DIRECTORIES = {
    "size beyond the file": ("expects entries one behind the other", {"compressed": 10**6}),
    "size over the next": ("expects entries one behind the other", {"compressed": 300}),
    "size over the entry's end": (BEYOND, {"compressed": 80}),
    "another size": ("expects 9999 bytes for 'a.npy'", {"size": 9999}),
    "smaller size": ("expects 12 bytes for 'a.npy'", {"size": 12}),
    "offset of the next": ("expects entries one behind the other", {"offset": None}),
    "offset beyond the file": ("expects entries one behind the other", {"offset": 2**31}),
    "offset within data": ("Bad magic number|one behind the other", {"offset": 40}),
    "data beyond the entry": (BEYOND, {"own_extra": 65535}),
    "data in the next": (BEYOND, {"own_extra": 100}),
    "checksum": ("expects another checksum of 'a.npy'", {"crc": 1}),
}


@pytest.mark.parametrize("name", HOSTILE_DIRECTORIES)
def test_hostile_directories_are_refused(tmp_path, name):
    path = tmp_path / "evil.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for entry in "ab":
            archive.writestr(f"{entry}.npy", described("<f4", "(2,)") + b"12345678")
    assert chx.load(path)["a"].shape == (2,)
    message, fields = HOSTILE_DIRECTORIES[name]
    if "offset" in fields and fields["offset"] is None:
        fields = {"offset": path.read_bytes().index(b"PK\3\4", 1)}
    changed(path, 0, **fields)
    with pytest.raises(zipfile.BadZipFile, match=message):
        chx.load(path)


def test_encrypted_entries(tmp_path):
    path = tmp_path / "evil.npz"
    np.savez(path, a=np.zeros(2))
    changed(path, 0, flags=1)
    with pytest.raises(RuntimeError, match="encrypted"):
        chx.load(path)


def test_every_truncation_and_every_changed_byte(tmp_path, rng):
    """An error, or the arrays of the file: no byte of data changes unseen."""
    path = tmp_path / "evil.npz"
    np.savez(path, a=np.arange(3.0), b=np.array([True, False]))
    good = path.read_bytes()
    errors = (ValueError, zipfile.BadZipFile, RuntimeError, KeyError, EOFError)
    errors += (OSError, zlib.error, lzma.LZMAError)  # of data that are not compressed as it says
    for size in range(len(good)):
        path.write_bytes(good[:size])
        with pytest.raises(errors):
            chx.load(path)
    refused = 0
    for place in range(len(good)):
        data = bytearray(good)
        data[place] ^= int(rng.integers(1, 256))
        path.write_bytes(data)
        try:
            loaded = chx.load(path)
        except errors:
            refused += 1
        else:  # the directory itself has no checksum: names change, or an entry is lost
            assert all(a.tolist() in ([0, 1, 2], [True, False]) for a in loaded.values())
    assert refused > len(good) / 2
