"""One limit for the whole daemon: what it really holds stays below, whatever clients do."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import time

import chx
import numpy as np
import pytest

from .daemon import Daemon, wait_until

MIB = 1 << 20
# What the process may hold beside what it has charged.
SLACK = 32 * MIB


def run_client(code, address):
    """A process of its own, with pipes to its standard input and from its standard output."""
    code = f"import chx, sys, time\nADDRESS = {address!r}\n" + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@contextlib.contextmanager
def innocent(daemon):
    """A client beside others that loses nothing, and goes on working meanwhile."""
    with chx.connect(daemon.address):
        x = chx.array(np.arange(1 << 16, dtype="float64")).require_grad()
        y = x * 3
        yield
        (y * y).backward()
        want = np.arange(1 << 16, dtype="float64") * 18
        assert (chx.to_numpy(x.grad) == want).all()


def test_sessions_within_their_quotas_share_the_daemons_limit():
    """Three clients of 192 MiB each, all within their quota, in a daemon of 448 MiB."""
    code = """
        with chx.connect(ADDRESS):
            held = []
            try:
                for i in range(24):
                    held.append(chx.full((1 << 20,), i, "float64"))  # 8 MiB
                    held[-1][0].item()
                print("all", flush=True)
            except chx.OutOfMemoryError as error:
                assert "daemon" in str(error) and "limit" in str(error), error
                print("refused", flush=True)
                del held[-1]
            sys.stdin.readline()  # when all have what they can get
            for i, array in enumerate(held):
                assert array[-1].item() == i
            print("kept", len(held), flush=True)
    """
    with Daemon("--memory=448MiB", "--session-memory=256MiB") as daemon, innocent(daemon):
        clients = [run_client(code, daemon.address) for _ in range(3)]
        outputs = [client.stdout.readline().split() for client in clients]
        most = daemon.resident_bytes()
        for client, output in zip(clients, outputs, strict=True):
            output += client.communicate("\n")[0].split()
        assert all(client.returncode == 0 for client in clients)
        assert daemon.alive()
        assert "refused" in sum(outputs, [])
        # What is held by all is near the limit: nobody is refused too early.
        assert sum(int(output[-1]) for output in outputs) * 8 >= 448 - 128
        assert most <= 448 * MIB + SLACK


ADVERSARIES = {
    "graph": """
        x = chx.ones((1,)).require_grad()
        y = x
        while True:
            for _ in range(2000):
                y = y + 1
            y.item()
    """,
    "handles": """
        x, held = chx.ones((1,)), []
        while True:
            held += [x.reshape((1, 1)) for _ in range(2000)]
            held[-1].item()
    """,
    "errors": """
        x, held = chx.ones((4,)), []
        while True:
            held += [chx.softmax_cross_entropy(x.reshape((1, 4)), chx.array([9])) for _ in range(500)]
            chx.ones((1,)).item()
    """,
    "scalars": """
        held = []
        while True:
            held += [chx.full((), 1.5) for _ in range(2000)]
            held[-1].item()
    """,
}


@pytest.mark.parametrize("name", ADVERSARIES)
def test_records_count(name):
    """Handles, graphs and errors of a session of 48 MiB take no more, and nobody else notices."""
    code = f"""
with chx.connect(ADDRESS):
    try:
{textwrap.indent(textwrap.dedent(ADVERSARIES[name]), "        ")}
    except chx.OutOfMemoryError:
        print("refused", flush=True)
        time.sleep(60)
"""
    with Daemon("--memory=1GiB", "--session-memory=48MiB") as daemon, innocent(daemon):
        rest = daemon.resident_bytes()
        client = run_client(code, daemon.address)
        assert client.stdout.readline() == "refused\n"
        assert daemon.resident_bytes() - rest <= 48 * MIB + SLACK
        client.kill()
        client.wait()


def test_a_session_opens_only_where_there_is_room_for_it():
    with Daemon("--memory=256MiB", "--session-memory=256MiB") as daemon:
        with chx.connect(daemon.address):
            held = []
            with pytest.raises(chx.OutOfMemoryError):
                while True:
                    held.append(chx.full((1 << 15,), 1.0, "float32"))  # 128 KiB
                    held[-1][0].item()
            # And what is too little for an array goes into handles. More than once: what the process
            # holds counts, too, and the allocator gives some of that back meanwhile.
            views = []

            def fill():
                with pytest.raises(chx.OutOfMemoryError):
                    while True:
                        views.append(held[0].reshape((1 << 15, 1)))
                        if len(views) % 100 == 0:
                            views[-1][0].item()
                return run_client("chx.connect(ADDRESS)", daemon.address)

            assert any(fill().wait() != 0 for _ in range(20))
            # Whatever is given back can be had again, also by others.
            views.clear()
            assert held[0][0].item() == 1
            held.clear()
            chx.ones(()).item()
        assert wait_until(
            lambda: run_client("chx.connect(ADDRESS)", daemon.address).wait() == 0, 10
        )


def test_memory_of_killed_clients_goes_back_to_the_system():
    """50 sessions, of 5 processes, that hold arrays and graphs; the processes are killed."""
    code = """
        sessions, held = [], []
        for _ in range(10):
            sessions.append(chx.connect(ADDRESS))
            x = chx.ones((1 << 17,)).require_grad()  # half a MiB
            y = x
            for _ in range(1000):
                y = y.reshape((1 << 17,))
            y[0].item()
            held.append(y)
        print("ready", flush=True)
        time.sleep(60)
    """
    with Daemon("--memory=2GiB", "--lease=1s") as daemon, innocent(daemon):
        # What one client needs for the first time, code above all, stays.
        first = run_client(code, daemon.address)
        assert first.stdout.readline() == "ready\n"
        first.kill()
        first.wait()
        time.sleep(5)
        rest = daemon.resident_bytes()
        clients = [run_client(code, daemon.address) for _ in range(5)]
        for client in clients:
            assert client.stdout.readline() == "ready\n"
        full = daemon.resident_bytes()
        assert full - rest > 100 * MIB
        for client in clients:
            os.kill(client.pid, signal.SIGKILL)
            client.wait()
        back = wait_until(lambda: daemon.resident_bytes() <= 1.1 * rest, 20)
        print(f"at rest {rest / MIB:.1f}, with 50 clients {full / MIB:.1f}")
        print(f"afterwards {daemon.resident_bytes() / MIB:.1f} MiB")
        assert back


def test_a_function_on_more_than_the_quota_is_not_recorded():
    """The error has the figures; nothing is kept, and smaller ones are recorded."""
    with Daemon("--session-memory=64MiB") as daemon, chx.connect(daemon.address):
        x = chx.ones((1 << 20,), "float32")  # 4 MiB

        @chx.jit
        def sums(x, count):
            return sum([x * i for i in range(count)], x)

        for _ in range(2):
            with pytest.raises(chx.OutOfMemoryError) as raised:
                sums(x, 30)
            assert re.search(
                r"\[jit\] cannot record a function that fails: multiply: out of memory: [0-9.]+ MiB "
                r"more are needed, and the session holds [0-9.]+ MiB of its limit of 64 MiB",
                str(raised.value),
            )
            assert sums.cache_info().currsize == 0
        for _ in range(3):
            assert chx.to_numpy(sums(x, 8))[-1] == 29
        assert sums.cache_info().currsize == 1 and sums.cache_info().unplanned == ()
