"""Ranks, and the daemons of their sessions, for benchmarks of process groups."""

import os
import socket
import subprocess


class Side:
    """The ranks of one kind: processes that answer each line by the seconds that it took."""

    def __init__(self, command, size, env, servers=(), pin=False):
        """`command` of a rank's number and `size`; `pin`: each rank has a core of its own."""
        self.ranks = []
        for rank in range(size):
            own = {"CHX_SERVER": servers[rank % len(servers)]} if servers else {}
            self.ranks.append(
                subprocess.Popen(
                    command(str(rank), str(size)),
                    env={**os.environ, **env, **own},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    preexec_fn=_pinned(rank, pin),
                )
            )
        for rank in self.ranks:
            assert rank.stdout.readline() == "ready\n"

    def ask(self, line):
        """What the slowest rank took."""
        for rank in self.ranks:
            rank.stdin.write(f"{line}\n")
            rank.stdin.flush()
        return max(float(rank.stdout.readline()) for rank in self.ranks)

    def close(self):
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait(30)


def _pinned(core, pin):
    return (lambda: os.sched_setaffinity(0, {core})) if pin else None


def start_daemons(count, chxd, directory, stack, flags=(), pin=False):
    """Their addresses, and where groups of several meet. `pin`: each has a core of its own."""
    (directory / "secret").write_text("s" * 32)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        meet_at = "127.0.0.1:%d" % probe.getsockname()[1]
    addresses = []
    for number in range(count):
        daemon = stack.enter_context(
            subprocess.Popen(
                [
                    chxd,
                    f"--listen=unix:{directory}/{number}.sock",
                    f"--peer-listen={'127.0.0.1:0' if number else meet_at}",
                    "--peers=127.0.0.1:*",
                    f"--peer-secret-file={directory}/secret",
                    "--log-level=warning",
                    *flags,
                ],
                stdout=subprocess.PIPE,
                text=True,
                preexec_fn=_pinned(number, pin),
            )
        )
        stack.callback(daemon.terminate)
        addresses.append(daemon.stdout.readline().split()[2])
    return addresses, meet_at
