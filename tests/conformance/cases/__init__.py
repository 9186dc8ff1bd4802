"""The rows, one file for each group of operators."""

from . import (
    creation,
    decompositions,
    elementwise,
    indexing,
    linalg,
    loss,
    manipulation,
    random,
    reduction,
)

__all__ = [
    "creation",
    "decompositions",
    "elementwise",
    "indexing",
    "linalg",
    "loss",
    "manipulation",
    "random",
    "reduction",
]
