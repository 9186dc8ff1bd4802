"""Who is named where one of several daemons stops without ending, and the others wait for it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time

import pytest

from .daemons import daemons
from .processes import Process

TIMEOUT = 2

# How long the others may take beyond that: they ask around, on machines that may be busy.
MORE = 4

PREFIX = """
    d = chx.distributed
    group = d.init({rank}, {size}, address={address!r})
    def try_to(run):
        try:
            run()
            say("no error")
        except chx.ContextError as error:
            say(str(error).splitlines()[0])
        hear()
"""

# One exchange after the other.
REPEAT = """
    def exchange(rounds):
        while rounds != 0:
            {exchange}
            rounds -= 1
    exchange(1)
    say("works")
    try_to(lambda: exchange(-1))
"""

# Of 48 MB in one collective each: between them there is hardly any time.
EXCHANGES = (
    PREFIX
    + """
    large = [chx.full((2000000,), float(group.rank + 1))] * 6
    sums = {size} * ({size} + 1) / 2
"""
    + REPEAT.format(exchange="assert [float(y[-1]) for y in d.all_reduce(large)] == [sums] * 6")
)

# Of 24 MB, by any collective.
ANY = (
    PREFIX
    + """
    rank = group.rank
    x = chx.ones((3, 2000000))
"""
    + REPEAT.format(exchange="float(chx.sum({call}))")
)

# Rank 2 is of the daemon that stops. Rank 1 waits for it, and rank 0 for rank 1, for longer.
CHAIN = (
    PREFIX
    + """
    x = chx.ones(4)
    d.barrier()
    say("works")
    hear()
    if group.rank == 1:
        try_to(lambda: d.recv(x, 2).tolist())
    elif {by_message}:
        try_to(lambda: d.recv(x, 1).tolist())
    else:
        try_to(lambda: d.all_reduce(x).tolist())
"""
)


@contextlib.contextmanager
def processes_of(places, program, **values):
    """A process for each place, a daemon; they meet at the first one, and work."""
    with contextlib.ExitStack() as stack:
        processes = []
        for rank, daemon in enumerate(places):
            values.update(rank=rank, size=len(places), address=places[0].peer_address)
            process = Process(daemon.address, program.format(**values))
            processes.append(stack.enter_context(process))
        for process in processes:
            assert process.hear() == "works"
        yield processes


def all_name(processes, ranks, *silent):
    """That these ranks do not answer is what all of the processes say, and soon."""
    began = time.monotonic()
    text = f"in which {ranks} not answer, nor do"
    addresses = sorted(daemon.peer_address for daemon in silent)
    for process in processes:
        said = process.hear()
        assert text in said, said
        named = said.split(" at ")[-1].split(": form it again")[0]
        assert sorted(named.split(", ")) == addresses, said
    assert time.monotonic() - began < TIMEOUT + MORE


@pytest.mark.parametrize(
    ("places", "victim", "ranks"),
    [
        ((0, 1), 0, "rank 0 does"),
        ((0, 1), 1, "rank 1 does"),
        ((0, 1, 2), 0, "rank 0 does"),
        ((0, 1, 2), 1, "rank 1 does"),
        ((0, 1, 1, 2, 3), 0, "rank 0 does"),
        ((0, 1, 1, 2, 3), 1, "ranks 1, 2 do"),
        ((0, 1, 2, 3), 3, "rank 3 does"),
    ],
)
def test_a_daemon_that_stops_in_an_exchange_is_named_by_all_others(places, victim, ranks):
    """Also where groups meet at it, and whomever each of the others waits for."""
    with (
        daemons(max(places) + 1, f"--collective-timeout={TIMEOUT}s") as started,
        processes_of([started[place] for place in places], EXCHANGES) as processes,
    ):
        time.sleep(random.SystemRandom().random() / 2)
        started[victim].freeze()
        others = [p for p, place in zip(processes, places, strict=True) if place != victim]
        all_name(others, ranks, started[victim])


@pytest.mark.parametrize(
    "call",
    [
        "d.reduce(x, 2)",
        "d.broadcast(x, 0)",
        "d.all_gather(x)",
        "d.all_to_all(x)",
        "d.send_recv(x, (rank + 1) % 3, (rank + 2) % 3)",
    ],
)
def test_whatever_they_exchange(call):
    with (
        daemons(3, f"--collective-timeout={TIMEOUT}s") as started,
        processes_of(started, ANY, call=call) as processes,
    ):
        time.sleep(random.SystemRandom().random() / 2)
        started[1].freeze()
        all_name([processes[0], processes[2]], "rank 1 does", started[1])


def test_several_daemons_that_stop_are_named():
    with (
        daemons(4, f"--collective-timeout={TIMEOUT}s") as started,
        processes_of(started, EXCHANGES) as processes,
    ):
        started[0].freeze()
        started[2].freeze()
        all_name([processes[1], processes[3]], "ranks 0, 2 do", started[0], started[2])


@pytest.mark.parametrize("by_message", [True, False])
@pytest.mark.parametrize("of_daemons", [2, 3])
def test_who_only_waits_is_not_named(of_daemons, by_message):
    """Between ranks of two daemons, and of one."""
    with daemons(of_daemons, f"--collective-timeout={TIMEOUT}s") as started:
        places = [started[0], started[of_daemons - 2], started[-1]]
        with processes_of(places, CHAIN, by_message=by_message) as processes:
            started[-1].freeze()
            processes[0].say()
            time.sleep(TIMEOUT / 2)
            processes[1].say()
            all_name(processes[:2], "rank 2 does", started[-1])


def test_whoever_answers_is_not_named():
    """A rank that does not come is named as such, as its daemon is there."""
    with (
        daemons(2, f"--collective-timeout={TIMEOUT}s", "--lease=20s") as started,
        processes_of(started, EXCHANGES) as processes,
    ):
        os.kill(processes[1].process.pid, signal.SIGSTOP)
        said = processes[0].hear()
        assert "in which rank 1 did not come to all_reduce within 2s: form it again" in said
