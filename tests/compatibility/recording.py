"""A recorded session: the frames that a client and a daemon sent each other, in their order.

A file is zlib's compression of records: u8 connection, u8 1 if the daemon sent it, u32 length and u32
kind of the frame, its payload.
"""

import contextlib
import socket
import struct
import threading
import zlib
from typing import NamedTuple

from tests.integration import raw_frames


class Frame(NamedTuple):
    connection: int
    from_daemon: bool
    kind: int
    payload: bytes


def save(path, frames):
    records = (
        struct.pack("<BBII", f.connection, f.from_daemon, len(f.payload), f.kind) + f.payload
        for f in frames
    )
    with open(path, "wb") as file:
        file.write(zlib.compress(b"".join(records), 9))


def load(path):
    with open(path, "rb") as file:
        data = zlib.decompress(file.read())
    frames, at = [], 0
    while at < len(data):
        connection, from_daemon, size, kind = struct.unpack_from("<BBII", data, at)
        at += 10
        frames.append(Frame(connection, bool(from_daemon), kind, data[at : at + size]))
        at += size
    return frames


class FrameProxy:
    """Passes frames between clients and a daemon; `change(frame)` sees each and gives its payload."""

    def __init__(self, address, change):
        self._target = address
        self._change = change
        self._lock = threading.Lock()
        self._connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                daemon = raw_frames.connect(self._target, timeout=None)
                for way in ((client, daemon, False), (daemon, client, True)):
                    arguments = (self._connections, *way)
                    threading.Thread(target=self._pump, args=arguments, daemon=True).start()
                self._connections += 1

    def _pump(self, connection, source, sink, from_daemon):
        with contextlib.suppress(OSError):
            while (received := raw_frames.receive(source)) is not None:
                kind, payload = received
                with self._lock:
                    payload = self._change(Frame(connection, from_daemon, kind, payload))
                sink.sendall(raw_frames.frame(kind, payload))
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
