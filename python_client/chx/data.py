"""Minibatches on their way from this process to the daemon.

    batches = chx.data.minibatches((images, labels), 64, epochs=3, shuffle=0)
    for x, t in chx.data.prefetch(batches):
        loss = step(x, t)

Data that the daemon has already, or finds in files of its own, needs no loader: docs/runs.md.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from chx import _core
from chx._core import Device, ndarray
from chx._numpy import creation
from chx._runtime import recording
from chx._runtime.containers import map_leaves
from chx._types import DeviceLike, NumpyArray
from chx.runs import order

__all__ = ["minibatches", "prefetch"]


def minibatches(
    arrays: Sequence[NumpyArray],
    batch_size: int,
    epochs: int = 1,
    shuffle: int | None = None,
    drop_last: bool = False,
) -> Iterator[tuple[NumpyArray, ...]]:
    """Yields the same rows of each array, batch_size at a time.

    Args:
      arrays: of NumPy, or others that are indexed by arrays of integers; of the same length.
      batch_size: rows of a minibatch. An epoch's last one has those that are left over.
      epochs: how often each row comes.
      shuffle: a seed; the order in each epoch is that of chx.runs.order(). None: that of the rows.
      drop_last: leaves out the rows that are left over.

    Raises:
      ValueError: the arrays differ in length, or batch_size is less than 1.
    """
    lengths = {len(array) for array in arrays}
    if len(lengths) != 1:
        raise ValueError(f"[minibatches] expects arrays of one length, got {sorted(lengths)}")
    if batch_size < 1:
        raise ValueError(f"[minibatches] expects a batch_size of 1 or more, got {batch_size}")
    return _minibatches(arrays, lengths.pop(), batch_size, epochs, shuffle, drop_last)


def _minibatches(
    arrays: Sequence[NumpyArray],
    length: int,
    batch_size: int,
    epochs: int,
    shuffle: int | None,
    drop_last: bool,
) -> Iterator[tuple[NumpyArray, ...]]:
    end = length - length % batch_size if drop_last else length
    for epoch in range(epochs):
        rows = np.arange(length) if shuffle is None else order(shuffle, epoch, length)
        for i in range(0, end, batch_size):
            chosen = rows[i : i + batch_size]
            yield tuple(array[chosen] for array in arrays)


def prefetch(batches: Iterable[Any], ahead: int = 2, device: DeviceLike = None) -> Iterator[Any]:
    """Yields minibatches as arrays of chx, which a thread uploads while the daemon computes.

    The thread takes minibatches from `batches`, so reading and preparing them also goes on beside the
    steps, and ends with the iteration. What `batches` raises, is raised here in its turn.

    Over a Unix socket, minibatches are sent while steps wait to run: in shared memory with room for twice
    as many as are ahead, which is the session's until it ends. If that is more than an eighth of its
    memory, there is less room, and an array that is larger than half of it is sent when the steps that were
    called before it have run.

    Args:
      batches: arrays of NumPy, or tuples, lists and dicts of them.
      ahead: how many minibatches may wait; each takes memory of the session.
      device: where the arrays will be.

    Raises:
      ValueError: ahead is less than 1.
    """
    if ahead < 1:
        raise ValueError(f"[prefetch] expects 1 minibatch ahead or more, got {ahead}")
    return _consume(iter(batches), ahead, _core._get_device(device))


class _End(NamedTuple):
    error: BaseException | None


def _consume(batches: Iterator[Any], ahead: int, device: Device) -> Iterator[Any]:
    places = threading.Semaphore(ahead)
    done = threading.Event()
    ready: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def produce() -> None:
        try:
            while True:
                places.acquire()
                if done.is_set():
                    return
                batch = next(batches)
                with recording.beside_recordings():
                    device.backend._session._upload_ahead(ahead * _host_bytes(batch))
                    batch = _uploaded(batch, device)
                ready.put(batch)
        except StopIteration:
            ready.put(_End(None))
        except BaseException as error:
            ready.put(_End(error))

    threading.Thread(target=produce, name="chx.data.prefetch", daemon=True).start()
    try:
        while True:
            if recording.current() is not None:
                raise _core.ContextError(
                    "[prefetch] expects to be read outside of what is recorded"
                )
            batch = ready.get()
            places.release()
            if isinstance(batch, _End):
                if batch.error is not None:
                    raise batch.error
                return
            yield batch
    finally:
        done.set()
        places.release()


def _uploaded(batch: Any, device: Device) -> Any:
    def upload(leaf: Any) -> ndarray:
        if isinstance(leaf, ndarray):
            return leaf.to_device(device)
        return creation.array(leaf, device=device)

    return map_leaves("prefetch", upload, batch)


def _host_bytes(batch: Any) -> int:
    """Of what is to be uploaded."""
    sizes = [0]

    def count(leaf: Any) -> None:
        if not isinstance(leaf, ndarray):
            sizes.append(np.asarray(leaf).nbytes)

    map_leaves("prefetch", count, batch)
    return sum(sizes)
