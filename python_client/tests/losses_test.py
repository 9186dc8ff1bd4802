"""Losses, embeddings, segments and resampling: what is refused, and values that no row has.

Their values and gradients are tested by tests/conformance.
"""

import chx
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def session(seeded_session):
    yield seeded_session


def scores(rng, *shape):
    return chx.array(rng.normal(size=shape))


@pytest.mark.parametrize("function", [chx.cross_entropy, chx.nll_loss])
def test_classes_out_of_range(rng, function):
    x = scores(rng, 3, 4)
    for wrong in (4, -1, -2, 2**40):
        y = function(x, chx.array([0, wrong, 1]))
        with pytest.raises(IndexError):
            float(y)
        assert np.isfinite(float(function(x, chx.array([0, wrong, 1]), ignore_index=wrong)))
    weight = chx.ones((4,), x.dtype)
    with pytest.raises(IndexError):
        float(function(x, chx.array([0, 4, 1]), weight))


@pytest.mark.parametrize("function", [chx.cross_entropy, chx.nll_loss])
def test_means_of_nothing_are_nan(rng, function):
    x = scores(rng, 3, 4).require_grad()
    ignored = chx.full((3,), 1, "int64")
    y = function(x, ignored, ignore_index=1)
    assert np.isnan(float(y))
    assert function(x, ignored, ignore_index=1, reduction="none").tolist() == [0, 0, 0]
    function(x, ignored, ignore_index=1, reduction="sum").backward()
    assert not chx.to_numpy(x.grad).any()
    assert np.isnan(float(function(chx.zeros((0, 4)), chx.zeros((0,), "int64"))))


def test_nan_scores_stay_in_their_sample(rng):
    values = rng.normal(size=(3, 4))
    values[1, 2] = np.nan
    y = chx.to_numpy(chx.cross_entropy(chx.array(values), chx.array([0, 1, 2]), reduction="none"))
    assert np.isnan(y).tolist() == [False, True, False]


def test_cross_entropy_of_float16_is_summed_in_float32():
    """The sum of losses, 80 thousand, is more than float16 has; their mean is not."""
    x = chx.zeros((20000, 64), "float16")
    t = chx.zeros((20000,), "int64")
    np.testing.assert_allclose(float(chx.cross_entropy(x, t)), np.log(64), rtol=2e-3)


def test_shapes_and_dtypes_of_losses(rng):
    x = scores(rng, 3, 4)
    t = chx.array([0, 1, 2])
    with pytest.raises(chx.DimensionError, match=r"\[cross_entropy\] expects targets of shape"):
        chx.cross_entropy(x, chx.array([0, 1]))
    with pytest.raises(chx.DimensionError, match=r"\[nll_loss\] expects a float weight for each"):
        chx.nll_loss(x, t, chx.ones((3,)))
    with pytest.raises(chx.DtypeError, match=r"\[nll_loss\] expects floats and indices of"):
        chx.nll_loss(x, x)
    with pytest.raises(chx.DtypeError, match=r"\[cross_entropy\] expects floats and indices or"):
        chx.cross_entropy(t, t)
    with pytest.raises(ValueError, match=r"\[cross_entropy\] expects label_smoothing in"):
        chx.cross_entropy(x, t, label_smoothing=1.5)
    with pytest.raises(ValueError, match=r"\[cross_entropy\] expects label_smoothing in"):
        chx.cross_entropy(x, t, label_smoothing=float("nan"))
    with pytest.raises(chx.DimensionError, match=r"\[cross_entropy\]"):
        chx.cross_entropy(chx.zeros((3, 0)), t)
    with pytest.raises(chx.DtypeError, match=r"\[kl_div\] expects floats"):
        chx.kl_div(x, t)


def ctc(x, targets, input_lengths, target_lengths, **kwargs):
    arrays = [chx.array(a) for a in (targets, input_lengths, target_lengths)]
    return chx.ctc_loss(chx.log_softmax(x, 2), *arrays, **kwargs)


