"""Every operator against NumPy: values, dtypes, layouts, gradients and double gradients.

CHX_DEVICES (default "native:0") names the devices; CHX_SEED repeats a run.
"""

import os

import chx
import ml_dtypes
import numpy as np
import pytest

from . import cases  # noqa: F401, fills the table
from .layouts import LAYOUTS, lay_out
from .numeric import check_gradients, is_slope
from .table import FLOATS, ROWS, values

DEVICES = os.environ.get("CHX_DEVICES", "native:0").split(",")
SEED = int(os.environ.get("CHX_SEED", np.random.SeedSequence().entropy % 2**32))

# Relative to the largest magnitude; a chain of a few roundings.
TOLERANCE = {"bfloat16": 4e-2, "float16": 5e-3, "float32": 2e-5, "float64": 1e-12}


@pytest.fixture(scope="module", autouse=True)
def session():
    print(f"CHX_SEED={SEED}")
    with chx.connect(devices=",".join(DEVICES)) as session:
        session.configure(cudnn_tf32=False)  # the tolerances are those of float32
        yield session


@pytest.fixture(params=DEVICES)
def device(request):
    with chx.using_device(request.param):
        yield request.param


def rng_of(row):
    return np.random.default_rng([SEED, *row.name.encode()])


def domain_of(row, i):
    return row.domain[i] if isinstance(row.domain, list) else row.domain


def inputs_of(row, rng, dtypes):
    return [
        values(rng, shape, dtype, domain_of(row, i))
        for i, (shape, dtype) in enumerate(zip(row.shapes, dtypes, strict=True))
    ]


def dtype_choices(row):
    """Tuples of the inputs' dtypes."""
    if not row.shapes:
        return [()]
    if row.same_dtypes:
        return [(d,) * len(row.shapes) for d in row.dtypes[0]]
    firsts = [d[0] for d in row.dtypes]
    chosen = []
    for i, choices in enumerate(row.dtypes):
        chosen += [tuple([*firsts[:i], d, *firsts[i + 1 :]]) for d in choices]
    return list(dict.fromkeys(chosen))


