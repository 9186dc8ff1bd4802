"""What a client called and what it was told, on disk as it happens, and whether that can be.

Records are pickled tuples. ("cancel",): what was called since the last answer may have happened or
not; ("new", ...) of each slot is to come. ("open",): a new session, with ("new", ...) of each slot to come.
("call", operation): about to be called; ("raised", type, text) if that raised, and then it has not
happened. ("ask", what, slot) and ("answer", value): a read. ("lost", text,
seconds): the session is gone, and so long the daemon had not answered.
"""

import pickle

from .operations import Numpy


class Writer:
    def __init__(self, path):
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115  as long as the process

    def add(self, *record):
        self._file.write(pickle.dumps(record))


def read(path):
    """The records; the last may be cut off where a client was killed."""
    records = []
    with open(path, "rb") as file:
        while True:
            try:
                records.append(pickle.load(file))
            except (EOFError, pickle.UnpicklingError):
                return records


class Wrong(AssertionError):
    """A history that no correct daemon gives."""


def check(records, name):
    """Replays a history with NumPy; raises Wrong. Returns how many of each kind of record."""
    model = Numpy()
    counts = {}
    asked = None
    before = None  # of the last call, should it raise
    for number, record in enumerate(records):
        kind = record[0]
        counts[kind] = counts.get(kind, 0) + 1
        if kind == "open":
            model = Numpy()
        elif kind == "call":
            operation = record[1]
            before = {
                slot: array.copy() for slot, array in model.state.items() if slot == operation[1]
            }
            model.apply(operation)
        elif kind == "raised":
            model.state.update(before)
        elif kind == "ask":
            asked = record[1:]
        elif kind == "answer":
            what, slot = asked
            want = model.total(slot) if what == "total" else model.read(slot)
            if record[1] != want:
                raise Wrong(
                    f"{name}: record {number}: {what} of {slot} is {_short(record[1])}, not {_short(want)}"
                )
    return counts


def check_turns(turns):
    """What is wrong with the records ("turn", number, before, after) of several clients of a session.

    Each turn finds a value, adds to it as long as it has the session, and notes what it was told last.
    The next turn may find more, from calls whose answers were cut off, but never less; and never
    two turns of one number.
    """
    wrong = []
    last = None
    for turn in sorted(turn[1:] for turn in turns):
        number, before, told, called = turn
        if last is not None:
            if number == last[0]:
                wrong.append(f"two clients had turn {number}: {last} and {turn}")
            elif number == last[0] + 1 and not last[2] <= before <= last[3]:
                wrong.append(f"turn {number} found {before} after {last}")
        if told < before:
            wrong.append(f"turn {number} lost what it had: {turn}")
        last = turn
    return wrong


def _short(value):
    return f"{len(value)} bytes {value[:24].hex()}..." if isinstance(value, bytes) else value
