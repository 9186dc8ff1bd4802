"""Arrays that processes share with each other through a real daemon."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time

import chx
import numpy as np
import pytest

from .daemon import Daemon, Keeper, wait_until
from .processes import Process, error_of

SIZE = 1 << 20


@pytest.fixture(scope="module")
def daemon():
    with Daemon("--lease=1s", "--session-memory=256MiB") as daemon:
        yield daemon


def test_another_process_opens_sees_and_is_revoked(daemon):
    holder = """
        a = chx.open(hear())
        say(float(a[3]), a.shape, a.dtype)
        hear()
        say(float(a[3]))
        try:
            a += 1
            float(a[0])
        except ValueError as error:
            say(str(error).splitlines()[0])
        hear()
        try:
            float(a.sum())
        except chx.ContextError as error:
            say(str(error).splitlines()[0])
    """
    with chx.connect(daemon.address), Process(daemon.address, holder) as other:
        a = chx.arange(SIZE, dtype="float32")
        capability = a.share()
        assert isinstance(capability, chx.Capability) and capability.startswith("chx-cap:")
        other.say(capability)
        assert other.hear() == f"3.0 ({SIZE},) float32"
        a += 10
        float(a[0])
        other.say()
        assert other.hear() == "13.0"
        assert 'rights="read"' in other.hear()
        capability.revoke()
        other.say()
        assert "the capability was revoked" in other.hear()
        assert "one that never was" in error_of(lambda: chx.open(capability))


def test_write_rights_and_maps_for_reading(daemon):
    holder = """
        a = chx.open(hear())
        v = chx.to_numpy(a, copy=False)
        say(type(v.base).__name__, v.flags.writeable, v[5])
        a *= 2
        session.synchronize()
        say(v[5])
        hear()
        say(v[5])
    """
    with chx.connect(daemon.address), Process(daemon.address, holder) as other:
        a = chx.ones((SIZE,), "float32")
        other.say(a.share(rights="write"))
        assert other.hear() == "SharedMemory False 1.0"
        assert other.hear() == "2.0"
        assert float(a[SIZE - 1]) == 2
        mine = chx.to_numpy(a, copy=False)
        assert not mine.flags.writeable
        a += 1
        assert mine[0] == 3
        other.say()
        assert other.hear() == "3.0"


def test_a_hostile_reader_cannot_write_to_the_mapped_file(daemon):
    holder = """
        import ctypes, mmap, os
        a = chx.open(hear())
        v = chx.to_numpy(a, copy=False)
        libc = ctypes.CDLL(None, use_errno=True)
        start = v.ctypes.data // 4096 * 4096
        say(libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(4096), 3))
        for line in open("/proc/self/maps"):
            first, last = (int(part, 16) for part in line.split()[0].split("-"))
            if first <= v.ctypes.data < last:
                where = line.split()[0]
        path = f"/proc/self/map_files/{where}"
        tried = []
        for flags in (os.O_RDWR, os.O_WRONLY):
            try:
                fd = os.open(path, flags)
            except OSError:
                tried.append("open")
                continue
            for write in (lambda: os.pwrite(fd, b"evil", 0), lambda: os.ftruncate(fd, 0),
                          lambda: mmap.mmap(fd, 4096)):
                try:
                    write()
                    tried.append("WROTE")
                except (OSError, ValueError) as error:
                    tried.append("refused")
        say(*tried)
    """
    with chx.connect(daemon.address), Process(daemon.address, holder) as other:
        a = chx.ones((SIZE,), "float32")
        other.say(a.share())
        assert other.hear() == "-1"
        assert "WROTE" not in other.hear()
        assert (chx.to_numpy(a) == 1).all()


def test_copies_are_private_from_their_first_write_on(daemon):
    with chx.connect(daemon.address) as owner, chx.connect(daemon.address) as holder:
        a = chx.ones((1000,), "float32", device=owner.devices[0])
        version = owner.publish("copies/model", {"w": a})
        assert version == 1
        tree = chx.lookup("copies/model", mode="copy", session=holder)
        w = tree["w"].require_grad()
        (w * w).sum().backward()
        with chx.no_backprop_mode(holder):
            w -= w.grad * 0.25
        assert float(w[0]) == 0.5
        assert float(a[0]) == 1


def test_trees_are_rebuilt(daemon):
    with chx.connect(daemon.address) as session:
        arrays = [chx.full((2, 2), i, "float32") for i in range(5)]
        tree = {
            "layers": [{"W": arrays[0], "b": arrays[1]}, {"W": arrays[2]}],
            "pair": (arrays[3], [arrays[4]]),
            "empty": {},
        }
        assert session.publish("trees/model", tree) == 1
        assert session.publish("trees/model", arrays[0].T) == 2
        with chx.connect(daemon.address):
            found = chx.lookup("trees/model", version=1)
            assert float(found["layers"][1]["W"][0, 0]) == 2
            assert isinstance(found["pair"], tuple) and float(found["pair"][1][0][1, 1]) == 4
            assert found["empty"] == {}
            assert chx.lookup("trees/model").strides == (4, 8)
            listed = chx.names("trees/")
            assert [(n.name, n.version, n.arrays) for n in listed] == [
                ("trees/model", 1, 5),
                ("trees/model", 2, 1),
            ]
        with pytest.raises(TypeError, match="got int"):
            session.publish("trees/model", {"a": 1})
        for name in ("", "Upper", "a b", "x" * 201):
            with pytest.raises(ValueError, match="expects a name"):
                session.publish(name, arrays[0])
        session.unpublish("trees/model", 1)
        missing = error_of(lambda: chx.lookup("trees/model", 1, session=session))
        assert "expects a name that is published" in missing


def test_a_c_program_and_python_share(daemon):
    with chx.connect(daemon.address) as session:
        a = chx.full((4, 4), 2, "float32")
        b = chx.full((4, 4), 3, "float32")
        session.publish("for-cpp", {"layers": {"W": a}})
        program = subprocess.Popen(
            [os.environ["SHARING_PROGRAM"], daemon.address, b.share(), "for-cpp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert program.stdout.readline() == "1 from-cpp 1\n"
            # Without a structure of ours: dicts by the paths' parts.
            found = chx.lookup("from-cpp")
            assert (chx.to_numpy(found["layers"]["W"]) == 5).all()
        finally:
            _, errors = program.communicate("", timeout=30)
        assert program.returncode == 0, errors
        # It has chosen that its arrays end with it.
        assert wait_until(lambda: not chx.names("from-"))
        assert "has ended" in error_of(lambda: float(found["layers"]["W"][0, 0]))


def test_kill_of_the_owner(daemon):
    owner = f"""
        for end in ("keep", "drop"):
            a = chx.arange({SIZE}, dtype="float32")
            session.publish("owner/" + end, [a], on_owner_exit=end)
            say(a.share(on_owner_exit=end))
        hear()
    """
    with chx.connect(daemon.address) as session, Process(daemon.address, owner) as other:
        keep, drop = other.hear(), other.hear()
        kept = [chx.open(keep), *chx.lookup("owner/keep")]
        dropped = [chx.open(drop), *chx.lookup("owner/drop")]
        assert [float(a[7]) for a in kept + dropped] == [7.0] * 4
        other.kill()
        assert wait_until(lambda: not chx.names("owner/drop"))  # its lease has ended
        for a in dropped:
            assert "has ended" in error_of(lambda a=a: float(a[7]))
        assert "one that never was" in error_of(lambda: chx.open(drop))
        assert [float(a[7]) for a in [*kept, chx.open(keep)]] == [7.0] * 3
        session.unpublish("owner/keep")
        assert "not published" in error_of(lambda: float(kept[1][7]))


def test_kill_of_a_holder_frees_nothing_of_the_owner(daemon):
    holder = """
        a = chx.open(hear())
        b = a + 1
        v = chx.to_numpy(a, copy=False)
        say(float(b[0]))
        while True:
            float((a * 2)[0])
    """
    with chx.connect(daemon.address):
        a = chx.ones((SIZE,), "float32")
        with Process(daemon.address, holder) as other:
            other.say(a.share(rights="write"))
            assert other.hear() == "2.0"
            other.kill()
        for _ in range(20):  # no lock of its is left
            a += 1
        assert float(a[0]) == 21


def test_memory_is_freed_with_the_last_user(daemon):
    with chx.connect(daemon.address) as owner:
        before = daemon.resident_bytes()
        a = chx.ones((8 << 20,), "float32")
        capability = a.share()
        with chx.connect(daemon.address) as holder:
            b = chx.open(capability, session=holder)
            del a
            assert float(b[0]) == 1
            assert daemon.resident_bytes() > before + (24 << 20)
            capability.revoke()
            owner.synchronize()
            # Although the holder has its array.
            assert wait_until(lambda: daemon.resident_bytes() < before + (16 << 20))
            assert "revoked" in error_of(lambda: float(b[0]))


def test_what_is_shared_counts_for_the_owner(daemon):
    with Daemon("--session-memory=64MiB") as small, chx.connect(small.address):
        kept = [chx.ones((1 << 20,), "float32") for _ in range(6)]
        capabilities = [a.share(on_owner_exit="keep") for a in kept]
        with pytest.raises(chx.OutOfMemoryError):
            for _ in range(16):
                kept.append(chx.ones((1 << 20,), "float32"))
                capabilities.append(kept[-1].share())
            float(kept[-1][0])
        with chx.connect(small.address) as holder:
            opened = [chx.open(each, session=holder) for each in capabilities[:6] * 4]
            assert sum(float(a[0]) for a in opened) == 24


def test_expiry(daemon):
    with chx.connect(daemon.address):
        a = chx.ones((10,))
        with chx.connect(daemon.address) as holder:
            capability = a.share(expires=0.5)
            end = time.monotonic() + 0.5
            with contextlib.suppress(chx.ContextError):
                b = chx.open(capability, session=holder)
                time.sleep(max(0, end - time.monotonic()) + 0.05)
                assert "has expired" in error_of(lambda: float(b[0]))
            time.sleep(max(0, end - time.monotonic()) + 0.05)
            assert "has expired" in error_of(lambda: chx.open(capability, session=holder))


def test_hostile_capabilities(daemon):
    with chx.connect(daemon.address):
        real = chx.ones((10,)).share()
        flipped = real[:-1] + ("A" if real[-1] != "A" else "Q")
        for text in (flipped, "chx-cap:", "chx-cap:" + "A" * 22, real.upper(), real + "="):
            with pytest.raises((chx.ContextError, ValueError)):
                chx.open(text)
        for text in ("", "x" * 100000, "chx-cap\0", "é"):
            with pytest.raises((chx.ContextError, ValueError)):
                chx.open(text)
        assert float(chx.open(str(real))[0]) == 1


def test_arguments(daemon):
    with chx.connect(daemon.address) as session:
        a = chx.ones((10,))
        with pytest.raises(ValueError, match="rights="):
            a.share(rights="all")
        with pytest.raises(ValueError, match="expires in the future"):
            a.share(expires=-1)
        with pytest.raises(ValueError, match="on_owner_exit"):
            a.share(on_owner_exit="stay")
        with pytest.raises(ValueError, match="mode="):
            chx.open(a.share(), mode="write")
        with pytest.raises(TypeError, match="list of tenants"):
            session.publish("x", a, readers="abc")
        view = chx.to_numpy(a + 0, copy=False)
        b = chx.asarray(view)
        with pytest.raises(ValueError, match="share a copy of it"):
            b.share()
        opened = chx.open(a.share())
        with pytest.raises(ValueError, match="of this session's own"):
            opened.share()
        assert not opened.is_backprop_required()


def test_over_tcp_values_are_copied(daemon):
    with Daemon(listen="127.0.0.1:0") as remote, chx.connect(remote.address):
        a = chx.arange(SIZE, dtype="float32")
        with chx.connect(remote.address) as holder:
            b = chx.open(a.share(), session=holder)
            np.testing.assert_array_equal(chx.to_numpy(b), np.arange(SIZE, dtype="float32"))
            assert not chx.to_numpy(b, copy=False).flags.writeable


def test_large_reads_are_of_one_version(daemon):
    """Beside a process that writes: a read in several pieces would show it."""
    writer = """
        a = chx.open(hear())
        say("open")
        while True:
            for _ in range(16):
                a += 1
            session.synchronize()
    """
    with chx.connect(daemon.address), Process(daemon.address, writer) as other:
        a = chx.zeros((4 * SIZE,), "float32")  # 16 MiB: more than a stage
        other.say(a.share(rights="write"))
        assert other.hear() == "open"
        last = -1
        for _ in range(20):
            values = chx.to_numpy(a)
            assert (values == values[0]).all()
            assert values[0] >= last
            last = values[0]
        assert wait_until(lambda: float(a[0]) > last)


def test_names_and_capabilities_end_with_the_daemon(tmp_path):
    """The owner's arrays are in the next one, under no name that others know."""
    keeper = Keeper(tmp_path)
    with contextlib.ExitStack() as end:
        end.callback(lambda: keeper.daemon.kill())  # the last one
        owner = end.enter_context(chx.connect(keeper.address))
        a = chx.arange(10, dtype="float32")
        capability = a.share()
        owner.publish("model", {"a": a})
        assert [each.name for each in chx.names()] == ["model"]
        keeper.restart()
        assert float(a.sum()) == 45
        assert chx.names() == []
        assert "one that never was" in error_of(lambda: chx.open(capability))
        with pytest.raises(chx.ContextError):
            chx.lookup("model")
        # It may be published and shared again.
        owner.publish("model", {"a": a})
        assert float(chx.open(a.share()).sum()) == float(chx.lookup("model")["a"].sum()) == 45
