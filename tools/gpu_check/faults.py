"""What one session does to others on $CHX_DEVICES: crashes, greed, work without end."""

import os
import signal
import subprocess
import sys
import tempfile
import time

import chx
import numpy as np

BUSY = """
import chx, sys
with chx.connect(sys.argv[1]):
    a = chx.random.uniform(-1, 1, size=(1024, 1024), dtype="float32")
    print("busy", flush=True)
    while True:
        a = chx.tanh(a @ a)
        float(a[0, 0])
"""


def works(address):
    """A session gets right values."""
    with chx.connect(address):
        a = chx.arange(1000, dtype="float32")
        np.testing.assert_allclose(chx.to_numpy(chx.sum(a * 2)), 999000)


def busy(address):
    client = subprocess.Popen([sys.executable, "-c", BUSY, address], stdout=subprocess.PIPE)
    assert client.stdout.readline() == b"busy\n"
    return client


def killed_clients(address):
    clients = [busy(address) for _ in range(4)]
    time.sleep(0.5)
    for client in clients:
        client.kill()
        client.wait()
    works(address)


def stopped_client(address):
    client = busy(address)
    os.kill(client.pid, signal.SIGSTOP)
    works(address)
    client.kill()
    client.wait()


def memory(address):
    with chx.connect(address):
        kept = []
        try:
            while len(kept) < 40:
                kept.append(chx.arange(1 << 24, dtype="float32"))
                float(kept[-1][0])
        except chx.ChainerxError as error:
            print(f"refused after {len(kept) - 1} arrays: {str(error)[:120]}")
        else:
            raise AssertionError("2.5 GiB were given to a session of 1 GiB")
        works(address)
        assert float(kept[0][-1]) == (1 << 24) - 1


def wrong_input(address):
    with chx.connect(address):
        a = chx.ones((3, 4))
        for call in (
            lambda: chx.take(a, chx.array([99]), 0),
            lambda: chx.softmax_cross_entropy(a, chx.array([0, 1, 99])),
            lambda: a @ a,
        ):
            try:
                chx.to_numpy(call())
            except (chx.ChainerxError, IndexError, ValueError) as error:
                print(f"{type(error).__name__}: {str(error)[:120]}")
        assert float(chx.sum(a)) == 12


def many_sessions(address):
    sessions = [chx.connect(address) for _ in range(16)]
    sums = []
    for number, session in enumerate(sessions):
        ones = chx.ones((1000, 100), dtype="float32", device=session.devices[0])
        sums.append(chx.sum(ones * number))
    for number, (session, each) in enumerate(zip(sessions, sums, strict=True)):
        assert float(each) == number * 100000
        session.close()


def main():
    folder = tempfile.mkdtemp(prefix="chxd-")
    address = f"unix:{folder}/chxd.sock"
    command = [
        os.environ["CHX_CHXD"],
        f"--devices={os.environ['CHX_DEVICES']}",
        f"--listen={address}",
        "--session-memory=1GiB",
    ]
    daemon = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in daemon.stdout:  # libraries may write there, too
        if line.startswith("chxd ready"):
            break
    failed = 0
    cases = (killed_clients, stopped_client, memory, wrong_input, many_sessions)
    for case in cases:
        begun = time.perf_counter()
        try:
            case(address)
            assert daemon.poll() is None, "the daemon has ended"
            print(f"{case.__name__}: ok, {time.perf_counter() - begun:.1f} s")
        except Exception as error:
            failed += 1
            print(f"{case.__name__}: {type(error).__name__}: {error}")
    daemon.terminate()
    try:
        assert daemon.wait(60) == 0, f"the daemon's status is {daemon.returncode}"
    except (AssertionError, subprocess.TimeoutExpired) as error:
        failed += 1
        print(f"end: {error}")
        daemon.kill()
    print(f"{len(cases) + 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
