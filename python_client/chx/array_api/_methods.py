"""What the standard has of arrays beyond ChainerX's methods."""

from __future__ import annotations

import sys
from types import ModuleType

from chx import _core
from chx._core import ndarray

VERSIONS = ("2021.12", "2022.12", "2023.12")


def array_namespace(self: ndarray, /, *, api_version: str | None = None) -> ModuleType:
    """The module of the standard's functions: chx.array_api.

    Raises:
      ValueError: it doesn't know that version of the standard.
    """
    if api_version not in (None, *VERSIONS):
        raise ValueError(f"[__array_namespace__] expects one of {VERSIONS}, got {api_version!r}")
    return sys.modules[__package__]


def transposed(self: ndarray) -> ndarray:
    if self.ndim < 2:
        raise _core.DimensionError(f"[mT] expects matrices, got shape {self.shape}")
    return _core.swapaxes(self, -2, -1)


def complex_of(self: ndarray, /) -> complex:
    return complex(self.item())
