"""chx.onnx.load beyond the suite: old operator sets, parameters, recordings, and hostile files."""

import os
import subprocess
import sys

import chx
import chx.onnx
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

onnxruntime.set_default_logger_severity(3)
FLOAT = TensorProto.FLOAT


def model_of(nodes, inputs, outputs, initializers=(), opset=17, **options):
    """A model; inputs and outputs: name -> shape, of float32, or (dtype, shape)."""

    def infos(values):
        for name, value in values.items():
            dtype, shape = value if isinstance(value, tuple) else (FLOAT, value)
            yield helper.make_tensor_value_info(name, dtype, shape)

    graph = helper.make_graph(
        nodes,
        "graph",
        list(infos(inputs)),
        list(infos(outputs)),
        [numpy_helper.from_array(np.asarray(a), name) for name, a in dict(initializers).items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **options
    )


def by_onnxruntime(model, **arrays):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, arrays)


node = helper.make_node
# Forms of operators that newer sets do not have: opset, nodes, initializers.
OLD = {
    "Squeeze": (11, [node("Squeeze", ["x"], ["y"], axes=[0])], {}),
    "Unsqueeze": (11, [node("Unsqueeze", ["x"], ["y"], axes=[0, 4])], {}),
    "Softmax": (11, [node("Softmax", ["x"], ["y"], axis=1)], {}),
    "LogSoftmax": (11, [node("LogSoftmax", ["x"], ["y"], axis=2)], {}),
    "Hardmax": (11, [node("Hardmax", ["x"], ["y"], axis=1)], {}),
    "Slice": (9, [node("Slice", ["x"], ["y"], starts=[1, -2], ends=[9, 3], axes=[1, 2])], {}),
    "Pad": (10, [node("Pad", ["x"], ["y"], pads=[0, 1, 0, 0, 2, 1], value=1.5)], {}),
    "Clip": (10, [node("Clip", ["x"], ["y"], min=-0.5, max=0.5)], {}),
    "TopK": (9, [node("TopK", ["x"], ["y", "i"], k=2, axis=1)], {}),
    "Split": (11, [node("Split", ["x"], ["y", "z"], axis=2, split=[1, 3])], {}),
    "ReduceSum": (11, [node("ReduceSum", ["x"], ["y"], axes=[1], keepdims=0)], {}),
    "ReduceMax": (12, [node("ReduceMax", ["x"], ["y"], axes=[-1])], {}),
    "Dropout": (10, [node("Dropout", ["x"], ["y"], ratio=0.5)], {}),
    "Upsample": (9, [node("Upsample", ["x", "s"], ["y"])], {"s": np.array([1, 2, 3], "f")}),
    "Resize": (10, [node("Resize", ["x", "s"], ["y"])], {"s": np.array([1, 2, 1.5], "f")}),
    "Scatter": (
        9,
        [node("Scatter", ["x", "i", "u"], ["y"], axis=1)],
        {"i": np.array([[[2, 0]]]), "u": np.array([[[5, 6]]], "f")},
    ),
    "BatchNormalization": (
        9,
        [node("BatchNormalization", ["x", "g", "b", "m", "v"], ["y"])],
        {k: np.array([0.5, 1, 2], "f") for k in "gbmv"},
    ),
    "PRelu": (7, [node("PRelu", ["x", "s"], ["y"])], {"s": np.array([[0.1], [0.2], [0.3]], "f")}),
    "Cast": (9, [node("Cast", ["x"], ["y"], to=TensorProto.INT32)], {}),
}


@pytest.mark.parametrize("name", OLD)
def test_an_old_form_is_onnxruntimes(name, rng):
    opset, nodes, initializers = OLD[name]
    dtypes = {"Cast": TensorProto.INT32}
    outputs = {n: (dtypes.get(name, FLOAT), None) for n in nodes[0].output if n != "i"}
    if "i" in nodes[0].output:
        outputs["i"] = (TensorProto.INT64, None)
    model = model_of(nodes, {"x": (FLOAT, [1, 3, 4])}, outputs, initializers, opset)
    x = rng.normal(size=(1, 3, 4)).astype("f")
    found = chx.onnx.load(model)(x)
    found = found if isinstance(found, tuple) else (found,)
    for got, want in zip(found, by_onnxruntime(model, x=x), strict=True):
        got = chx.to_numpy(got)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("groups, depth", [(8, 1), (8, 2), (2, 4), (6, 1)])
def test_convolutions_in_groups_are_onnxruntimes(groups, depth, rng):
    w = rng.normal(size=(24 if groups == 6 else 8, depth, 3, 2)).astype("f")
    options = {"group": groups, "dilations": [2, 1], "strides": [1, 2], "pads": [1, 0, 2, 1]}
    model = model_of(
        [node("Conv", ["x", "w"], ["y"], **options)],
        {"x": (FLOAT, [2, groups * depth, 9, 8])},
        {"y": (FLOAT, None)},
        {"w": w},
    )
    x = rng.normal(size=(2, groups * depth, 9, 8)).astype("f")
    (want,) = by_onnxruntime(model, x=x)
    np.testing.assert_allclose(chx.to_numpy(chx.onnx.load(model)(x)), want, rtol=1e-4, atol=1e-5)


