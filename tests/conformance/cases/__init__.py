"""The rows, one file for each group of operators."""

from . import (
    activation,
    creation,
    decompositions,
    elementwise,
    indexing,
    joining,
    linalg,
    loss,
    manipulation,
    math,
    random,
    reduction,
    sorting,
    statistics,
    views,
)

__all__ = [
    "activation",
    "creation",
    "decompositions",
    "elementwise",
    "indexing",
    "joining",
    "linalg",
    "loss",
    "manipulation",
    "math",
    "random",
    "reduction",
    "sorting",
    "statistics",
    "views",
]
