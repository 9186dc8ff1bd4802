"""Process groups of several daemons, some of which stop or die."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import time

import chx
import pytest

from .daemons import daemons
from .processes import Process

TIMEOUT = 2

# A rank: makes its group, takes part, says what came of it, and makes another group.
RANK = """
    d = chx.distributed
    group = d.init({rank}, {size}, address={address!r})
    x = chx.full((4,), float(group.rank + 1))
    say(d.all_reduce(x).tolist())
    y = chx.ones(3).require_grad()
    chx.sum(d.all_reduce(y) * (group.rank + 1)).backward()
    say(y.grad.tolist())
    hear()
    try:
        say(d.all_reduce(x).tolist())
    except chx.ContextError as error:
        say(str(error).splitlines()[0])
    say(x.tolist())  # is as it was
    survivors, address = eval(hear())
    d.destroy()
    d.init(survivors.index({rank}), len(survivors), name="survivors", address=address)
    say(d.all_reduce(x).tolist())
    hear()
"""


@contextlib.contextmanager
def ranks(places, address):
    """One process for each place, a daemon."""
    with contextlib.ExitStack() as stack:
        programs = [
            RANK.format(rank=rank, size=len(places), address=address) for rank in range(len(places))
        ]
        yield [
            stack.enter_context(Process(daemon.address, program))
            for daemon, program in zip(places, programs, strict=True)
        ]


def all_say(processes, expected):
    for process in processes:
        assert process.hear() == expected


def fail(survivors, *texts):
    """They all learn why, and keep what they have."""
    began = time.monotonic()
    for process in survivors:
        process.say()
    for process in survivors:
        said = process.hear()
        assert any(text in said for text in texts), said
        assert "form it again" in said
        assert process.hear().startswith("[")
    assert time.monotonic() - began < TIMEOUT + 2


def go_on(survivors, numbers, address):
    for process in survivors:
        process.say((numbers, address))
    all_say(survivors, str([float(sum(number + 1 for number in numbers))] * 4))


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_a_daemon_that_stops_is_named_and_left_behind(signum):
    with daemons(3, f"--collective-timeout={TIMEOUT}s") as (first, second, third):
        places = (first, second, second, third)
        with ranks(places, first.peer_address) as processes:
            all_say(processes, "[10.0, 10.0, 10.0, 10.0]")
            all_say(processes, "[10.0, 10.0, 10.0]")
            os.kill(second.process.pid, signum)
            survivors = [processes[0], processes[3]]
            gone = f"ranks 1, 2 have gone with the daemon at {second.peer_address}"
            silent = f"ranks 1, 2 do not answer, nor does the daemon at {second.peer_address}"
            fail(survivors, gone if signum == signal.SIGKILL else silent)
            go_on(survivors, [0, 3], first.peer_address)


# Takes part until that fails, in small and large exchanges.
WORKING = """
    d = chx.distributed
    group = d.init({rank}, {size}, address={address!r})
    small, large = chx.ones(4), chx.ones(300000)
    say("works")
    try:
        while True:
            for x in (small, large):
                assert float(d.all_reduce(x)[-1]) == {size}
                assert d.all_gather(x)[-1, -1].item() == 1
    except chx.ContextError as error:
        say(str(error).splitlines()[0])
    say(float(large.sum()), "are as they were")
    hear()
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("whole_daemon", [False, True])
def test_at_any_moment_the_others_learn_which_rank_it_was(signum, whole_daemon):
    with daemons(3, f"--collective-timeout={TIMEOUT}s", "--lease=1s") as places:
        for _ in range(1 if whole_daemon else 3):
            with contextlib.ExitStack() as stack:
                processes = []
                for rank, daemon in enumerate(places):
                    program = WORKING.format(rank=rank, size=3, address=places[0].peer_address)
                    processes.append(stack.enter_context(Process(daemon.address, program)))
                all_say(processes, "works")
                time.sleep(random.SystemRandom().random() / 5)
                os.kill((places if whole_daemon else processes)[1].process.pid, signum)
                for process in (processes[0], processes[2]):
                    said = process.hear()
                    assert "in which rank 1 " in said, said
                    assert "form it again" in said
                    assert process.hear() == "300000.0 are as they were"


