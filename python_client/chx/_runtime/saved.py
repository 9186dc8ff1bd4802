"""Trees of arrays under names, as sessions keep them for the next process.

Only clients read trees: the daemon has a list of arrays and a text that says how they belong
together, in JSON.
"""

from __future__ import annotations

import json
from typing import Any

from chx._core import ndarray
from chx._runtime import random_streams

_GENERATOR = "python"  # what the state of our random numbers begins with


def flatten(tree: Any) -> tuple[bytes, list[ndarray]]:
    """The tree's text and its arrays, each of them once.

    Raises:
      TypeError: something that is no array, number, text, None, dict, list or tuple of such.
    """
    arrays: list[ndarray] = []
    positions: dict[int, int] = {}

    def node(value: Any) -> Any:
        if isinstance(value, ndarray):
            position = positions.setdefault(id(value), len(arrays))
            if position == len(arrays):
                arrays.append(value)
            return {"array": position}
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, (str, int)):
                    raise TypeError(f"[save] expects texts or ints as keys, got {key!r}")
            return {"dict": [[key, node(item)] for key, item in value.items()]}
        if isinstance(value, list):
            return {"list": [node(item) for item in value]}
        if type(value) is tuple:
            return {"tuple": [node(item) for item in value]}
        if value is None or isinstance(value, (bool, int, float, str)):
            return {"value": value}
        raise TypeError(
            "[save] expects arrays, numbers, texts and None, in dicts, lists and tuples, got "
            f"{type(value).__name__}"
        )

    return json.dumps(node(tree)).encode(), arrays


def unflatten(text: bytes, arrays: list[ndarray]) -> Any:
    """The tree; ValueError if another kind of client has saved it."""

    def value(node: Any) -> Any:
        ((kind, content),) = node.items()
        if kind == "array":
            return arrays[content]
        if kind == "dict":
            return {key: value(item) for key, item in content}
        if kind == "list":
            return [value(item) for item in content]
        if kind == "tuple":
            return tuple(value(item) for item in content)
        if kind == "value":
            return content
        raise ValueError(kind)

    try:
        return value(json.loads(text)) if text else list(arrays)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise ValueError(
            "[load] expects a tree that Python has saved, got another client's"
        ) from None


def generator_state(stream: random_streams.Stream) -> str:
    return f"{_GENERATOR} {stream.seed} {stream.draws}"


def stream_from(state: str) -> random_streams.Stream | None:
    """None: it is not a Python client's."""
    words = state.split()
    if len(words) != 3 or words[0] != _GENERATOR:
        return None
    stream = random_streams.Stream(int(words[1]))
    stream.draws = int(words[2])
    return stream
