"""Functions of neural networks to export: more of export_cases.CASES."""

import chx
import numpy as np


def ints(high, *shape, low=0, dtype="int64"):
    return lambda rng: rng.integers(low, high, shape).astype(dtype)


def floats(dtype, *shape):
    return lambda rng: rng.normal(size=shape).astype(dtype)


def probabilities(*shape):
    def make(rng):
        p = rng.uniform(size=shape) * (rng.uniform(size=shape) > 0.2)  # some are zero
        return (p / np.maximum(p.sum(1, keepdims=True), 1e-3)).astype("f")

    return make


def positive(*shape):
    return lambda rng: rng.uniform(0.5, 2, shape).astype("f")


def bools(*shape):
    return lambda rng: rng.integers(0, 2, shape).astype("bool")


A = (3, 4)
IMAGE = (2, 4, 6, 9)
Q, K, V = (2, 6, 5, 8), (2, 6, 7, 8), (2, 6, 7, 3)
attention = chx.scaled_dot_product_attention


def _fully_masked(rng):
    mask = rng.integers(0, 2, (5, 7)).astype("bool")
    mask[rng.integers(5)] = False  # a query that sees no key
    return mask


def _scatter(reduce, include_self=True, axis=0):
    return lambda x, i, s: chx.scatter_reduce(x, i, s, axis, reduce, include_self)


def _segment(name):
    return lambda x, ids: getattr(chx, f"segment_{name}")(x, ids, 4)


