"""Methods of numpy.ndarray and protocols of Python's that ChainerX's arrays lack."""

import io
import operator
import pickle

import chx
import numpy as np
import pytest

SEED = np.random.SeedSequence().entropy % 2**32


@pytest.fixture(scope="module", autouse=True)
def session():
    print("seed", SEED)
    with chx.connect() as session:
        yield session


@pytest.fixture
def a():
    return np.random.default_rng(SEED).permutation(12).reshape(3, 4).astype("float64")


def check(got, want):
    want = np.asarray(want)
    got = chx.to_numpy(got)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(got, want)


VALUES = {
    "argpartition": lambda x: x.argpartition(1)[:, 1],
    "nonzero": lambda x: x.nonzero()[1],
    "round": lambda x: (x / 7).round(1),
    "searchsorted": lambda x: x[0, :1].searchsorted(x[1]),
    "choose": lambda x: (x > 3).astype("int64").choose([x, x * 2]),
    "compress": lambda x: x.compress([True, False, True], axis=0),
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "conj": lambda x: x.conj(),
    "conjugate": lambda x: x.conjugate(),
    "flat item": lambda x: x.flat[5],
    "flat slice": lambda x: x.T.flat[2:7],
    "sum in a dtype": lambda x: x.sum(axis=0, dtype="int32"),
    "std": lambda x: x.std(axis=1, ddof=1, keepdims=True),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name, a):
    for x in (a, a[::-1, ::2]):
        if name == "compress" or name.startswith("flat") or x is a:
            source = chx.array(a)
            check(VALUES[name](source if x is a else source[::-1, ::2]), VALUES[name](x))


def itemset(x, index, value):
    """NumPy 2 has this method no more."""
    if isinstance(x, chx.ndarray):
        x.itemset(index, value)
    elif isinstance(index, tuple):
        x[index] = value
    else:
        x.flat[index] = value


