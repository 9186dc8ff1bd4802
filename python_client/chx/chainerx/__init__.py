"""ChainerX's Python API on chx: what a program finds that does `import chainerx`.

    import chx
    chx.install_chainerx()
    import chainerx

All that chx has is here too. Routines that are not in this file or its folder are chx's own.
"""

import builtins as _builtins
import sys as _sys
import types as _types
import typing as _typing

import chx as _chx

# Everything of chx but its modules, before what differs here.
globals().update(
    {
        name: value
        for name, value in vars(_chx).items()
        if not name.startswith("_") and not isinstance(value, _types.ModuleType)
    }
)

# ruff: noqa: E402
from chx import _device as _device, _ndarray as _ndarray
from chx._numpy import interoperability as _fallback_workarounds
from chx._runtime.context import initial_context as _global_context  # noqa: F401
from chx.chainerx import (
    _build_info as _build_info,
    _core as _core,
    _cuda as _cuda,
    _docs as _docs,
    random as random,
    testing as testing,
)
from chx.chainerx._core import (
    _fromrawpointer as _fromrawpointer,
    _is_debug as _is_debug,
    _to_cupy as _to_cupy,
)
from chx.chainerx._creation import (
    empty_like as empty_like,
    full_like as full_like,
    ones_like as ones_like,
    zeros_like as zeros_like,
)

if _typing.TYPE_CHECKING:
    from chx import *  # type: ignore[assignment,no-redef]  # noqa: F403
    from chx import (  # noqa: F401
        backprop_scope as BackpropScope,
        force_backprop_mode as ForceBackpropMode,
        no_backprop_mode as NoBackpropMode,
    )

_available = True

bool = _builtins.bool
int = _builtins.int
float = _builtins.float

# Scopes, under the names of their classes.
for _name, _function in {
    "BackpropScope": "backprop_scope",
    "NoBackpropMode": "no_backprop_mode",
    "ForceBackpropMode": "force_backprop_mode",
}.items():
    globals().setdefault(_name, getattr(_chx, _function))

# Modules of chx that are submodules here, as they are.
_shared_modules = {
    "_device": _device,
    "_fallback_workarounds": _fallback_workarounds,
    "_ndarray": _ndarray,
}
if hasattr(_chx, "linalg"):
    linalg = _shared_modules["linalg"] = _chx.linalg

testing.helper.register_chainerx(_sys.modules[__name__])