def test_ctc_of_sequences_without_a_path(rng):
    """Two equal labels take three steps."""
    x = scores(rng, 2, 2, 3).require_grad()
    arguments = [[1, 1], [1, 2]], [2, 2], [2, 2]
    y = chx.to_numpy(ctc(x, *arguments, reduction="none"))
    assert np.isinf(y[0]) and np.isfinite(y[1])
    y = ctc(x, *arguments, reduction="sum", zero_infinity=True)
    y.backward()
    gradient = chx.to_numpy(x.grad)
    assert np.isfinite(gradient).all()
    assert not gradient[:, 0].any() and gradient[:, 1].any()


def test_ctc_of_no_steps_or_labels(rng):
    x = scores(rng, 3, 2, 3)
    y = chx.to_numpy(ctc(x, [[1], [2]], [0, 0], [0, 1], reduction="none"))
    assert y[0] == 0 and np.isinf(y[1])
    logs = chx.to_numpy(chx.log_softmax(x, 2))
    y = chx.to_numpy(ctc(x, np.zeros((2, 0), int), [3, 2], [0, 0], reduction="none"))
    np.testing.assert_allclose(y, [-logs[:, 0, 0].sum(), -logs[:2, 1, 0].sum()])


def test_ctc_out_of_range(rng):
    x = scores(rng, 3, 2, 3)
    for wrong in (
        ([[1], [3]], [3, 3], [1, 1]),
        ([[1], [-1]], [3, 3], [1, 1]),
        ([[1], [2]], [3, 4], [1, 1]),
        ([[1], [2]], [3, -1], [1, 1]),
        ([[1], [2]], [3, 3], [1, 2]),
        ([[1], [2]], [3, 3], [-1, 1]),
    ):
        with pytest.raises(IndexError):
            float(ctc(x, *wrong))
    with pytest.raises(ValueError, match=r"\[ctc_loss\] expects blank in"):
        ctc(x, [[1], [2]], [3, 3], [1, 1], blank=3)
    with pytest.raises(chx.DimensionError, match=r"\[ctc_loss\] expects lengths"):
        ctc(x, [[1], [2]], [3], [1, 1])
    with pytest.raises(chx.DimensionError, match=r"\[ctc_loss\] expects log_probs"):
        ctc(x, [1, 2], [3, 3], [1, 1])


def test_ctc_of_infinite_logarithms(rng):
    """A class that cannot be, beside one that must."""
    logs = np.log(np.full((4, 1, 3), 1 / 3))
    logs[:, :, 2] = -np.inf
    x = chx.array(logs).require_grad()
    arrays = [chx.array(a) for a in ([[1]], [4], [1])]
    y = chx.ctc_loss(x, *arrays, reduction="sum")
    # A run of ones, in 4 steps: 10 ways.
    np.testing.assert_allclose(float(y), -np.log(10 / 3**4))
    y.backward()
    assert np.isfinite(chx.to_numpy(x.grad)).all()


def test_ids_of_embeddings(rng):
    weight = scores(rng, 4, 2)
    with pytest.raises(IndexError):
        float(chx.embedding(chx.array([0, 4]), weight).sum())
    with pytest.raises(chx.DtypeError, match=r"\[embedding\] expects integer ids"):
        chx.embedding(weight, weight)
    for padding in (4, -5):
        with pytest.raises(ValueError, match=r"\[embedding\] expects padding_idx in"):
            chx.embedding(chx.array([0]), weight, padding)
    with pytest.raises(IndexError, match=r"\[embedding\] expects a table with rows"):
        chx.embedding(chx.array([0]), chx.zeros((0, 2)))


def test_values_of_masked_fill():
    x, mask = chx.arange(4), chx.array([True, False, True, False])
    assert chx.masked_fill(x, mask, 9).tolist() == [9, 1, 9, 3]
    assert chx.masked_fill(x.astype("float32"), mask, -chx.inf).tolist()[0] == -np.inf
    with pytest.raises(chx.DtypeError, match=r"\[masked_fill\] expects a value that int32 has"):
        chx.masked_fill(x, mask, 0.5)
    with pytest.raises(chx.DtypeError, match=r"\[masked_fill\] expects a bool mask"):
        chx.masked_fill(x, x, 1)
    with pytest.raises(chx.DimensionError, match=r"\[masked_fill\] expects one value"):
        chx.masked_fill(x, mask, x)


