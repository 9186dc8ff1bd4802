"""What is being recorded by chx.jit on this thread, for those whose numbers differ in each run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from chx import _core
from chx._compat import Self

_thread = threading.local()


def current() -> Recording | None:
    """The recording of this thread; None: there is none."""
    return getattr(_thread, "recording", None)


class Recording:
    """A function that runs for the first time, to be repeated."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.slots: list[int] = []
        """Operator and attribute of each number that varies, one after the other."""
        self.values: list[Callable[[], Iterable[float | int]]] = []
        """What gives the numbers of a run, in the order of the slots."""

    def __enter__(self) -> Self:
        _thread.recording = self
        return self

    def __exit__(self, *_: object) -> None:
        _thread.recording = None

    def vary(self, attributes: Iterable[int], values: Callable[[], Iterable[float | int]]) -> None:
        """Says of the operator that is called next that `values` gives these attributes in each run.

        Args:
          attributes: their positions among the operator's attributes.
          values: called once for each run; gives as many numbers.
        """
        number = _core._program_operations(self._session)
        for attribute in attributes:
            self.slots += [number, attribute]
        self.values.append(values)

    def hold(self, array: _core.ndarray) -> None:
        """Makes an array that was made just now one that is there before each run."""
        _core._program_hold(array)
