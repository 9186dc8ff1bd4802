"""Dropped graphs give their memory back: sessions with little of it, and much that goes through."""

import chx
import pytest

from tests.integration.daemon import Daemon

ARRAY = 1 << 18  # float64 elements: 2 MiB
MEMORY = "48MiB"


@pytest.fixture(scope="module")
def daemon():
    with Daemon(f"--session-memory={MEMORY}") as daemon:
        yield daemon


@pytest.fixture
def x(daemon):
    with chx.connect(daemon.address) as session:
        x = chx.zeros((ARRAY,), "float64") + 1
        yield x
        # Errors of walks have no array to be read from.
        assert session.take_errors() == []
        assert x[0].item() == 1


def rounds(n=100):
    for i in range(n):
        yield i
        if i % 10 == 0:
            chx.zeros(1).item()  # so that the client is not too far ahead


def test_dropped_handles(x):
    x.require_grad()
    for _ in rounds():
        y = x * x
        (y * y).backward()
    assert x.grad[0].item() == 400


def test_forward_alone(x):
    x.require_grad()
    for _ in rounds():
        y = x
        for _ in range(5):
            y = y * y


def test_double_backprop(x):
    """A gradient that is in its own array's graph is a cycle."""
    x.require_grad()
    for _ in rounds():
        (x * x * x).backward(enable_double_backprop=True)
        chx.sum(x.grad).backward()
        x.cleargrad()
    y = x.as_grad_stopped()
    for _ in rounds():
        z = y.view().require_grad()
        (z * z * z).backward(enable_double_backprop=True)


def test_unchained_recurrence(x):
    """Truncated backprop through time: the state lives on, what made it does not."""
    state = x
    w = chx.ones((ARRAY,), "float64").require_grad()
    for _ in rounds():
        state = chx.tanh(state * w)
        chx.sum(state).backward()
        w.cleargrad()
        state.unchain()
    assert 0 < state[0].item() < 1


def test_without_cuts_it_would_be_too_much(daemon):
    with chx.connect(daemon.address):
        w = chx.ones((ARRAY,), "float64").require_grad()
        state = w
        for _ in rounds(50):
            state = chx.tanh(state * w)
        with pytest.raises(chx.OutOfMemoryError):
            state[0].item()


def test_scopes_on_an_array_that_stays(x):
    for _ in rounds():
        with chx.backprop_scope("bp") as bp:
            x.require_grad(bp)
            y = x * x
            (y * y).backward(bp)
            kept = x.get_grad(bp)
    assert kept[0].item() == 4


def test_retained_gradients(x):
    x.require_grad()
    for _ in rounds():
        h = x * 2
        y = h * h
        chx.grad([y * y], [x], retain_grad=True)
        assert h.grad is not None
