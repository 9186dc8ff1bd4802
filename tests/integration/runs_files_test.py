"""Runs whose data lies in files of the operator's (chxd --data-root)."""

import io
import json
import os
import struct

import chx
import numpy as np
import pytest

from .daemon import Daemon, Keeper, wait_until
from .runs import NAME, endless_step, make_step, problem
from .tenants import SPEECH, VISION, TenantsFile, by_token

pytest_plugins = ["tests.integration.runs"]
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64"]
CODES = dict(zip(DTYPES, ["BOOL", "I8", "I16", "I32", "I64", "U8", "F16", "F32", "F64"]))


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "data"
    (folder / "below").mkdir(parents=True)
    return folder


@pytest.fixture
def daemon(root):
    with Daemon(f"--data-root={root}", "--memory=2g") as started:
        yield started


def save_safetensors(path, arrays):
    """By the format's description."""
    header, data = {}, b""
    for name, array in arrays.items():
        end = len(data) + array.nbytes
        header[name] = {
            "dtype": CODES[str(array.dtype)],
            "shape": array.shape,
            "data_offsets": [len(data), end],
        }
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_what_is_read(root, session, rng):
    arrays = {}
    for dtype in DTYPES:
        arrays[dtype] = (100 * rng.normal(size=(7, 3, 2))).astype(dtype)
    arrays |= {
        "scalar": np.array(1.5),
        "empty": np.zeros((0, 4), "f"),
        "none": np.zeros((3, 0), "i2"),
        "long": rng.normal(size=(3, 400_000)),  # rows of more bytes than are read at once
        "narrow": rng.normal(size=(300_000,)).astype("f"),
    }
    np.savez(root / "below" / "all.npz", **arrays)
    save_safetensors(root / "all.safetensors", arrays)
    np.save(root / "one.npy", arrays["float32"])
    assert chx.runs.files("one.npy").keys() == {"one"}
    one = chx.runs.files("one.npy")["one"].load()
    assert chx.to_numpy(one).tobytes() == arrays["float32"].tobytes()
    for name in ("below/all.npz", "all.safetensors"):
        found = chx.runs.files(name)
        assert found.keys() == arrays.keys()
        for key, array in arrays.items():
            assert (found[key].shape, found[key].dtype) == (array.shape, array.dtype)
            loaded = chx.to_numpy(found[key].load())
            assert loaded.shape == array.shape and loaded.tobytes() == array.tobytes()
        rows = rng.integers(0, 7, size=20)
        some = chx.to_numpy(found["int16"].load(rows))
        np.testing.assert_array_equal(some, arrays["int16"][rows])
        for wrong in ([7], [-1], [0, 2**62], [-(2**63)]):
            with pytest.raises(ValueError, match="rows of 0 to 6"):
                found["int16"].load(wrong)
        with pytest.raises(ValueError, match="first axis"):
            found["scalar"].load([0])


def test_bools_are_0_or_1(root, session):
    file = io.BytesIO()
    np.save(file, np.zeros(3, bool))
    (root / "bools.npy").write_bytes(file.getvalue()[:-3] + b"\0\1\xff")
    loaded = chx.runs.files("bools.npy")["bools"].load()
    assert chx.to_numpy(loaded).tobytes() == b"\0\1\1"


@pytest.mark.parametrize("size", [10, 8])
@pytest.mark.parametrize("mixed", [False, True])
def test_is_equal_to_arrays(root, session, rng, size, mixed):
    """The same minibatches as from arrays, also those of fewer rows and of an evaluation."""
    data, targets = problem(rng)
    start = rng.normal(size=(5, 2)).astype("f")
    np.savez(root / "train.npz", x=data, t=targets)
    found = chx.runs.files("train.npz")
    results = []
    for from_files in (True, False):
        x = found["x"] if from_files else chx.array(data)
        t = found["t"] if from_files and not mixed else chx.array(targets)
        step, params, _ = make_step("dropout", start)

        def evaluate(x, params=params):
            return chx.sum(x @ params[0])

        run = chx.runs.start(
            step, (x, t), batch_size=size, epochs=3, shuffle=5, log_every=1,
            evaluate=(evaluate, x), evaluate_batch_size=16,
        )  # fmt: skip
        assert run.wait(60).reason == "done"
        metrics = {name: values.tolist() for name, values in run.metrics().items()}
        results.append((metrics, [chx.to_numpy(p).tobytes() for p in params]))
    assert results[0] == results[1]