def shapes_model(w):
    """A layer, then shape arithmetic as frameworks export it for flatten."""
    nodes = [
        node("Gemm", ["x", "w"], ["h"]),
        node("Shape", ["h"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Unsqueeze", ["n", "axis"], ["n1"]),
        node("Concat", ["n1", "rest"], ["to"], axis=0),
        node("Reshape", ["h", "to"], ["r"]),
        node("Relu", ["r"], ["y"]),
    ]
    constants = {"w": w, "zero": np.array(0), "axis": np.array([0]), "rest": np.array([-1])}
    return model_of(nodes, {"x": (FLOAT, ["N", 4])}, {"y": (FLOAT, None)}, constants)


def test_shapes_are_known_here(rng, session):
    model = chx.onnx.load(shapes_model(rng.normal(size=(4, 3)).astype("f")))
    x = chx.array(rng.normal(size=(5, 4)).astype("f"))
    before = session.stats()["round_trips"]
    y = model(x)
    assert session.stats()["round_trips"] == before
    recorded = chx.jit(model)  # which nothing that waits could be
    recorded(x)
    np.testing.assert_array_equal(chx.to_numpy(recorded(x)), chx.to_numpy(y))
    assert recorded.cache_info().hits == 1


def test_parameters_can_be_trained(rng):
    w = rng.normal(size=(4, 3)).astype("f")
    model = chx.onnx.load(shapes_model(w))
    assert list(model.parameters) == ["w"]
    x = rng.normal(size=(5, 4)).astype("f")
    model.parameters["w"].require_grad()
    chx.sum(model(x) ** 2).backward()
    want = x.T @ (2 * np.maximum(x @ w, 0))
    np.testing.assert_allclose(chx.to_numpy(model.parameters["w"].grad), want, rtol=1e-4)


def test_functions_of_a_model(rng):
    functions = [
        helper.make_function(
            "own",
            "Scaled",
            ["a"],
            ["b"],
            [
                node("Constant", [], ["c"], value_float=2.0),
                node("LeakyRelu", ["a"], ["d"]),
                node("Mul", ["d", "c"], ["b"]),
            ],
            [helper.make_opsetid("", 17)],
            ["alpha"],
        )
    ]
    functions[0].node[1].attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    )
    model = model_of(
        [node("Scaled", ["x"], ["y"], domain="own", alpha=0.25)],
        {"x": (FLOAT, [4])},
        {"y": (FLOAT, [4])},
        functions=functions,
    )
    model.opset_import.append(helper.make_opsetid("own", 1))
    x = rng.normal(size=4).astype("f")
    (want,) = by_onnxruntime(model, x=x)
    np.testing.assert_allclose(chx.to_numpy(chx.onnx.load(model)(x)), want, rtol=1e-6)


def test_random_numbers(rng):
    def load(op, **attributes):
        shaped = {} if op == "Multinomial" else {"shape": [2000]}
        inputs = ["x"] if op == "Multinomial" else []
        dtype = TensorProto.INT32 if op == "Multinomial" else FLOAT
        given = {"x": (FLOAT, [1, 3])} if inputs else {}
        return chx.onnx.load(
            model_of([node(op, inputs, ["y"], **shaped, **attributes)], given, {"y": (dtype, None)})
        )

    normal = load("RandomNormal", mean=3.0, scale=0.5, seed=7.0)
    first = chx.to_numpy(normal())
    np.testing.assert_array_equal(chx.to_numpy(normal()), first)  # by its seed
    assert abs(first.mean() - 3) < 0.1 and abs(first.std() - 0.5) < 0.1
    uniform = chx.to_numpy(load("RandomUniform", low=-2.0, high=1.0)())
    assert uniform.min() >= -2 and uniform.max() < 1 and abs(uniform.mean() + 0.5) < 0.15
    logits = np.log(np.array([[0.2, 0.5, 0.3]], "f"))
    drawn = chx.to_numpy(load("Multinomial", sample_size=4000)(logits))
    np.testing.assert_allclose(np.bincount(drawn[0]) / 4000, [0.2, 0.5, 0.3], atol=0.06)


SUM = [node("Add", ["x", "w"], ["y"], name="sum")]


def sum_model(**options):
    return model_of(
        SUM, {"x": (FLOAT, ["N"])}, {"y": (FLOAT, None)}, {"w": np.ones(3, "f")}, **options
    )


def test_arguments_are_checked(rng):
    model = chx.onnx.load(sum_model())
    with pytest.raises(TypeError, match=r"expects inputs \['x'\], got none for \['x'\]"):
        model()
    with pytest.raises(TypeError, match=r"expects inputs \['x'\], got 'y' besides"):
        model(np.ones(3, "f"), y=1)
    with pytest.raises(TypeError, match=r"expects an array of float32, got float64 \(input 'x'\)"):
        model(np.ones(3))
    with pytest.raises(ValueError, match=r"expects shape \(None,\), got \(1, 3\) \(input 'x'\)"):
        model(np.ones((1, 3), "f"))


def test_an_error_names_its_node():
    model = chx.onnx.load(sum_model())
    with pytest.raises(chx.DimensionError, match=r"broadcast.*node 0 'sum', operator Add"):
        model(np.ones(4, "f"))


def broken(change):
    model = sum_model()
    change(model)
    return model.SerializeToString()


def _tensor(model):
    return model.graph.initializer[0]


def _external(location, **more):
    def change(model):
        tensor = _tensor(model)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **more}.items():
            tensor.external_data.add(key=key, value=str(value))

    return change


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda m: _tensor(m).dims.__setitem__(0, -1), "a shape"),
        (lambda m: _tensor(m).dims.extend([2**62, 2**62]), "a shape of at most"),
        (lambda m: _tensor(m).dims.__setitem__(0, 2**39), "expects 2199023255552 bytes"),
        (lambda m: setattr(_tensor(m), "raw_data", b"abc"), "expects 12 bytes .* got 3"),
        (lambda m: setattr(_tensor(m), "data_type", TensorProto.FLOAT8E5M2), "got FLOAT8E5M2"),
        (lambda m: setattr(_tensor(m), "data_type", 999), "got 999"),
        (lambda m: m.graph.sparse_initializer.add(), "expects dense initializers"),
        (lambda m: setattr(m.opset_import[0], "version", 999), "expects operators of version"),
        (_external("weights"), "expects a path"),
    ],
)
def test_hostile_files(change, message):
    with pytest.raises((ValueError, TypeError), match=message):
        chx.onnx.load(broken(change))


