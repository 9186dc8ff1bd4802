"""Functions that run as soon as Chainer, or a module of it, has been imported."""

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

_functions = {}  # by the name of the module


def on_import(function):
    """Runs function(chainer) once Chainer has been imported: now, if it has been.

    Functions run in the order in which they were given. Returns the function: it decorates, too.
    """
    return on_import_of("chainer", function)


def on_import_of(name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Runs function(module) once a module of Chainer's has been imported; returns the function."""
    _functions.setdefault(name, []).append(function)
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        function(module)
    return function


class _Loader(importlib.abc.Loader):
    """Another loader's work, then the functions."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        for function in _functions[module.__name__]:
            function(module)

    def __getattr__(self, name):  # get_data, get_source and the like
        return getattr(self._loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds those modules where the others find them."""

    def find_spec(self, fullname, path, target=None):
        if fullname not in _functions:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader)
                return spec
        return None


_finder = _Finder()


def watch():
    """Waits for imports."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
