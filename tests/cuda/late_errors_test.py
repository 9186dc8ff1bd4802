"""Wrong indices and labels on a device that checks them when its kernels run."""

import chx
import numpy as np
import pytest

A = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(autouse=True)
def cuda():
    with chx.using_device("cuda:0"):
        yield


def on_device(values):
    return chx.array(np.asarray(values))


def line_of(error):
    return next(line for line in str(error).splitlines() if "at:" in line)


def test_the_fetch_says_what_was_wrong_and_where():
    a = on_device(A)
    taken = chx.take(a, on_device([0, 7, 1]), 0)
    result = taken * 2
    with pytest.raises(IndexError, match=r"\[take\] index 7 is out of bounds") as raised:
        chx.to_numpy(result)
    assert "late_errors_test.py" in line_of(raised.value)
    with pytest.raises(IndexError, match="index 7"):
        chx.to_numpy(result)
    # Nothing else is harmed, and the error is told once.
    np.testing.assert_array_equal(chx.to_numpy(a), A)
    np.testing.assert_array_equal(chx.to_numpy(taken), [A[0], np.zeros(3), A[1]])


def test_a_barrier_says_it():
    chx.softmax_cross_entropy(on_device(A), on_device([0, 1, 3, -1]))
    with pytest.raises(IndexError, match="labels below 3 or -1 to ignore a sample, got 3"):
        chx.get_device("cuda:0").synchronize()
    chx.get_device("cuda:0").synchronize()


def test_the_first_error_counts():
    a = on_device(A)
    chx.take(a, on_device([4]), 0)
    chx.take(a, on_device([5]), 0)
    with pytest.raises(IndexError, match="index 4"):
        chx.get_device("cuda:0").synchronize()
    chx.get_device("cuda:0").synchronize()


def test_what_is_wrong_has_no_part_in_gradients():
    a = on_device(A).require_grad()
    chx.sum(chx.take(a, on_device([1, 9, 1]), 0)).backward()
    with pytest.raises(IndexError, match="index 9"):
        chx.to_numpy(a.grad)
    a.cleargrad()
    chx.sum(chx.softmax_cross_entropy(a, on_device([0, 1, 2, 5]))).backward()
    with pytest.raises(IndexError, match="got 5"):
        chx.get_device("cuda:0").synchronize()
    gradient = chx.to_numpy(a.grad)
    assert (gradient[:3] != 0).all() and (gradient[3] == 0).all()


def test_nothing_is_written_outside():
    a = on_device(A)
    chx.index_put(a, on_device([1, 6]), on_device(np.full((2, 3), -1, np.float32)))
    with pytest.raises(IndexError, match="index 6"):
        chx.get_device("cuda:0").synchronize()
    np.testing.assert_array_equal(chx.to_numpy(a), np.vstack([A[:1], -np.ones((1, 3)), A[2:]]))


def test_programs_check_each_run():
    @chx.jit
    def step(x, index):
        return chx.take(x, index, 0) + 1

    a = on_device(A)
    good, bad = on_device([3, 0]), on_device([3, -5])
    for _ in range(4):
        np.testing.assert_array_equal(chx.to_numpy(step(a, good)), A[[3, 0]] + 1)
    with pytest.raises(IndexError, match="index -5"):
        chx.to_numpy(step(a, bad))
    for _ in range(4):
        np.testing.assert_array_equal(chx.to_numpy(step(a, good)), A[[3, 0]] + 1)
