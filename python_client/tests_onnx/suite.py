"""ONNX's own test-suite: its cases, and what each wants."""

import functools
import glob
import os

import numpy as np
import onnx
from chx.onnx._import._tensors import DTYPES
from onnx import AttributeProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

KINDS = {
    "node": "nodes",
    "simple": "simple",
    "pytorch-converted": "converted from PyTorch",
    "pytorch-operator": "operators of PyTorch",
}

# Why cases whose dtypes exist here do not pass.
_IMAGES = "decodes image files, which no operator of the daemon does"
_RANDOM = "compares random numbers with those of another generator"
_GRADIENT = (
    "differentiates a part of the graph by names in it: chx.grad does that for a loaded model"
)
_TREES = "tree ensembles of ai.onnx.ml are not known here"
_TEXT = "counts n-grams of tokens, which is text processing"
_HALF = "differs in the last place of float16, in 2 of 192 elements"
_BRAIN = "differs in the last place of bfloat16, to which each step is rounded there"
DIFFERENCES = {
    **{
        f"test_image_decoder_decode_{name}": _IMAGES
        for name in (
            "bmp_rgb",
            "jpeg2k_rgb",
            "jpeg_bgr",
            "jpeg_grayscale",
            "jpeg_rgb",
            "png_rgb",
            "pnm_rgb",
            "tiff_rgb",
            "webp_rgb",
        )
    },
    **{
        f"test_bernoulli{name}{expanded}": _RANDOM
        for name in ("", "_double", "_seed")
        for expanded in ("", "_expanded")
    },
    **{
        f"test_training_dropout{name}": _RANDOM
        for name in ("", "_default", "_default_mask", "_mask")
    },
    **{
        f"test_tfidfvectorizer_tf_{name}": _TEXT
        for name in (
            "batch_onlybigrams_skip0",
            "batch_onlybigrams_skip5",
            "batch_uniandbigrams_skip5",
            "only_bigrams_skip0",
            "onlybigrams_levelempty",
            "onlybigrams_skip5",
            "uniandbigrams_skip5",
        )
    },
    "test_ai_onnx_ml_tree_ensemble_set_membership": _TREES,
    "test_ai_onnx_ml_tree_ensemble_single_tree": _TREES,
    "test_attention_4d_causal_fp16_expanded": _HALF,
    **{
        f"test_attention_{name}_bf16{expanded}": _BRAIN
        for name in (
            "3d_causal",
            "4d_attn_mask_causal",
            "4d_causal",
            "4d_causal_padded_kv",
            "4d_padded_kv",
        )
        for expanded in ("", "_expanded")
    },
    "test_gradient_of_add": _GRADIENT,
    "test_gradient_of_add_and_mul": _GRADIENT,
}


@functools.cache
def cases(kind):
    """The cases of a kind whose dtypes exist here, by name, and how many there are."""
    found = load_model_tests(kind=kind)
    return {t.name: t for t in found if _dtypes(model_of(t)) <= set(DTYPES)}, len(found)


@functools.cache
def _loaded(path):
    return onnx.load(path)


def model_of(case):
    return case.model or _loaded(os.path.join(case.model_dir, "model.onnx"))


def _dtypes(model):
    """The element types in a model, as numbers; others that a type may be, as text."""
    found = set()

    def add_type(kind):
        form = kind.WhichOneof("value")
        if form == "tensor_type":
            found.add(kind.tensor_type.elem_type)
        elif form in ("sequence_type", "optional_type"):
            add_type(getattr(kind, form).elem_type)
        elif form is not None:
            found.add(form)

    def add_nodes(nodes):
        for node in nodes:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    add_graph(attribute.g)
                elif attribute.type == AttributeProto.TENSOR:
                    found.add(attribute.t.data_type)
                elif attribute.name in ("to", "dtype", "output_dtype") and attribute.i:
                    found.add(attribute.i)

    def add_graph(graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            add_type(value.type)
        found.update(tensor.data_type for tensor in graph.initializer)
        add_nodes(graph.node)

    add_graph(model.graph)
    for function in model.functions:
        add_nodes(function.node)
    return found


def data_sets(case):
    """Pairs of inputs and outputs."""
    graph = model_of(case).graph
    if case.data_sets is not None:
        for inputs, outputs in case.data_sets:
            yield [_array(x) for x in inputs], [_array(y) for y in outputs]
        return
    for folder in sorted(glob.glob(os.path.join(case.model_dir, "test_data_set_*"))):
        yield tuple(
            [
                _read(f"{folder}/{what}_{i}.pb", values[i].type)
                for i in range(len(glob.glob(f"{folder}/{what}_*.pb")))
            ]
            for what, values in (("input", graph.input), ("output", graph.output))
        )


def _array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _read(path, kind):
    with open(path, "rb") as file:
        data = file.read()
    form = kind.WhichOneof("value")
    if form == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if form == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def check(found, expected, rtol, atol):
    """Raises AssertionError unless results are those that a case wants."""
    import chx

    if isinstance(expected, list):
        assert isinstance(found, list) and len(found) == len(expected)
        for got, want in zip(found, expected, strict=True):
            check(got, want, rtol, atol)
        return
    if expected is None:
        assert found is None
        return
    got, want = chx.to_numpy(found), np.asarray(expected)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if got.dtype.name == "bfloat16":  # of which NumPy knows no NaNs
        got, want = got.astype("float32"), want.astype("float32")
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
