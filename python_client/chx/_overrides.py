"""Operators that are another function in chx than in the table of operators.

What is generated from the table has its arguments only. These take further forms that NumPy and
ChainerX have, and call the operator.
"""

from collections.abc import Callable
from typing import Any

from chx import _recurrent
from chx._functions import attention, normalization
from chx._numpy import (
    creation,
    index_arrays,
    indexing,
    logic,
    manipulation,
    products,
    sorting,
    statistics,
)

OVERRIDES: dict[str, Callable[..., Any]] = {
    "allclose": logic.allclose,
    "argsort": sorting.argsort,
    "atleast_1d": manipulation.atleast_1d,
    "atleast_2d": manipulation.atleast_2d,
    "atleast_3d": manipulation.atleast_3d,
    "copyto": manipulation.copyto,
    "expand_dims": manipulation.expand_dims,
    "flip": manipulation.flip,
    "group_norm": normalization.group_norm,
    "isclose": logic.isclose,
    "layer_norm": normalization.layer_norm,
    "median": statistics.median,
    "meshgrid": creation.meshgrid,
    "rms_norm": normalization.rms_norm,
    "roll": manipulation.roll,
    "scaled_dot_product_attention": attention.scaled_dot_product_attention,
    "sort": sorting.sort,
    "split": manipulation.split,
    "std": statistics.std,
    "take_along_axis": indexing.take_along_axis,
    "trace": products.trace,
    "tree_lstm": _recurrent.tree_lstm,
    "var": statistics.var,
    "where": index_arrays.where,
}