WRITERS = {
    "sort": lambda x: x.sort(),
    "sort axis": lambda x: x.sort(axis=0),
    "put": lambda x: x.put([0, -1], [7, 8]),
    "itemset": lambda x: itemset(x, (1, 1), 9),
    "itemset flat": lambda x: itemset(x, 3, 9),
    "flat": lambda x: x.flat.__setitem__(slice(1, 4), 5),
    "all flat": lambda x: setattr(x, "flat", 3),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("strided", [False, True])
def test_writers(name, strided, a):
    want, got = a.copy(), chx.array(a)
    WRITERS[name](want[::-1, ::2] if strided else want)
    WRITERS[name](got[::-1, ::2] if strided else got)
    check(got, want)


def test_partition_in_place(a):
    x = chx.array(a)
    x.partition(2, axis=1)
    check(x[:, 2], np.sort(a, 1)[:, 2])
    with pytest.raises(ValueError, match="kth"):
        x.partition(4)


def test_in_place_methods_are_refused_in_a_graph(a):
    x = chx.array(a).require_grad()
    for write in WRITERS.values():
        with pytest.raises((chx.ChainerxError, RuntimeError)):
            write(x)
    assert not x.flags.writeable


def test_flags(a):
    x = chx.array(a)
    assert x.flags.c_contiguous and x.flags["C"] and not x.flags.f_contiguous
    assert x.flags.forc and not x.flags.fnc and x.T.flags.fnc and x.flags.writeable
    assert not x[:, ::2].flags["C_CONTIGUOUS"] and x.flags.contiguous and x.flags.aligned
    assert "C_CONTIGUOUS : True" in repr(x.flags)


def test_iteration(a):
    x = chx.array(a)
    assert [row.tolist() for row in x] == a.tolist()
    assert [float(v) for v in x.flat] == a.ravel().tolist() and len(x.flat) == 12
    with pytest.raises(TypeError):
        iter(chx.array(3.0))


def test_bytes_and_files(a, tmp_path):
    x = chx.array(a)
    assert x.tobytes() == x.tostring() == a.tobytes() and x.T.tobytes() == a.T.tobytes()
    x.tofile(tmp_path / "values")
    check(chx.array(np.fromfile(tmp_path / "values").reshape(3, 4)), a)
    check(pickle.loads(x.dumps()), a)
    x.dump(tmp_path / "pickled")
    check(pickle.loads((tmp_path / "pickled").read_bytes()), a)
    file = io.BytesIO()
    x.dump(file)
    check(pickle.loads(file.getvalue()), a)


def test_numbers():
    x = chx.array(3)
    assert [1, 2, 3, 4][x] == 4 and operator.index(x) == 3 and list(range(x)) == [0, 1, 2]
    for other in (chx.array(3.0), chx.array([3])):
        with pytest.raises(TypeError, match="index"):
            operator.index(other)
    assert complex(chx.array(2.5)) == 2.5


@pytest.mark.parametrize("value", [1.25, np.float32(0.1), 3, True], ids=repr)
def test_format(value):
    """As numpy.ndarray's, of 0-d arrays only; without a spec it is str()."""
    x = np.array(value)
    y = chx.array(x)
    for spec in (".3f", "8.2e", "5", ">12"):
        assert format(y, spec) == format(x, spec)
    assert f"{y}" == str(y)
    with pytest.raises(TypeError, match="unsupported format string"):
        format(chx.array([x]), ".3f")
    with pytest.raises(ValueError, match="Unknown format code 'k'"):
        format(y, "k")


def test_membership(a):
    x = chx.array(a)
    assert 3.0 in x and 99 not in x and np.float64(3) in x
    assert None not in [x.tolist()]


def test_take_that_is_told_to_raise_does_so_at_the_call():
    x = chx.arange(4)
    for indices in ([4], [-5], [0, 2**40]):
        with pytest.raises(IndexError, match="take"):
            chx.take(x, chx.array(indices), 0, mode="raise")
        with pytest.raises(IndexError, match="take"):
            x.take(chx.array(indices), 0, "raise")
        # By default the reader finds out.
        y = chx.take(x, chx.array(indices), 0)
        with pytest.raises(IndexError, match="take"):
            y.tolist()
    assert x.take(chx.array([3, -4]), 0, "raise").tolist() == [3, 0]


def test_arange_of_integers_from_fractions():
    for args in ((0.5, 5), (0.5, 3, 0.75), (-1.5, 2, 0.5), (3.7, -2.2, -1.3), (0.9, 4.1)):
        for dtype in ("int64", "int8", "int32"):
            check(chx.arange(*args, dtype=dtype), np.arange(*args, dtype=dtype))
    with pytest.raises(chx.ChainerxError, match="step"):
        chx.arange(1, 3, 0)


def test_linspace_of_bools():
    for start, stop in ((0, 1), (-1, 1), (0.2, 0.7)):
        check(chx.linspace(start, stop, 5, dtype="bool"), np.linspace(start, stop, 5, dtype="bool"))


def test_moveaxis_moves_nothing_by_default(a):
    check(chx.moveaxis(chx.array(a)), a)
    check(chx.moveaxis(chx.array(a), 0, 1), np.moveaxis(a, 0, 1))
    with pytest.raises(chx.DimensionError):
        chx.moveaxis(chx.array(a), 0)


def test_numpys_functions_are_ours(a):
    x = chx.array(a)
    for got, want in [
        (np.pad(x, 1, "edge"), np.pad(a, 1, "edge")),
        (np.rot90(x), np.rot90(a)),
        (np.quantile(x, 0.3, axis=1), np.quantile(a, 0.3, axis=1)),
        (np.linalg.norm(x, axis=1), np.linalg.norm(a, axis=1)),
        (np.sum(x, axis=0, dtype="float32"), np.sum(a, axis=0, dtype="float32")),
        (np.nan_to_num(x, posinf=3), a),
    ]:
        assert isinstance(got, chx.ndarray) and got.dtype == want.dtype
        np.testing.assert_allclose(chx.to_numpy(got), want)
    assert np.ndim(x) == 2 and np.shape(x) == (3, 4) and np.size(x, 1) == 4
