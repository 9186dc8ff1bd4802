"""einsum, tensordot and other products against NumPy."""

import chx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("seeded_session")


def close(got, want):
    got = chx.to_numpy(got)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("subscripts", "shape"), [("ii->", (4, 5)), ("ii->i", (4, 5)), ("iij->j", (2, 3, 4))]
)
def test_unequal_diagonals(subscripts, shape):
    with pytest.raises(ValueError, match=r"\[einsum\] expects one size for 'i', got \d and \d"):
        chx.einsum(subscripts, chx.ones(shape))
    with pytest.raises(ValueError):
        np.einsum(subscripts, np.ones(shape))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "float32"])
@pytest.mark.parametrize(
    "subscripts", ["ij->", "ij->j", "ij", "ij,jk->ik", "ij,jk->", "ij,jk->ijk"]
)
def test_dtypes(rng, dtype, subscripts):
    shapes = [(3, 4), (4, 5)][: subscripts.count(",") + 1]
    arrays = [rng.integers(0, 3, s).astype(dtype) for s in shapes]
    close(
        chx.einsum(subscripts, *map(chx.array, arrays)), np.asarray(np.einsum(subscripts, *arrays))
    )


def test_lists_of_labels(rng):
    a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 5))
    x, y = chx.array(a), chx.array(b)
    for of_a, of_b, output in (
        ([0, 1, 2], [2, 3], [3, 0]),
        ([0, 1, 2], [2, 3], []),
        ([Ellipsis, 7], [7, 1], [1, Ellipsis]),
        ([51, 0, 30], [30, 26], [26, 51]),
    ):
        close(chx.einsum(x, of_a, y, of_b, output), np.asarray(np.einsum(a, of_a, b, of_b, output)))
        close(chx.einsum(x, of_a, y, of_b), np.asarray(np.einsum(a, of_a, b, of_b)))
    close(np.einsum(x, [0, 1, 2], b, [2, 3]), np.einsum(a, [0, 1, 2], b, [2, 3]))
    close(chx.einsum("ijk,kl", x, b.tolist()), np.einsum("ijk,kl", a, b))
    for bad in ([0, 1, 52], [0, 1, "i"], [0, 1, -1], 5):
        with pytest.raises(ValueError, match=r"\[einsum\] expects lists of labels in \[0, 52\)"):
            chx.einsum(x, bad)
    for none in ((), ("ij",), ([1.0], [0])):
        with pytest.raises(
            TypeError, match=r"\[einsum\] expects subscripts and at least one array"
        ):
            chx.einsum(*none)


@pytest.mark.parametrize(
    "optimize", [False, True, "greedy", "optimal", ["einsum_path", (1, 2), (0, 1)], ("greedy", 10)]
)
def test_optimize(rng, optimize):
    arrays = [rng.standard_normal(s) for s in ((2, 30), (30, 4), (4, 2))]
    leaves = [chx.array(a).require_grad() for a in arrays]
    for subscripts in ("ij,jk,kl->il", "ij,jk,ki->", "...j,jk,kl->l..."):
        got = chx.einsum(subscripts, *leaves, optimize=optimize)
        close(got, np.asarray(np.einsum(subscripts, *arrays)))
    chx.sum(chx.einsum("ij,jk,kl->il", *leaves, optimize=optimize)).backward()
    close(leaves[1].grad, np.outer(arrays[0].sum(0), arrays[2].sum(1)))
    for path in ([(0, 9)], [(0, 1)], [(0, 0), (0, 1)], [(0, 1, 2), (0, 1)]):
        with pytest.raises(ValueError):
            chx.einsum("ij,jk,kl->il", *leaves, optimize=["einsum_path", *path])
    with pytest.raises(ValueError, match=r"\[einsum\] expects optimize .*, got 'fastest'"):
        chx.einsum("ij,jk,kl->il", *leaves, optimize="fastest")


def test_tensordot_refuses():
    x = chx.ones((2, 2))
    for axes, error, text in (
        (3, chx.DimensionError, r"expects 0 to 2 axes of \(2, 2\) and \(2, 2\), got 3"),
        (-1, chx.DimensionError, "expects 0 to 2 axes .*, got -1"),
        (2.5, TypeError, "expects a number of axes, or two lists of axes, got 2.5"),
        (([0], [5]), chx.DimensionError, r"expects an axis in \[-2, 2\), got 5"),
        (([0, 1], [0]), chx.DimensionError, "expects two equally long lists"),
        (([0, 0], [0, 1]), chx.DimensionError, "expects each axis once"),
        (([0.5], [0]), TypeError, "expects a number of axes, or two lists"),
    ):
        with pytest.raises(error, match=rf"\[tensordot\] {text}"):
            chx.tensordot(x, x, axes)


def test_lists_and_numpy_arrays_as_second(rng):
    a, b = rng.standard_normal((3, 4)), rng.standard_normal((3, 4))
    x = chx.array(a)
    for name in ("outer", "inner", "vdot", "kron", "tensordot"):
        want = np.asarray(getattr(np, name)(a, b))
        for second in (b, b.tolist(), chx.array(b)):
            close(getattr(chx, name)(x, second), want)
    close(chx.inner(x, 3), a * 3)