@pytest.mark.parametrize("name", ["../weights", "{root}/weights", "link", ".", "", "none"])
def test_external_data_stay_in_the_folder(name, tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "weights").write_bytes(np.arange(3, dtype="f").tobytes())
    os.symlink(tmp_path / "weights", folder / "link")
    location = name.format(root=tmp_path)
    (folder / "model.onnx").write_bytes(broken(_external(location)))
    with pytest.raises(ValueError, match=r"expects external data in .*tensor 'w' of graph 'graph'"):
        chx.onnx.load(folder / "model.onnx")


def test_external_data(tmp_path):
    (tmp_path / "weights").write_bytes(bytes(8) + np.arange(3, dtype="f").tobytes())
    path = tmp_path / "model.onnx"
    path.write_bytes(broken(_external("weights", offset=8, length=12)))
    y = chx.onnx.load(path)(np.ones(3, "f"))
    np.testing.assert_array_equal(chx.to_numpy(y), [1, 2, 3])
    for wrong in ({"offset": -4}, {"offset": 9}, {"length": 16}, {"offset": "x"}):
        path.write_bytes(broken(_external("weights", **wrong)))
        with pytest.raises(ValueError, match="external data|an offset and a length"):
            chx.onnx.load(path)


def test_what_does_not_parse():
    for data in (b"\x08", b"garbage", os.urandom(64) + b"\xff"):
        with pytest.raises(ValueError, match=r"\[onnx\] expects"):
            chx.onnx.load(data)(np.ones(3, "f"))


def test_unknown_names_and_operators():
    x = np.ones(3, "f")
    missing = chx.onnx.load(broken(lambda m: m.graph.node[0].input.__setitem__(1, "other")))
    with pytest.raises(ValueError, match=r"a value 'other' before its use, .*node 0 'sum'"):
        missing(x)
    unknown = chx.onnx.load(broken(lambda m: setattr(m.graph.node[0], "op_type", "Sums")))
    with pytest.raises(chx.NotImplementedError, match=r"got Sums of ai.onnx 17 \(node 0 'sum'"):
        unknown(x)


def test_a_function_that_calls_itself():
    own = helper.make_opsetid("own", 1)
    call = node("Again", ["a"], ["b"], domain="own")
    function = helper.make_function("own", "Again", ["a"], ["b"], [call], [own])
    model = model_of(
        [node("Again", ["x"], ["y"], domain="own")],
        {"x": (FLOAT, [3])},
        {"y": (FLOAT, [3])},
        functions=[function],
    )
    model.opset_import.append(own)
    with pytest.raises(ValueError, match="at most 64 deep"):
        chx.onnx.load(model)(np.ones(3, "f"))


def test_the_import_error_says_what_to_install():
    program = "import sys; sys.modules['onnx'] = None\nimport chx.onnx"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert "pip install 'chx[onnx]'" in done.stderr
