"""Frames and messages (proto/frame.h, proto/chxd.proto) taken apart and changed in place."""

import struct

from tests.integration import raw_frames

# Fields of the messages, and the kind of a command that calls an operator.
SUBMIT_ACKED_EVENT, SUBMIT_COMMANDS = 4, 5
CALL_OPEN, REPLY_STATUS, REPLY_OPEN = 1, 1, 2
REQUEST_OPS, OPEN_SESSION_ID, OPEN_OP_IDS = 4, 2, 4
EVENT_SEQ, EVENT_VALUES = 1, 4
APPLY_OP = 1


def _varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def spans(message):
    """(number, start, value's start, end) of each field."""
    at = 0
    while at < len(message):
        start = at
        key, at = _varint(message, at)
        value = at
        if key & 7 == 0:
            _, at = _varint(message, at)
        elif key & 7 == 1:
            at += 8
        else:
            size, value = _varint(message, at)
            at = value + size
        yield key >> 3, start, value, at


def all_of(message, number):
    """The bytes of each occurrence of a length-delimited or fixed field."""
    return [message[value:end] for n, _, value, end in spans(message) if n == number]


def only(message, number):
    """The bytes of the last occurrence; none of an absent field."""
    return (all_of(message, number) or [b""])[-1]


def varints(packed):
    """The numbers of a packed field."""
    found, at = [], 0
    while at < len(packed):
        value, at = _varint(packed, at)
        found.append(value)
    return found


def packed(numbers):
    return b"".join(raw_frames.varint(n) for n in numbers)


def without(message, *numbers):
    """The message without some fields."""
    return b"".join(message[start:end] for n, start, _, end in spans(message) if n not in numbers)


def signatures(call):
    """(name, hash) of each operator that an open call names, in its order."""
    request = only(call, CALL_OPEN)
    return [(only(op, 1), only(op, 2)) for op in all_of(request, REQUEST_OPS)]


def op_ids(reply, count):
    """The operators' ids in a reply to an open call."""
    ids = varints(only(only(reply, REPLY_OPEN), OPEN_OP_IDS))
    assert len(ids) == count
    return ids


def with_ops(submit, new_id):
    """A Submit whose operators have the ids that new_id() gives for theirs."""
    out = bytearray(submit)
    for number, _, at, end in spans(submit):
        while number == SUBMIT_COMMANDS and at < end:
            size, kind, _, op = struct.unpack_from("<IBBH", submit, at)
            if kind == APPLY_OP:
                struct.pack_into("<H", out, at + 6, new_id(op))
            at += size
    return bytes(out)


def with_acked_event(submit, seq):
    """A Submit that acknowledges another event than it did, if any."""
    out = bytearray(submit)
    for number, _, at, _ in spans(submit):
        if number == SUBMIT_ACKED_EVENT:
            struct.pack_into("<Q", out, at, seq)
    return bytes(out)


class Value:
    """A FetchedValue: what a request was answered with."""

    def __init__(self, message):
        self.request = struct.unpack("<Q", only(message, 1))[0]
        error = only(message, 2)
        self.error_kind = raw_frames.fields(error).get(1, 0) if error else None
        self.dtype = raw_frames.fields(message).get(3, 0)
        self.shape, self.data = varints(only(message, 4)), only(message, 5)
