"""Routes of chainer.functions.evaluation. None has gradients."""

from chainer.functions.evaluation import (
    accuracy,
    binary_accuracy,
    classification_summary,
    r2_score,
)

import chx
from chx.chainer._routes._common import cast
from chx.chainer._routes._registry import route


@route(accuracy.Accuracy)
def _accuracy(f, xs):
    y, t = (x.as_grad_stopped() for x in xs)
    predicted = chx.argmax(y, 1).reshape(t.shape)
    hits = predicted == t
    if f.ignore_label is None:
        return (chx.mean(hits.astype(y.dtype)),)
    counted = t != f.ignore_label
    hits = chx.sum(chx.logical_and(hits, counted))
    return ((hits / chx.maximum(chx.sum(counted), 1)).astype(y.dtype),)


@route(binary_accuracy.BinaryAccuracy)
def _binary_accuracy(f, xs):
    y, t = (x.as_grad_stopped().ravel() for x in xs)
    hits = chx.sum((y >= 0).astype(t.dtype) == t)
    counted = chx.sum(t != f.ignore_label)
    return ((hits.astype("float64") / chx.maximum(counted, 1)).astype(y.dtype),)


@route(classification_summary.ClassificationSummary)
def _classification_summary(f, xs):
    y, t = (x.as_grad_stopped() for x in xs)
    n = int(chx.amax(t)) + 1 if f.label_num is None else f.label_num
    t = t.astype("int32").ravel()
    # Those that don't count are of a class beyond the last one.
    ignored = t == f.ignore_label
    predicted = chx.where(ignored, n, chx.argmax(y, 1).ravel().astype("int32"))
    true = chx.where(ignored, n, t)
    hit = chx.where(predicted == true, true, n)
    support, relevant, hits = (
        chx.bincount(a, minlength=n + 1)[:n].astype("float64") for a in (true, predicted, hit)
    )
    precision, recall = hits / relevant, hits / support
    beta = f.beta**2
    fbeta = (1 + beta) * precision * recall / (beta * precision + recall)
    return precision, recall, fbeta, support.astype("int64")


@route(r2_score.R2_score)
def _r2_score(f, xs):
    predicted, true = (x.as_grad_stopped() for x in xs)
    residual = chx.sum((predicted - true) ** 2, 0)
    total = chx.sum((true - chx.mean(true, 0)) ** 2, 0)
    constant = total == 0
    score = chx.where(constant, 0, 1 - residual / chx.where(constant, 1, total))
    score = cast(score, predicted.dtype)
    return (chx.mean(score) if f.multioutput == "uniform_average" else score,)
