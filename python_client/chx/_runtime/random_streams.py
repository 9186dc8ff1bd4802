"""Streams of random numbers: the seed and the number of draws of each chx.random.Generator.

The daemon's generator is counter-based: a draw depends on its key and nothing else. Each draw of a
stream has a key of its own, so that what other streams draw in between doesn't matter.
"""

from __future__ import annotations

import contextlib
import operator
import os
import secrets
import threading
from collections.abc import Iterator
from typing import Any, SupportsIndex

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._runtime import recording
from chx._types import DeviceLike, DtypeLike, Parameter

_MASK = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15


def _mixed(x: int) -> int:
    # SplitMix64, in Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


class Stream:
    """The keys that follow from a seed: an integer, of which 64 bits count. A random one by default."""

    def __init__(self, seed: SupportsIndex | None = None) -> None:
        self.seed = secrets.randbits(64) if seed is None else operator.index(seed) & _MASK
        self.draws = 0

    def next(self) -> int:
        """The next draw's key. Not for several threads at once."""
        self.draws += 1
        return _mixed((_mixed((self.seed + _GAMMA) & _MASK) + self.draws * _GAMMA) & _MASK)


def seeded(name: str, seed: Any) -> Stream:
    """A stream by what numpy.random takes as a seed.

    Raises:
      ValueError, TypeError: a negative number, or no numbers.
    """
    if seed is None:
        return Stream()
    if isinstance(seed, (int, np.integer)) and not 0 <= seed <= _MASK:
        if seed < 0:
            raise ValueError(f"[{name}] expects a seed from 0 on, got {seed}")
        seed = np.random.SeedSequence(int(seed))
    if not isinstance(seed, (int, np.integer, np.random.SeedSequence)):
        seed = np.random.SeedSequence(seed)
    if isinstance(seed, np.random.SeedSequence):
        seed = int(seed.generate_state(1, np.uint64)[0])
    return Stream(seed)


# A key is the session's for the time of one draw.
_drawing = threading.RLock()

# Of each thread: the streams that stand for sessions' own.
_thread = threading.local()


def _after_fork() -> None:
    global _drawing
    _drawing = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def _own(session: Any) -> Stream:
    """The stream that a session's draws on this thread are from."""
    replayed: Stream | None = getattr(_thread, "replayed", {}).get(id(session))
    if replayed is not None:
        return replayed
    stream: Stream = session._stream or Stream()
    session._stream = stream
    return stream


def copied(session: Any) -> Stream:
    """A stream that gives what the session's will give."""
    with _drawing:
        own = _own(session)
        copy = Stream(own.seed)
        copy.draws = own.draws
        return copy


@contextlib.contextmanager
def replayed(session: Any, stream: Stream | None) -> Iterator[None]:
    """Within the block this thread's draws of the session are those of a stream, if there is one.

    The stream stays as it is.
    """
    if stream is None:
        yield
        return
    copy = Stream(stream.seed)
    copy.draws = stream.draws
    before = getattr(_thread, "replayed", {})
    _thread.replayed = {**before, id(session): copy}
    try:
        yield
    finally:
        _thread.replayed = before


def _key(stream: Stream | None, session: Any) -> None:
    if stream is None:
        stream = _own(session)
    _core.Session.seed(session, stream.next())


def _vary(stream: Stream | None, session: Any, name: str) -> None:
    """Each run of what is being recorded draws the stream's next numbers."""
    recorded = recording.current()
    if recorded is None:
        return

    def key_of_run() -> tuple[int, int]:
        with _drawing:
            return (stream or _own(session)).next(), 0

    attributes = [_core._attribute_index(name, attribute) for attribute in ("seed", "counter")]
    recorded.vary(attributes, key_of_run)


def draw(
    stream: Stream | None,
    name: str,
    shape: int | tuple[int, ...],
    a: Parameter,
    b: Parameter,
    dtype: DtypeLike,
    device: DeviceLike,
) -> ndarray:
    """What an operator draws from a stream, or for None the session's, in a shape on a device."""
    session = _core._get_device(device).backend._session
    with _drawing:
        _key(stream, session)
        _vary(stream, session, name)
        return _core._random(name, shape, a, b, dtype, device)


def draw_of(stream: Stream | None, name: str, *parameters: ndarray) -> ndarray:
    """What an operator draws for arrays of parameters."""
    session = parameters[0].device.backend._session
    with _drawing:
        _key(stream, session)
        _vary(stream, session, name)
        return _core._random_of(name, *parameters)
