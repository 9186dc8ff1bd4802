"""What is being recorded by chx.jit on this thread, for those whose numbers differ in each run."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from chx import _core
from chx._compat import Self
from chx._runtime.traced_numbers import Number, Tape


class _Thread(threading.local):
    recording: Recording | None = None


_thread = _Thread()
_changed = threading.Condition()
_recordings = 0
_uploads = 0


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Records within the block, once no thread is in beside_recordings()."""
    global _recordings
    with _changed:
        _recordings += 1
    try:
        with _changed:
            _changed.wait_for(lambda: not _uploads)
        yield
    finally:
        with _changed:
            _recordings -= 1
            _changed.notify_all()


@contextlib.contextmanager
def beside_recordings() -> Iterator[None]:
    """Uploads within the block, on a thread of chx's own, once no thread records."""
    global _uploads
    with _changed:
        _changed.wait_for(lambda: not _recordings)
        _uploads += 1
    try:
        yield
    finally:
        with _changed:
            _uploads -= 1
            _changed.notify_all()


def current() -> Recording | None:
    """The recording of this thread; None: there is none."""
    return _thread.recording


class Recording:
    """A function that runs for the first time, to be repeated."""

    def __init__(self, session: Any, floats: Sequence[float] = ()) -> None:
        self.session = session
        self.active = False
        self.tape = Tape(floats)
        self.given = [Number(self, f, i, frozenset([i])) for i, f in enumerate(floats)]
        """The floats among the function's arguments, as it gets them."""
        self.arrays_of: list[Number] = []
        """The numbers that arrays were made of."""
        self.slots: list[int] = []
        """Operator and attribute of each number that varies, one after the other."""
        self.values: list[Callable[[Sequence[float]], Iterable[float | int]]] = []
        """What gives the numbers of a run, in the order of the slots, from those of the tape."""

    def __enter__(self) -> Self:
        _thread.recording = self
        self.active = True
        return self

    def __exit__(self, *_: object) -> None:
        for number in self.arrays_of:
            number.forget_arrays()
        self.active = False
        _thread.recording = None

    def is_current(self) -> bool:
        """Whether this is what the thread records."""
        return current() is self

    def place_of(self, number: Any) -> int | None:
        """Where each run has the value of a number on the tape; None: it does not vary."""
        return number.place_in(self) if type(number) is Number else None

    def vary(self, attributes: Iterable[int], values: Callable[[], Iterable[float | int]]) -> None:
        """Says of the operator that is called next that `values` gives these attributes in each run.

        Args:
          attributes: their positions among the operator's attributes.
          values: called once for each run; gives as many numbers.
        """
        self.vary_by_numbers(attributes, lambda _: values())

    def vary_by_numbers(
        self,
        attributes: Iterable[int],
        values: Callable[[Sequence[float]], Iterable[float | int]],
    ) -> None:
        """As vary; `values` gets the numbers of the run's tape."""
        number = _core._program_operations(self.session)
        for attribute in attributes:
            self.slots += [number, attribute]
        self.values.append(values)

    def hold(self, array: _core.ndarray) -> None:
        """Makes an array that was made just now one that is there before each run."""
        _core._program_hold(array)