NETWORK_CASES = {
    "adaptive_average_pool": (lambda x: chx.adaptive_average_pool(x, (2, 3)), [IMAGE]),
    "adaptive_average_pool/global": (lambda x: chx.adaptive_average_pool(x, 1), [IMAGE]),
    "adaptive_average_pool/uneven": (lambda x: chx.adaptive_average_pool(x, (4, 7)), [IMAGE]),
    "adaptive_average_pool/more": (lambda x: chx.adaptive_average_pool(x, 11), [(2, 3, 7)]),
    "adaptive_average_pool/float64": (
        lambda x: chx.adaptive_average_pool(x, (2, 3)),
        [floats("float64", *IMAGE)],
    ),
    "adaptive_max_pool": (lambda x: chx.adaptive_max_pool(x, 3), [IMAGE]),
    "adaptive_max_pool/global": (lambda x: chx.adaptive_max_pool(x, 1), [IMAGE]),
    "adaptive_max_pool/uneven": (lambda x: chx.adaptive_max_pool(x, (5, 2)), [IMAGE]),
    "adaptive_max_pool/4d": (lambda x: chx.adaptive_max_pool(x, 2), [(2, 1, 4, 2, 2, 4)]),
    "cross_entropy": (chx.cross_entropy, [A, ints(4, 3)]),
    "cross_entropy/weights": (
        lambda x, t, w: chx.cross_entropy(x, t, w, 1, "mean"),
        [(6, 4, 2), ints(4, 6, 2), positive(4)],
    ),
    "cross_entropy/none": (
        lambda x, t: chx.cross_entropy(x, t, None, -1, "none"),
        [(6, 4), ints(4, 6, low=-1)],
    ),
    "cross_entropy/one": (lambda x, t: chx.cross_entropy(x, t, None, 9, "none"), [(4,), ints(4)]),
    "cross_entropy/smooth": (
        lambda x, t, w: chx.cross_entropy(x, t, w, 2, "mean", 0.1),
        [(6, 4, 5), ints(4, 6, 5), positive(4)],
    ),
    "cross_entropy/smooth_sum": (
        lambda x, t: chx.cross_entropy(x, t, None, 2, "sum", 0.1),
        [(6, 4), ints(4, 6)],
    ),
    "cross_entropy/smooth_one": (
        lambda x, t: chx.cross_entropy(x, t, None, 9, "none", 0.2),
        [(4,), ints(4)],
    ),
    "cross_entropy/probabilities": (
        lambda x, t, w: chx.cross_entropy(x, t, w, label_smoothing=0.1),
        [(6, 4, 2), probabilities(6, 4, 2), positive(4)],
    ),
    "embedding": (chx.embedding, [ints(5, 2, 3, low=-5, dtype="int32"), (5, 4)]),
    "embedding/padding": (lambda i, w: chx.embedding(i, w, 0), [ints(5, 6), (5, 4)]),
    "gelu": (chx.gelu, [A]),
    "gelu/int": (chx.gelu, [ints(4, 3, 4, low=-3)]),
    "gelu/tanh": (lambda x: chx.gelu(x, "tanh"), [A]),
    "group_norm": (lambda x, w, b: chx.group_norm(x, 2, w, b), [IMAGE, (4,), (4,)]),
    "group_norm/plain": (lambda x: chx.group_norm(x, 2, eps=1e-2), [(3, 4)]),
    "group_norm/float64": (
        lambda x, w: chx.group_norm(x, 2, w),
        [floats("float64", *IMAGE), (4,)],
    ),
    "grouped_conv": (
        lambda x, w, b: chx.conv2d(x, w, b, 2, (2, 1), (1, 2), 2),
        [IMAGE, (6, 2, 3, 3), (6,)],
    ),
    "grouped_conv/depthwise": (
        lambda x, w: chx.conv2d(x, w, None, 1, "same", 1, 4),
        [IMAGE, (8, 1, 3, 2)],
    ),
    "grouped_conv/dilated": (
        lambda x, w: chx.conv1d(x, w, dilation=3, padding=3),
        [(2, 3, 11), (4, 3, 3)],
    ),
    "grouped_conv/3d": (
        lambda x, w: chx.conv3d(x, w, groups=2, padding=1),
        [(1, 4, 4, 5, 3), (4, 2, 2, 3, 1)],
    ),
    "hardswish": (chx.hardswish, [lambda rng: rng.uniform(-5, 5, A).astype("f")]),
    "index_add": (lambda x, i, s: chx.index_add(x, i, s, 1), [A, ints(4, 6, low=-4), (3, 6)]),
    "index_add/int": (chx.index_add, [ints(9, 3, 4), ints(3, 5), ints(9, 5, 4)]),
    "instance_norm": (chx.instance_norm, [IMAGE, (4,), (4,)]),
    "instance_norm/plain": (lambda x: chx.instance_norm(x, eps=1e-2), [(2, 3, 5)]),
    "instance_norm/2d": (chx.instance_norm, [A, (4,), (4,)]),
    "interpolate": (lambda x: chx.interpolate(x, scale_factor=3), [IMAGE]),
    "interpolate/uneven": (lambda x: chx.interpolate(x, (7, 4)), [IMAGE]),
    "interpolate/scale": (lambda x: chx.interpolate(x, scale_factor=0.7), [(2, 3, 10)]),
    "interpolate/linear": (lambda x: chx.interpolate(x, 13, mode="linear"), [(2, 3, 5)]),
    "interpolate/bilinear": (lambda x: chx.interpolate(x, (9, 4), mode="bilinear"), [IMAGE]),
    "interpolate/half": (
        lambda x: chx.interpolate(x, scale_factor=0.5, mode="bilinear"),
        [(1, 2, 6, 8)],
    ),
    "interpolate/bilinear_scale": (
        lambda x: chx.interpolate(x, scale_factor=1.15, mode="bilinear"),
        [(1, 2, 5, 9)],
    ),
    "interpolate/corners": (
        lambda x: chx.interpolate(x, (3, 1, 7), mode="trilinear", align_corners=True),
        [(1, 2, 4, 3, 4)],
    ),
    "interpolate/corners_float64": (
        lambda x: chx.interpolate(x, (9, 5), mode="bilinear", align_corners=True),
        [floats("float64", 1, 2, 4, 5)],
    ),
    "interpolate/corners_scale": (
        lambda x: chx.interpolate(x, scale_factor=1.3, mode="linear", align_corners=True),
        [(1, 2, 6)],
    ),
    "interpolate/float64": (
        lambda x: chx.interpolate(x, (9, 5), mode="bilinear"),
        [floats("float64", 1, 2, 4, 7)],
    ),
    "interpolate/same": (
        lambda x: chx.interpolate(x, scale_factor=1.05, mode="linear"),
        [(1, 2, 6)],
    ),
    "interpolate/empty": (lambda x: chx.interpolate(x, 7, mode="linear"), [(0, 2, 3)]),
    "kl_div": (chx.kl_div, [A, probabilities(3, 4)]),
    "kl_div/log": (lambda x, t: chx.kl_div(x, t, "batchmean", True), [A, (4,)]),
    "kl_div/none": (lambda x, t: chx.kl_div(x, t, "none"), [A, probabilities(3, 4)]),
    "layer_norm": (lambda x, w, b: chx.layer_norm(x, 4, w, b), [A, (4,), (4,)]),
    "layer_norm/axes": (
        lambda x, w: chx.layer_norm(x, (3, 4), w, None, 1e-2),
        [(2, 3, 4), (3, 4)],
    ),
    "layer_norm/bias": (lambda x, b: chx.layer_norm(x, 4, None, b), [A, (4,)]),
    "layer_norm/mixed": (
        lambda x, w: chx.layer_norm(x, 4, w),
        [ints(9, 3, 4), floats("float64", 4)],
    ),
    "layer_norm/float16": (
        lambda x, w, b: chx.layer_norm(x, 4, w, b),
        [floats("float16", 3, 4), (4,), floats("float16", 4)],
    ),
    "layer_norm/float64": (
        lambda x, w, b: chx.layer_norm(x, 4, w, b),
        [floats("float64", 3, 4), (4,), (4,)],
    ),
    "masked_fill": (lambda x, m: chx.masked_fill(x, m, -1), [A, bools(2, 3, 4)]),
    "masked_fill/array": (chx.masked_fill, [ints(9, 3, 4), bools(4), ints(3, dtype="int32")]),
    "masked_fill/bool": (lambda x, m: chx.masked_fill(x, m, True), [bools(3, 4), bools(4)]),
    "mish": (chx.mish, [A]),
    "nll_loss": (chx.nll_loss, [A, ints(4, 3)]),
    "nll_loss/weights": (
        lambda x, t, w: chx.nll_loss(x, t, w, 0, "sum"),
        [(3, 4, 2), ints(4, 3, 2), positive(4)],
    ),
    "nll_loss/one": (lambda x, t: chx.nll_loss(x, t, None, 2, "none"), [(4,), ints(4)]),
    "pixel_shuffle": (lambda x: chx.pixel_shuffle(x, 2), [(2, 8, 3, 5)]),
    "pixel_shuffle/5d": (lambda x: chx.pixel_shuffle(x, 3), [(2, 2, 9, 2, 3)]),
    "pixel_unshuffle": (lambda x: chx.pixel_unshuffle(x, 2), [(2, 3, 4, 6)]),
    "pixel_unshuffle/3d": (lambda x: chx.pixel_unshuffle(x, 3), [(2, 6, 3)]),
    "rms_norm": (lambda x, w: chx.rms_norm(x, 4, w), [A, (4,)]),
    "rms_norm/plain": (lambda x: chx.rms_norm(x, (3, 4), eps=1e-2), [(2, 3, 4)]),
    "rms_norm/float16": (lambda x: chx.rms_norm(x, 4), [floats("float16", 3, 4)]),
    "rms_norm/float64": (lambda x, w: chx.rms_norm(x, 4, w), [floats("float64", 3, 4), (4,)]),
    "rope": (chx.rope, [(2, 3, 5, 8)]),
    "rope/interleaved": (lambda x: chx.rope(x, base=500.0, interleaved=True), [(3, 5, 6)]),
    "rope/positions": (
        lambda x, p: chx.rope(x, p),
        [(2, 3, 5, 8), ints(4000, 2, 1, 5)],
    ),
    "rope/heads": (
        lambda x, p, f: chx.rope(x, p, f, interleaved=True),
        [(2, 3, 5, 6), ints(9, 3, 1), positive(3)],
    ),
    "rope/2d": (lambda x, f: chx.rope(x, None, f), [(5, 4), positive(2)]),
    "rope/float16": (chx.rope, [floats("float16", 2, 5, 6)]),
    "rope/float64": (chx.rope, [floats("float64", 2, 5, 6), ints(4000, 5)]),
    "rope/float64_interleaved": (
        lambda x: chx.rope(x, interleaved=True),
        [floats("float64", 2, 3, 5, 4)],
    ),
    "scaled_dot_product_attention": (attention, [Q, K, V]),
    "scaled_dot_product_attention/causal": (
        lambda q, k, v: attention(q, k, v, is_causal=True, scale=0.25),
        [Q, K, V],
    ),
    "scaled_dot_product_attention/bool": (attention, [Q, K, V, _fully_masked]),
    "scaled_dot_product_attention/short": (attention, [Q, K, V, (6, 5, 1)]),
    "scaled_dot_product_attention/row": (attention, [Q, K, V, (7,)]),
    "scaled_dot_product_attention/gqa": (
        lambda q, k, v: attention(q, k, v, enable_gqa=True),
        [Q, (2, 3, 7, 8), (2, 3, 7, 4)],
    ),
    "one_hot": (lambda i: chx.one_hot(i, 4, axis=1), [ints(6, 2, 3, low=-2, dtype="int32")]),
    "one_hot/bool": (lambda i: chx.one_hot(i, 3, "bool"), [ints(3, 5)]),
    "scaled_dot_product_attention/2d": (attention, [(5, 8), (7, 8), (7, 8), (5, 7)]),
    "scaled_dot_product_attention/3d": (attention, [(3, 5, 8), (3, 7, 8), (3, 7, 8)]),
    "scaled_dot_product_attention/5d": (
        attention,
        [(2, 3, 2, 5, 4), (2, 3, 2, 7, 4), (2, 3, 2, 7, 4), (3, 1, 5, 7)],
    ),
    "scaled_dot_product_attention/float16": (
        attention,
        [floats("float16", *s) for s in (Q, K, V, (5, 7))],
    ),
    "scaled_dot_product_attention/float64": (
        attention,
        [floats("float64", *s) for s in (Q, K, V)],
    ),
    "scatter_reduce": (_scatter("sum"), [A, ints(3, 3, 4), (3, 4)]),
    "scatter_reduce/prod": (_scatter("prod", axis=1), [A, ints(4, 2, 6), (2, 6)]),
    "scatter_reduce/mean": (_scatter("mean"), [A, ints(3, 5, 4), (5, 4)]),
    "scatter_reduce/max": (_scatter("max"), [ints(9, 3, 4), ints(3, 3, 2), ints(9, 3, 2)]),
    "scatter_reduce/others_min": (_scatter("min", False), [A, ints(3, 2, 4), (2, 4)]),
    "scatter_reduce/others_sum": (_scatter("sum", False, -1), [A, ints(4, 3, 2), (3, 2)]),
    "scatter_reduce/others_mean": (_scatter("mean", False), [A, ints(3, 2, 4), (2, 4)]),
    "segment_max": (_segment("max"), [(7, 2), ints(3, 7)]),
    "segment_max/int": (_segment("max"), [ints(9, 7), ints(3, 7)]),
    "segment_mean": (_segment("mean"), [(7, 2, 2), ints(4, 7)]),
    "segment_mean/int": (_segment("mean"), [ints(9, 7), ints(3, 7, dtype="int32")]),
    "segment_min": (_segment("min"), [(7, 2), ints(3, 7)]),
    "segment_min/int": (_segment("min"), [ints(9, 7, dtype="int32"), ints(3, 7)]),
    "segment_prod": (_segment("prod"), [(7, 2), ints(4, 7)]),
    "segment_sum": (_segment("sum"), [(7, 2), ints(4, 7)]),
    "segment_sum/float16": (_segment("sum"), [floats("float16", 7, 2), ints(4, 7)]),
    "segment_sum/int": (_segment("sum"), [ints(9, 7), ints(4, 7)]),
    "silu": (chx.silu, [A]),
}
