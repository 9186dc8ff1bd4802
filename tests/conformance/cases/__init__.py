"""The rows, one file for each group of operators."""

from . import creation, elementwise, indexing, linalg, loss, manipulation, random, reduction

__all__ = [
    "creation",
    "elementwise",
    "indexing",
    "linalg",
    "loss",
    "manipulation",
    "random",
    "reduction",
]
