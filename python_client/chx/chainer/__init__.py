"""Chainer 7.8.1 on chx: real Chainer in this process, its arrays and graphs in the daemon.

    import chx.chainer  # before chainer
    import chainer

    device = chainer.get_device("native:0")

Importing this module makes `import chainerx` mean chx, supplies the names that Chainer uses of NumPy
and that NumPy has dropped, and adapts Chainer, in memory, as soon as it is imported. `python -m chx
run` does the same for a script that says nothing of chx.

A function that has no route to the daemon is computed with NumPy here, which chx.config.fallback
allows, warns of or refuses; fallbacks() lists what was.
"""

from chx import _install
from chx.chainer import _adapter, _loading, _numpy_names
from chx.chainer._fallbacks import FallbackError, FallbackWarning, clear_fallbacks, fallbacks
from chx.chainer._loading import on_import

__all__ = [
    "FallbackError",
    "FallbackWarning",
    "clear_fallbacks",
    "fallbacks",
    "on_import",
    "supported_version",
]

#: The version of Chainer that is adapted. With another one, importing it warns.
supported_version = _adapter.VERSION

_numpy_names.supply()
_install.install_chainerx()
_loading.watch()
on_import(_adapter.adapt)
