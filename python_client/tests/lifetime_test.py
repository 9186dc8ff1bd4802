"""What begins with a session ends with it: descriptors, threads, memory, daemons, and the process."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
import weakref

import chx
import numpy as np
import pytest


@pytest.fixture(scope="module")
def server():
    """The session that the others join the daemon of."""
    with chx.connect() as session:
        yield session


def used():
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cycle(server):
    session = chx.connect(server.address)
    x = chx.array(np.ones(1000, "float32")).require_grad()
    (x * 2).sum().backward()
    x.grad.sum().item()
    with chx.backprop_scope("graph"):
        pass
    chx.set_default_device(session.devices[0])
    session.close()


def assert_closed(array):
    for use in (array.tolist, lambda: array + 1, lambda: array.device.synchronize()):
        with pytest.raises(ConnectionError, match="closed"):
            use()


def test_cycles_leave_nothing(server):
    """Without a collection: what close() leaves goes with the last reference."""
    for _ in range(20):
        cycle(server)
    gc.collect()
    gc.disable()
    try:
        before, memory = used(), resident()
        tracemalloc.start()
        cycle(server)
        first = tracemalloc.get_traced_memory()[0]
        for _ in range(300):
            cycle(server)
        grown = tracemalloc.get_traced_memory()[0] - first
        tracemalloc.stop()
    finally:
        gc.enable()
    assert used() == before
    assert grown < 20_000  # bytes; a session had 100,000 each
    assert resident() - memory < 8 << 20


def test_a_closed_session_is_freed(server):
    session = chx.connect(server.address)
    array = chx.ones(3)
    gone = weakref.ref(session)
    session.close()
    del session
    assert gone() is not None  # the array still has a device
    assert array.device.name == "native:0" and array.shape == (3,)
    assert_closed(array)
    del array
    assert gone() is None


def test_a_forgotten_session_is_closed(server):
    """As a file is: it need not be closed to go."""
    session = chx.connect(server.address)
    again = chx.connect(server.address)  # the default one now
    before = used()
    context = session.devices[0].context
    gone = weakref.ref(session)
    del session, context
    gc.collect()
    assert gone() is None
    assert used() < before
    again.close()


def test_memory_in_use_keeps_its_session(server):
    session = chx.connect(server.address)
    values = chx.to_numpy(chx.full((1000,), 3.0), copy=False)
    again = chx.connect(server.address)
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is not None and (values == 3).all()
    del values
    gc.collect()
    assert gone() is None
    again.close()


def test_functions_in_a_graph_do_not_keep_a_session(server):
    """Their closures have arrays, which have the session, which has the functions."""

    def record():
        x = chx.ones(3).require_grad()
        y = chx.ones(3)
        chx._core._record_function(lambda *_: [x * 2], [x], [y], [], [])

    session = chx.connect(server.address)
    record()
    gone = weakref.ref(session)
    session.close()
    del session
    gc.collect()
    assert gone() is None


def test_defaults_of_a_thread_go_with_it(server):
    session = chx.connect(server.address)
    again = chx.connect(server.address)
    gone = weakref.ref(session)

    def work(device):
        chx.set_default_device(device)
        assert chx.zeros(2).device is device

    thread = threading.Thread(target=work, args=(session.devices[0],))
    thread.start()
    thread.join()
    session.close()
    del session, thread
    gc.collect()
    assert gone() is None
    again.close()


def test_a_private_daemon_ends_with_its_session(is_running):
    session = chx.connect()
    daemon, directory = session._daemon.process.pid, session._daemon.directory
    beside = chx.Context()
    array = chx.ones(2, device=beside.get_device("native"))
    chx.connect()  # another default one
    del session
    gc.collect()
    assert is_running(daemon) and array.tolist() == [1.0, 1.0]
    del array, beside
    gc.collect()
    assert not is_running(daemon) and not os.path.exists(directory)
    chx._core._get_default_session().close()


def test_no_daemon_is_left_where_connecting_fails():
    before = used()
    with pytest.raises(UnicodeEncodeError):
        chx.connect(client_name="\ud800")
    assert used() == before


def test_close_while_others_wait(server):
    """They get the error, whatever they wait for."""
    session = chx.connect(server.address)
    a = chx.array(np.ones((400, 400), "float32"))
    large = np.ones(1 << 18)
    seen = []

    def run(work):
        try:
            while True:
                work()
        except Exception as error:
            seen.append(error)

    works = [
        lambda: (a @ a).sum().item(),
        lambda: chx.to_numpy(chx.array(large, device=a.device)),
        lambda: a.device.synchronize(),
        lambda: chx.tanh(a),
    ]
    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    session.close()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert len(seen) == 4 and all(isinstance(error, ConnectionError) for error in seen), seen


EXIT = """
    import sys, threading, time
    import numpy as np
    import chx

    session = chx.connect()
    a = chx.array(np.arange(1000.0))
    w = chx.array(np.ones((30, 30))).require_grad()
    large = np.ones(1 << 18)

    def compute():
        b = a
        for _ in range(20):
            b = chx.tanh(b + 1)

    def read():
        (a + 1).sum().item()

    def transfer():
        chx.to_numpy(chx.array(large) * 2)

    def convert():
        a[1:3].tolist(), repr(a[:2]), chx.array([[1, 2], [3, 4]])

    def gradients():
        chx.tanh(w @ w).sum().backward()
        w.cleargrad()

    def flush():  # what a thread leaves to the background
        a + 1
        time.sleep(0.003)

    def forever(work):
        try:
            while True:
                work()
        except ConnectionError as error:
            assert "closed" in str(error), error

    for work in (compute, read, transfer, convert, gradients, flush):
        threading.Thread(target=forever, args=(work,), daemon=True).start()
    time.sleep(float(sys.argv[1]))
    print("end", flush=True)
"""


def test_exit_beside_daemon_threads():
    """No abort, no hang, and nothing on the way but the error that the session is closed."""
    for i in range(12):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(EXIT), str(i * 0.01)],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", ""), i
