"""Daemons with --state-dir: their sessions go on in the next one."""

import contextlib
import os
import pathlib
import queue
import signal
import stat
import threading
import time

import chx
import numpy as np
import pytest

from .daemon import Daemon, Keeper, wait_until
from .tenants import VISION, TenantsFile, by_token

NAME = "exp-42"


@pytest.fixture(params=["unix", "tcp"])
def keeper(request, tmp_path):
    made = Keeper(tmp_path, "--lease=1h", tcp=request.param == "tcp")
    yield made
    made.daemon.kill()


def test_a_connected_client_goes_on(keeper):
    """Values, views, graphs, gradients, errors, uploads and downloads, as if nothing had been."""
    session = chx.connect(keeper.address)
    x = chx.arange(12, dtype="float64").reshape(3, 4)
    rows = x[1:]
    w = chx.full((4,), 2.0, "float64").require_grad()
    loss = (chx.dot(x, w) ** 2).sum()
    bulk = chx.array(np.arange(300_000, dtype="int64"))
    ids = chx.softmax_cross_entropy(chx.zeros((3, 4)), chx.array([0, 9, 1]))
    session.synchronize()
    keeper.restart()
    rows += 1  # still a view
    want = np.arange(12, dtype="float64").reshape(3, 4)
    want[1:] += 1
    np.testing.assert_array_equal(chx.to_numpy(x), want)
    # The graph has the values that it had: x was computed before the write.
    loss.backward()
    a = np.arange(12, dtype="float64").reshape(3, 4)
    assert float(loss) == ((a @ np.full(4, 2.0)) ** 2).sum()
    assert w.grad is not None
    assert int(bulk[-1]) == 299_999
    np.testing.assert_array_equal(chx.to_numpy(bulk), np.arange(300_000))
    with pytest.raises(IndexError):
        float(ids.sum())
    np.testing.assert_array_equal(
        chx.to_numpy(chx.array(np.ones(300_000)) + bulk), np.arange(300_000) + 1
    )
    session.close()
    assert wait_until(lambda: not keeper.files())


def test_arrays_of_bfloat16_go_on(keeper):
    """Their bits, in variables and under a name, and gradients."""
    bits = np.random.default_rng().integers(0, 2**15, (5, 70)).astype("uint16")
    bits[(bits & 0x7F80) == 0x7F80] = 0x3F80  # neither NaN nor infinity
    x = bits.view("bfloat16")
    with chx.connect(keeper.address) as session:
        a = chx.array(x).require_grad()
        (a * 2).sum().backward()
        session.save("model", {"w": a})
        keeper.restart()
        again = session.load("model")["w"]
        for found, want in ((a, x), (again, x), (again.grad, np.full_like(x, 2))):
            assert found.dtype == "bfloat16"
            np.testing.assert_array_equal(chx.to_numpy(found), want)


def test_a_graph_goes_on_in_the_middle_of_a_step(keeper):
    """Half of a training step before, half after, many times: as without restarts."""

    def train(restart):
        with chx.connect(keeper.address) as session:
            w1 = chx.full((5, 7), 0.1, "float64").require_grad()
            w2 = chx.full((7, 1), 0.2, "float64").require_grad()
            x = chx.array(np.linspace(-1, 1, 20).reshape(4, 5))
            losses = []
            for step in range(4):
                h = chx.tanh(chx.dot(x, w1))
                y = chx.dot(h, w2)
                if restart and step == 1:
                    restart()
                loss = ((y - 1) ** 2).mean()
                if restart and step == 2:
                    restart()
                loss.backward()
                if restart and step == 3:
                    restart()
                w1, w2 = (
                    (w.as_grad_stopped() - 0.1 * w.grad).copy().require_grad() for w in (w1, w2)
                )
                losses.append(float(loss))
            session.synchronize()
            return losses

    want = train(None)
    got = train(keeper.restart)
    assert got == want


def test_queued_commands_are_carried_out_once(keeper):
    session = chx.connect(keeper.address)
    x = chx.zeros((3,), "int64")
    for round_ in range(3):
        for _ in range(500):
            x += 1
        session.flush()
        keeper.restart()
        for _ in range(500):
            x += 1
        assert int(x[0]) == (round_ + 1) * 1000
    session.close()


