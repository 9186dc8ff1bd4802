"""Decorators that run a test with NumPy and with chx, and compare what it gives."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Union

import numpy as np

import chx
from chx._compat import TypeAlias, zip_strict
from chx.chainerx.testing import array as _array

_Test: TypeAlias = Callable[..., Any]
_Errors: TypeAlias = Union[type[BaseException], tuple[type[BaseException], ...]]
_Check: TypeAlias = Callable[[Any, Any], None]

_chainerx: ModuleType  # chx.chainerx, which is made of this module too


class _Ignored:
    """What a test gives whose results don't count."""


def ignore() -> Any:
    """`return ignore()`: this case of a test is not compared."""
    return _Ignored()


def _run(
    function: _Test,
    xp: ModuleType,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    accept_error: _Errors,
) -> tuple[Any, BaseException | None]:
    """What the function gives with a module, and the error that it raised instead."""
    try:
        return function(*args, **{**kwargs, name: xp}), None
    except accept_error as error:
        return None, error


def _check_error(expected: BaseException | None, actual: BaseException | None) -> None:
    if expected is None and actual is None:
        return
    if expected is None or actual is None:
        library = "chainerx" if expected is None else "NumPy"
        raise AssertionError(f"only {library} raised an error") from expected or actual


def _compare(expected: Any, actual: Any, check: _Check) -> None:
    if isinstance(expected, (list, tuple)) or isinstance(actual, (list, tuple)):
        if type(expected) is not type(actual) or len(expected) != len(actual):
            raise AssertionError(f"NumPy gave {expected!r}, chainerx {actual!r}")
        for pair in zip_strict(expected, actual):
            _compare(*pair, check)
        return
    if isinstance(actual, chx.ndarray):
        if not isinstance(expected, (np.ndarray, np.generic)):
            raise AssertionError(f"NumPy gave {type(expected).__name__}, chainerx an ndarray")
        if actual.device is not chx.get_default_device():
            raise AssertionError(
                f"the result is on {actual.device}, not on {chx.get_default_device()}"
            )
        if actual.shape != np.shape(expected):
            raise AssertionError(f"NumPy's shape is {np.shape(expected)}, not {actual.shape}")
    elif isinstance(actual, (np.ndarray, np.generic)) or type(actual) is not type(expected):
        raise AssertionError(
            f"NumPy gave {type(expected).__name__}, chainerx {type(actual).__name__}"
        )
    check(expected, actual)


def _decorator(
    check: Callable[..., None], options: Mapping[str, Any], name: str, accept_error: _Errors
) -> Callable[[_Test], _Test]:
    options = dict(options)

    def check_with_options(expected: Any, actual: Any) -> None:
        check(expected, actual, **options)

    def decorate(function: _Test) -> _Test:
        @functools.wraps(function)
        def test(*args: Any, **kwargs: Any) -> None:
            run = functools.partial(_run, function, name=name, args=args, kwargs=kwargs)
            expected, numpy_error = run(xp=np, accept_error=accept_error)
            actual, error = run(xp=_chainerx, accept_error=accept_error)
            _check_error(numpy_error, error)
            if error is not None:
                return
            ignored = [isinstance(result, _Ignored) for result in (expected, actual)]
            if any(ignored):
                if not all(ignored):
                    raise AssertionError("only one of NumPy and chainerx ignored the case")
                return
            if expected is None:
                raise AssertionError("the test gave None: it must return what is to be compared")
            _compare(expected, actual, check_with_options)

        # pytest must not take the module's argument for a fixture.
        signature = inspect.signature(function)
        parameters = [p for p in signature.parameters.values() if p.name != name]
        setattr(test, "__signature__", signature.replace(parameters=parameters))  # noqa: B010
        return test

    return decorate


def register_chainerx(module: ModuleType) -> None:
    """Sets the module that tests know as chainerx."""
    global _chainerx
    _chainerx = module


def numpy_chainerx_allclose(
    *, name: str = "xp", accept_error: _Errors = (), **kwargs: Any
) -> Callable[[_Test], _Test]:
    """A decorator: the test gives close arrays with NumPy and with chainerx.

    The test is called with each of the modules as argument `name`, and returns an array, a number,
    or a list or tuple of such. chainerx's arrays must be on the default device.

    Args:
      name: the argument for the module.
      accept_error: exceptions one of which both modules may raise instead.
      kwargs: for assert_allclose_ex.
    """
    return _decorator(_array.assert_allclose_ex, kwargs, name, accept_error)


def numpy_chainerx_array_equal(
    *, name: str = "xp", accept_error: _Errors = (), **kwargs: Any
) -> Callable[[_Test], _Test]:
    """A decorator: the test gives equal arrays with NumPy and with chainerx.

    As numpy_chainerx_allclose(); kwargs are for assert_array_equal_ex. Tolerances are ignored.
    """
    kwargs = {k: v for k, v in kwargs.items() if not k.endswith(("rtol", "atol"))}
    return _decorator(_array.assert_array_equal_ex, kwargs, name, accept_error)
