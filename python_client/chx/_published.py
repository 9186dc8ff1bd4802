"""Functions of chx.jit that are published, for calls by other sessions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from chx import _core, _programs
from chx._core import ndarray
from chx._programs import Jitted, _Array, _Float, _Method
from chx._runtime import recording as _recording

_MAX_DEPTH = 100
_PLAIN = (str, int, bool, type(None))


def _to_json(structure: Any, what: str) -> Any:
    """A structure of _programs._flatten as what json can write."""
    if isinstance(structure, _Array):
        return {"array": structure.number}
    if isinstance(structure, _Float):
        raise TypeError(
            f"[publish] expects no floats among the {what}, as each call may have others: pass an "
            "array without dimensions, chx.array(x)"
        )
    kind, contents = structure
    if kind is float:
        return {"float": contents.hex()}
    if kind is dict:
        if not all(isinstance(key, str) for key, _ in contents):
            raise TypeError(f"[publish] expects dicts with keys of text among the {what}")
        return {"dict": [[key, _to_json(value, what)] for key, value in contents]}
    if kind in (list, tuple):
        return {kind.__name__: [_to_json(value, what) for value in contents]}
    if kind in _PLAIN:
        return {"value": contents}
    raise TypeError(
        f"[publish] expects arrays, texts, integers, None, and dicts, lists and tuples of them "
        f"among the {what}, got {kind.__name__}"
    )


def _from_json(node: Any, arrays: Sequence[_Array], depth: int = 0) -> Any:
    """The structure again. Raises one of _MALFORMED for what no publish() has written."""
    if depth > _MAX_DEPTH:
        raise ValueError("too deep")
    ((kind, contents),) = node.items()
    if kind == "array":
        return arrays[int(contents)]
    if kind == "float":
        return (float, bytes.fromhex(contents))
    if kind == "dict":
        return (dict, tuple((key, _from_json(value, arrays, depth + 1)) for key, value in contents))
    if kind in ("list", "tuple"):
        values = tuple(_from_json(value, arrays, depth + 1) for value in contents)
        return (list if kind == "list" else tuple, values)
    if kind == "value" and type(contents) in _PLAIN:
        return (type(contents), contents)
    raise ValueError(kind)


_MALFORMED = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)


def _fill(structure: Any, node: Any, arrays: list[ndarray | None]) -> bool:
    """Puts the node's arrays into their places. False: the node is another one than was recorded."""
    if isinstance(structure, _Array):
        if (
            not isinstance(node, ndarray)
            or node.shape != structure.shape
            or str(node.dtype) != structure.dtype
            or node.device.name != structure.device
        ):
            return False
        there = arrays[structure.number]
        arrays[structure.number] = node
        return there is None or there is node
    kind, contents = structure
    if type(node) is not kind:
        return False
    if kind is dict:
        return set(node) == {key for key, _ in contents} and all(
            _fill(value, node[key], arrays) for key, value in contents
        )
    if kind in (list, tuple):
        return len(node) == len(contents) and all(
            map(lambda s, n: _fill(s, n, arrays), contents, node)
        )
    return bool(node == contents)


def _text_of(structure: Any) -> str:
    if isinstance(structure, _Array):
        return f"{structure.dtype}{structure.shape}"
    kind, contents = structure
    if kind is dict:
        return "{" + ", ".join(f"{key!r}: {_text_of(value)}" for key, value in contents) + "}"
    if kind in (list, tuple):
        texts = ", ".join(map(_text_of, contents))
        return f"[{texts}]" if kind is list else f"({texts})"
    return "a float" if kind is float else repr(contents)


def _call_text(structure: Any) -> str:
    (_, ((_, args), (_, kwargs))) = structure
    texts = [_text_of(each) for each in args]
    return f"({', '.join(texts + [f'{key}={_text_of(value)}' for key, value in kwargs])})"


class _Program(NamedTuple):
    program: Any
    arguments: Any  # of (args, kwargs)
    num_arrays: int  # among them
    result: Any


