"""ONNX: models of other frameworks on the daemon, and functions of chx for other runtimes.

    import chx.onnx

    model = chx.onnx.load("model.onnx")
    y = model(x)

It needs the package onnx: `pip install chx[onnx]`.
"""

from __future__ import annotations

from typing import Any

try:
    import onnx as _onnx  # noqa: F401
except ImportError as _error:
    raise ImportError("[onnx] expects the package onnx: pip install 'chx[onnx]'") from _error

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
