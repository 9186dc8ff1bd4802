"""Traces of what this process's sessions do."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from chx import _core


@contextlib.contextmanager
def tracing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Records what sessions of this process do within the block, and writes it to a file.

    Calls of operators, batches that are sent and waits, of all threads: names and times, no values.
    Perfetto and chrome://tracing open the file; `chxctl trace --merge` joins it with the daemon's
    side of the same time.

    Args:
      path: the file, which is replaced.

    Raises:
      ValueError: a trace is recorded already.
      OSError: the file cannot be written.
    """
    with open(path, "w") as file:  # before the work: a path that cannot be written is known now
        _core._start_trace()
        try:
            yield
        finally:
            file.write(_core._stop_trace())
