"""Training that goes on from its last snapshot, by the ranks that are left when one has died."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal

import numpy as np
import pytest

from .daemons import daemons
from .processes import Process

STEPS = 7  # from the snapshot on

# Each rank computes with its share of the same rows. Rank 0 writes what the next step depends on.
TRAINING = """
    import os
    d = chx.distributed

    rng = np.random.RandomState(5)
    rows = rng.normal(size=(24, 6)).astype("f")
    targets = np.sin(rows.sum(1, keepdims=True))
    start = {
        name: rng.normal(size=shape).astype("f") / 2
        for name, shape in {"w": (6, 5), "b": (5,), "v": (5, 1)}.items()
    }

    def begin(values):
        # New arrays: what was updated by a collective that failed has its error.
        global params, optimizer
        params = {name: chx.array(values[name]).require_grad() for name in start}
        optimizer = chx.optimizers.Adam(alpha=0.05).setup(params)
        states = {k[3:]: v for k, v in values.items() if k.startswith("of ")}
        if states:
            optimizer.load_state_dict(states)

    def state():
        states = {"of " + key: value for key, value in optimizer.state_dict().items()}
        return {**{name: p.as_grad_stopped() for name, p in params.items()}, **states}

    def write(path):
        chx.savez(path + ".new.npz", **state())
        os.replace(path + ".new.npz", path)

    def train(group, steps):
        reducer = d.GradientReducer(list(params.values()), group=group)
        for step in steps:
            mine = np.random.RandomState(step).permutation(24)[: 12][group.rank :: group.size]
            x, t = chx.array(rows[mine]), chx.array(targets[mine])
            optimizer.cleargrads()
            y = chx.tanh(x @ params["w"] + params["b"]) @ params["v"]
            loss = chx.mean(chx.square(y - t))
            reducer.backward(loss)
            optimizer.update()
            float(loss)  # waits for what was called before, too: all have come
            yield step + 1
"""

# One of three, until another one dies; then one of those that are left.
RANK = (
    TRAINING
    + """
    group = d.init({rank}, 3, name="three", address={address!r})
    begin(start)
    try:
        for step in train(group, range(10**6)):
            if group.rank == 0 and step % 3 == 0:
                write(f"{folder}/at-{{step}}.npz")
            say(step)
    except chx.ContextError as error:
        say("failed:", str(error).splitlines()[0])
    d.destroy()

    survivors = eval(hear())
    group = d.init(survivors.index({rank}), 2, name="survivors", address={address!r})
    last = 0
    if group.rank == 0:
        names = [name for name in os.listdir({folder!r}) if not name.endswith(".new.npz")]
        last = max(int(name[3:-4]) for name in names)
    last = int(d.broadcast(chx.array(last)))
    begin(dict(np.load(f"{folder}/at-{{last}}.npz")))
    for _ in train(group, range(last, last + {steps})):
        pass
    write(f"{folder}/survivors-{{group.rank}}.npz")
    say("resumed from", last)
    hear()
"""
)

# One of two that begin with the snapshot.
REFERENCE = (
    TRAINING
    + """
    group = d.init({rank}, 2, name="reference", address={address!r})
    begin(dict(np.load(f"{folder}/at-{last}.npz")))
    for _ in train(group, range({last}, {last} + {steps})):
        pass
    write(f"{folder}/reference-{{group.rank}}.npz")
    say("done")
    hear()
"""
)


def program(text, **values):
    training, own = text[: len(TRAINING)], text[len(TRAINING) :]
    return training + own.format(steps=STEPS, **values)


def hear_steps(process, until=None):
    """Until that step is done, or something else is said: the last step, and what else."""
    step = 0
    while step != until:
        said = process.hear()
        if not said.isdigit():
            return step, said
        step = int(said)
    return step, None


@pytest.mark.parametrize("victim", range(3))
@pytest.mark.parametrize("of_daemons", [1, 2])
def test_survivors_resume_from_the_last_snapshot(tmp_path, of_daemons, victim):
    until = random.SystemRandom().randrange(4, 30)
    print("killed after step", until)
    flags = ("--lease=1s", "--collective-timeout=20s")
    with daemons(of_daemons, *flags) as places, contextlib.ExitStack() as stack:
        address = places[0].peer_address if of_daemons > 1 else ""

        def start(text, rank, **values):
            place = places[min(rank, of_daemons - 1)].address
            text = program(text, rank=rank, folder=str(tmp_path), address=address, **values)
            return stack.enter_context(Process(place, text))

        processes = [start(RANK, rank) for rank in range(3)]
        assert hear_steps(processes[victim], until) == (until, None)
        os.kill(processes[victim].process.pid, signal.SIGKILL)
        left = [rank for rank in range(3) if rank != victim]
        done = []
        for rank in left:
            step, said = hear_steps(processes[rank])
            done.append(step)
            assert said.startswith("failed:")
            assert re.search(rf"ranks? [\d, ]*\b{victim}\b", said), said
        for rank in left:
            processes[rank].say(left)
        said = {processes[rank].hear() for rank in left}
        (last,) = (int(text.removeprefix("resumed from ")) for text in said)
        # Ranks are at most a step apart; rank 0 may have died before it wrote what was due.
        assert last % 3 == 0 and min(done) >= until - 1 and min(done) - 4 <= last <= min(done) + 1
        references = [start(REFERENCE, rank, last=last) for rank in range(2)]
        assert [process.hear() for process in references] == ["done"] * 2
    snapshot = np.load(tmp_path / f"at-{last}.npz")
    for rank in range(2):
        survivor = np.load(tmp_path / f"survivors-{rank}.npz")
        expected = np.load(tmp_path / f"reference-{rank}.npz")
        assert set(survivor) == set(expected) == set(snapshot)
        for name in expected:
            np.testing.assert_array_equal(survivor[name], expected[name], err_msg=name)
            assert not np.array_equal(survivor[name], snapshot[name]) or survivor[name].ndim == 0
        assert survivor["of t"] == last + STEPS
