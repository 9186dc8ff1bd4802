"""chx.onnx.export against onnxruntime, and read again by chx.onnx.load."""

import os
import pathlib
import re

import chx
import chx.onnx
import numpy as np
import onnx
import onnxruntime
import pytest
from chx import _core
from chx.onnx._export._builder import CONVERTERS
from export_cases import CASES

onnxruntime.set_default_logger_severity(3)


def inputs_of(case, rng):
    return [
        make(rng) if callable(make) else rng.normal(size=make).astype("f")
        for make in CASES[case][1]
    ]


def run(model, arrays):
    """The outputs by onnxruntime."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)})


def listed(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def same(found, expected, rtol=1e-4, atol=1e-5):
    assert len(found) == len(expected)
    for got, want in zip(found, map(chx.to_numpy, expected), strict=True):
        got = chx.to_numpy(got) if isinstance(got, chx.ndarray) else got
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want.dtype == "float16":
            rtol, atol = 4e-3, 4e-3
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("case", CASES)
def test_a_function_is_onnxruntimes(case, rng):
    function = CASES[case][0]
    arrays = inputs_of(case, rng)
    remote = [chx.array(a) for a in arrays]
    model = chx.onnx.export(function, remote)
    assert model.opset_import[0].version == onnx.defs.onnx_opset_version()
    # As traced, and with other elements.
    for values in (arrays, inputs_of(case, np.random.default_rng(rng.integers(2**31)))):
        expected = listed(function(*[chx.array(a) for a in values]))
        same(run(model, values), expected)
        same(listed(chx.onnx.load(model)(*values)), expected)


def test_there_is_a_case_for_every_converter():
    names = {case.split("/")[0] for case in CASES}
    assert set(CONVERTERS) - names == set()


def test_the_documentation_lists_the_operators_without_a_converter():
    page = pathlib.Path(os.environ["ONNX_MD"]).read_text(encoding="utf-8")
    table = page.split("These operators are not exported:\n\n")[1].split("\n\n")[0]
    listed = re.findall(r"`([\w.]+)`", table)
    operators = set(_core._operators) | {
        f"{module}.{name}" for module, names in _core._submodules.items() for name in names
    }
    assert sorted(listed) == sorted(operators - set(CONVERTERS))


# Of what ONNX has an operator for: the case and that operator.
OWN = {
    "adaptive_average_pool": "AveragePool",
    "cross_entropy/weights": "SoftmaxCrossEntropyLoss",
    "gelu": "Gelu",
    "group_norm": "GroupNormalization",
    "grouped_conv": "Conv",
    "hardswish": "HardSwish",
    "instance_norm": "InstanceNormalization",
    "interpolate": "Resize",
    "interpolate/bilinear": "Resize",
    "layer_norm": "LayerNormalization",
    "mish": "Mish",
    "nll_loss": "NegativeLogLikelihoodLoss",
    "pixel_shuffle": "DepthToSpace",
    "pixel_unshuffle": "SpaceToDepth",
    "rms_norm": "RMSNormalization",
    "scaled_dot_product_attention/causal": "Attention",
    "scaled_dot_product_attention/bool": "Attention",
    "scatter_reduce": "ScatterElements",
}


@pytest.mark.parametrize("case", OWN)
def test_one_operator_of_onnx_is_written(case, rng):
    arrays = [chx.array(a) for a in inputs_of(case, rng)]
    model = chx.onnx.export(CASES[case][0], arrays)
    assert [node.op_type for node in model.graph.node] == [OWN[case], "Identity"]


def network(parameters):
    w1, b1, w2 = parameters

    def call(x):
        h = chx.max_pool(chx.relu(chx.conv(x, w1, b1, 1, 1)), 2)
        h = h.reshape(h.shape[0], -1)
        return {"scores": chx.log_softmax(h @ w2, axis=1), "hidden": h}

    return call


def test_a_network(rng, tmp_path):
    parameters = [
        chx.array(rng.normal(size=s).astype("f")) for s in ((4, 3, 3, 3), (4,), (4 * 4 * 4, 5))
    ]
    parameters[0].require_grad()  # as of a network that is trained
    call = network(parameters)
    x = rng.normal(size=(2, 3, 8, 8)).astype("f")
    path = tmp_path / "network.onnx"
    model = chx.onnx.export(call, chx.array(x), path, input_names=["image"])
    assert onnx.load(str(path)) == model
    assert [i.name for i in model.graph.input] == ["image"]
    assert [o.name for o in model.graph.output] == ["scores", "hidden"]
    same(run(model, [x]), list(call(chx.array(x)).values()))
    same(list(chx.onnx.load(path)(image=x)), list(call(chx.array(x)).values()))


def language_model(table, gain, projections, rise, fall):
    """Scores of the next tokens: a layer of attention with positions, and one of features."""

    def heads(x, w):
        return chx.transpose((x @ w).reshape(*x.shape[:2], 4, -1), (0, 2, 1, 3))

    def call(ids):
        x = chx.embedding(ids, table)
        h = chx.rms_norm(x, gain.shape, gain)
        q, k, v = (heads(h, w) for w in projections)
        y = chx.scaled_dot_product_attention(chx.rope(q), chx.rope(k), v, is_causal=True)
        x = x + chx.transpose(y, (0, 2, 1, 3)).reshape(x.shape)
        x = x + chx.silu(chx.layer_norm(x, gain.shape) @ rise) @ fall
        return x @ table.T

    return call


def test_a_language_model(rng, tmp_path):
    shapes = [(50, 16), (16,), (16, 16), (16, 16), (16, 16), (16, 24), (24, 16)]
    table, gain, *projections, rise, fall = (
        chx.array(rng.normal(size=s).astype("f") * 0.3) for s in shapes
    )
    call = language_model(table, gain, projections, rise, fall)
    ids, others = rng.integers(0, 50, (2, 3, 9))
    model = chx.onnx.export(call, chx.array(ids), tmp_path / "model.onnx")
    written = {node.op_type for node in model.graph.node}
    assert {"RMSNormalization", "LayerNormalization", "Attention", "RotaryEmbedding"} <= written
    for tokens in (ids, others):
        expected = [call(chx.array(tokens))]
        same(run(model, [tokens]), expected)
        same([chx.onnx.load(tmp_path / "model.onnx")(tokens)], expected)


def test_a_recorded_function(rng):
    step = chx.jit(lambda x: chx.sum(x * x, axis=0))
    x = rng.normal(size=(3, 4)).astype("f")
    step(chx.array(x))
    same(run(chx.onnx.export(step, chx.array(x)), [x]), [step(chx.array(x))])


def test_what_the_input_does_not_change_is_stored(rng):
    def function(x):
        scale = chx.exp(chx.arange(4, dtype="float32"))  # two calls, one stored array
        unused = chx.sin(x)  # noqa: F841
        return x * scale, chx.zeros_like(x)

    x = rng.normal(size=(3, 4)).astype("f")
    model = chx.onnx.export(function, chx.array(x))
    assert [node.op_type for node in model.graph.node] == ["Mul", "Identity", "Identity"]
    same(run(model, [x]), function(chx.array(x)))


def test_an_input_that_is_returned_and_one_given_twice(rng):
    x = chx.array(rng.normal(size=(3,)).astype("f"))
    model = chx.onnx.export(lambda a, b: (a, a - b), [x, x])
    a, b = (rng.normal(size=(3,)).astype("f") for _ in range(2))
    first, second = run(model, [a, b])
    np.testing.assert_array_equal(first, a)
    np.testing.assert_allclose(second, a - b)


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: x * float(chx.sum(x)), "value"),
        (lambda x: chx.random.normal(size=(4,)).astype("float32") * x, "expects operators"),
        (lambda x: chx.lstm(x[:, :1], x), "lstm"),
        (lambda x: chx.max_pool(chx.reshape(x, (1, 1, 3, 4)), 1, 2, 1), "size of a window"),
    ],
)
def test_what_has_no_form_is_refused(function, message, rng):
    x = chx.array(rng.normal(size=(3, 4)).astype("f"))
    with pytest.raises(chx.NotImplementedError, match=message):
        chx.onnx.export(function, x)
    chx.onnx.export(chx.relu, x)  # nothing is left behind


def test_writes_and_gradients_are_refused(rng):
    def writes(x):
        y = x + 1
        y *= x
        return y

    def differentiates(x):
        w = chx.ones((3,), dtype="float32").require_grad()
        (g,) = chx.grad([chx.sum(w * x)], [w])
        return g

    x = chx.array(rng.normal(size=(3,)).astype("f"))
    with pytest.raises(chx.NotImplementedError, match="writes to no array"):
        chx.onnx.export(writes, x)
    with pytest.raises(chx.NotImplementedError, match="without gradients"):
        chx.onnx.export(differentiates, x)


def test_arguments_are_checked(rng):
    x = chx.array(rng.normal(size=(3,)).astype("f"))
    with pytest.raises(TypeError, match=r"\[export\] expects arrays of chx as inputs, got"):
        chx.onnx.export(chx.relu, np.zeros(3, "f"))
    with pytest.raises(TypeError, match="returns arrays"):
        chx.onnx.export(lambda x: 3, x)
    with pytest.raises(ValueError, match="1 distinct input_names"):
        chx.onnx.export(chx.relu, x, input_names=["a", "b"])
    with pytest.raises(ValueError, match="2 distinct output_names"):
        chx.onnx.export(lambda x: (x, x), x, output_names=["a", "a"])
