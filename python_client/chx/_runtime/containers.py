"""What is in lists, tuples and dicts within one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_MAX_DEPTH = 100


def map_leaves(op: str, fn: Callable[[Any], Any], node: Any, depth: int = 0) -> Any:
    """The same containers with fn(leaf) in place of each leaf.

    Raises:
      ValueError: there are too many levels; the message names `op`.
    """
    if depth > _MAX_DEPTH:
        raise ValueError(f"[{op}] expects containers of at most {_MAX_DEPTH} levels")
    if isinstance(node, dict):
        return {key: map_leaves(op, fn, value, depth + 1) for key, value in node.items()}
    if isinstance(node, (list, tuple)):
        values = [map_leaves(op, fn, value, depth + 1) for value in node]
        return type(node)(*values) if hasattr(node, "_fields") else type(node)(values)
    return fn(node)