def as_list(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def reference(row, arrays):
    """The reference's results; floats are computed in float64 and then rounded once."""
    exact = row.ref(*arrays)
    wide = [a.astype("float64") if a.dtype.kind == "f" else a for a in arrays]
    dtypes = [np.asarray(r).dtype for r in as_list(exact)]
    with np.errstate(all="ignore"):
        return [
            np.asarray(w).astype(d) if d.kind == "f" else np.asarray(e)
            for e, w, d in zip(as_list(exact), as_list(row.ref(*wide)), dtypes, strict=True)
        ]


def compare(row, got, want):
    got = [chx.to_numpy(g) if isinstance(g, chx.ndarray) else np.asarray(g) for g in as_list(got)]
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype
        dtype = str(w.dtype)
        assert g.shape == w.shape
        if row.exact or str(w.dtype) not in TOLERANCE:
            np.testing.assert_array_equal(g, w)
        else:
            g, w = g.astype("float64"), w.astype("float64")
            scale = max(1.0, np.max(np.abs(w), initial=0.0)) if w.size else 1.0
            tolerance = TOLERANCE[dtype]
            np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_forward(row, device):
    for dtypes in dtype_choices(row):
        arrays = inputs_of(row, rng_of(row), dtypes)
        got = row.call(chx, *[chx.array(a) for a in arrays])
        compare(row, got, reference(row, arrays))


def narrow_choices(row):
    if "float16" in row.name:  # which the call names
        return []
    return [dtypes for dtypes in dtype_choices(row) if "float16" in dtypes]


@pytest.mark.parametrize("row", [r for r in ROWS if narrow_choices(r)], ids=lambda r: r.name)
def test_bfloat16(row, device):
    """In the place of float16: the results are of the same dtypes, but for that one."""
    for dtypes in narrow_choices(row):
        halves = inputs_of(row, rng_of(row), dtypes)
        arrays = [a.astype(ml_dtypes.bfloat16) if a.dtype == "float16" else a for a in halves]
        with np.errstate(all="ignore"):
            like = [np.asarray(r).dtype for r in as_list(row.ref(*halves))]
            wide = [a.astype("float64") if str(a.dtype) in TOLERANCE else a for a in arrays]
            want = [
                np.asarray(w).astype(ml_dtypes.bfloat16 if d == "float16" else d)
                for w, d in zip(as_list(row.ref(*wide)), like, strict=True)
            ]
        compare(row, row.call(chx, *[chx.array(a) for a in arrays]), want)


@pytest.mark.parametrize("row", [r for r in ROWS if r.shapes], ids=lambda r: r.name)
def test_layouts(row, device):
    dtypes = dtype_choices(row)[-1]
    arrays = inputs_of(row, rng_of(row), dtypes)
    want = reference(row, arrays)
    for layout in LAYOUTS:
        got = row.call(chx, *[lay_out(chx, a, layout) for a in arrays])
        try:
            compare(row, got, want)
        except AssertionError as error:
            raise AssertionError(f"{layout}: {error}") from error


def gradient_rows(double):
    return [r for r in ROWS if r.grad and (r.double or not double)]


@pytest.mark.parametrize("row", gradient_rows(False), ids=lambda r: r.name)
def test_gradient(row, device):
    arrays = inputs_of(row, rng_of(row), gradient_dtypes(row))
    check_gradients(chx, row, arrays, rng_of(row))


@pytest.mark.parametrize("row", gradient_rows(True), ids=lambda r: r.name)
def test_double_gradient(row, device):
    arrays = inputs_of(row, rng_of(row), gradient_dtypes(row))
    check_gradients(chx, row, arrays, rng_of(row), double=True)


def test_a_wrong_gradient_is_found():
    rng = np.random.default_rng(SEED)
    x = rng.uniform(-2, 2, (3, 4))
    grad = 3 * x**2
    for direction in rng.uniform(-1, 1, (10, 3, 4)):
        assert is_slope(lambda: np.sum(x**3), x, grad, direction)
        wrong = grad.copy()
        wrong[1, 2] *= 1.001
        wrong[1, 2] += 1e-3
        assert (
            not is_slope(lambda: np.sum(x**3), x, wrong, direction) or abs(direction[1, 2]) < 0.01
        )


def is_float(array):
    return str(array.dtype) in FLOATS


def is_in_place(row):
    writes = ("copyto", "fill", "index_put", *chx._core._submodules["optimizers"])
    return row.op.endswith("_") or row.op in writes


@pytest.mark.parametrize("row", [r for r in ROWS if not is_in_place(r)], ids=lambda r: r.name)
def test_the_client_knows_the_daemons_graph(row, device):
    """What depends on what is computed twice: without asking, and where the gradients are."""
    arrays = inputs_of(row, rng_of(row), gradient_dtypes(row))
    floats = [i for i, a in enumerate(arrays) if is_float(a)]
    for wanted in [[i] for i in floats] + [floats]:
        made = [chx.array(a) for a in arrays]
        leaves = [made[i].require_grad() for i in wanted]
        outs = [o for o in as_list(row.call(chx, *made)) if isinstance(o, chx.ndarray)]
        for out in outs:
            assert chx._core._backprop_ids(out) == chx._core._graphs_in_daemon(out)[0], wanted
        if not row.grad and row.op in chx._core._differentiable_operators:
            continue  # a form that has no gradient, such as that of full matrices in svd
        connected = [out for out in outs if chx._core._backprop_ids(out)]
        if not connected:
            continue
        chx.backward(connected)
        for i, x in zip(wanted, leaves, strict=True):
            assert (x.grad is not None) == chx._core._graphs_in_daemon(x)[1], (wanted, i)


def gradient_dtypes(row):
    """float64 where there are floats; the gradient of astype goes by its own row."""
    return tuple("float64" if d[-1] in FLOATS else d[0] for d in row.dtypes)


# Of older clients, which this one does not send: tests/session/session_test.cc.
OLDER = {"pool_spread", "pool_sum"}


def test_every_operator_has_a_row():
    missing = sorted(set(chx._core._all_operators) - {r.op for r in ROWS} - OLDER)
    assert not missing, f"operators without a row in tests/conformance/cases: {missing}"


def test_every_row_has_an_operator():
    assert {r.op for r in ROWS} <= set(chx._core._all_operators)


def test_every_differentiable_operator_has_its_gradient_checked():
    through_others = {
        "getitem_grad",
        "relu_grad",
        "silu_grad",
        "mish_grad",
        "hardswish_grad",
        "gelu_erf_grad",
        "gelu_tanh_grad",
        "layer_norm_grad",
        "group_norm_grad",
        "grouped_conv_grad_image",
        "grouped_conv_grad_weight",
        "huber_loss_grad",
        "smooth_cross_entropy",
        "smooth_cross_entropy_grad",
        "rms_norm_grad",
        "attention_forward",
        "attention_grad",
        "ctc_forward",
        "ctc_grad",
        "rope_grad",
        "softmax_cross_entropy_grad",
        "average_pool_grad",
        "batch_norm_forward",
        "batch_norm_grad",
        "lstm_cell_grad",
        "lstm_layer_forward",
        "lstm_layer_grad",
        "rnn_grad",
        "softmax_grad",
        "log_softmax_grad",
        "take_along_axis_grad",
        "take_grad",
        "conv_grad_weight",
        "max_pool_index",
        "pool_gather",
        "pool_scatter",
    }
    made = {"zeros", "ones", "identity"}  # compositions without inputs
    checked = {r.op for r in ROWS if r.grad} | through_others | made | OLDER
    assert set(chx._core._differentiable_operators) <= checked
