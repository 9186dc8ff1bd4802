"""Functions of neural networks with PyTorch's arguments: what the table of operators does not say."""

import inspect

import chx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("seeded_session")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("layer_norm", "x, normalized_shape, weight=None, bias=None, eps=1e-05"),
        ("rms_norm", "x, normalized_shape, weight=None, eps=None"),
        ("group_norm", "x, num_groups, weight=None, bias=None, eps=1e-05"),
        ("instance_norm", "x, weight=None, bias=None, eps=1e-05"),
        ("gelu", "x, approximate='none'"),
        (
            "scaled_dot_product_attention",
            "query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, "
            "enable_gqa=False",
        ),
        ("rope", "x, positions=None, frequencies=None, base=10000.0, interleaved=False"),
    ],
)
def test_signatures(name, expected):
    signature = inspect.signature(getattr(chx, name), eval_str=True)
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(parameters)) == f"({expected})"


X = (2, 4, 6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: chx.layer_norm(x, (4, 5)), r"end of x's shape \(2, 4, 6\), got"),
        (lambda x: chx.layer_norm(x, ()), "end of x's shape"),
        (lambda x: chx.layer_norm(x, (1, 2, 4, 6)), "end of x's shape"),
        (lambda x: chx.layer_norm(x, 6, x), r"'weight' of shape \(6,\), got \(2, 4, 6\)"),
        (lambda x: chx.rms_norm(x, 4), "end of x's shape"),
        (lambda x: chx.group_norm(x, 3), "num_groups to divide 4 channels, got 3"),
        (lambda x: chx.group_norm(x, 0), "num_groups to divide 4 channels, got 0"),
        (lambda x: chx.group_norm(x[0, 0], 1), r"x of shape \(N, C, ...\), got \(6,\)"),
        (lambda x: chx.instance_norm(x, x), r"'weight' of shape \(4,\)"),
        (lambda x: chx.scaled_dot_product_attention(x, x, x.astype("float64")), "of one dtype"),
        (lambda x: chx.scaled_dot_product_attention(x, x[0], x), "as many dimensions"),
        (lambda x: chx.scaled_dot_product_attention(x, x[:1], x[:1]), r"key \(..., S, E\)"),
        (lambda x: chx.scaled_dot_product_attention(x, x, x[:, 1:]), r"value \(..., S, Ev\)"),
        (lambda x: chx.scaled_dot_product_attention(x, x, x, x), "mask that broadcasts to"),
        (
            lambda x: chx.scaled_dot_product_attention(x, x, x, chx.zeros((4, 4), "int32")),
            "mask of bool or floats, got int32",
        ),
        (
            lambda x: chx.scaled_dot_product_attention(x[0], x[0], x[0], enable_gqa=True),
            "heads divide query's",
        ),
        (
            lambda x: chx.scaled_dot_product_attention(x, x, x, dropout_p=1.0),
            r"dropout_p in \[0, 1\), got 1.0",
        ),
        (lambda x: chx.rope(x[..., :5]), "even number of features"),
        (lambda x: chx.rope(x, chx.zeros(3, "int64")), "positions that broadcast"),
        (lambda x: chx.rope(x, None, chx.zeros(2)), "expects 3 frequencies"),
        (lambda x: chx.rope(x, base=-1.0), "positive base"),
    ],
)
def test_errors(call, message):
    with pytest.raises((ValueError, TypeError, chx.ChainerxError), match=message):
        call(chx.zeros(X, "float32"))


@pytest.mark.parametrize("grouped", [False, True])
def test_dropout(rng, grouped):
    """Of all weights, so many are zero; the mean of many draws is the result without."""
    q = rng.standard_normal((1, 2, 8, 4))
    k, v = (rng.standard_normal((1, 1 if grouped else 2, 16, n)) for n in (4, 3))
    mask = rng.random((8, 16)) < 0.7
    mask[3] = False
    arrays = [chx.array(a) for a in (q, k, v, mask)]
    options = {"is_causal": False, "enable_gqa": grouped}
    want = chx.to_numpy(chx.scaled_dot_product_attention(*arrays, **options))
    draws = [
        chx.to_numpy(chx.scaled_dot_product_attention(*arrays, dropout_p=0.2, **options))
        for _ in range(600)
    ]
    assert not np.array_equal(draws[0], draws[1])
    np.testing.assert_array_equal(draws[0][:, :, 3], 0)
    # A weight's deviation is half of it: a mean of 600 is within 5 of its own deviations.
    np.testing.assert_allclose(np.mean(draws, 0), want, atol=0.2)
    # Ones as values give the sum of the weights that are left.
    ones = chx.ones((1, 2, 5000, 2), "float64")
    q, k = (chx.array(rng.standard_normal((1, 2, n, 4)) * 1e-3) for n in (3, 5000))
    kept = chx.to_numpy(chx.scaled_dot_product_attention(q, k, ones, dropout_p=0.2))
    np.testing.assert_allclose(kept, 1, atol=0.05)


