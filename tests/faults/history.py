"""What a client called and what it was told, on disk as it happens, and whether that can be.

Records are pickled tuples. ("cancel",): what was called since the last answer may have happened or
not; ("new", ...) of each slot is to come. ("open",): a new session, with ("new", ...) of each slot to come.
("call", operation): about to be called; ("raised", type, text) if that raised, and then it has not
happened. ("ask", what, slot) and ("answer", value): a read. ("lost", text,
seconds): the session is gone, and so long the daemon had not answered.
"""

import dataclasses
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


@dataclasses.dataclass
class Turn:
    """What a client of a session that several take up from each other has seen in its turn."""

    number: int  # of the session's turns
    found: int  # the value that it found
    told: int  # the last that a read gave
    called: int  # the largest that its calls may have led to
    began: float  # seconds of the clock: before it found that, after, and when it was told
    found_at: float
    told_at: float


# A file's time is that of its last byte; what a read gave so long before is in it.
_MARGIN = 1.0


def check_turns(turns, kills=(), at_end=None):
    """What is wrong with turns, as a list of texts.

    Each turn finds a value, adds to it as long as it has the session, and notes what it was told last.
    The next turn may find more, from calls whose answers were cut off, but never less; and never
    two turns of one number. After kill -9 of the daemon the session goes back: to a moment that it
    had, and none before the last snapshot.

    Args:
      kills: (when, when the last snapshot of before was written) of each, in order.
      at_end: the turn that somebody would have had who looked after all others.
    """
    wrong = []
    kept = []  # the turns that are in the session, by number
    for epoch in range(len(kills) + 1):
        after = kills[epoch - 1][0] if epoch else 0.0
        before = kills[epoch][0] if epoch < len(kills) else float("inf")
        # One that found its value while the daemon was killed is of either: it tells too little.
        mine = [turn for turn in turns if after < turn.began and turn.found_at < before]
        mine.sort(key=lambda turn: turn.number)
        if at_end and after < at_end.began < before:
            mine.append(at_end)
        first_of_epoch = epoch > 0
        for turn in mine:
            if first_of_epoch:
                wrong += _check_return(turn, kept, kills)
                highest = max((each.called for each in turns if each.began < turn.began), default=0)
                if turn.found > highest:
                    wrong.append(f"{turn} has found what nobody had written")
                # What it found was in the file.
                kept = [
                    dataclasses.replace(each, told=min(each.told, turn.found), told_at=0.0)
                    for each in kept
                    if each.number < turn.number
                ]
                first_of_epoch = False
            elif kept:
                last = kept[-1]
                next_one = turn.number == last.number + 1
                if turn.number <= last.number:
                    wrong.append(f"two clients had turn {turn.number}: {last} and {turn}")
                elif turn.found < last.told or (next_one and turn.found > last.called):
                    wrong.append(f"{turn} follows {last}")
            if turn.told < turn.found:
                wrong.append(f"{turn} has lost what it had")
            kept.append(turn)
    return wrong


def _is_certain(turn, kills):
    """Whether all that it was told was in a snapshot when the daemon was killed next.

    Since it began: what it was told just before the kill it may have noted after it.
    """
    written = next((written for when, written in kills if when > turn.began), 0.0)
    return turn.told_at == 0.0 or turn.told_at < written - _MARGIN


def _check_return(turn, kept, kills):
    """What is wrong with the first turn after a kill."""
    wrong = []
    certain = [each for each in kept if _is_certain(each, kills)]
    lowest = max((each.told for each in certain), default=0)
    if turn.found < lowest or turn.number <= max((each.number for each in certain), default=0):
        wrong.append(f"{turn} has lost what was in a snapshot: {certain[-1]}")
    for each in kept:
        if each.number + 1 == turn.number and not each.found <= turn.found <= each.called:
            wrong.append(f"{turn} goes on where {each} never was")
    if turn.number == 1 and turn.found != 0:
        wrong.append(f"{turn} begins with a value")
    return wrong


def _short(value):
    return f"{len(value)} bytes {value[:24].hex()}..." if isinstance(value, bytes) else value
