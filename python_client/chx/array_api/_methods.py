"""What the standard has of arrays beyond ChainerX's methods."""

import importlib

from chx import _core

VERSIONS = ("2021.12", "2022.12", "2023.12")


def _namespace(self, /, *, api_version=None):
    """The module of the standard's functions: chx.array_api.

    Raises:
      ValueError: it doesn't know that version of the standard.
    """
    if api_version not in (None, *VERSIONS):
        raise ValueError(f"[__array_namespace__] expects one of {VERSIONS}, got {api_version!r}")
    return importlib.import_module("chx.array_api")


def _transposed(self):
    if self.ndim < 2:
        raise _core.DimensionError(f"[mT] expects matrices, got shape {self.shape}")
    return _core.swapaxes(self, -2, -1)


def _complex(self, /):
    return complex(self.item())


for _name, _value in {
    "__array_namespace__": _namespace,
    "__complex__": _complex,
    "mT": property(_transposed, doc="Matrices in the last two axes transposed, a view."),
}.items():
    _core._add_array_attribute(_name, _value)
