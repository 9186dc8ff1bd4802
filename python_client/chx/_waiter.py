"""A thread that waits for values, so that event loops need not.

One for all reads of a session: the daemon answers them in order, too.
"""

import concurrent.futures
import queue
import threading


class Waiter:
    """Ends when it is closed, after what it was given before."""

    def __init__(self):
        self._jobs = queue.SimpleQueue()
        # A daemon: a read that waits for ever must not keep the process from its end.
        self._thread = threading.Thread(
            target=_work, args=(self._jobs,), name="chx reads", daemon=True
        )
        self._thread.start()

    def submit(self, job):
        """A concurrent.futures.Future of what the job returns or raises."""
        future = concurrent.futures.Future()
        self._jobs.put((job, future))
        return future

    def close(self):
        """After its session was closed, for which nothing waits for long."""
        self._jobs.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(10)


def _work(jobs):
    while (entry := jobs.get()) is not None:
        job, future = entry
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)
        entry = job = future = None  # arrays go with those who wait for them


async def result(future):
    """What is awaited: in the loop of the task that does, whatever thread has submitted the job.

    A task that is cancelled waits no longer, and the job is left out if it has not begun.
    """
    import asyncio  # which takes longer than all of chx

    return await asyncio.wrap_future(future)
