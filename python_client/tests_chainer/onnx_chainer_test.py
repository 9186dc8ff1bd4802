"""Real onnx_chainer on the daemon's arrays: files equal to those of the same models on NumPy."""

import re
import warnings

import chainer
import chx
import numpy as np
import onnx
import onnx_chainer
import pytest
from cases.onnx_models import CASES, Of
from onnx import numpy_helper
from onnx_chainer import mapping

HOST = chainer.get_device("@numpy")
OPSETS = range(onnx_chainer.MINIMUM_OPSET_VERSION, onnx_chainer.MAXIMUM_OPSET_VERSION + 1)


def make(name):
    """The model of a case, and its inputs."""
    maker, shapes = CASES[name]
    model = maker()
    return (model if isinstance(model, chainer.Link) else Of(model)), shapes


def inputs_of(shapes, rng):
    return [s(rng) if callable(s) else rng.normal(size=s).astype("f") for s in shapes]


def exported(model, arrays, device, opset, **options):
    model.to_device(device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return onnx_chainer.export(
            model, [device.send(x) for x in arrays], opset_version=opset, **options
        )


@pytest.fixture
def used(monkeypatch):
    """The names of the converters that were called."""
    names = set()
    for name, converter in list(mapping.converters.items()):

        def call(params, name=name, converter=converter):
            names.add(name)
            return converter(params)

        monkeypatch.setitem(mapping.converters, name, call)
    return names


def test_there_is_a_case_for_every_converter():
    assert {name.split("/")[0] for name in CASES} - {"Network"} == set(mapping.converters)


@pytest.mark.parametrize("name", CASES)
def test_files_are_numpys(name, device, rng, used):
    model, shapes = make(name)
    arrays = inputs_of(shapes, rng)
    train = name in ("BatchNormalization", "Dropout")
    compared = 0
    for opset in OPSETS:
        other = model.copy("copy")
        try:
            expected = exported(other, arrays, HOST, opset, train=train)
        except (RuntimeError, ValueError, AttributeError) as error:  # not in this operator set
            with pytest.raises(type(error)):
                exported(model, arrays, device, opset, train=train)
            continue
        compared += 1
        same(exported(model, arrays, device, opset, train=train), expected)
    assert compared
    assert name == "Network" or name in used or "/" in name
    assert not chainer.get_function_hooks()


def same(found, expected):
    """Equal files, but for the numbers in names like v7, which are those of addresses.

    What the device computes for a file, the statistics of a batch, is close.
    """
    renumber(found.graph)
    renumber(expected.graph)
    initializers = [{t.name: t for t in f.graph.initializer} for f in (found, expected)]
    assert list(initializers[0]) == list(initializers[1])
    for name, tensor in initializers[1].items():
        if "avg_" in name:
            got, want = (numpy_helper.to_array(t) for t in (initializers[0][name], tensor))
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
            initializers[0][name].CopyFrom(tensor)
    assert found == expected


def renumber(graph):
    numbers = {}

    def new(name):
        return numbers.setdefault(name, f"v{len(numbers)}") if re.fullmatch(r"v\d+", name) else name

    for node in graph.node:
        node.input[:] = map(new, node.input)
        node.output[:] = map(new, node.output)
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = new(value.name)
    # Their order is that of the names, and so of the addresses.
    for values in (graph.input, graph.initializer):
        ordered = sorted(values, key=lambda value: value.name)
        del values[:]
        values.extend(ordered)


def test_a_model_of_links_is_exported_with_its_testcase(device, rng, tmp_path):
    model = CASES["Network"][0]()
    x = rng.normal(size=(2, 3, 8, 8)).astype("f")
    files = []
    for place, name in ((HOST, "numpy"), (device, "device")):
        other = model.copy("copy").to_device(place)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            onnx_chainer.export_testcase(
                other, [place.send(x)], str(tmp_path / name), output_grad=True, train=False
            )
        files.append({p.name: p for p in (tmp_path / name).rglob("*.pb")})
    assert files[0].keys() == files[1].keys()
    assert any(name.startswith("gradient") for name in files[0])
    for name, path in files[0].items():
        want, got = (
            numpy_helper.to_array(onnx.load_tensor(str(p))) for p in (path, files[1][name])
        )
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5, err_msg=name)


def test_nothing_falls_back(device, rng):
    model, shapes = make("Network")
    exported(model, inputs_of(shapes, rng), device, 11)
    assert not chx.chainer.fallbacks()
