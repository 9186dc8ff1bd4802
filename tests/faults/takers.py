"""Clients that take one named session up from each other: `python -m tests.faults.takers`.

The session has a counter of turns and a value. Who takes it up increments the first, then adds to
the second until somebody else takes over, and notes a history.Turn.
"""

import argparse
import faulthandler
import random
import signal
import sys
import time

from .history import Turn, Writer

NAME = "faults/takers"


class Taker:
    def __init__(self, options):
        self.options = options
        self.history = Writer(options.history)
        self.draw = random.Random(options.seed)

    def run(self):
        import chx  # only here: the harness has the name from this file

        end = time.monotonic() + self.options.seconds
        while time.monotonic() < end:
            try:
                session = chx.connect(
                    self.options.address,
                    token=self.options.token,
                    tls_roots=self.options.tls_roots,
                    client_name=f"taker {self.options.seed}",
                    session=NAME,
                )
            except (ConnectionError, chx.ChainerxError):
                time.sleep(0.05)
                continue
            self._turn(session, min(end, time.monotonic() + self.draw.uniform(0.1, 1)))
            time.sleep(self.draw.uniform(0, 0.3))

    def _turn(self, session, end):
        import chx

        number = found = told = called = told_at = None
        began = time.time()
        try:
            if "state" not in session.saved():
                session.save(
                    "state", {"turn": chx.zeros((), "int64"), "value": chx.zeros((), "int64")}
                )
            state = session.load("state")
            found = told = called = int(state["value"])
            found_at = told_at = time.time()
            turn = int(state["turn"]) + 1
            state["turn"] += 1
            if int(state["turn"]) == turn:
                number = turn
            while time.monotonic() < end:
                for _ in range(self.draw.randrange(1, 40)):
                    called += 1
                    state["value"] += 1
                told = int(state["value"])
                told_at = time.time()
                if told != called:
                    raise AssertionError(f"the value is {told} after {called}")
            if self.draw.random() < 0.5:
                session.close()
        except ConnectionError as error:
            text = str(error)
            if "taken over" not in text and "reach" not in text and "lost the session" not in text:
                raise
        if number is not None:
            self.history.add("turn", Turn(number, found, told, called, began, found_at, told_at))


def main():
    faulthandler.register(signal.SIGUSR1)
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--history", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--token", default="")
    parser.add_argument("--tls-roots")
    Taker(parser.parse_args()).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
