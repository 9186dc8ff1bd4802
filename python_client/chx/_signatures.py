"""Signatures of operators, for inspect and help()."""

import inspect
from typing import Any


def signature(text: str) -> inspect.Signature:
    """An inspect.Signature from a text like "(a, axis=None)"."""
    parameters = []
    value: Any
    for part in text.strip("()").split(", ") if text != "()" else []:
        name, _, default = part.partition("=")
        if not default:
            value = inspect.Parameter.empty
        elif default.startswith("'"):
            value = default.strip("'")
        else:
            value = {"None": None, "True": True, "False": False}.get(default, default)
            if isinstance(value, str):
                value = int(value) if value.lstrip("-").isdigit() else float(value)
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value)
        )
    # A required parameter may follow an optional one, as in random_uniform: keyword-only then.
    optional = False
    for i, parameter in enumerate(parameters):
        if parameter.default is inspect.Parameter.empty and optional:
            parameters[i:] = [
                p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters[i:]
            ]
            break
        optional = optional or parameter.default is not inspect.Parameter.empty
    return inspect.Signature(parameters)
