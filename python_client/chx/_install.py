"""`import chainerx` that means chx."""

import importlib
import importlib.machinery
import pkgutil
import sys
from types import ModuleType

from chx._runtime import session

_SELF = "chx.chainerx"


def install_chainerx() -> ModuleType:
    """Makes `import chainerx` mean `chx.chainerx`, in this process, and its submodules too.

    Programs for ChainerX then run on chx as they are; `python -m chx run SCRIPT` does this first.
    A private daemon that is started from now on serves four native devices by default, as many as
    ChainerX has.

    Returns:
      The module.

    Raises:
      RuntimeError: another chainerx has been imported already, perhaps by chainer.
    """
    # Not imported above: it is made of all that chx has.
    module = importlib.import_module(_SELF)
    other = sys.modules.get("chainerx")
    if other is not None and other is not module:
        raise RuntimeError(
            f"another chainerx has been imported from {getattr(other, '__file__', '?')}: "
            "call chx.install_chainerx() before importing chainer or chainerx"
        )
    session.default_devices = "native:0,native:1,native:2,native:3"
    names = [name for _, name, _ in pkgutil.walk_packages(module.__path__, _SELF + ".")]
    for name in [_SELF, *names]:
        alias = "chainerx" + name[len(_SELF) :]
        sys.modules[alias] = importlib.import_module(name)
    for name, submodule in module._shared_modules.items():
        sys.modules[f"chainerx.{name}"] = submodule
    module.__name__ = module.__package__ = "chainerx"
    loader = None if module.__spec__ is None else module.__spec__.loader
    spec = importlib.machinery.ModuleSpec("chainerx", loader, is_package=True)
    spec.submodule_search_locations = list(module.__path__)
    module.__spec__ = spec
    return module