SEGMENTS = [getattr(chx, f"segment_{name}") for name in ("sum", "prod", "mean", "max", "min")]


@pytest.mark.parametrize("function", SEGMENTS)
def test_ids_of_segments(rng, function):
    x = scores(rng, 3, 2)
    for wrong in ([0, 1, 2], [0, -1, 1]):
        with pytest.raises(IndexError):
            float(function(x, chx.array(wrong), 2).sum())
    with pytest.raises(IndexError, match=r"expects segments for 3 rows"):
        function(x, chx.array([0, 0, 0]), 0)
    with pytest.raises(chx.DimensionError):
        function(x, chx.array([0, 0, 0]), -1)
    with pytest.raises(chx.DimensionError):
        function(x, chx.array([0, 0, 0]), 2**62)
    with pytest.raises(chx.DimensionError, match=r"expects shapes \(n, ...\) and \(n,\)"):
        function(x, chx.array([0, 0]), 2)


def test_segments_with_nan_and_infinity():
    x = chx.array([1.0, np.nan, np.inf, -np.inf, 5.0])
    ids = chx.array([0, 0, 1, 2, 2])
    np.testing.assert_array_equal(
        chx.to_numpy(chx.segment_max(x, ids, 4)), [np.nan, np.inf, 5, -np.inf]
    )
    np.testing.assert_array_equal(
        chx.to_numpy(chx.segment_min(x, ids, 4)), [np.nan, np.inf, -np.inf, np.inf]
    )
    np.testing.assert_array_equal(
        chx.to_numpy(chx.segment_sum(x, ids, 4)), [np.nan, np.inf, -np.inf, 0]
    )
    np.testing.assert_array_equal(
        chx.to_numpy(chx.segment_mean(x[2:], ids[2:] - 1, 3)), [np.inf, -np.inf, np.nan]
    )


def test_segments_of_many_rows_are_the_same_in_every_run(rng):
    values = rng.normal(size=(5000, 3)).astype("float32")
    ids = rng.integers(0, 40, 5000)
    x, i = chx.array(values), chx.array(ids)
    for function, ufunc in ((chx.segment_max, np.maximum), (chx.segment_min, np.minimum)):
        expected = np.full((40, 3), -np.inf if ufunc is np.maximum else np.inf, "float32")
        ufunc.at(expected, ids, values)
        np.testing.assert_array_equal(chx.to_numpy(function(x, i, 40)), expected)
    for function in (chx.segment_sum, chx.segment_prod, chx.segment_mean):
        first = chx.to_numpy(function(x, i, 40))
        for _ in range(3):
            np.testing.assert_array_equal(chx.to_numpy(function(x, i, 40)), first)


def test_equal_elements_share_the_gradient():
    x = chx.array([2.0, 2.0, 1.0, 3.0]).require_grad()
    chx.segment_max(x, chx.array([0, 0, 0, 1]), 2).backward()
    assert x.grad.tolist() == [0.5, 0.5, 0, 1]


def test_products_beside_zeros():
    x = chx.array([2.0, 0.0, 3.0, 0.0, 0.0, 4.0]).require_grad()
    chx.segment_prod(x, chx.array([0, 0, 0, 1, 1, 1]), 2).backward()
    assert x.grad.tolist() == [0, 6, 0, 0, 0, 0]