def test_dropout_has_gradients(rng):
    arrays = [chx.array(rng.standard_normal((2, 5, 4))).require_grad() for _ in range(3)]
    y = chx.scaled_dot_product_attention(*arrays, dropout_p=0.5, is_causal=True)
    for grad in chx.grad([chx.sum(y * y)], arrays):
        assert np.isfinite(chx.to_numpy(grad)).all()
    assert (chx.to_numpy(y)[0, 0] == 2 * chx.to_numpy(arrays[2])[0, 0]).all() or (
        chx.to_numpy(y)[0, 0] == 0
    ).all()


def test_parameters_have_gradients_beside_integers(rng):
    """x itself has none."""
    x = rng.integers(-5, 6, (4, 6))
    weight, bias = (chx.array(rng.standard_normal(6, dtype=np.float32)) for _ in range(2))
    y = chx.layer_norm(chx.array(x), 6, weight.require_grad(), bias.require_grad())
    grads = chx.grad([chx.sum(y * y)], [weight, bias])
    wide = x - x.mean(1, keepdims=True)
    normalized = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5)
    gy = 2 * chx.to_numpy(y)
    for grad, want in zip(grads, [(gy * normalized).sum(0), gy.sum(0)], strict=True):
        np.testing.assert_allclose(chx.to_numpy(grad), want, rtol=1e-4, atol=1e-4)


# Eight heads of 4096 x 4096 scores are 512 MiB of float32; the arrays are 4 MiB each.
LENGTH = 4096


def test_attention_does_not_have_the_scores_in_memory(rng):
    shape = (1, 8, LENGTH, 32)
    values = [rng.standard_normal(shape, dtype=np.float32) for _ in range(3)]
    with chx.connect(memory="64MiB") as session, chx.using_device(session.devices[0]):
        leaves = [chx.array(a).require_grad() for a in values]
        y = chx.scaled_dot_product_attention(*leaves, is_causal=True)
        grads = [chx.to_numpy(g) for g in chx.grad([chx.sum(y)], leaves)]
        row = LENGTH - 1
        got = chx.to_numpy(y[0, :, row])
        with pytest.raises(chx.OutOfMemoryError):
            chx.to_numpy(chx.matmul(leaves[0], chx.swapaxes(leaves[1], -1, -2)))
    q, k, v = (a[0].astype("float64") for a in values)
    scores = np.einsum("hd,hkd->hk", q[:, row], k) / np.sqrt(32)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    np.testing.assert_allclose(got, np.einsum("hk,hkd->hd", weights, v), atol=2e-5)
    # A value's gradient is the sum of its weights, and those of a row sum to 1. Gradients of a row's
    # scores sum to 0, and so those of the keys do, each times the row's query.
    np.testing.assert_allclose(grads[2].sum(2), LENGTH, rtol=1e-4)
    assert (np.abs(grads[1].sum(2)) < 1e-4 * np.abs(grads[1]).sum(2)).all()
    assert (np.abs(grads[0]).sum(3)[:, :, 1:] > 0).all()


def test_dropout_does_not_have_the_scores_in_memory(rng):
    shape = (1, 8, LENGTH, 32)
    values = [rng.standard_normal(shape, dtype=np.float32) for _ in range(3)]
    with chx.connect(memory="64MiB") as session, chx.using_device(session.devices[0]):
        leaves = [chx.array(a).require_grad() for a in values]
        y = chx.scaled_dot_product_attention(*leaves, dropout_p=0.2)
        grads = [chx.to_numpy(g) for g in chx.grad([chx.sum(y)], leaves)]
    # The sums are of the weights that are left, which have a mean of 1 in each row.
    np.testing.assert_allclose(grads[2].sum(2), LENGTH, rtol=0.01)
    assert (np.abs(grads[1].sum(2)) < 1e-4 * np.abs(grads[1]).sum(2)).all()
