"""Sessions with names: what one process leaves, the next one takes up, exclusively."""

import subprocess
import sys
import textwrap
import time

import chx
import numpy as np
import pytest

from .daemon import Daemon, wait_until

NAME = "exp-42"


@pytest.fixture(params=["unix", "tcp"])
def daemon(request):
    with Daemon("--lease=1h", listen=None if request.param == "unix" else "127.0.0.1:0") as started:
        yield started


def connect(daemon, name=NAME, **options):
    return chx.connect(daemon.address, session=name, **options)


def in_another_process(daemon, code):
    """Runs code with `session`; returns what it prints."""
    begin = (
        f"import chx, numpy as np\nsession = chx.connect({daemon.address!r}, session={NAME!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", begin + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_another_process_finds_what_was_saved(daemon):
    in_another_process(
        daemon,
        """
        w = chx.arange(6, dtype="float32").reshape(2, 3).require_grad()
        (w * w).sum().backward()
        session.save("model", {"layer": [w, {"rows": w[1].copy()}], 3: (None, 1.5, "text", True)})
        session.save("other", chx.ones((), "int64"))
        assert sorted(session.saved()) == ["model", "other"]
        """,
    )
    session = connect(daemon)
    assert session.taken_up
    assert session.name == NAME
    assert sorted(session.saved()) == ["model", "other"]
    tree = session.load("model")
    w = tree["layer"][0]
    assert w.is_grad_required()
    np.testing.assert_array_equal(chx.to_numpy(w), np.arange(6, dtype="float32").reshape(2, 3))
    np.testing.assert_array_equal(chx.to_numpy(w.grad), 2 * chx.to_numpy(w))
    np.testing.assert_array_equal(chx.to_numpy(tree["layer"][1]["rows"]), [3, 4, 5])
    assert tree[3] == (None, 1.5, "text", True)
    # It goes on: the gradient is added to.
    (w * w).sum().backward()
    np.testing.assert_array_equal(chx.to_numpy(w.grad), 4 * chx.to_numpy(w))
    session.forget("other")
    assert session.saved() == ["model"]
    with pytest.raises(ValueError, match="'other'"):
        session.load("other")
    session.discard()


def test_a_name_refers_to_arrays_not_to_copies(daemon):
    first = connect(daemon)
    w = chx.zeros((4,))
    first.save("w", [w, w])
    w += 1
    first.close()
    second = connect(daemon)
    a, b = second.load("w")
    assert a is b
    np.testing.assert_array_equal(chx.to_numpy(a), np.ones(4))
    second.discard()
    with connect(daemon) as third:
        assert not third.taken_up
        assert third.saved() == []


def test_views_stay_views(daemon):
    first = connect(daemon)
    base = chx.zeros((3, 4), "int32")
    first.save("both", (base, base.T[1:]))
    first.close()
    second = connect(daemon)
    base, view = second.load("both")
    view += 1
    want = np.zeros((3, 4), "int32")
    want.T[1:] += 1
    np.testing.assert_array_equal(chx.to_numpy(base), want)
    second.discard()


def test_the_former_process_is_told_who_has_taken_over(daemon):
    first = connect(daemon, client_name="the first")
    w = chx.ones((3,))
    first.save("w", w)
    second = connect(daemon, client_name="the second")
    assert second.taken_up
    with pytest.raises(ConnectionError, match="'exp-42' was taken over by the second"):
        float(w.sum())
    # It does not come back: the second keeps it.
    for _ in range(3):
        with pytest.raises(ConnectionError, match="taken over by the second"):
            float(w.sum())
    with pytest.raises(ConnectionError, match="taken over"):
        chx.array(np.ones(300_000), device=first.devices[0])
    x = second.load("w")
    assert float(x.sum()) == 3
    first.close()
    assert float((x + 1).sum()) == 6
    second.discard()


def test_handles_of_the_former_client_are_gone(daemon):
    """The second client's handles begin anew and meet no others."""
    first = connect(daemon)
    arrays = [chx.full((10,), i, "int64") for i in range(100)]
    first.save("last", arrays[-1])
    assert int(arrays[5][0]) == 5
    second = connect(daemon)
    again = [chx.full((2,), -i, "int64") for i in range(100)]
    assert [int(a[0]) for a in again] == [-i for i in range(100)]
    assert int(second.load("last")[0]) == 99
    with pytest.raises(ConnectionError):
        int(arrays[7][0])
    second.discard()


def test_what_has_no_name_is_freed(daemon):
    with Daemon("--session-memory=64MiB") as small:
        first = chx.connect(small.address, session=NAME)
        first.save("w", chx.ones((10,)))
        held = chx.ones((10 << 20,))  # 40 of 64 MiB
        first.synchronize()
        second = chx.connect(small.address, session=NAME)
        assert float(chx.ones((10 << 20,)).sum()) == 10 << 20
        assert float(second.load("w").sum()) == 10
        del held


def test_computed_arrays_come_without_their_graph(daemon):
    first = connect(daemon)
    w = chx.ones((3,)).require_grad()
    with pytest.warns(UserWarning, match="1 of 2 arrays were computed in a graph"):
        first.save("both", {"w": w, "loss": (w * 2).sum()})
    first.close()
    second = connect(daemon)
    tree = second.load("both")
    assert float(tree["loss"]) == 6
    assert not tree["loss"].is_backprop_required()
    assert tree["w"].is_grad_required()
    second.discard()


def test_random_numbers_go_on(daemon):
    reference = connect(daemon, "reference")
    reference.seed(7)
    want = [chx.to_numpy(chx.random.normal(size=(4,))) for _ in range(4)]
    reference.close()
    first = connect(daemon)
    first.seed(7)
    got = [chx.to_numpy(chx.random.normal(size=(4,))) for _ in range(2)]
    first.save("w", chx.ones(()))
    got.append(chx.to_numpy(chx.random.normal(size=(4,))))
    first.close()  # notes where they are, too
    second = connect(daemon)
    got.append(chx.to_numpy(chx.random.normal(size=(4,))))
    np.testing.assert_array_equal(got, want)
    second.discard()


def test_without_anything_saved_the_name_is_free_again(daemon):
    connect(daemon).close()
    session = connect(daemon)
    assert not session.taken_up
    session.close()


def test_of_many_processes_at_once_one_has_it(daemon):
    code = """
        try:
            session.save("mine", chx.ones((3,)))
            total = float(session.load("mine").sum())
            print("had it", total)
        except ConnectionError as error:
            assert "taken over" in str(error), error
            print("lost it")
        """
    begin = f"import chx\nsession = chx.connect({daemon.address!r}, session={NAME!r})\n"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", begin + textwrap.dedent(code)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert all(out in ("had it 3.0\n", "lost it\n") for out, _ in outputs), outputs
    assert any(out.startswith("had it") for out, _ in outputs), outputs
    session = connect(daemon)
    assert float(session.load("mine").sum()) == 3
    session.discard()


@pytest.mark.parametrize("name", ["", " ", "a b", "x" * 129, "a\nb", "ä"])
def test_names_that_are_none(daemon, name):
    if not name:
        session = connect(daemon, name)
        assert session.name == ""
        return
    with pytest.raises(ValueError, match="expects a session's name"):
        connect(daemon, name)


def test_trees_that_cannot_be_saved(daemon):
    with chx.connect(daemon.address) as session:
        with pytest.raises(TypeError, match="expects arrays"):
            session.save("x", {"a": np.ones(3)})
        with pytest.raises(TypeError, match="as keys"):
            session.save("x", {1.5: chx.ones(3)})
        with pytest.raises(ValueError, match="1 to 255 bytes"):
            session.save("", chx.ones(3))
        bad = chx.softmax_cross_entropy(chx.zeros((3, 4)), chx.array([0, 9, 1]))
        with pytest.raises(IndexError):
            session.save("x", bad)
        assert session.saved() == []
        with chx.connect(daemon.address) as other, pytest.raises(chx.ContextError):
            other.save("x", bad)


def test_what_was_saved_lives_for_its_lease():
    with Daemon("--lease=200ms", "--named-lease=1s") as daemon:
        connect(daemon).save("w", chx.ones((3,)))
        with connect(daemon) as session:
            assert float(session.load("w").sum()) == 3
        # To look would be to take it up: the looks become rarer until one finds nothing.
        pause = 0.5

        def is_gone():
            nonlocal pause
            time.sleep(pause)
            pause *= 2
            with connect(daemon) as probe:
                return not probe.taken_up

        assert wait_until(is_gone, 60)


def test_a_client_that_is_killed_leaves_what_it_has_saved():
    """Also after its first lease, which frees all else."""
    with Daemon("--lease=200ms") as daemon:
        code = f"""
            import chx, os
            session = chx.connect({daemon.address!r}, session={NAME!r})
            session.save("w", chx.ones((3,)))
            os._exit(1)
        """
        subprocess.run([sys.executable, "-c", textwrap.dedent(code)], timeout=120)
        session = connect(daemon)
        assert float(session.load("w").sum()) == 3
        session.discard()
