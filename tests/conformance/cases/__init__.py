"""The rows, one file for each group of operators."""

from . import (
    connection,
    creation,
    decompositions,
    elementwise,
    indexing,
    linalg,
    loss,
    manipulation,
    normalization,
    pooling,
    random,
    reduction,
)

__all__ = [
    "pooling",
    "normalization",
    "connection",
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
