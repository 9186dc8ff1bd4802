"""Imports all operators into the table."""

from chx.onnx._import import (
    _activations as _activations,
    _elementwise as _elementwise,
    _indexing as _indexing,
    _products as _products,
    _reductions as _reductions,
    _shapes as _shapes,
)