def test_needs_no_memory_for_all_of_it(root):
    np.save(root / "x.npy", np.ones((1000, 20_000), "f"))  # 80 MB
    with (
        Daemon(f"--data-root={root}", "--session-memory=40MiB") as daemon,
        chx.connect(daemon.address),
    ):
        x = chx.runs.files("x.npy")["x"]
        with pytest.raises(chx.OutOfMemoryError):
            x.load().sum().item()
        run = chx.runs.start(lambda x: chx.sum(x), x, batch_size=50, epochs=1, log_every=1)
        assert run.wait(60).reason == "done"
        assert run.metrics()["loss"].tolist() == [1e6] * 20


def test_paths_do_not_lead_out(root, session, tmp_path):
    np.save(tmp_path / "secret.npy", np.ones(3))
    np.save(root / "here.npy", np.ones(3))
    (root / "link.npy").symlink_to("here.npy")
    (root / "out.npy").symlink_to(tmp_path / "secret.npy")
    (root / "up").symlink_to(tmp_path)
    os.mkfifo(root / "fifo.npy")
    (root / "folder.npy").mkdir()
    for path in [
        "../secret.npy", "below/../../secret.npy", "below/../here.npy", str(tmp_path / "secret.npy"),
        "/etc/passwd", "link.npy", "out.npy", "up/secret.npy", "fifo.npy", "folder.npy", "", ".",
        "..", "/", "below//x.npy", "./here.npy", "none.npy", "below", "here.npy/x.npy", "x" * 300,
        "y/" * 2000 + "x.npy", "below/../../" * 20 + "etc/passwd",
    ]:  # fmt: skip
        with pytest.raises(ValueError, match="^\\[data\\]"):
            chx.runs.files(path)
    assert chx.runs.files("here.npy")["here"].load().tolist() == [1, 1, 1]


def test_damaged_files(root, session, rng):
    good = {}
    file = io.BytesIO()
    np.savez(file, x=rng.normal(size=(4, 3)), y=np.arange(5))
    good["npz"] = file.getvalue()
    file = io.BytesIO()
    np.save(file, rng.normal(size=(4, 3)))
    good["npy"] = file.getvalue()
    save_safetensors(root / "a.safetensors", {"x": rng.normal(size=(4, 3))})
    good["safetensors"] = (root / "a.safetensors").read_bytes()
    bad = {}
    for kind, content in good.items():
        (root / f"good.{kind}").write_bytes(content)
        assert chx.runs.files(f"good.{kind}")
        for i, length in enumerate([0, 1, 7, 8, 20, len(content) // 2, len(content) - 1]):
            bad[f"short{i}.{kind}"] = content[:length]
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%s,), }\n"
    for i, shape in enumerate(
        [b"4, 3000000000, 3000000000", b"-1", b"9223372036854775807", b"5, 3"]
    ):
        text = header % shape
        bad[f"shape{i}.npy"] = b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text + b"\0" * 96
    bad["huge.npy"] = b"\x93NUMPY\x02\0" + struct.pack("<I", 2**31) + b" " * 1000
    bad["huge.safetensors"] = struct.pack("<Q", 2**40) + b"{}"
    (root / "sparse.safetensors").write_bytes(struct.pack("<Q", 2**24))
    os.truncate(root / "sparse.safetensors", 2**30)
    for name, content in bad.items():
        (root / name).write_bytes(content)
    for name in [*bad, "sparse.safetensors"]:
        with pytest.raises((ValueError, chx.DtypeError, chx.DimensionError), match="'"):
            chx.runs.files(name)
    # Any byte may be wrong.
    for kind, content in good.items():
        for _ in range(150):
            wrong = bytearray(content)
            for place in rng.integers(0, len(content), size=rng.integers(1, 4)):
                wrong[place] = rng.integers(0, 256)
            (root / f"wrong.{kind}").write_bytes(wrong)
            try:
                for array in chx.runs.files(f"wrong.{kind}").values():
                    array.load()
            except (ValueError, chx.DtypeError, chx.DimensionError, chx.OutOfMemoryError) as error:
                assert str(error).startswith("[")
    assert chx.ones(3).sum().item() == 3


