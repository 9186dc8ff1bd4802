"""Routes of chainer.functions.loss, but for sequences."""

import chainer
import numpy as np
from chainer.functions.loss import (
    absolute_error,
    contrastive,
    cross_covariance,
    decov,
    hinge,
    huber_loss,
    mean_absolute_error,
    mean_squared_error,
    negative_sampling,
    sigmoid_cross_entropy,
    softmax_cross_entropy,
    squared_error,
    triplet,
)

import chx
from chx.chainer._routes._common import cast, precisely, sent
from chx.chainer._routes._registry import route


@route(absolute_error.AbsoluteError)
def _absolute_error(f, xs):
    return (chx.abs(xs[0] - xs[1]),)


@route(squared_error.SquaredError)
def _squared_error(f, xs):
    return (chx.squared_error(*xs),)


@route(mean_absolute_error.MeanAbsoluteError)
def _mean_absolute_error(f, xs):
    return (cast(chx.mean(precisely(chx.abs(xs[0] - xs[1]))), xs[0].dtype),)


@route(mean_squared_error.MeanSquaredError)
def _mean_squared_error(f, xs):
    return (chx.mean(chx.squared_error(*xs)),)


@route(huber_loss.HuberLoss)
def _huber_loss(f, xs):
    y = chx.huber_loss(*xs, f.delta)
    return (chx.sum(y, 1) if f.reduce == "sum_along_second_axis" else y,)


@route(hinge.Hinge)
def _hinge(f, xs):
    x, t = xs
    y = chx.hinge(x, t, 1.0 if f.norm == "L1" else 2.0)
    return (chx.sum(y) / len(x) if f.reduce == "mean" else y,)


@route(contrastive.Contrastive)
def _contrastive(f, xs):
    x0, x1, y = xs
    y = cast(y, x0.dtype)
    squares = chx.sum((x0 - x1) ** 2, 1)
    # Where they are the same, the distance has no gradient: a constant zero.
    zero = squares == 0
    distance = chx.where(zero, 0, chx.sqrt(chx.where(zero, 1, squares)))
    missing = chx.relu(f.margin - distance)
    loss = (y * squares + (1 - y) * missing * missing) * 0.5
    return (chx.mean(loss) if f.reduce == "mean" else loss,)


@route(triplet.Triplet)
def _triplet(f, xs):
    anchor, positive, negative = xs
    distance = chx.sum((anchor - positive) ** 2 - (anchor - negative) ** 2, 1) + f.margin
    loss = chx.relu(distance)
    return (chx.mean(loss) if f.reduce == "mean" else loss,)


def _half_squares(covariance, reduce):
    return chx.sum(chx.square(covariance)) * 0.5 if reduce == "half_squared_sum" else covariance


@route(cross_covariance.CrossCovariance)
def _cross_covariance(f, xs):
    y, z = (x - chx.mean(x, 0, True) for x in xs)
    return (_half_squares(chx.dot(y.T, z) / len(y), f.reduce),)


@route(decov.DeCov)
def _decov(f, xs):
    h = xs[0] - chx.mean(xs[0], 0, True)
    n = h.shape[1]
    others = 1 - chx.eye(n, dtype=h.dtype, device=h.device)
    return (_half_squares(chx.dot(h.T, h) * others / len(h), f.reduce),)


@route(sigmoid_cross_entropy.SigmoidCrossEntropy)
def _sigmoid_cross_entropy(f, xs):
    x, t = xs
    counted = t != f.ignore_label
    # With t as a factor, its values may be any, as Chainer's may. At 0, the gradient is 1/2 - t.
    above = x >= 0
    loss = chx.softplus(chx.where(above, chx.negative(x), x))
    loss = loss + x * (above.astype(x.dtype) - cast(t, x.dtype))
    loss = chx.where(counted, loss, 0)
    if f.reduce != "mean":
        return (loss,)
    f.count = chx.maximum(chx.sum(counted), 1) if f.normalize else max(1, len(x))
    return (cast(chx.sum(loss) / f.count, x.dtype),)


@route(softmax_cross_entropy.SoftmaxCrossEntropy)
def _softmax_cross_entropy(f, xs):
    f.retain_inputs((0, 1))  # exporters ask for them, where functions are recorded
    x, t = xs
    if x.shape == t.shape:
        return (_soft_targets(f, x, t),)
    if chainer.is_debug():
        softmax_cross_entropy._check_input_values(x, t, f.ignore_label)
    classes = x.shape[1]
    flat = x if x.ndim == 2 else chx.moveaxis(x, 1, -1).reshape(-1, classes)
    labels = t.ravel()
    counted = None
    if f.ignore_label != -1:
        counted = labels != f.ignore_label
        # Others that are negative count from the last class; those out of range stay, and are refused.
        labels = cast(labels, "int64")
        from_last = chx.logical_and(labels < 0, labels >= -classes)
        labels = chx.where(from_last, labels + classes, labels)
        labels = chx.where(counted, labels, -1)
    # Label -1 gives 0.
    loss = chx.softmax_cross_entropy(flat, labels)
    if f.class_weight is not None:
        weights = cast(sent(f.class_weight, x), x.dtype)
        loss = loss * chx.take(weights, chx.maximum(labels, 0), axis=0)
    if f.reduce != "mean":
        return (loss.reshape(t.shape),)
    if f.normalize:
        counted = labels != -1 if counted is None else counted
        count = chx.maximum(chx.sum(counted), 1)
    else:
        count = max(len(x), 1)
    return (cast(chx.sum(precisely(loss)) / count, x.dtype),)


def _soft_targets(f, x, t):
    t = t.as_grad_stopped()
    loss = chx.negative(chx.sum(t * chx.log_softmax(x, 1), 1))
    if f.soft_target_loss == "kl-divergence":
        loss = loss + chx.sum(t * chx.log(t + f.eps), 1)
    return chx.mean(loss) if f.reduce == "mean" else loss


@route(negative_sampling.NegativeSamplingFunction)
def _negative_sampling(f, xs):
    x, t, w = xs
    f.ignore_mask = t != f.ignore_label
    # The sampler is the user's, and of this process; the first sample is the label.
    samples = sent(f.sampler((len(t), f.sample_size + 1)), x).astype("int32")
    f.samples = chx.concatenate([chx.expand_dims(t, 1), samples[:, 1:]], 1)
    used = chx.where(chx.expand_dims(f.ignore_mask, 1), f.samples, 0)
    chosen = chx.take(precisely(w), used, axis=0)
    score = chx.squeeze(chx.matmul(chosen, chx.expand_dims(precisely(x), 2)), 2)
    sign = np.ones(f.sample_size + 1, score.dtype)
    sign[0] = -1
    loss = chx.sum(chx.softplus(score * sent(sign, x)), 1)
    loss = chx.where(f.ignore_mask, loss, 0)
    return (cast(chx.sum(loss) if f.reduce == "sum" else loss, x.dtype),)


def adapt_softmax_cross_entropy(chainer):
    """Every form of it has a route."""
    cls = softmax_cross_entropy.SoftmaxCrossEntropy
    cls._is_chainerx_supported = lambda self, inputs: True
