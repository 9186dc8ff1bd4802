"""Loads chx._core beside libraries that show symbols of theirs to the whole process.

TensorFlow does so with its protobuf and its BoringSSL, whose versions are not those that chx._core was
built with: without this, its functions would be called in their place.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys

# One of each library that chx._core uses.
_SYMBOLS = ("_ZN6google8protobuf14DescriptorPoolC1Ev", "SSL_new")


def load_core() -> None:
    """Imports chx._core, whose own libraries come first if the process has others of their names."""
    process = ctypes.CDLL(None)
    flags = sys.getdlopenflags()
    if any(hasattr(process, symbol) for symbol in _SYMBOLS):
        sys.setdlopenflags(flags | os.RTLD_DEEPBIND)
    try:
        importlib.import_module("chx._core")
    finally:
        sys.setdlopenflags(flags)


load_core()
