"""Functions made of operators against NumPy: values, dtypes, layouts, gradients, double gradients."""

import chx
import numpy as np
import pytest

from . import functions  # noqa: F401, fills the table
from .beyond import BEYOND
from .conformance_test import (  # noqa: F401  the fixtures
    as_list,
    compare,
    device,
    inputs_of,
    rng_of,
    session,
)
from .functions.absent import ABSENT
from .functions.table import FUNCTIONS
from .layouts import lay_out
from .numeric import check_gradients


@pytest.mark.parametrize("row", FUNCTIONS, ids=lambda r: r.name)
def test_values(row, device):  # noqa: F811
    for dtype in row.dtypes[0] if row.shapes else (None,):
        arrays = inputs_of(row, rng_of(row), [dtype] * len(row.shapes))
        with np.errstate(all="ignore"):
            want = row.ref(*arrays)
        want = [np.asarray(w) for w in as_list(want)]
        compare(row, row.call(chx, *[chx.array(a) for a in arrays]), want)
        laid_out = [lay_out(chx, a, "negative") for a in arrays]
        compare(row, row.call(chx, *laid_out), want)


@pytest.mark.parametrize("row", [r for r in FUNCTIONS if r.grad], ids=lambda r: r.name)
@pytest.mark.parametrize("double", [False, True], ids=["once", "twice"])
def test_gradients(row, double, device):  # noqa: F811
    arrays = inputs_of(row, rng_of(row), ["float64"] * len(row.shapes))
    check_gradients(chx, row, arrays, rng_of(row), double=double)


# Their first argument is written, or is a list of something else than arrays.
NOT_BESIDE = {"block", "fill_diagonal", "place", "put", "put_along_axis", "putmask", "copyto"}


@pytest.mark.parametrize(
    "row",
    [r for r in FUNCTIONS if len(r.shapes) > 1 and r.op not in NOT_BESIDE],
    ids=lambda r: r.name,
)
def test_numpy_arrays_beside_one_of_ours(row, device):  # noqa: F811
    """Whichever argument is ours, the others may be NumPy's: the result is the same."""
    for dtype in row.dtypes[0]:
        arrays = inputs_of(row, rng_of(row), [dtype] * len(row.shapes))
        want = as_list(row.call(chx, *map(chx.array, arrays)))
        for i in range(1 if "sorter" in row.name else len(arrays)):
            mixed = [chx.array(a) if i == j else a for j, a in enumerate(arrays)]
            for g, w in zip(as_list(row.call(chx, *mixed)), want, strict=True):
                assert type(g) is type(w)
                if isinstance(w, chx.ndarray):
                    assert (g.dtype, g.shape, g.device) == (w.dtype, w.shape, w.device)
                    np.testing.assert_array_equal(chx.to_numpy(g), chx.to_numpy(w))


def test_names():
    """What users of NumPy would expect is there, but for what is known to be missing."""
    absent = set()
    for kind, text in BEYOND.items():
        for name in text.split():
            name = f"ndarray.{name}" if kind == "methods" else name
            place = chx
            for part in name.split("."):
                place = getattr(place, part, None)
            absent |= {name} if place is None else set()
    assert absent == ABSENT
