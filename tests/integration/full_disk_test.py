"""Snapshots on a disk that is full: a tmpfs of some MiB. As root, who may mount one."""

import contextlib
import ctypes
import os
import time

import chx
import pytest
from chx import admin

from .daemon import Keeper, wait_until
from .runs import NAME
from .whole_runs import fit, found, uninterrupted

pytest_plugins = ["tests.integration.whole_runs"]

CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
MNT_DETACH = 2
DISK = 5 << 20
SIZE = 1 << 20  # of an array

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts")


def system(name, *args):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc[name](*args) != 0:
        raise OSError(ctypes.get_errno(), name)


@pytest.fixture(scope="module")
def own_mounts():
    """They are of this thread, and of the processes that it starts, and end with them."""
    system("unshare", CLONE_NEWNS)
    system("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)


NO_ROOM = "No space left on device"


class SmallDisk(Keeper):
    """Daemons whose state is on a disk of its own."""

    def __init__(self, tmp_path, count):
        self.disk = tmp_path / "state"
        self.disk.mkdir()
        options = f"size={DISK},mode=0700".encode()
        system("mount", b"tmpfs", bytes(self.disk), b"tmpfs", 0, options)
        super().__init__(tmp_path, "--lease=1h", f"--state-keep={count}")

    def close(self):
        self.daemon.kill()
        system("umount2", bytes(self.disk), MNT_DETACH)

    def fill(self, left=0):
        """All of it but so many bytes."""
        with open(self.disk / "filler", "ab", buffering=0) as file:
            with contextlib.suppress(OSError):
                while file.write(bytes(4096)) == 4096:
                    pass
            os.truncate(file.fileno(), max(0, file.tell() - left))

    def fill_up(self):
        """All of it, also what others who write leave when they have failed."""
        while True:
            self.fill()
            try:
                self.snapshot()
            except chx.ChainerxError as error:
                assert NO_ROOM in str(error)
                return

    def make_room(self):
        (self.disk / "filler").unlink()

    def snapshot(self):
        with admin.connect(self.address) as node:
            node.snapshot()

    def contents(self):
        return {
            path.name: path.read_bytes() for path in self.disk.iterdir() if path.name != "filler"
        }

    def newest(self):
        (name,) = self.files()
        return (self.disk / name).read_bytes()

    def log(self):
        """Of a daemon that has ended."""
        return self.daemon.process.stderr.read().decode()


@pytest.fixture(params=[1, 2])
def keeper(request, tmp_path, own_mounts):
    made = SmallDisk(tmp_path, request.param)
    yield made
    made.close()


def test_the_former_snapshot_stays(keeper, rng):
    session = chx.connect(keeper.address, session=NAME)
    w = chx.zeros((SIZE // 4,))
    session.save("w", w)
    for number in (1, 2):
        w += 1
        assert float(w[-1]) == number
        keeper.snapshot()
    before = keeper.contents()
    for left in (0, rng.randrange(SIZE)):
        keeper.fill(left)
        w += 1
        with pytest.raises(
            chx.ChainerxError, match=f"could not write 1 of 1 sessions: .*{NO_ROOM}"
        ):
            keeper.snapshot()
        assert keeper.contents() == before
        keeper.make_room()
    assert float(w[-1]) == 4
    keeper.fill(rng.randrange(SIZE))
    keeper.daemon.kill()
    assert keeper.log().count(NO_ROOM) >= 2
    # A daemon that is started then has what was written.
    keeper.start()
    session = chx.connect(keeper.address, session=NAME)
    w = session.load("w")
    assert float(w[-1]) == 2
    w += 10
    assert float(w[0]) == 12
    with pytest.raises(chx.ChainerxError, match=NO_ROOM):
        keeper.snapshot()
    assert keeper.contents() == before
    # As soon as there is room it writes again.
    keeper.make_room()
    keeper.snapshot()
    keeper.daemon.kill()
    keeper.start()
    session = chx.connect(keeper.address, session=NAME)
    assert chx.to_numpy(session.load("w")).tolist() == [12.0] * (SIZE // 4)
    session.discard()
    assert wait_until(lambda: list(keeper.contents()) == ["lock"])


def test_a_daemon_that_ends_with_a_full_disk(keeper, rng):
    session = chx.connect(keeper.address, session=NAME)
    w = chx.zeros((SIZE // 4,))
    session.save("w", w)
    assert float(w[0]) == 0
    keeper.snapshot()
    w += 1
    assert float(w[0]) == 1
    before = keeper.contents()
    keeper.fill(rng.randrange(SIZE))
    keeper.terminate()
    log = keeper.log()
    assert "no snapshot of a session" in log and NO_ROOM in log
    assert keeper.contents() == before
    keeper.start()
    with pytest.raises(ConnectionError, match="restored from a snapshot of .*UTC"):
        float(w[0])
    session = chx.connect(keeper.address, session=NAME)
    assert float(session.load("w")[0]) == 0
    session.discard()


def test_a_run_goes_on(keeper, rng):
    """While the disk is full and not, by turns; what it gives is as if the disk had been large."""
    seed = rng.randrange(1000)
    want = uninterrupted(seed)
    session = chx.connect(keeper.address, session=NAME)
    run = fit(session, seed, snapshot_every=20)
    assert wait_until(keeper.files)
    for _ in range(3):
        keeper.fill_up()
        step = run.step
        wait_until(lambda step=step: run.step > step + 100 or run.state == "ended")
        with pytest.raises(chx.ChainerxError, match=NO_ROOM):
            keeper.snapshot()
        before = keeper.newest()
        keeper.make_room()
        keeper.snapshot()
        assert keeper.newest() != before
        time.sleep(rng.random() / 20)
    keeper.fill_up()
    keeper.daemon.kill()
    keeper.start()
    session = chx.connect(keeper.address, session=NAME)
    assert found(session, chx.runs.attach("fit")) == want
    session.discard()
