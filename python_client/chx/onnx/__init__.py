"""ONNX: models of other frameworks on the daemon, and functions of chx for other runtimes.

    import chx.onnx

    model = chx.onnx.load("model.onnx")
    y = model(x)

It needs the package onnx: `pip install chx[onnx]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

try:
    import onnx as _onnx  # noqa: F401
except ImportError as _error:
    raise ImportError("[onnx] expects the package onnx: pip install 'chx[onnx]'") from _error

from chx.onnx._export import _export
from chx.onnx._import._model import Model as Model


def load(source: Any) -> Model:
    """The model of an ONNX file, as a callable whose operators the daemon runs.

    `source` is a path, the bytes of a file, or an onnx.ModelProto. Weights are sent to the default
    device of the moment. External data are read from the folder of the file, and from nowhere else.

    Raises:
      TypeError: a dtype that chx does not have.
      ValueError: what is not a valid model. The message names the node, the operator and what it
        expects.
      chx.NotImplementedError: in a call, an operator that is not known here.
    """
    return Model(source)


def export(
    function: Callable[..., Any],
    inputs: Any,
    path: Any = None,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> Any:
    """The operators that a function calls, as an ONNX model of the newest operator set.

    The function runs once, with these arrays, and what it calls is noted: the model has their shapes.
    What does not depend on the inputs is stored as its value. The model has been checked by
    onnx.checker.

    Args:
      function: takes arrays; returns arrays, or lists, tuples and dicts of them. It may be a function of
        chx.jit, or a model of Chainer's on a device of the daemon, which is called in test mode; names
        of its parameters are those of the file's initializers.
      inputs: an array, or a list or tuple of them, to call the function with.
      path: of the file to write; None: none is written.
      input_names: of the model; input_0, input_1 and so on unless they are given.
      output_names: likewise: output, or output_0 and so on, or the keys of a dict.

    Returns:
      An onnx.ModelProto.

    Raises:
      TypeError: inputs or results that are not arrays.
      ValueError: names that do not fit, or a model of 2 GiB or more.
      chx.NotImplementedError: the function reads a value, computes gradients, draws random numbers,
        writes to an array, or calls an operator that has no form in ONNX.
    """
    return _export.export(function, inputs, path, input_names, output_names)
