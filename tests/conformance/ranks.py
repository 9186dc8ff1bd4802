"""Groups of several ranks in one process: each is a thread, with a session of its own."""

from concurrent.futures import ThreadPoolExecutor

import chx


class World:
    """`size` ranks of one group with a daemon that chx.connect() has connected to."""

    def __init__(self, size):
        self.size = size
        self.threads = [ThreadPoolExecutor(1) for _ in range(size)]
        self.contexts = self.run(lambda rank: self._join(rank))

    def _join(self, rank):
        context = chx.Context()
        chx.set_default_context(context)
        chx.distributed.init(rank, self.size, name=f"world of {self.size}")
        return context

    def run(self, function):
        """[function(rank) for each rank], at the same time."""
        futures = [thread.submit(function, rank) for rank, thread in enumerate(self.threads)]
        return [future.result(timeout=60) for future in futures]

    def close(self):
        self.run(lambda rank: chx.distributed.destroy())
        for thread in self.threads:
            thread.shutdown()


def reduced(xs, op):
    """What NumPy makes of the ranks' arrays, one after the other in their dtype."""
    import numpy as np

    if op == "mean" and xs[0].dtype.kind in "iu":
        xs = [x.astype("float32") for x in xs]
    function = {"max": np.maximum, "min": np.minimum, "prod": np.multiply}.get(op, np.add)
    result = xs[0]
    for x in xs[1:]:
        result = function(result, x, dtype=result.dtype)
    if op == "mean":
        result = np.divide(result, np.asarray(len(xs), result.dtype), dtype=result.dtype)
    return np.asarray(result)
