"""Counts what Chainer computes with NumPy, in this process, for want of a route to the daemon."""

import collections
import sys
import threading
import warnings

import chx
from chx import _config

_counts = collections.Counter()
_lock = threading.Lock()
_INSIDE = ("chx.", "chainer.")


class FallbackWarning(RuntimeWarning):
    """A function was computed with NumPy for the first time."""


class FallbackError(RuntimeError):
    """A function would have been computed with NumPy, which chx.config.fallback refuses."""


def fallbacks():
    """What fell back to NumPy so far, and how often: a dict from names of functions to numbers."""
    with _lock:
        return dict(_counts)


def clear_fallbacks():
    """Forgets what fell back; each function warns once again."""
    with _lock:
        _counts.clear()


def note(name, inputs):
    """Counts one fallback of a function.

    Raises:
      FallbackError: chx.config.fallback is "raise".
    """
    mode = _config.config.fallback
    if mode == "raise":
        specs = ", ".join(_spec(a) for a in inputs)
        raise FallbackError(
            f"[{name}] expects a route to the daemon, got none for ({specs}); "
            "chx.config.fallback = 'warn' computes it with NumPy"
        )
    with _lock:
        _counts[name] += 1
        first = _counts[name] == 1
    if first and mode == "warn":
        warnings.warn(
            f"{name} is computed with NumPy in this process: it has no route to the daemon",
            FallbackWarning,
            stacklevel=_callers_level(),
        )


def _callers_level():
    """The stacklevel of the line, outside of Chainer, that asked for the function."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    return level


def _spec(a):
    if not isinstance(a, chx.ndarray):
        return str(type(a).__name__)
    return f"{a.dtype}[{','.join(map(str, a.shape))}]"
