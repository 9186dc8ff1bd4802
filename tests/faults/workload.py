"""A client of the fault harness: `python -m tests.faults.workload` with options, one process each.

Calls what its seed says until its time is over, and writes the history. Its exit status is 0 if
the time is over, whatever became of its sessions: the history tells.
"""

import argparse
import contextlib
import faulthandler
import random
import signal
import sys
import time

from . import operations
from .history import Writer


class Client:
    def __init__(self, options):
        self.options = options
        self.history = Writer(options.history)
        self.draw = random.Random(options.seed)
        self.end = 0.0
        self.session = None
        self.chx = operations.Chx()
        self.longest = 0.0
        self.heard = 0.0  # when the daemon answered last

    def run(self):
        # From here on: what was imported may have taken long.
        self.end = time.monotonic() + self.options.seconds
        while time.monotonic() < self.end:
            try:
                if not self._open():
                    continue
                while time.monotonic() < self.end:
                    self._step()
                for slot in operations.SLOTS:
                    self._ask("read", slot)
                self._close()
            except ConnectionError as error:
                self._lost(error)
        self.history.add("waited", self.longest)

    def _open(self):
        start = time.monotonic()
        try:
            self.session = self.chx.xp.connect(
                self.options.address,
                token=self.options.token,
                tls_roots=self.options.tls_roots,
                client_name=f"faults {self.options.seed}",
            )
        except (ConnectionError, self.chx.xp.ChainerxError) as error:
            self.history.add("refused", str(error), time.monotonic() - start)
            time.sleep(0.1)
            return False
        self._waited(start)
        self.history.add("open")
        for slot in operations.SLOTS:
            self._call(("new", slot, None))
        return True

    def _close(self):
        start = time.monotonic()
        try:
            self.session.close()
        except ConnectionError as error:
            # The lease frees it. Every answer was there.
            self.history.add("not closed", str(error))
        self.history.add("closed")
        self._waited(start)

    def _lost(self, error):
        """A session that is lost stays so, and says so, at once."""
        start = time.monotonic()
        self.history.add("lost", str(error), start - self.heard)
        for slot in ("i0", "bulk"):
            try:
                self.chx.read(slot)
                self.history.add("wrong", f"a read of {slot} after: {error}")
            except (ConnectionError, KeyError):
                pass
        with contextlib.suppress(ConnectionError):
            self.session.close()
        if time.monotonic() - start > 20:
            self.history.add("wrong", f"{time.monotonic() - start} s to close after: {error}")

    def _waited(self, start):
        self.heard = time.monotonic()
        self.longest = max(self.longest, self.heard - start)

    def _call(self, operation):
        self.history.add("call", operation)
        start = time.monotonic()
        try:
            self.chx.apply(operation)
        except (ConnectionError, self.chx.xp.CancelledError) as error:
            if not self.session_is_usable():
                # An upload under way is cancelled when its session ends.
                raise ConnectionError(str(error)) from error
            # An upload that was cut while its session goes on.
            self.history.add("raised", type(error).__name__, str(error))
        self.longest = max(self.longest, time.monotonic() - start)

    def _ask(self, what, slot):
        self.history.add("ask", what, slot)
        start = time.monotonic()
        try:
            answer = getattr(self.chx, what)(slot)
        except ConnectionError as error:
            if not self.session_is_usable():
                raise
            self.history.add("raised read", type(error).__name__, str(error))
            return
        self.history.add("answer", answer)
        self._waited(start)

    def session_is_usable(self):
        try:
            self.session.synchronize()
        except ConnectionError:
            return False
        return True

    def _step(self):
        draw = self.draw
        for _ in range(draw.randrange(1, 30)):
            self._call(operations.draw_operation(draw))
        kind = draw.random()
        if kind < 0.35:
            self._ask("read", draw.choice(tuple(operations.SLOTS)))
        elif kind < 0.6:
            self._ask("total", draw.choice(operations.INTEGERS))
        elif kind < 0.7:
            self._ask("read_shared", draw.choice(tuple(operations.SLOTS)))
        elif kind < 0.78:
            if not self.options.private_memory:
                self._write_shared()
        elif kind < 0.84:
            start = time.monotonic()
            text = self.chx.fail()
            self._waited(start)
            if "softmax_cross_entropy" not in text:
                self.history.add("wrong", f"an operator that fails gave {text!r}")
        elif kind < 0.9:
            start = time.monotonic()
            self.session.synchronize()
            self._waited(start)
        elif kind < 0.91:
            self._cancel()
        elif kind < 0.94:
            time.sleep(draw.uniform(0, 0.3))
        if self.options.idle:
            time.sleep(draw.uniform(0, 2 * self.options.idle))

    def _cancel(self):
        """What is queued may have run or not; then all begins anew, and nothing of it may come back."""
        chx = self.chx.xp
        for _ in range(self.draw.randrange(1, 20)):
            self._call(operations.draw_operation(self.draw))
        start = time.monotonic()
        self.session.cancel()
        with contextlib.suppress(chx.CancelledError):
            self.session.synchronize()
        self._waited(start)
        self.session.take_errors()
        self.history.add("cancel")
        for slot in operations.SLOTS:
            self._call(("new", slot, None))

    def _write_shared(self):
        slot = self.draw.choice(("i0", "f1", "bulk"))
        number = self.draw.randrange(1, 9)
        start = time.monotonic()
        if self.chx.write_shared(slot, number):
            # What memory shows needs no order: the write is done when the call returns.
            self.history.add("call", ("write_shared", slot, number))
        self._waited(start)


def main():
    faulthandler.register(signal.SIGUSR1)  # where a client hangs
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--history", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--token", default="")
    parser.add_argument("--tls-roots")
    parser.add_argument("--idle", type=float, default=0, help="mean seconds between steps")
    parser.add_argument(
        "--private-memory", action="store_true", help="writes into no shared memory"
    )
    client = Client(parser.parse_args())
    client.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