def test_other_orders_and_dtypes(root, session):
    x = np.arange(12.0).reshape(3, 4)
    np.save(root / "fortran.npy", np.asfortranarray(x))
    np.save(root / "big.npy", x.astype(">f8"))
    np.save(root / "complex.npy", x.astype("c16"))
    np.savez_compressed(root / "packed.npz", x=x)
    (root / "text.txt").write_text("x")
    for name, message in [
        ("fortran.npy", "C order"),
        ("big.npy", "little-endian"),
        ("complex.npy", "dtype of chx"),
        ("packed.npz", "without compression"),
        ("text.txt", "NAME.npy"),
    ]:
        with pytest.raises((ValueError, chx.DtypeError), match=message):
            chx.runs.files(name)
    np.save(root / "row.npy", np.asfortranarray(np.arange(3)))  # both orders are the same
    assert chx.runs.files("row.npy")["row"].load().tolist() == [0, 1, 2]


@pytest.mark.parametrize("change", ["truncate", "replace", "remove", "write"])
def test_a_file_changes_during_a_run(root, session, change):
    path = root / "x.npy"
    np.save(path, np.ones((8, 4), "f"))
    run = chx.runs.start(
        endless_step(chx.zeros((4,))), chx.runs.files("x.npy")["x"], batch_size=2, steps=10**9
    )
    assert wait_until(lambda: run.step > 10)
    if change == "truncate":
        os.truncate(path, 100)
    elif change == "remove":
        path.unlink()
    elif change == "replace":
        np.save(root / "y.npy", np.zeros((9, 4), "f"))
        (root / "y.npy").rename(path)
    else:
        path.write_bytes(path.read_bytes())
    with pytest.raises(chx.ChainerxError, match="x.npy"):
        run.wait(60)
    assert chx.ones(3).sum().item() == 3


@pytest.mark.parametrize("changed", [False, True])
def test_goes_on_after_a_restart(root, tmp_path, changed):
    np.save(root / "x.npy", np.arange(32, dtype="f").reshape(8, 4))
    keeper = Keeper(tmp_path, "--lease=1h", f"--data-root={root}")
    try:
        session = chx.connect(keeper.address, session=NAME)
        w = chx.zeros((4,))
        session.save("w", w)
        x = chx.runs.files("x.npy")["x"]
        run = chx.runs.start(
            endless_step(w), x, batch_size=2, steps=40_000, evaluate=(lambda x: chx.sum(x), x)
        )
        assert run.step < 40_000
        keeper.terminate()
        if changed:
            np.save(root / "x.npy", np.ones((8, 4), "f"))
        keeper.start()
        if changed:
            end = run.wait(60)
            assert end.reason == "daemon" and "'x.npy' has changed" in end.message
        else:
            assert run.wait(120).reason == "done"
            # In 10000 epochs; sums of float32 are exact up to 2**24.
            expected = 10_000 * np.arange(32).reshape(8, 4).sum(0)
            assert chx.to_numpy(session.load("w")).tolist() == expected.tolist()
            assert set(run.metrics()["evaluation/loss"]) == {np.arange(32).sum()}
        session.discard()
        session.close()
    finally:
        keeper.daemon.kill()


def test_who_may(root, tmp_path):
    np.save(root / "x.npy", np.ones((8, 4), "f"))
    with (
        Daemon() as daemon,
        chx.connect(daemon.address),
        pytest.raises(ValueError, match="--data-root"),
    ):
        chx.runs.files("x.npy")
    tenants = TenantsFile(
        tmp_path / "tenants.yaml",
        vision=by_token(VISION),
        speech=by_token(SPEECH, features=["snapshots"]),
    )
    with Daemon(f"--data-root={root}", tenants.flag) as daemon:
        with chx.connect(daemon.address, token=VISION):
            x = chx.runs.files("x.npy")["x"]
            assert x.load().sum().item() == 32
        with chx.connect(daemon.address, token=SPEECH) as session:
            refused = chx.runs.FileArray(session.devices[0], "x.npy", "x", x.dtype, x.shape)
            for call in (lambda: chx.runs.files("x.npy"), refused.load):
                with pytest.raises(Exception, match="data_files"):
                    call()
