"""ChainerX's Python API on chx: what a program finds that does `import chainerx`.

    import chx
    chx.install_chainerx()
    import chainerx

All that chx has is here too. Routines that are not in this file or its folder are chx's own.
"""

import builtins as _builtins
import types as _types

import chx as _chx

# Everything of chx but its modules, before what differs here.
globals().update(
    {
        name: value
        for name, value in vars(_chx).items()
        if not name.startswith("_") and not isinstance(value, _types.ModuleType)
    }
)

from chx import _device, _ndarray, _routines as _fallback_workarounds  # noqa: E402
from chx._context import initial_context as _global_context  # noqa: E402, F401
from chx.chainerx import _build_info, _core, _cuda, _docs, random, testing  # noqa: E402, F401
from chx.chainerx._core import _fromrawpointer, _is_debug, _to_cupy  # noqa: E402, F401
from chx.chainerx._creation import (  # noqa: E402, F401
    empty_like,
    full_like,
    ones_like,
    zeros_like,
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