def test_named_sessions_are_there_after_a_restart(keeper):
    first = chx.connect(keeper.address, session=NAME)
    w = chx.full((3,), 5.0).require_grad()
    (w * 2).sum().backward()
    first.save("model", {"w": w})
    first.close()
    keeper.restart()
    second = chx.connect(keeper.address, session=NAME)
    assert second.taken_up
    w = second.load("model")["w"]
    assert w.is_grad_required()
    np.testing.assert_array_equal(chx.to_numpy(w), [5, 5, 5])
    np.testing.assert_array_equal(chx.to_numpy(w.grad), [2, 2, 2])
    second.discard()
    assert wait_until(lambda: not keeper.files())
    keeper.restart()
    with chx.connect(keeper.address, session=NAME) as third:
        assert not third.taken_up


def test_a_daemon_that_is_killed_says_what_is_lost(tmp_path):
    """Back to the last snapshot: an unnamed session is lost, a named one is there as it was then."""
    keeper = Keeper(tmp_path, "--lease=1h", "--snapshot-interval=100ms")
    session = chx.connect(keeper.address, session=NAME)
    w = chx.ones((3,))
    session.save("w", w)
    assert wait_until(lambda: keeper.files(), 30)
    file = os.path.join(keeper.folder, keeper.files()[0])
    os.kill(keeper.daemon.process.pid, signal.SIGSTOP)
    # What is done from here on is in no snapshot, as the file is put back.
    with open(file, "rb") as snapshot:
        old = snapshot.read()
    os.kill(keeper.daemon.process.pid, signal.SIGCONT)
    w += 1
    assert float(w.sum()) == 6
    keeper.daemon.kill()
    with open(file, "wb") as snapshot:
        snapshot.write(old)
    keeper.start()
    with pytest.raises(
        ConnectionError, match="restored from a snapshot of .*UTC.*connect again to the session"
    ):
        float(w.sum())
    again = chx.connect(keeper.address, session=NAME)
    np.testing.assert_array_equal(chx.to_numpy(again.load("w")), [1, 1, 1])
    again.discard()
    keeper.daemon.kill()


def test_a_kill_right_after_a_snapshot_loses_nothing(tmp_path):
    keeper = Keeper(tmp_path, "--lease=1h", "--snapshot-interval=50ms")
    session = chx.connect(keeper.address)
    x = chx.arange(5)
    assert int(x.sum()) == 10
    file = [None]

    def written_after():
        files = keeper.files()
        if not files:
            return False
        path = os.path.join(keeper.folder, files[0])
        if file[0] is None:
            file[0] = os.stat(path).st_mtime_ns
        return True

    assert wait_until(written_after, 30)
    # Let a snapshot be written that has all: nothing changes any more.
    time.sleep(1)
    keeper.daemon.kill()
    keeper.start()
    assert int((x + 1).sum()) == 15
    session.close()
    keeper.daemon.kill()


def test_files_are_nobody_elses(keeper):
    with chx.connect(keeper.address, session=NAME) as session:
        session.save("w", chx.ones(()))
    keeper.terminate()
    assert stat.S_IMODE(os.stat(keeper.folder).st_mode) == 0o700
    for name in keeper.files():
        assert stat.S_IMODE(os.stat(os.path.join(keeper.folder, name)).st_mode) == 0o600
        assert NAME not in name
    keeper.start()


