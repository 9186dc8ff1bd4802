"""Process groups of processes, some of which stop or die."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest

from .daemon import Daemon
from .processes import Process

TIMEOUT = 2

# A rank: makes its group, takes part, and says what came of it.
RANK = """
    import os
    os.environ.update({environment})
    d = chx.distributed
    say("here")
    hear()
    group = d.init()
    x = chx.full((4,), float(group.rank + 1))
    say(d.all_reduce(x).tolist())
    hear()
    try:
        say(d.all_reduce(x).tolist())
    except chx.ContextError as error:
        say(str(error).splitlines()[0])
    hear()
    say(x.tolist())  # is as it was
    d.destroy()
    survivors = eval(hear())
    d.init(survivors.index(group.rank), len(survivors), name="survivors")
    say(d.all_reduce(x).tolist())
    hear()
"""


@pytest.fixture(scope="module")
def daemon():
    with Daemon("--lease=1s", f"--collective-timeout={TIMEOUT}s") as daemon:
        yield daemon


@contextlib.contextmanager
def ranks(daemon, *environments):
    with contextlib.ExitStack() as stack:
        yield started(stack, daemon, [RANK.replace("{environment}", repr(e)) for e in environments])


def started(stack, daemon, programs):
    """Processes that go on at the same time, as soon as all of them are there."""
    processes = [stack.enter_context(Process(daemon.address, program)) for program in programs]
    all_say(processes, "here")
    for process in processes:
        process.say()
    return processes


def all_say(processes, expected):
    for process in processes:
        assert process.hear() == expected


def go_on(survivors, numbers):
    for process in survivors:
        process.say()
        assert process.hear().startswith("[")
        process.say(numbers)
    total = float(sum(number + 1 for number in numbers))
    all_say(survivors, str([total] * 4))


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_stops_is_named_and_left_behind(daemon, signum):
    # As different launchers say it.
    name = {"CHX_GROUP_NAME": f"train/{signum}", "CHX_GROUP_SECRET": "s"}
    environments = (
        name | {"RANK": "0", "WORLD_SIZE": "3"},
        name | {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"},
        name | {"JOB_COMPLETION_INDEX": "2", "WORLD_SIZE": "3"},
    )
    with ranks(daemon, *environments) as processes:
        all_say(processes, "[6.0, 6.0, 6.0, 6.0]")
        os.kill(processes[1].process.pid, signum)
        survivors = [processes[0], processes[2]]
        for process in survivors:
            process.say()
        began = time.monotonic()
        for process in survivors:
            said = process.hear()
            assert "rank 1 " in said, said
            assert "has left" in said or "did not come to all_reduce within 2s" in said, said
        assert time.monotonic() - began < TIMEOUT + 2
        go_on(survivors, [0, 2])


def test_a_group_that_does_not_form(daemon):
    program = """
        say("here")
        hear()
        try:
            chx.distributed.init({rank}, {size}, name="never")
        except (ValueError, TimeoutError) as error:
            say(type(error).__name__, error)
    """

    def said(*pairs):
        with contextlib.ExitStack() as stack:
            programs = [program.format(rank=rank, size=size) for rank, size in pairs]
            processes = started(stack, daemon, programs)
            return [process.hear() for process in processes]

    for text in said((0, 2), (0, 2)):
        assert "got two for rank 0" in text
    for text in said((0, 2), (1, 3)):
        assert "expects one size from all ranks" in text
    (text,) = said((1, 3))
    assert text.startswith("TimeoutError"), text
    assert "ranks 0, 2 did not come to process group 'never' of 3 within 2s" in text


# A rank whose second labels are out of range in the second of three times, after the collective.
REPEATED = """
    say("here")
    hear()
    d = chx.distributed
    d.init({rank}, 2, name="repeated")
    x = chx.zeros((2, 4), "float32")

    @chx.jit
    def step(x, labels):
        total = d.all_reduce(chx.sum(x) + 1)
        loss = chx.sum(chx.softmax_cross_entropy(x, labels))
        labels += 1
        return total, loss

    total, _ = step(x, chx.array([0, 0]))
    say(total.item())
    try:
        total, loss = step.repeat(3, x, chx.array([{first}, {first}]))
        say(total.item(), loss.item())
    except (chx.ContextError, IndexError) as error:
        say(type(error).__name__, str(error).splitlines()[0])
"""


def test_a_repeated_program_that_fails_between_collectives(daemon):
    with contextlib.ExitStack() as stack:
        programs = [REPEATED.format(rank=rank, first=first) for rank, first in ((0, 0), (1, 3))]
        good, bad = started(stack, daemon, programs)
        all_say([good, bad], "2.0")
        assert bad.hear().startswith("IndexError [softmax_cross_entropy]")
        text = good.hear()
        assert "rank 1 has not run a program to its end" in text, text
