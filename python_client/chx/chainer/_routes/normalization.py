"""Routes of chainer.functions.normalization."""

from __future__ import annotations

import numpy as np
from chainer import Fallback
from chainer.functions.normalization import (
    batch_normalization,
    batch_renormalization,
    decorrelated_batch_normalization,
    group_normalization,
    l2_normalization,
    layer_normalization,
    local_response_normalization,
)

import chx
from chx._compat import zip_strict
from chx.chainer._routes._common import cast
from chx.chainer._routes._registry import route


def _axes(f, x, gamma):
    """The axes that statistics are over, noted as NumPy's path notes them: exporters read them."""
    if f.axis is None:
        f.axis = (0, *range(gamma.ndim + 1, x.ndim))
    return f.axis


@route(batch_normalization.BatchNormalization)
def _batch_normalization(f, xs):
    x, gamma, beta = xs
    # Statistics are in the wider dtype of x and gamma.
    dtype = np.promote_types(x.dtype, gamma.dtype)
    mean, var = f.running_mean, f.running_var
    if mean is None:
        mean = chx.zeros(gamma.shape, dtype, device=x.device)
        var = chx.zeros(gamma.shape, dtype, device=x.device)
    if f._impl_selector is not batch_normalization._impl_selector:
        # ChainerMN's: statistics are means over ranks (chx.chainermn).
        over_ranks = getattr(f._impl_selector, "over_ranks", None)
        if over_ranks is None:
            return Fallback
        y = _normalized(f, cast(x, dtype), cast(gamma, dtype), cast(beta, dtype), over_ranks)
        return (cast(y, x.dtype),)
    parameters = (cast(gamma, dtype), cast(beta, dtype), mean, var)
    y = chx.batch_norm(cast(x, dtype), *parameters, f.eps, f.decay, _axes(f, x, gamma))
    return (cast(y, x.dtype),)


def _normalized(f, x, gamma, beta, over_ranks):
    axes = _axes(f, x, gamma)
    shape = [1 if axis in axes else length for axis, length in enumerate(x.shape)]
    mean, mean_of_squares = over_ranks([chx.mean(x, axes), chx.mean(chx.square(x), axes)])
    var = mean_of_squares - chx.square(mean)
    if f.running_mean is not None:
        count = x.size // gamma.size
        for running, new in (
            (f.running_mean, mean),
            (f.running_var, var * (count / max(count - 1.0, 1.0))),
        ):
            new = cast(new.as_grad_stopped(), running.dtype)
            chx.copyto(running, running * f.decay + new * (1 - f.decay))
    scale = gamma / chx.sqrt(var + f.eps)
    return (x - mean.reshape(shape)) * scale.reshape(shape) + beta.reshape(shape)


@route(batch_normalization.FixedBatchNormalization)
def _fixed_batch_normalization(f, xs):
    x, gamma = xs[:2]
    dtype = np.result_type(*[a.dtype for a in xs])
    y = chx.fixed_batch_norm(*[cast(a, dtype) for a in xs], f.eps, _axes(f, x, gamma))
    return (cast(y, x.dtype),)


@route(batch_renormalization.BatchRenormalizationFunction)
def _batch_renormalization(f, xs):
    x, gamma, beta = xs
    dtype = gamma.dtype
    axes = (0, *range(gamma.ndim + 1, x.ndim))
    shape = (1, *gamma.shape, *[1] * (x.ndim - gamma.ndim - 1))
    wide = cast(x, dtype)
    mean, var = chx.mean(wide, axes), chx.var(wide, axes)
    deviation = chx.sqrt(var + f.eps)
    # How the batch differs from what was seen before: constants to the gradient.
    running = chx.sqrt(f._running_var + f.eps)
    now_mean, now_deviation = mean.as_grad_stopped(), deviation.as_grad_stopped()
    f.r = chx.clip(now_deviation / running, 1.0 / f.rmax, f.rmax)
    d = chx.clip((now_mean - f._running_mean) / running, -f.dmax, f.dmax)
    x_hat = (wide - mean.reshape(shape)) / deviation.reshape(shape)
    x_hat = x_hat * f.r.reshape(shape) + d.reshape(shape)
    y = gamma.reshape(shape) * x_hat + beta.reshape(shape)
    if f.update_statistics:
        m = x.size // gamma.size
        now = (now_mean, var.as_grad_stopped() * (m / max(m - 1.0, 1.0)))
        _average((f._running_mean, f._running_var), now, f.decay)
    return (cast(y, x.dtype),)


