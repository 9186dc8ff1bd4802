"""The table from ONNX's operators to functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chx.onnx._import._node import Node

Function = Callable[[Node], Any]
"""Gives an array or a Constant, or a tuple of several outputs; NotImplemented for a node that the
standard's own definition is for."""

TABLE: dict[tuple[str, str], Function] = {}


def operator(*names: str, domain: str = "") -> Callable[[Function], Function]:
    """Enters a function for operators of these names."""

    def enter(function: Function) -> Function:
        for name in names:
            TABLE[domain, name] = function
        return function

    return enter


def elementwise(functions: dict[str, Callable[..., Any]]) -> None:
    """Enters functions of arrays alone."""
    for name, function in functions.items():
        TABLE["", name] = _of_arrays(function)


def _of_arrays(function: Callable[..., Any]) -> Function:
    return lambda node: function(*node.arrays())
