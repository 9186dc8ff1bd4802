"""ONNX's operators that are one operator of chx, and what of them is more: against onnxruntime."""

import chx
import chx.onnx
import numpy as np
import onnx
import onnxruntime
import pytest
from chx.onnx._export._trace import trace
from onnx import helper

onnxruntime.set_default_logger_severity(3)
NEWEST = onnx.defs.onnx_opset_version()


def model_of(op, arrays, opset=NEWEST, outputs=1, **attributes):
    """A node with an input for each array that is not None."""
    infos = [
        helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for i, a in enumerate(arrays)
        if a is not None
    ]
    names = ["" if a is None else f"x{i}" for i, a in enumerate(arrays)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, **attributes)
    empty = [helper.make_empty_tensor_value_info(name) for name in results]
    graph = helper.make_graph([node], op, infos, empty)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def by_onnxruntime(model, arrays):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)})


def listed(result):
    return list(result) if isinstance(result, tuple) else [result]


def check(model, arrays, expected=None):
    given = [a for a in arrays if a is not None]
    wanted = by_onnxruntime(model, given) if expected is None else expected
    for got, want in zip(listed(chx.onnx.load(model)(*given)), wanted, strict=True):
        got = chx.to_numpy(got)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        tolerance = 4e-3 if want.dtype == "float16" else 1e-5
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def operators(model, arrays):
    """Names of the operators that a model calls."""
    given = [chx.array(a) for a in arrays if a is not None]
    return [call.op for call in trace(chx.onnx.load(model), given)[0] if call.outputs]


