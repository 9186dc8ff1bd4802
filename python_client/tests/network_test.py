"""Convolution, pooling and batch normalization: arguments, errors, and what changes in place."""

import chx
import numpy as np
import pytest


@pytest.fixture(scope="module", autouse=True)
def session():
    with chx.connect() as session:
        yield session


def array(*shape):
    return chx.array(np.arange(np.prod(shape), dtype="float32").reshape(shape))


def test_numbers_stand_for_all_dimensions():
    x, w = array(1, 2, 6, 5), array(3, 2, 3, 3)
    same = chx.conv(x, w, stride=(2, 2), pad=[1, 1])
    np.testing.assert_array_equal(chx.to_numpy(chx.conv(x, w, None, 2, 1)), chx.to_numpy(same))
    assert str(chx.conv.__signature__) == "(x, w, b=None, stride=1, pad=0, cover_all=False)"
    assert chx.max_pool(x, 2).shape == chx.max_pool(x, (2, 2), (2, 2), (0, 0)).shape == (1, 2, 3, 2)
    assert chx.average_pool(x, 2, pad_mode=None).shape == (1, 2, 3, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: chx.conv(array(1, 2, 5, 5), array(3, 1, 3, 3)),  # channels
        lambda: chx.conv(array(1, 2, 5, 5), array(3, 2, 3)),
        lambda: chx.conv(array(5), array(5)),  # no channels
        lambda: chx.conv(array(1, 2, 5, 5), array(3, 2, 3, 3), array(2)),
        lambda: chx.conv(array(1, 2, 2, 2), array(3, 2, 3, 3)),  # no window fits
        lambda: chx.conv(array(1, 2, 5, 5), array(3, 2, 3, 3), stride=(1, 1, 1)),
        lambda: chx.conv_transpose(array(1, 2, 5, 5), array(2, 2, 3, 3), outsize=(9, 9)),
        lambda: chx.max_pool(array(1, 2, 5, 5), 6),
        lambda: chx.max_pool(array(5, 5), 2),
        lambda: chx.max_pool(array(1, 2, 5, 5), (2,)),  # a number for each dimension
        lambda: chx.average_pool(array(1, 2, 5, 5), 2, pad=[1]),
        lambda: chx.conv(array(1, 2, 5, 5), array(3, 2, 3, 3), stride=(1,)),
        lambda: chx.batch_norm(array(4, 3, 2, 2), *[array(3)] * 4),  # axis is (0,)
        lambda: chx.batch_norm(array(4, 3), *[array(2)] * 4),
        lambda: chx.batch_norm(array(4, 3), *[array(3)] * 4, axis=1),
        lambda: chx.batch_norm(array(0, 3), *[array(3)] * 4),
    ],
)
def test_wrong_shapes_are_refused(call):
    with pytest.raises(chx.DimensionError):
        call()


def test_a_sequence_of_one_is_for_one_dimension():
    x = array(1, 2, 6)
    assert chx.max_pool(x, [2], stride=(3,), pad=(0,)).shape == (1, 2, 2)
    assert chx.conv(x, array(3, 2, 2), stride=(2,)).shape == (1, 3, 3)


def test_wrong_values_are_refused():
    x, w = array(1, 2, 5, 5), array(3, 2, 3, 3)
    for wrong in ({"stride": 0}, {"pad": -1}, {"stride": 2**40}):
        with pytest.raises(ValueError):
            chx.conv(x, w, **wrong)
    with pytest.raises(ValueError):
        chx.average_pool(x, 2, pad_mode="edge")
    with pytest.raises(chx.DtypeError):
        chx.max_pool(chx.ones((1, 1, 4, 4), "int32"), 2)


def test_batch_norm_writes_the_running_statistics():
    x = chx.array(np.float32([[1, 2], [3, 6]]))
    gamma, beta = chx.ones((2,)), chx.zeros((2,))
    mean, var = chx.zeros((2,)), chx.ones((2,))
    chx.batch_norm(x, gamma, beta, mean, var, decay=0.5)
    assert mean.tolist() == [1, 2]
    assert var.tolist() == [1.5, 4.5]  # with the unbiased variances 2 and 8
    chx.batch_norm(x, gamma, beta, mean, var, decay=0.5)
    assert mean.tolist() == [1.5, 3]


def test_batch_norm_refuses_statistics_in_a_graph():
    mean = chx.zeros((2,)).require_grad()
    other = chx.ones((2,))
    x, gamma, beta = array(3, 2), chx.ones((2,)), chx.zeros((2,))
    for running in ((mean, other), (other, mean), (other, mean * 2)):
        with pytest.raises(chx.ChainerxError, match="In-place"):
            chx.batch_norm(x, gamma, beta, *running)
    chx.batch_norm(x.require_grad(), gamma, beta, chx.zeros((2,)), other)


def test_the_first_of_equal_elements_gets_the_gradient():
    x = chx.ones((1, 1, 2, 2)).require_grad()
    chx.max_pool(x, 2).backward()
    assert chx.to_numpy(x.grad).reshape(-1).tolist() == [1, 0, 0, 0]


def test_a_huge_convolution_is_an_error_of_its_own():
    # Views that repeat one element: small in memory, but not what is laid out for the product.
    x = chx.broadcast_to(chx.ones((1, 1, 1, 1)), (1, 1 << 12, 1 << 12, 1 << 12))
    w = chx.broadcast_to(chx.ones((1, 1, 1, 1)), (1, 1 << 12, 3, 3))
    with pytest.raises(chx.OutOfMemoryError):
        float(chx.conv(x, w).sum())
    assert float(chx.ones((2,)).sum()) == 2


def test_a_small_network_learns():
    rng = np.random.default_rng(0)
    images = rng.uniform(-0.1, 0.1, (32, 1, 8, 8)).astype("float32")
    labels = np.arange(32) % 2
    images[labels == 1, :, 2:6, 3:5] += 0.5
    x, t = chx.array(images), chx.array(labels)

    def parameter(*shape):
        return chx.array(rng.normal(0, 0.3, shape).astype("float32")).require_grad()

    w1, gamma, beta, w2 = parameter(4, 1, 3, 3), parameter(4), parameter(4), parameter(2, 64)
    running = chx.zeros((4,)), chx.ones((4,))
    losses = []
    for _ in range(30):
        h = chx.batch_norm(chx.conv(x, w1, pad=1), gamma, beta, *running, axis=(0, 2, 3))
        h = chx.average_pool(chx.max_pool(chx.relu(h), 2), 1)
        loss = chx.softmax_cross_entropy(chx.linear(h, w2), t).mean()
        for p in (w1, gamma, beta, w2):
            p.cleargrad()
        loss.backward()
        for p in (w1, gamma, beta, w2):
            free = p.as_grad_stopped()
            free -= p.grad * 0.5
        losses.append(float(loss))
    assert losses[-1] < 0.1 * losses[0], losses