def _average(running, now, decay):
    """Moves averages, in place."""
    for old, new in zip_strict(running, now):
        old *= decay
        old += cast(new, old.dtype) * (1 - decay)


def _as_groups(x, groups):
    """x (N, C, spatial...) -> (groups, C / groups, the rest), and the way back."""
    n, c = x.shape[:2]
    order = (1, 0, *range(2, x.ndim))
    swapped = x.transpose(order)

    def back(y):
        return y.reshape(swapped.shape).transpose(order)

    return swapped.reshape(groups, c // groups, x.size // c), back


@route(decorrelated_batch_normalization.DecorrelatedBatchNormalization)
def _decorrelated_batch_normalization(f, xs):
    (x,) = xs
    g, back = _as_groups(x, f.groups)
    c, m = g.shape[1:]
    mean = chx.mean(g, 2, True)
    centered = g - mean
    eye = chx.eye(c, dtype=x.dtype, device=x.device)
    cov = chx.matmul(centered, centered.transpose(0, 2, 1)) / m + eye * f.eps
    values, vectors = chx.linalg.eigh(cov)
    scaled = vectors * chx.expand_dims(values ** (-0.5), 1)
    projection = chx.matmul(scaled, vectors.transpose(0, 2, 1))
    if f.running_mean is not None:
        now = chx.squeeze(mean, 2).as_grad_stopped()
        _average([f.running_mean], [now], f.decay)
    if f.running_projection is not None:
        now = projection.as_grad_stopped() * (m / max(m - 1.0, 1.0))
        _average([f.running_projection], [now], f.decay)
    return (back(chx.matmul(projection, centered)),)


@route(decorrelated_batch_normalization.FixedDecorrelatedBatchNormalization)
def _fixed_decorrelated_batch_normalization(f, xs):
    x, mean, projection = xs
    g, back = _as_groups(x, f.groups)
    return (back(chx.matmul(projection, g - chx.expand_dims(mean, 2))),)


@route(group_normalization.GroupNormalization)
def _group_normalization(f, xs):
    x, gamma, beta = xs
    c = x.shape[1]
    if c % f.groups:
        raise ValueError(f"[group_normalization] expects {f.groups} groups to divide {c} channels")
    # Chainer's statistics are in the wider dtype of x and gamma; these are in float32 at least.
    return (chx.group_norm(x, f.groups, gamma, beta, f.eps),)


@route(l2_normalization.NormalizeL2)
def _normalize_l2(f, xs):
    (x,) = xs
    squares = chx.sum(chx.square(x), f.axis, True)
    # The root has no gradient at zero: there it is the constant zero.
    zero = squares == 0
    norm = chx.where(zero, 0, chx.sqrt(chx.where(zero, 1, squares)))
    return (x / (norm + f.eps),)


@route(layer_normalization.LayerNormalization)
def _layer_normalization(f, xs):
    x, gamma, beta = xs
    if gamma.shape != x.shape[1:]:  # which Chainer broadcasts
        return (chx.layer_norm(x, x.shape[1:], eps=f.eps) * gamma + beta,)
    return (chx.layer_norm(x, x.shape[1:], gamma, beta, f.eps),)


@route(local_response_normalization.LocalResponseNormalization)
def _local_response_normalization(f, xs):
    (x,) = xs
    half, channels = f.n // 2, x.shape[1]
    rest = [(0, 0)] * (x.ndim - 2)
    padded = chx.pad(chx.square(x), [(0, 0), (half, half), *rest])
    total = padded[:, :channels]
    for i in range(1, 2 * half + 1):
        total = total + padded[:, i : i + channels]
    return (x * (f.k + f.alpha * total) ** -f.beta,)