A, IMAGE = (3, 4), (2, 4, 6, 8)
Q, K, V = (2, 6, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4)
LABELS = np.array([1, 0, 3])
# operator/variant -> operator of chx, inputs (shapes of floats, or arrays), attributes
ONE = {
    "Conv": ("grouped_conv", [IMAGE, (6, 2, 3, 3), (6,)], {"group": 2, "dilations": [2, 1]}),
    "Conv/few": ("grouped_conv", [IMAGE, (8, 1, 3, 3)], {"group": 4, "pads": [1] * 4}),
    "DepthToSpace": ("pixel_shuffle", [IMAGE], {"blocksize": 2, "mode": "CRD"}),
    "Gelu": ("gelu", [A], {}),
    "Gelu/tanh": ("gelu", [A], {"approximate": "tanh"}),
    "GroupNormalization": ("group_norm", [IMAGE, (4,), (4,)], {"num_groups": 2, "epsilon": 0.1}),
    "HardSwish": ("hardswish", [A], {}),
    "InstanceNormalization": ("instance_norm", [IMAGE, (4,), (4,)], {}),
    "LayerNormalization": ("layer_norm", [A, (4,), (4,)], {"epsilon": 0.1}),
    "LayerNormalization/axes": ("layer_norm", [IMAGE, IMAGE[1:]], {"axis": 1}),
    "Mish": ("mish", [A], {}),
    "NegativeLogLikelihoodLoss": ("nll_loss", [A, LABELS], {}),
    "NegativeLogLikelihoodLoss/weights": (
        "nll_loss",
        [A, LABELS, (4,)],
        {"ignore_index": 0, "reduction": "sum"},
    ),
    "RMSNormalization": ("rms_norm", [A, (4,)], {}),
    "Resize": ("interpolate", [IMAGE, None, None, np.array([2, 4, 12, 24])], {}),
    "Resize/scales": ("interpolate", [IMAGE, None, np.array([1, 1, 2, 3], "f")], {}),
    "Resize/linear": (
        "interpolate",
        [IMAGE, None, None, np.array([2, 4, 3, 11])],
        {"mode": "linear"},
    ),
    "Resize/corners": (
        "interpolate",
        [(1, 2, 5), None, None, np.array([1, 2, 12])],
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
    "SoftmaxCrossEntropyLoss": (
        "cross_entropy",
        [A, LABELS, (4,)],
        {"ignore_index": 3, "reduction": "none"},
    ),
    "SpaceToDepth": ("pixel_unshuffle", [IMAGE], {"blocksize": 2, "mode": "CRD"}),
    "Attention": ("scaled_dot_product_attention", [Q, (2, 6, 7, 8), (2, 6, 7, 4)], {}),
    "Attention/gqa": ("scaled_dot_product_attention", [Q, K, V, (5, 7)], {"is_causal": 1}),
}


def made(inputs, rng):
    return [rng.normal(size=a).astype("f") if isinstance(a, tuple) else a for a in inputs]


@pytest.mark.parametrize("case", ONE)
def test_a_node_is_one_operator(case, rng):
    name, inputs, attributes = ONE[case]
    op, arrays = case.split("/")[0], made(inputs, rng)
    known = {i: a for i, a in enumerate(inputs) if isinstance(a, np.ndarray) and op == "Resize"}
    model = model_of(op, arrays, **attributes)
    for i, value in known.items():  # as files have sizes: constants
        graph = model.graph
        graph.initializer.append(onnx.numpy_helper.from_array(value, f"x{i}"))
        kept = [info for info in graph.input if info.name != f"x{i}"]
        del graph.input[:]
        graph.input.extend(kept)
        arrays[i] = None
    check(model, arrays)
    assert operators(model, arrays) == [name]


def test_swish(rng):
    x = rng.normal(size=A).astype("f")
    model = model_of("Swish", [x])
    check(model, [x], [x / (1 + np.exp(-x))])
    assert operators(model, [x]) == ["silu"]
    check(model_of("Swish", [x], alpha=0.5), [x], [x / (1 + np.exp(-x / 2))])


MORE = {
    "GroupNormalization": ([IMAGE, (4,), (4,)], {"num_groups": 2, "stash_type": 1}, 1),
    "LayerNormalization": ([A, (4,), (4,)], {}, 3),
    "LayerNormalization/broadcast": ([IMAGE, (8,), (6, 1)], {"axis": 2}, 1),
    "RMSNormalization/broadcast": ([IMAGE, (8,)], {"axis": 2}, 1),
    "SoftmaxCrossEntropyLoss": ([A, LABELS, (4,)], {}, 2),
    "Attention/past": (
        [(2, 6, 1, 8), (2, 3, 1, 8), (2, 3, 1, 4), None, (2, 3, 4, 8), (2, 3, 4, 4)],
        {"is_causal": 1, "scale": 0.3},
        3,
    ),
    "Attention/past_mask": ([Q, K, V, (5, 11), (2, 3, 4, 8), (2, 3, 4, 4)], {"is_causal": 1}, 3),
    "Attention/past_bool": (
        [Q, K, V, np.arange(55).reshape(5, 11) % 3 > 0, (2, 3, 4, 8), (2, 3, 4, 4)],
        {"is_causal": 1},
        3,
    ),
    "Attention/flat": (
        [(2, 5, 48), (2, 7, 24), (2, 7, 12)],
        {"q_num_heads": 6, "kv_num_heads": 3},
        1,
    ),
    "Attention/dead": ([Q, K, V, np.arange(5)[:, None] + np.zeros(7) > 1], {}, 1),
    "Attention/softcap": ([Q, K, V], {"softcap": 2.0}, 1),
}


@pytest.mark.parametrize("case", MORE)
def test_a_node_is_onnxruntimes(case, rng):
    inputs, attributes, outputs = MORE[case]
    arrays = made(inputs, rng)
    check(model_of(case.split("/")[0], arrays, outputs=outputs, **attributes), arrays)


@pytest.mark.parametrize("op, count", [("LayerNormalization", 3), ("RMSNormalization", 2)])
def test_half_precision(op, count, rng):
    arrays = [rng.normal(size=s).astype("float16") for s in (A, (4,), (4,))][:count]
    check(model_of(op, arrays), arrays)


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_reductions_at_equal_places(reduction, dtype, rng):
    def numbers(*shape):
        return (rng.normal(size=shape) * 4).astype(dtype)

    rows = [numbers(4, 3), rng.integers(-4, 4, (9, 1)), numbers(9, 3)]
    check(model_of("ScatterND", rows, reduction=reduction), rows)
    elements = [numbers(4, 3), rng.integers(-3, 3, (4, 8)), numbers(4, 8)]
    check(model_of("ScatterElements", elements, reduction=reduction, axis=1), elements)


def test_past_keys_without_values_are_refused(rng):
    arrays = made([Q, K, V, None, (2, 3, 4, 8)], rng)
    given = [a for a in arrays if a is not None]
    with pytest.raises(ValueError, match=r"past keys with past values.*node 0"):
        chx.onnx.load(model_of("Attention", arrays))(*given)


def test_no_elements_of_a_resized_axis(rng):
    arrays = [rng.normal(size=IMAGE).astype("f"), None, np.array([1, 1, 0.1, 1], "f")]
    given = [arrays[0], arrays[2]]
    assert chx.onnx.load(model_of("Resize", arrays))(*given).shape == (2, 4, 0, 8)


def test_heads_that_do_not_fit_are_refused(rng):
    arrays = made([(2, 5, 48), (2, 7, 24), (2, 7, 12)], rng)
    for heads in (
        {"q_num_heads": 5, "kv_num_heads": 3},
        {"q_num_heads": 0, "kv_num_heads": -1},
        {},
    ):
        with pytest.raises(ValueError, match=r"multiple of heads.*node 0"):
            chx.onnx.load(model_of("Attention", arrays, **heads))(*arrays)
