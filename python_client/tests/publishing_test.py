"""What others have published is rebuilt without trust in its structure."""

import chx
import pytest
from chx._runtime import publishing


@pytest.fixture(scope="module", autouse=True)
def session():
    with chx.connect() as session:
        yield session


HOSTILE = [
    "[",
    "null",
    '"text"',
    "[0]",
    "1.5",
    "7",
    "{}",
    '{"dict": 0}',
    '{"dict": {"a": 99}}',
    '{"list": {"a": [0]}}',
    '{"list": [0], "tuple": [0]}',
    '{"list": null}',
    '{"list": [' * 90000,
    '{"list": [' * 500 + "0" + "]}" * 500,
]


@pytest.mark.parametrize("structure", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_structures_give_the_paths(structure):
    a, b = chx.ones(1), chx.ones(2)
    tree = publishing.tree_of(structure, [("layers/W", a), ("b", b)])
    assert tree == {"layers": {"W": a}, "b": b}


def test_paths_that_are_no_tree_stay_flat():
    found = [("a", chx.ones(1)), ("a/b", chx.ones(2))]
    assert publishing.tree_of("", found) == dict(found)
    assert publishing.tree_of("", list(reversed(found))) == dict(found)


def test_deep_trees_are_refused(session):
    tree = chx.ones(1)
    for _ in range(200):
        tree = [tree]
    with pytest.raises(ValueError, match="at most 100 levels"):
        session.publish("deep", tree)
