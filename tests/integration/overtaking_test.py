"""What somebody waits for goes before bulk transfers of the same session that it does not need."""

import threading

import chx
import numpy as np
import pytest

from .daemon import Daemon

BYTES = 512 << 20


@pytest.fixture(scope="module", params=["unix", "tcp"])
def session(request):
    listen = None if request.param == "unix" else "127.0.0.1:0"
    with Daemon(listen=listen) as daemon, chx.connect(daemon.address) as session:
        yield session


def fetches_beside(session, transfer):
    """How many small results have come before `transfer` ended."""
    device = session.devices[0]
    small = chx.ones(3, device=device)
    thread = threading.Thread(target=transfer, args=(device,))
    thread.start()
    fetched = 0
    while thread.is_alive():
        assert float((small * fetched).sum()) == 3 * fetched
        fetched += 1
    thread.join()
    return fetched


def test_fetches_overtake_an_upload(session):
    values = np.arange(BYTES // 8, dtype=np.int64)
    uploaded = []
    fetched = fetches_beside(
        session, lambda device: uploaded.append(chx.array(values, device=device))
    )
    assert fetched > 10
    assert int(uploaded[0][-1]) == values[-1]


def test_fetches_overtake_a_download(session):
    array = chx.arange(BYTES // 8, dtype="int64", device=session.devices[0])
    downloaded = []
    fetched = fetches_beside(session, lambda device: downloaded.append(chx.to_numpy(array)))
    assert fetched > 10
    assert downloaded[0][-1] == BYTES // 8 - 1
