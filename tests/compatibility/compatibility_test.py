"""Recorded sessions: each client works with today's daemon, and today's client with each daemon.

To record a release, see CONTRIBUTING.md.
"""

import glob
import os

import chx
import numpy as np
import pytest

from tests.compatibility import program, recording, wire
from tests.integration import raw_frames
from tests.integration.daemon import Daemon

RECORDS = sorted(glob.glob(os.path.join(os.path.dirname(__file__), "client_*.bin")))
NAMES = [os.path.basename(path) for path in RECORDS]

pytestmark = pytest.mark.parametrize("path", RECORDS, ids=NAMES)


@pytest.fixture(scope="module")
def daemon():
    with Daemon(listen="127.0.0.1:0") as daemon:
        yield daemon


@pytest.fixture
def frames(path):
    return recording.load(path)


@pytest.fixture
def results(path):
    with np.load(os.path.splitext(path)[0] + ".npz") as file:
        return [file[name] for name in file.files]


def opening(frames):
    """The recorded open call, and the reply to it."""
    call = next(f.payload for f in frames if f.kind == raw_frames.CALL)
    return call, next(f.payload for f in frames if f.kind == raw_frames.REPLY)


class Replay:
    """The recorded client again. What the daemon chose then, it has chosen anew."""

    def __init__(self, address, frames):
        self.address = address
        self.frames = frames
        self.connections = {}
        self.values = {}  # by request
        self.checked = 0
        self.last_event = 0
        call, reply = opening(frames)
        self.old_id = wire.only(wire.only(reply, wire.REPLY_OPEN), wire.OPEN_SESSION_ID)
        self.new_id = None
        self.signatures = wire.signatures(call)
        self.old_ops = wire.op_ids(reply, len(self.signatures))
        self.new_ops = None  # by old ids

    def run(self):
        for frame in self.frames:
            if frame.from_daemon:
                self.expect(frame)
            else:
                self.send(frame)
        for connection in self.connections.values():
            connection.close()

    def send(self, frame):
        if frame.connection not in self.connections:
            self.connections[frame.connection] = raw_frames.connect(self.address, timeout=60)
        payload = frame.payload
        if self.new_id is not None:
            payload = payload.replace(self.old_id, self.new_id)
        if frame.kind == raw_frames.MESSAGE:
            payload = wire.with_ops(payload, self.new_ops.__getitem__)
            payload = wire.with_acked_event(payload, self.last_event)
        self.connections[frame.connection].sendall(raw_frames.frame(frame.kind, payload))

    def expect(self, frame):
        if frame.kind != raw_frames.MESSAGE:
            kind, payload = raw_frames.receive(self.connections[frame.connection])
            assert kind == frame.kind, payload
            self.compare(frame, payload)
            return
        for value in map(wire.Value, wire.all_of(frame.payload, wire.EVENT_VALUES)):
            while value.request not in self.values:
                self.read_event(self.connections[frame.connection])
            assert vars(self.values.pop(value.request)) == vars(value)
            self.checked += 1

    def compare(self, frame, payload):
        if frame.kind != raw_frames.REPLY:
            assert payload == frame.payload
            return
        assert raw_frames.status(payload) == raw_frames.status(frame.payload)
        if self.new_id is None:
            self.new_id = wire.only(wire.only(payload, wire.REPLY_OPEN), wire.OPEN_SESSION_ID)
            ids = wire.op_ids(payload, len(self.signatures))
            self.new_ops = dict(zip(self.old_ops, ids, strict=True))
            return
        recorded, replied = raw_frames.fields(frame.payload), raw_frames.fields(payload)
        assert recorded.items() <= replied.items()

    def read_event(self, connection):
        kind, event = raw_frames.receive(connection)
        assert kind == raw_frames.MESSAGE, event
        self.last_event = int.from_bytes(wire.only(event, wire.EVENT_SEQ), "little") or (
            self.last_event
        )
        for value in map(wire.Value, wire.all_of(event, wire.EVENT_VALUES)):
            self.values[value.request] = value


def test_a_recorded_client_works_with_this_daemon(daemon, frames):
    replay = Replay(daemon.address, frames)
    replay.run()
    assert replay.checked >= 15
    # Deprecation comes first: nothing that it knows has gone.
    lost = [
        name
        for (name, _), old in zip(replay.signatures, replay.old_ops, strict=True)
        if old != 0 and replay.new_ops[old] == 0
    ]
    assert not lost


class OldDaemon:
    """Today's daemon as a recorded one: with its reply to `open` and its operators."""

    def __init__(self, frames, lacks=()):
        call, reply = opening(frames)
        self.opened = wire.only(reply, wire.REPLY_OPEN)
        known = wire.signatures(call)
        ids = zip(known, wire.op_ids(reply, len(known)), strict=True)
        self.ids = {signature: i for signature, i in ids if signature[0] not in lacks}
        self.asked = []
        self.real = {}  # by recorded ids

    def change(self, frame):
        if frame.kind == raw_frames.CALL and wire.all_of(frame.payload, wire.CALL_OPEN):
            self.asked = wire.signatures(frame.payload)
        if frame.kind == raw_frames.REPLY and wire.all_of(frame.payload, wire.REPLY_OPEN):
            return self.open_reply(frame.payload)
        if frame.kind == raw_frames.MESSAGE and not frame.from_daemon:
            return wire.with_ops(frame.payload, self.real.__getitem__)
        return frame.payload

    def open_reply(self, reply):
        today = wire.only(reply, wire.REPLY_OPEN)
        mine = [self.ids.get(signature, 0) for signature in self.asked]
        self.real = dict(zip(mine, wire.op_ids(reply, len(self.asked)), strict=True))
        # The session, the epoch and the public number are this daemon's.
        chosen = (wire.OPEN_SESSION_ID, 3, 9)
        rest = {number for number, *_ in wire.spans(today)} - set(chosen)
        opened = wire.without(self.opened, *chosen, wire.OPEN_OP_IDS) + wire.without(today, *rest)
        opened += raw_frames.text(wire.OPEN_OP_IDS, wire.packed(mine))
        return raw_frames.text(wire.REPLY_OPEN, opened)


def test_this_client_works_with_a_recorded_daemon(daemon, frames, results):
    with recording.FrameProxy(daemon.address, OldDaemon(frames).change) as proxy:
        found = program.run(proxy.address)
    assert len(found) >= len(results)
    for got, want in zip(found, results, strict=False):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_what_a_recorded_daemon_lacks_has_a_name(daemon, frames):
    old = OldDaemon(frames, lacks=[b"sinh"])
    with (
        recording.FrameProxy(daemon.address, old.change) as proxy,
        chx.connect(proxy.address, reconnect=0),
    ):
        x = chx.ones(3)
        with pytest.raises(chx.NotImplementedError, match=r"\[sinh\].*signature"):
            chx.sinh(x)
        assert chx.cosh(x * 0).tolist() == [1, 1, 1]