def test_the_daemon_where_they_met_may_die():
    with (
        daemons(3, f"--collective-timeout={TIMEOUT}s") as (first, second, third),
        ranks((first, second, third), first.peer_address) as processes,
    ):
        all_say(processes, "[6.0, 6.0, 6.0, 6.0]")
        all_say(processes, "[6.0, 6.0, 6.0]")
        first.kill()
        fail(processes[1:], f"the daemon at {first.peer_address}, where it met, has gone")
        go_on(processes[1:], [1, 2], second.peer_address)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_stops_is_named(signum):
    with (
        daemons(2, f"--collective-timeout={TIMEOUT}s", "--lease=1s") as (first, second),
        ranks((first, second, second), first.peer_address) as processes,
    ):
        all_say(processes, "[6.0, 6.0, 6.0, 6.0]")
        all_say(processes, "[6.0, 6.0, 6.0]")
        os.kill(processes[1].process.pid, signum)
        survivors = [processes[0], processes[2]]
        # Of two ranks of a daemon others learn by its word which one it is, or by their wait that
        # none has come.
        fail(survivors, "rank 1 has left", "rank 1 did not come", "ranks 1, 2 did not come")
        go_on(survivors, [0, 2], first.peer_address)


# As torchrun's workers see it: a store of PyTorch's listens at MASTER_PORT.
BY_TORCHRUN = """
    import os
    os.environ.update({environment})
    group = chx.distributed.init()
    say(group.rank, group.size, chx.distributed.all_reduce(chx.ones(2)).tolist())
    hear()
"""


@pytest.mark.parametrize("of_daemons", [1, 2])
def test_the_address_of_torchrun_is_not_where_daemons_meet(of_daemons):
    """Where the daemons listen on the same host, CHX_GROUP_ADDRESS=$MASTER_ADDR:PORT says it."""
    with (
        socket.create_server(("127.0.0.1", 0)) as store,
        daemons(2) as (first, second),
        contextlib.ExitStack() as stack,
    ):
        store.settimeout(0)
        host, port = store.getsockname()
        said_by_torchrun = {"MASTER_ADDR": host, "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
        if of_daemons == 2:
            _, peer_port = first.peer_address.split(":")
            said_by_torchrun["CHX_GROUP_ADDRESS"] = f"{host}:{peer_port}"
        processes = []
        for rank, daemon in enumerate((first, second) if of_daemons == 2 else (first, first)):
            environment = {**said_by_torchrun, "RANK": str(rank)}
            program = BY_TORCHRUN.replace("{environment}", repr(environment))
            processes.append(stack.enter_context(Process(daemon.address, program)))
        for rank, process in enumerate(processes):
            assert process.hear() == f"{rank} 2 [2.0, 2.0]"
        with pytest.raises(BlockingIOError):  # nobody has connected
            store.accept()


def test_daemons_that_do_not_belong_together():
    with daemons(1) as (first,), daemons(1, secret="t" * 32) as (other,):
        session = chx.connect(other.address)
        with pytest.raises(ConnectionError, match="has another secret"):
            chx.distributed.join("g", 0, 1, address=first.peer_address, session=session)
        with pytest.raises(ValueError, match="--peers"):
            chx.distributed.join("g", 0, 1, address="metadata.internal:80", session=session)


def test_strangers_are_of_no_consequence():
    with daemons(2) as (first, second):
        host, port = first.peer_address.split(":")
        strangers = [socket.create_connection((host, int(port))) for _ in range(30)]
        for number, stranger in enumerate(strangers):
            stranger.sendall([b"", b"GET / HTTP/1.1\r\n\r\n" * 9, os.urandom(200)][number % 3])
        with ranks((first, second), first.peer_address) as processes:
            all_say(processes, "[3.0, 3.0, 3.0, 3.0]")
            all_say(processes, "[3.0, 3.0, 3.0]")
        for stranger in strangers:
            stranger.close()
        assert first.alive()
