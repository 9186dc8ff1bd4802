"""Frames (proto/frame.h) by hand, for peers that behave as no client of ours would."""

import socket
import ssl
import struct

MESSAGE, END, HELLO, CALL, REPLY = 1, 2, 3, 4, 5


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def text(field, data):
    """A length-delimited field of protobuf's."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def fields(message):
    """{number: value of its last occurrence}, for varints, fixed64 and length-delimited ones."""

    def number():
        nonlocal message
        value = shift = 0
        while True:
            byte, message = message[0], message[1:]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    found = {}
    while message:
        key = number()
        if key & 7 == 0:
            found[key >> 3] = number()
        else:
            size = 8 if key & 7 == 1 else number()
            found[key >> 3], message = message[:size], message[size:]
    return found


def frame(kind, payload):
    return struct.pack("<II", len(payload), kind) + payload


def hello(token=b""):
    return frame(HELLO, b"\x08\x03\x10\x03" + text(3, token))


def open_call(name=b"raw"):
    return frame(CALL, text(1, text(3, name)))


def connect(address, tls=False, timeout=10):
    """A socket; `tls` believes every certificate."""
    if address.startswith("unix:"):
        raw = socket.socket(socket.AF_UNIX)
        raw.connect(address[len("unix:") :])  # waits, where one with a timeout would not
        raw.settimeout(timeout)
        return raw
    host, port = address.rsplit(":", 1)
    raw = socket.create_connection((host, int(port)), timeout)
    if not tls:
        return raw
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(raw)


def receive(connection):
    """(kind, payload) of the next frame; None at the connection's end."""

    def exactly(size):
        data = b""
        while len(data) < size:
            part = connection.recv(size - len(data))
            if not part:
                return None
            data += part
        return data

    header = exactly(8)
    if header is None:
        return None
    size, kind = struct.unpack("<II", header)
    payload = exactly(size)
    return None if payload is None else (kind, payload)


def status(reply):
    """(code, message) of a reply's payload; (0, b"") on success."""
    found = fields(fields(reply).get(1, b""))
    return found.get(1, 0), found.get(2, b"")


def open_session(address, token=b"", tls=False):
    """A connection that is an idle session's op stream; ConnectionError with the refusal's text."""
    connection = connect(address, tls)
    connection.sendall(hello(token) + open_call())
    answer = receive(connection)
    if answer is None:
        raise ConnectionError("cut")
    code, message = status(answer[1])
    if code != 0:
        raise ConnectionError(message.decode())
    session_id = fields(fields(answer[1])[2])[2]
    connection.sendall(frame(MESSAGE, text(1, session_id)))
    return connection