class PublishedProgram:
    """What chx.lookup() gives where Session.publish() has published a function of chx.jit.

    A call is one command of this session, which counts for it: its memory, its turns, its time
    limits. Arrays that the function captures are the publisher's, as they are between two of its
    commands.
    """

    def __init__(self, name: str, structure: str, programs: list[tuple[Any, Any, int]]) -> None:
        self._name = name
        self._programs = []
        try:
            described = json.loads(structure)["programs"] if structure else [None] * len(programs)
            if len(described) != len(programs):
                raise ValueError("others")
            for (program, specs, results), each in zip(programs, described):
                arrays = [_Array(i, *spec) for i, spec in enumerate(specs)]
                outputs = [_Array(i, "", (), "") for i in range(results)]
                self._programs.append(_program(program, arrays, outputs, each))
        except _MALFORMED:  # what others publish is not believed
            raise _core.ContextError(
                f"[lookup] expects a program that publish() has described, got {name!r}"
            ) from None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function with arrays of the dtypes and shapes that it was published for.

        Returns:
          What the function returns, in no graph.

        Raises:
          TypeError: it is published for other arguments; the message has them.
          ContextError: of reads of the results: it is published no more, or its owner has ended.
        """
        return self.repeat(1, *args, **kwargs)

    def repeat(self, times: int, *args: Any, **kwargs: Any) -> Any:
        """Calls the function so many times with the same arguments; the last call's result."""
        if _recording.current() is not None:
            raise _core.NotImplementedError(
                "[jit] cannot record a call of a published program: call it outside"
            )
        program, arrays = self._find((args, kwargs))
        results = _core._program_run(program.program, arrays, times, [])
        return _programs._rebuild(program.result, results, ())

    @property
    def signatures(self) -> list[str]:
        """The arguments that it is published for, as texts."""
        return [_call_text(program.arguments) for program in self._programs]

    def explain(self, *, profile: bool = False) -> str:
        """What the daemon does in calls by this session, as Jitted.explain()."""
        explanations: list[tuple[str, str]] = []
        for program, signature in zip(self._programs, self.signatures):
            text = _core._program_explain(program.program, profile)
            explanations.append((self._name + signature, text))
        return _core._explanations(explanations, False)

    def __repr__(self) -> str:
        return f"<PublishedProgram {' or '.join(self._name + each for each in self.signatures)}>"

    def _find(self, call: tuple[Any, Any]) -> tuple[_Program, list[Any]]:
        for program in self._programs:
            arrays: list[ndarray | None] = [None] * program.num_arrays
            if _fill(program.arguments, call, arrays):
                return program, arrays
        got = _programs._flatten(call, [], lambda number: None)
        raise TypeError(
            f"[lookup] expects {' or '.join(self._name + each for each in self.signatures)}, "
            f"got {self._name}{_call_text(got)}"
        )


def _program(program: Any, arrays: list[_Array], outputs: list[_Array], described: Any) -> _Program:
    if described is None:  # by another language: arrays, and the result or all of them
        arguments: Any = (tuple, ((tuple, tuple(arrays)), (dict, ())))
        result: Any = outputs[0] if len(outputs) == 1 else (list, tuple(outputs))
    else:
        arguments = _from_json(described["arguments"], arrays)
        result = _from_json(described["result"], outputs)
        _call_text(arguments)  # it is one of a call
    return _Program(program, arguments, len(arrays), result)


def _recordings(
    session: _core.Session, function: Jitted[Any] | _Method[Any], examples: tuple[Any, ...]
) -> list[tuple[Any, Any]]:
    """Arguments and recordings: of these arguments, or all that there are in the session."""
    owner = function if isinstance(function, _Method) else None
    jitted = function._jitted if isinstance(function, _Method) else function
    if examples:
        function(*examples)
        with jitted._lock:
            (key, *_), recorded = next(reversed(jitted._recorded.items()))  # what was used last
        return [(key[-1], recorded)]
    with jitted._lock:
        found = [
            (key[-1], recorded)
            for (key, *_), recorded in jitted._recorded.items()
            if recorded.session is session and key[-2] == owner
        ]
    if not found:
        raise ValueError(
            "[publish] expects a function that has been called in this session, or arguments to "
            "call it with: publish(name, function, x)"
        )
    return found


def publish(
    session: _core.Session,
    name: str,
    function: Jitted[Any] | _Method[Any],
    examples: tuple[Any, ...],
    readers: Sequence[str],
    keep: bool,
) -> int:
    """See Session.publish()."""
    programs = []
    structures = []
    for arguments, recorded in _recordings(session, function, examples):
        programs.append(recorded.program)
        structures.append(
            {
                "arguments": _to_json(arguments, "arguments"),
                "result": _to_json(recorded.result, "results"),
            }
        )
    text = json.dumps({"programs": structures})
    return _core._publish_programs(session, name, programs, list(readers), keep, text)
