"""A thread that waits for values, so that event loops need not.

One for all reads of a session: the daemon answers them in order, too.
"""

import concurrent.futures
import queue
import threading
from collections.abc import Callable
from typing import Any, Optional, TypeVar

_T = TypeVar("_T")
_Jobs = queue.SimpleQueue[Optional[tuple[Callable[[], Any], "concurrent.futures.Future[Any]"]]]


class Waiter:
    """Ends when it is closed, after what it was given before."""

    def __init__(self) -> None:
        self._jobs: _Jobs = queue.SimpleQueue()
        # A daemon: a read that waits for ever must not keep the process from its end.
        self._thread = threading.Thread(
            target=_work, args=(self._jobs,), name="chx reads", daemon=True
        )
        self._thread.start()

    def submit(self, job: Callable[[], _T]) -> concurrent.futures.Future[_T]:
        """A concurrent.futures.Future of what the job returns or raises."""
        future: concurrent.futures.Future[_T] = concurrent.futures.Future()
        self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """After its session was closed, for which nothing waits for long."""
        self._jobs.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(10)


def _work(jobs: _Jobs) -> None:
    while (entry := jobs.get()) is not None:
        job, future = entry
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)
        del entry, job, future  # arrays go with those who wait for them


async def result(future: concurrent.futures.Future[_T]) -> _T:
    """What is awaited: in the loop of the task that does, whatever thread has submitted the job.

    A task that is cancelled waits no longer, and the job is left out if it has not begun.
    """
    import asyncio  # which takes longer than all of chx

    return await asyncio.wrap_future(future)
