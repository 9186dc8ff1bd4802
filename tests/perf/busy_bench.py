"""How long others wait for a daemon in which many sessions compute for ever: the list of sessions, a
new session, and a small step of an interactive one. `tools/bench.sh busy [SESSIONS]`; writes
nothing."""

import argparse
import os
import subprocess
import tempfile
import time

import chx
import numpy as np

from tests.integration import raw_frames

LIST_SESSIONS = raw_frames.frame(raw_frames.CALL, raw_frames.text(7, b""))


class Lister:
    """Lists the sessions over a connection that is there already."""

    def __init__(self, address):
        self._connection = raw_frames.connect(address, timeout=60)
        self._connection.sendall(raw_frames.hello())

    def __call__(self):
        self._connection.sendall(LIST_SESSIONS)
        _, reply = raw_frames.receive(self._connection)
        assert raw_frames.status(reply) == (0, b"")


def milliseconds(call, times):
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        taken.append(1e3 * (time.perf_counter() - start))
        time.sleep(0.01)
    return taken


def report(what, address, interactive):
    def open_and_close():
        with chx.connect(address):
            pass

    x = chx.ones((16, 16), device=interactive.devices[0])

    def step():
        float((x @ x).sum())

    calls = {"list": Lister(address), "open": open_and_close, "step": step}
    for name, call in calls.items():
        taken = milliseconds(call, 50)
        median, p90 = np.percentile(taken, [50, 90])
        print(
            f"{what}: {name} median {median:.2f} ms, p90 {p90:.2f}, max {max(taken):.2f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sessions", nargs="?", type=int, default=1000)
    parser.add_argument("--chxd", required=True)
    args = parser.parse_args()
    limit = str(args.sessions + 100)
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/s"
        flags = [
            f"--listen={address}",
            f"--max-sessions={limit}",
            f"--max-sessions-per-peer={limit}",
        ]
        daemon = subprocess.Popen([args.chxd, *flags], stdout=subprocess.PIPE)
        try:
            daemon.stdout.readline()
            interactive = chx.connect(address)
            report("alone", address, interactive)
            sessions = [chx.connect(address) for _ in range(args.sessions)]
            report(f"beside {args.sessions} idle sessions", address, interactive)
            for session in sessions:
                one = chx.ones((), "uint8", device=session.devices[0])
                chx.broadcast_to(one, (1 << 44,)).sum()
                session.flush()
            time.sleep(3)
            report(f"beside {args.sessions} busy sessions", address, interactive)
        finally:
            daemon.kill()
    os._exit(0)  # the sessions are gone with their daemon


if __name__ == "__main__":
    main()
