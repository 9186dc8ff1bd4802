"""chx.data: minibatches, and the thread that uploads them beside the steps."""

import collections
import os
import signal
import sys
import threading
import time

import chx
import numpy as np
import pytest

sys.path.insert(0, os.getcwd())  # the runfiles
from tests.integration.daemon import Daemon

pytestmark = pytest.mark.usefixtures("seeded_session")

Pair = collections.namedtuple("Pair", "x t")


def threads():
    return [t for t in threading.enumerate() if t.name == "chx.data.prefetch"]


def wait_for(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_minibatches_are_rows_in_order():
    x, t = np.arange(14).reshape(7, 2), np.arange(7)
    found = list(chx.data.minibatches((x, t), 3, epochs=2))
    assert [t.tolist() for _, t in found] == [[0, 1, 2], [3, 4, 5], [6]] * 2
    assert all((x[:, 1] == 2 * t + 1).all() for x, t in found)
    found = list(chx.data.minibatches((x, t), 3, drop_last=True))
    assert [t.tolist() for _, t in found] == [[0, 1, 2], [3, 4, 5]]
    assert list(chx.data.minibatches((t,), 8, drop_last=True)) == []


def test_minibatches_are_shuffled_as_runs_are():
    t = np.arange(10)
    found = list(chx.data.minibatches((t,), 4, epochs=3, shuffle=7))
    for epoch in range(3):
        rows = np.concatenate([t for (t,) in found[3 * epoch : 3 * epoch + 3]])
        assert rows.tolist() == chx.runs.order(7, epoch, 10).tolist()


def test_wrong_minibatches_are_refused():
    with pytest.raises(ValueError, match=r"one length, got \[2, 3\]"):
        chx.data.minibatches((np.zeros(2), np.zeros(3)), 1)
    with pytest.raises(ValueError, match="batch_size"):
        chx.data.minibatches((np.zeros(2),), 0)
    with pytest.raises(ValueError, match="ahead"):
        chx.data.prefetch([], ahead=0)


def test_structures_are_kept(rng):
    x = rng.standard_normal((300, 400)).astype("float32")
    given = [x, (x[:2], [x[2]]), {"x": x[:, ::2], "n": np.int32(3)}, Pair(x[0], 1.5), chx.array(x)]
    got = list(chx.data.prefetch(given))
    assert isinstance(got[1][1], list) and isinstance(got[3], Pair)
    pairs = [
        (got[0], x),
        (got[1][0], x[:2]),
        (got[1][1][0], x[2]),
        (got[2]["x"], x[:, ::2]),
        (got[2]["n"], np.int32(3)),
        (got[3].x, x[0]),
        (got[3].t, 1.5),
        (got[4], x),
    ]
    for a, want in pairs:
        assert isinstance(a, chx.ndarray) and a.device.name == "native:0"
        np.testing.assert_array_equal(chx.to_numpy(a), want)
    wait_for(lambda: not threads())


def test_as_many_as_said_are_ahead():
    made = []

    def batches():
        for i in range(10):
            made.append(i)
            yield np.full(3, i)

    iterator = chx.data.prefetch(batches(), ahead=3)
    assert made == []  # nothing is done for who does not ask
    assert next(iterator).tolist() == [0] * 3
    wait_for(lambda: len(made) == 4)
    time.sleep(0.02)
    assert made == [0, 1, 2, 3]
    assert [int(a[0]) for a in iterator] == list(range(1, 10))


def test_batches_are_made_beside_the_steps():
    """The thread makes the next one while this one still works on the last."""
    taken, made = threading.Event(), threading.Event()

    def batches():
        yield np.zeros(1)
        assert taken.wait(20)
        made.set()
        yield np.ones(1)

    for i, x in enumerate(chx.data.prefetch(batches(), ahead=1)):
        assert float(x) == i
        taken.set()
        assert made.wait(20)


@pytest.mark.parametrize("shape", [(200, 300), (64, 784), (500, 1000), (1200, 1000)])
def test_minibatches_are_sent_before_a_step_has_run(seeded_session, shape):
    """The daemon stands still: the step cannot end, and still the ones after it are on their way."""
    made = []

    def batches():
        for i in range(8):
            made.append(i)
            yield np.full(shape, i, "float32")

    with Daemon() as daemon, chx.connect(daemon.address) as session:
        chx._core._set_default_session(seeded_session)
        iterator = chx.data.prefetch(batches(), ahead=2, device=session.devices[0])
        assert float(next(iterator).sum()) == 0  # now there is memory for uploads
        wait_for(lambda: len(made) == 3)  # 1 and 2 are ahead, or 2 is just being sent
        two = [next(iterator), next(iterator)]
        assert [float(x.mean()) for x in two] == [1, 2]
        wait_for(lambda: len(made) == 5)
        x = next(iterator)
        assert float(x.mean()) == 3
        wait_for(lambda: len(made) == 6)  # 4 has been sent; 5 may be on its way
        session.synchronize()
        os.kill(daemon.process.pid, signal.SIGSTOP)
        # What waits for the daemon would wait for ever.
        alarm = threading.Timer(20, os.kill, (daemon.process.pid, signal.SIGCONT))
        alarm.start()
        try:
            before = session.stats()["commands"]
            result = (x * 2).mean()
            nexts = [next(iterator) for _ in range(3)]  # 6 is made and sent after the step
            sent = session.stats()["commands"] - before
            waited = not alarm.is_alive()
        finally:
            alarm.cancel()
            os.kill(daemon.process.pid, signal.SIGCONT)
        assert len(made) >= 7
        assert not waited
        assert sent > 0
        assert float(result) == 6
        assert [float(x.mean()) for x in nexts] == [4, 5, 6]


def test_errors_are_raised_in_their_turn():
    def batches():
        yield np.zeros(2)
        raise KeyError("the disk")

    iterator = chx.data.prefetch(batches(), ahead=5)
    assert next(iterator).tolist() == [0, 0]
    with pytest.raises(KeyError, match="the disk"):
        next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)
    with pytest.raises(chx.DtypeError):
        next(chx.data.prefetch([np.array(["text"])]))
    wait_for(lambda: not threads())


def test_the_thread_ends_with_the_iteration():
    iterator = chx.data.prefetch(np.zeros(3) for _ in range(10**9))
    next(iterator)
    assert len(threads()) == 1
    iterator.close()
    wait_for(lambda: not threads())


def test_uploads_wait_for_what_is_recorded(rng):
    """Without that they would fail, or be a part of it."""
    values = rng.standard_normal((8, 200)).astype("float32")
    w = chx.ones(200, "float32")

    def slowly():
        for row in values:
            time.sleep(0.002)
            yield row

    @chx.jit
    def step(x, w):
        time.sleep(0.02)  # while it is recorded
        return chx.sum(chx.tanh(x) * w)

    for _ in range(5):
        step.cache_clear()
        got = [step(x, w) for x in chx.data.prefetch(slowly())]
        want = np.tanh(values.astype("float64")).sum(1)
        np.testing.assert_allclose(chx.stack(got).tolist(), want, rtol=1e-4, atol=1e-4)
        assert step.cache_info().misses == 1


def test_what_is_recorded_reads_no_minibatch():
    iterator = chx.data.prefetch(np.ones((3, 2)))
    with pytest.raises(chx.ContextError, match="outside of what is recorded"):
        chx.jit(lambda w: w + next(iterator))(chx.zeros(2))
    wait_for(lambda: not threads())
