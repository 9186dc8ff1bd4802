"""Trees of arrays, and functions, under names that other sessions can look up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from chx import _core

# Deeper trees are refused: rebuilding one is recursive.
_MAX_DEPTH = 100
_EXITS = {"keep": True, "drop": False}


def keeps(operator: str, on_owner_exit: str) -> bool:
    """Whether arrays stay with their holders when the session that shares them ends."""
    if on_owner_exit not in _EXITS:
        raise ValueError(
            f'[{operator}] expects on_owner_exit="keep" or "drop", got {on_owner_exit!r}'
        )
    return _EXITS[on_owner_exit]


def _flatten(node: Any, path: str, depth: int, paths: list[str], arrays: list[Any]) -> Any:
    """The node's structure: positions in `arrays`, which this fills, in lists and dicts."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"[publish] expects a tree of at most {_MAX_DEPTH} levels")
    if isinstance(node, _core.ndarray):
        paths.append(path or "value")
        arrays.append(node)
        return len(arrays) - 1
    below = f"{path}/" if path else ""
    if isinstance(node, Mapping):
        entries = {}
        for key, value in node.items():
            if not isinstance(key, str) or not key or "\n" in key:
                raise TypeError(f"[publish] expects keys that are lines of text, got {key!r}")
            entries[key] = _flatten(value, below + key, depth + 1, paths, arrays)
        return {"dict": entries}
    if isinstance(node, (list, tuple)):
        kind = "tuple" if isinstance(node, tuple) else "list"
        return {
            kind: [
                _flatten(value, f"{below}{i}", depth + 1, paths, arrays)
                for i, value in enumerate(node)
            ]
        }
    raise TypeError(
        f"[publish] expects arrays in dicts, lists and tuples, got {type(node).__name__}"
    )


def _rebuild(structure: Any, arrays: list[_core.ndarray], depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise ValueError("too deep")
    if isinstance(structure, int):
        return arrays[structure]
    ((kind, entries),) = structure.items()
    if kind == "dict":
        return {key: _rebuild(entry, arrays, depth + 1) for key, entry in entries.items()}
    values = [_rebuild(entry, arrays, depth + 1) for entry in entries]
    return tuple(values) if kind == "tuple" else values


def tree_of(structure: str, found: list[tuple[str, _core.ndarray]]) -> Any:
    """The tree as it was published; where another language did that, dicts by the paths' parts."""
    if structure:
        try:
            return _rebuild(json.loads(structure), [array for _, array in found], 0)
        except (ValueError, TypeError, AttributeError, IndexError, RecursionError):
            pass  # no structure of ours: what others publish is not believed
    tree: dict[str, Any] = {}
    for path, array in found:
        *parents, last = path.split("/")
        node = tree
        for parent in parents:
            child = node.setdefault(parent, {})
            if not isinstance(child, dict):
                return dict(found)  # a path goes on below an array
            node = child
        if last in node:
            return dict(found)
        node[last] = array
    return tree


def publish(
    session: _core.Session,
    name: str,
    tree: Any,
    examples: tuple[Any, ...],
    readers: Sequence[str],
    on_owner_exit: str,
) -> int:
    """See Session.publish()."""
    from chx import _programs, _published  # which need sessions

    if isinstance(readers, str):
        raise TypeError("[publish] expects a list of tenants as readers, got a str")
    keep = keeps("publish", on_owner_exit)
    if isinstance(tree, (_programs.Jitted, _programs._Method)):
        return _published.publish(session, name, tree, examples, readers, keep)
    if examples:
        raise TypeError("[publish] expects arguments for a function of chx.jit only")
    paths: list[str] = []
    arrays: list[_core.ndarray] = []
    structure = _flatten(tree, "", 0, paths, arrays)
    return _core._publish(session, name, paths, arrays, list(readers), keep, json.dumps(structure))
