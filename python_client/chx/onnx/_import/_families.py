"""Imports all operators into the table."""

from chx.onnx._import import (
    _activations as _activations,
    _attention as _attention,
    _control as _control,
    _convolutions as _convolutions,
    _elementwise as _elementwise,
    _indexing as _indexing,
    _losses as _losses,
    _normalizations as _normalizations,
    _pooling as _pooling,
    _products as _products,
    _quantization as _quantization,
    _random as _random,
    _recurrent as _recurrent,
    _reductions as _reductions,
    _resizing as _resizing,
    _sampling as _sampling,
    _sequences as _sequences,
    _shapes as _shapes,
    _signals as _signals,
)