def test_scatter_reduce_refuses(rng):
    x, source = scores(rng, 4, 3), scores(rng, 2, 3)
    indices = chx.zeros((2, 3), "int64")
    for wrong in (4, -1):
        with pytest.raises(IndexError):
            float(chx.scatter_reduce(x, indices + wrong, source, 0).sum())
    with pytest.raises(chx.DimensionError, match=r"\[scatter_reduce\] expects indices and source"):
        chx.scatter_reduce(x, indices, source, 1, "max").sum() and chx.scatter_reduce(
            x, chx.zeros((2, 4), "int64"), scores(rng, 2, 4), 0
        )
    with pytest.raises(chx.DtypeError, match=r"\[scatter_reduce\] expects floats for 'mean'"):
        chx.scatter_reduce(indices, indices, indices, 0, "mean")
    with pytest.raises(chx.DtypeError, match=r"\[index_add\] expects numbers of one dtype"):
        chx.index_add(x, chx.zeros((2,), "int64"), source.astype("float32"), 0)
    with pytest.raises(IndexError):
        float(chx.index_add(x, chx.array([0, 4]), source, 0).sum())


def test_sizes_of_resampling(rng):
    x = scores(rng, 1, 4, 4, 6)
    with pytest.raises(ValueError, match=r"\[interpolate\] expects either size or scale_factor"):
        chx.interpolate(x)
    with pytest.raises(ValueError, match=r"\[interpolate\] expects either size or scale_factor"):
        chx.interpolate(x, 3, 2.0)
    for scale in (0.1, -1.0, float("nan"), float("inf"), 1e300):
        with pytest.raises(ValueError, match=r"\[interpolate\] expects sizes from 1"):
            chx.interpolate(x, scale_factor=scale)
    with pytest.raises(chx.DimensionError, match=r"\[interpolate\] expects \(N, C, spatial"):
        chx.interpolate(x, 3, mode="linear")
    with pytest.raises(ValueError, match=r"\[interpolate\] expects no align_corners"):
        chx.interpolate(x, 3, align_corners=True)
    with pytest.raises(ValueError, match=r"\[interpolate\] expects size from 1"):
        chx.interpolate(x, 0)
    for factor in (3, 0, -2, 2**40):
        with pytest.raises(chx.DimensionError, match=r"\[pixel_shuffle\]"):
            chx.pixel_shuffle(x, factor)
    with pytest.raises(chx.DimensionError, match=r"\[pixel_unshuffle\]"):
        chx.pixel_unshuffle(x, 4)
    with pytest.raises(ValueError, match=r"\[adaptive_average_pool\] expects output_size from 1"):
        chx.adaptive_average_pool(x, 0)
    with pytest.raises(chx.DimensionError):
        chx.adaptive_max_pool(chx.zeros((1, 2, 0, 3)), 2)
    assert chx.adaptive_average_pool(x, (4, 6)).tolist() == x.tolist()


def test_groups_of_convolutions(rng):
    x, w = scores(rng, 2, 4, 5, 5), scores(rng, 6, 2, 3, 3)
    assert chx.conv2d(x, w, groups=2).shape == (2, 6, 3, 3)
    assert chx.conv2d(x, w, padding="same", dilation=2, groups=2).shape == (2, 6, 5, 5)
    for groups in (3, 4, 0, -1):
        with pytest.raises(chx.DimensionError, match=r"\[grouped_conv\] expects x"):
            chx.conv2d(x, w, groups=groups)
    with pytest.raises(chx.DimensionError, match="positive multiples"):
        chx.conv2d(x, w[:0], groups=2)
    assert chx.conv2d(x, scores(rng, 0, 4, 3, 3)).shape == (2, 0, 3, 3)
    with pytest.raises(chx.DimensionError, match=r"\[grouped_conv\] expects a kernel"):
        chx.conv2d(x, w, dilation=2**31 - 1, groups=2)
    with pytest.raises(chx.DimensionError, match=r"\[conv1d\] expects x of 2 or 3"):
        chx.conv1d(x, w)
    with pytest.raises(ValueError, match=r"\[conv2d\] expects stride 1 with padding 'same'"):
        chx.conv2d(x, w, stride=2, padding="same", groups=2)
    with pytest.raises(ValueError, match=r"\[conv2d\] expects padding"):
        chx.conv2d(x, w, padding="full", groups=2)
