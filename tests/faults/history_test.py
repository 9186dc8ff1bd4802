"""The check of turns finds what is wrong in them, and nothing in what is right."""

import dataclasses

from .history import Turn, check_turns

# Two turns, a kill, and two turns of the next daemon, which had a snapshot of the second turn.
TURNS = [
    Turn(1, 0, 10, 12, began=100, found_at=100.1, told_at=103),
    Turn(2, 11, 20, 25, began=104, found_at=104.1, told_at=107),
    Turn(3, 15, 30, 30, began=111, found_at=111.1, told_at=112),
    Turn(4, 30, 31, 40, began=113, found_at=113.1, told_at=114),
]
KILLS = [(110.0, 106.0)]


def wrong(which, kills=KILLS, **changes):
    """What the check says when the turn of that number is another."""
    turns = [*TURNS]
    turns[which - 1] = dataclasses.replace(TURNS[which - 1], **changes)
    return " ".join(check_turns(turns, kills))


def test_a_right_history_passes():
    assert check_turns(TURNS, KILLS) == []
    assert check_turns(TURNS[::-1], KILLS) == []  # of several clients, in any order
    assert check_turns([]) == []
    # The second turn was in no snapshot: the next one has its number.
    again = [TURNS[0], TURNS[1], dataclasses.replace(TURNS[2], number=2, found=10)]
    assert check_turns(again, [(110.0, 104.5)]) == []
    # Nobody had a turn of the second daemon, whose snapshot is newer.
    assert check_turns(TURNS, [(108.0, 105.0), (110.0, 109.9)]) == []
    # There was no snapshot at all.
    anew = [*TURNS[:2], dataclasses.replace(TURNS[0], began=111, found_at=111.1, told_at=112)]
    assert check_turns(anew, [(110.0, 0.0)]) == []


def test_each_wrong_one_is_found():
    assert "two clients had turn 2" in wrong(1, number=2, found=11)
    assert "follows" in wrong(2, found=9)  # less than was told
    assert "follows" in wrong(2, found=13)  # more than was called
    assert "has lost what it had" in wrong(4, told=29)
    # A snapshot of 106 has what the first turn was told at 103.
    assert "what was in a snapshot" in wrong(3, found=9)
    assert "what was in a snapshot" in wrong(3, number=1, found=0)
    assert "never was" in wrong(3, found=10, kills=[(110.0, 104.5)])
    assert "what nobody had written" in wrong(3, found=26)
    assert "begins with a value" in wrong(3, number=1, found=5, kills=[(110.0, 0.0)])
    # Without the kill, nothing goes back.
    assert "follows" in wrong(3, kills=[])


def test_the_end_is_where_the_turns_have_left_it():
    end = Turn(5, 35, 35, 35, began=120, found_at=121, told_at=121)

    def at_end(kills=KILLS, **changes):
        return " ".join(check_turns(TURNS, kills, dataclasses.replace(end, **changes)))

    assert at_end() == ""
    assert "follows" in at_end(found=30)
    assert "follows" in at_end(found=41)
    assert "two clients had turn 3" in at_end(number=3)
    # A daemon killed after all turns had a snapshot from within the last one.
    killed = [*KILLS, (115.0, 113.5)]
    assert at_end(killed, found=30, told=30) == ""
    assert at_end(killed, number=4, found=30, told=30) == ""
    assert "what was in a snapshot" in at_end(killed, found=29, told=29, number=4)
    assert "what nobody had written" in at_end(killed, found=41, told=41)