def test_a_folder_that_others_may_write_to_is_refused(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(RuntimeError, match="no other user may write to"):
        Daemon(f"--state-dir={folder}")


def test_two_daemons_do_not_share_a_folder(keeper):
    with pytest.raises(RuntimeError, match="another chxd uses"):
        Daemon(f"--state-dir={keeper.folder}")


def test_damaged_files_hurt_nothing_else(keeper):
    """Truncated, changed, foreign, a link: each is passed over, and the log says why."""
    with chx.connect(keeper.address, session="good") as session:
        session.save("w", chx.arange(1000))
    with chx.connect(keeper.address, session="worse") as session:
        session.save("w", chx.arange(1000))
    keeper.terminate()
    folder = keeper.folder
    names = keeper.files()
    assert len(names) == 2
    contents = [pathlib.Path(folder, name).read_bytes() for name in names]
    bad = 0 if b"worse" in contents[0] else 1  # ids have only hexadecimal digits
    middle = len(contents[bad]) // 2
    damaged = bytearray(contents[bad])
    damaged[middle] ^= 1
    with open(os.path.join(folder, names[bad]), "wb") as file:
        file.write(damaged)
    for name, content in {
        "0" * 32: contents[bad][:-1],
        "1" * 32: b"",
        "2" * 32: b"something else entirely" * 100,
        "3" * 32: contents[1 - bad],  # a good one under another name
    }.items():
        with open(os.path.join(folder, name + ".session"), "wb") as file:
            file.write(content)
    os.symlink("/etc/passwd", os.path.join(folder, "4" * 32 + ".session"))
    os.mkfifo(os.path.join(folder, "5" * 32 + ".session"))
    keeper.start()
    with chx.connect(keeper.address, session="good") as session:
        assert session.taken_up
        assert int(session.load("w").sum()) == 499_500
    keeper.terminate()
    log = keeper.daemon.process.stderr.read().decode()
    assert log.count("session not restored") == 7, log
    keeper.start()


@pytest.mark.parametrize("size", [0, 1, 20, 60, -1])
def test_a_file_that_is_cut_off_keeps_its_name(keeper, size):
    """Nobody gets an empty session in place of one that cannot be read; a file removed frees it."""
    with chx.connect(keeper.address, session="exp") as session:
        session.save("w", chx.arange(1000))
    keeper.terminate()
    (name,) = keeper.files()
    path = os.path.join(keeper.folder, name)
    os.truncate(path, size % os.path.getsize(path))
    keeper.start()
    for _ in range(2):
        with pytest.raises(chx.ChainerxError, match="the snapshot is damaged: .* it is kept there"):
            chx.connect(keeper.address, session="exp")
    with chx.connect(keeper.address, session="another") as session:
        assert not session.taken_up
        session.discard()
    keeper.terminate()
    assert keeper.files() == [name]
    os.remove(path)
    keeper.start()
    with chx.connect(keeper.address, session="exp") as session:
        assert not session.taken_up


def test_a_session_that_does_not_fit_stays_on_disk(tmp_path):
    keeper = Keeper(tmp_path, "--lease=1h")
    session = chx.connect(keeper.address, session=NAME)
    x = chx.ones((16 << 20,))  # 64 MiB
    session.save("x", x)
    keeper.terminate()
    keeper.start("--session-memory=32MiB")
    with pytest.raises(ConnectionError, match="on the daemon's disk and could not be restored"):
        float(x[0])
    with pytest.raises(Exception, match="on the daemon's disk and could not be restored"):
        chx.connect(keeper.address, session=NAME)
    assert keeper.files()
    keeper.restart()
    with chx.connect(keeper.address, session=NAME) as again:
        assert float(again.load("x").sum()) == 16 << 20
    keeper.daemon.kill()


@pytest.fixture
def crowded(tmp_path):
    """A daemon of two sessions of 64 MiB each, to be restarted with room for one."""
    tenants = TenantsFile(tmp_path / "tenants.yaml", vision=by_token(VISION))
    made = Keeper(tmp_path, "--lease=1h", tenants.flag)

    def restart_with_less():
        made.terminate()
        tenants.write(vision=by_token(VISION, memory="100MiB"))
        made.start()

    made.restart_with_less = restart_with_less
    yield made
    made.daemon.kill()


def test_a_named_session_waits_on_disk_until_there_is_room(crowded):
    def connect(name):
        return chx.connect(crowded.address, token=VISION, session=name)

    for name, value in {"a": 1.0, "b": 2.0}.items():
        with connect(name) as session:
            session.save("x", chx.full((16 << 20,), value))
    crowded.restart_with_less()
    for _ in range(2):
        taken, refused = {}, {}
        for name in ("a", "b"):
            try:
                taken[name] = connect(name)
            except chx.OutOfMemoryError as error:
                refused[name] = str(error)
        assert len(taken) == 1 and len(refused) == 1, refused
        ((name, why),) = refused.items()
        assert "on the daemon's disk and could not be restored" in why
        assert "the sessions of the tenant 'vision' hold" in why and "try again in 3600 s" in why
        assert len(crowded.files()) == 2
        # Killed and started again it still waits, and nothing of it is lost.
        ((kept, session),) = taken.items()
        session.close()
        crowded.daemon.kill()
        crowded.start()
    connect(kept).discard()

    def is_there():
        try:
            connect(name).close()
        except chx.OutOfMemoryError:
            return False
        return True

    assert wait_until(is_there, 30)
    with connect(name) as session:
        assert session.taken_up
        x = session.load("x")
        assert float(x[0]) == float(x[-1]) == {"a": 1.0, "b": 2.0}[name]
        assert len(crowded.files()) == 1
        session.discard()
    assert wait_until(lambda: not crowded.files())


def test_a_connected_client_waits_for_room(crowded, caplog):
    """It asks again and again, says once why it waits, and goes on where it was."""
    sessions, arrays = {}, {}
    for value in (1, 2):
        sessions[value] = chx.connect(crowded.address, token=VISION)
        arrays[value] = chx.full((16 << 20,), float(value))
        assert float(arrays[value][0]) == value
    crowded.restart_with_less()
    got = queue.Queue()

    def ask(value):
        x = arrays[value]
        x += 1
        got.put((value, float(x[-1])))

    threads = [threading.Thread(target=ask, args=(value,)) for value in sessions]
    for thread in threads:
        thread.start()

    def refused():
        return sum("could not be restored" in record.getMessage() for record in caplog.records)

    first, value = got.get(timeout=60)
    assert value == first + 1
    assert wait_until(refused, 60)  # the other one has asked
    assert got.empty() and len(crowded.files()) == 2
    arrays.pop(first)
    sessions[first].close()
    second, value = got.get(timeout=60)
    assert second != first and value == second + 1
    for thread in threads:
        thread.join()
    assert refused() == 1


def test_shared_arrays_stay_with_their_owner(keeper):
    """Also in what a session has of others: a copy in its snapshot could not be withdrawn."""
    owner, holder = chx.connect(keeper.address), chx.connect(keeper.address)
    a = chx.full((1000,), 5.0, device=owner.devices[0])
    gone = chx.full((1 << 20,), 6.0, device=owner.devices[0])
    withdrawn = gone.share()
    with chx.using_device(holder.devices[0]):
        b, c = chx.open(a.share()), chx.open(withdrawn)
        mine = b + 1
    assert float(b[0]) == 5
    withdrawn.revoke()
    del gone
    keeper.restart()
    assert float(a[-1]) == 5
    assert float(mine[-1]) == 6
    for array in (b, c):
        with pytest.raises(chx.ContextError, match="look them up again"):
            float(array[0])
    b += 1
    with pytest.raises(chx.ContextError, match="look them up again"):
        float(b[0])
    assert float(a[-1]) == 5
    with chx.using_device(holder.devices[0]):
        b = chx.open(a.share())
    assert float(b[-1]) == 5


def test_recorded_steps_go_on(keeper):
    """A step of chx.jit is that of the recording before and after, with Adam's state and random numbers."""
    found = []
    for restarts in (False, True):
        with chx.connect(keeper.address) as session:
            chx.random.seed(0)
            w = chx.random.normal(size=(4, 3), dtype="float32").require_grad()
            optimizer = chx.optimizers.Adam(alpha=0.05).setup([w])

            @chx.jit
            def step(x, w=w, optimizer=optimizer):
                optimizer.cleargrads()
                noise = chx.random.normal(size=(8, 3), dtype="float32")
                loss = ((x @ w - noise) ** 2).mean()
                loss.backward()
                optimizer.update()
                return loss

            losses = []
            for i in range(6):
                if restarts and i == 3:
                    session.synchronize()
                    keeper.restart()
                losses.append(float(step(chx.full((8, 4), i / 10, "float32"))))
            assert step.cache_info()[:2] == (5, 1)
            found.append((losses, chx.to_numpy(w).tolist()))
    assert found[0] == found[1]


def test_without_a_folder_nothing_is_kept(tmp_path):
    with Daemon("--lease=1h") as first:
        session = chx.connect(first.address, session=NAME)
        session.save("w", chx.ones(()))
        first.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(ConnectionError):  # the daemon may have ended by now
            session.close()
        first.process.wait(60)
        with Daemon("--lease=1h", listen=first.address):
            assert not chx.connect(first.address, session=NAME).taken_up
