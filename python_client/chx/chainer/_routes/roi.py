"""Routes of chainer.functions.pooling for regions of interest.

Regions are few and have no gradients: they are fetched, and made into a table here of which elements
each output is made of. The daemon gathers and reduces those.
"""

from __future__ import annotations

import numpy as np
from chainer.functions.pooling import (
    roi_average_align_2d,
    roi_average_pooling_2d,
    roi_max_align_2d,
    roi_max_pooling_2d,
    roi_pooling_2d,
)

import chx
from chx._compat import zip_strict
from chx.chainer._routes._common import sent
from chx.chainer._routes._registry import route


def _gathered(x, index):
    """x (N, C, H, W), index (R, oh, ow, K...) into (N, H, W) -> (R, C, oh, ow, K...)."""
    flat = x.transpose(1, 0, 2, 3).reshape(x.shape[1], -1)
    return chx.moveaxis(chx.take(flat, sent(index, x), axis=1), 0, 1)


def _padded(lists, shape):
    """Lists of numbers, one for each output, as an array (outputs, longest), and what is in it."""
    longest = max([1, *[len(a) for a in lists]])
    index = np.zeros((len(lists), longest), np.int64)
    used = np.zeros((len(lists), longest), bool)
    for row, numbers in enumerate(lists):
        index[row, : len(numbers)] = numbers
        used[row, : len(numbers)] = True
    return index.reshape(*shape, longest), used.reshape(*shape, longest)


def _boxes(x, boxes, batch, f, inclusive):
    """Which elements are in each of the outsize's bins of each box (y0, x0, y1, x1)."""
    h, w = x.shape[2:]
    lists = []
    for (y0, x0, y1, x1), b in zip_strict(boxes, batch):
        y0, x0, y1, x1 = (int(round(v * f.spatial_scale)) for v in (y0, x0, y1, x1))
        rows = _bins(y0, max(y1 - y0 + inclusive, 1), f.outh, h)
        columns = _bins(x0, max(x1 - x0 + inclusive, 1), f.outw, w)
        for r in rows:
            for c in columns:
                lists.append(((int(b) * h + r[:, None]) * w + c).ravel())
    return _padded(lists, (len(boxes), f.outh, f.outw))


def _bins(start, size, outs, limit):
    step = 1.0 * size / outs
    edges = [
        (int(np.floor(i * step)) + start, int(np.ceil((i + 1) * step)) + start) for i in range(outs)
    ]
    return [np.arange(*np.clip(edge, 0, limit)) for edge in edges]


def _fetched(rois):
    return chx.to_numpy(rois).astype(np.float64)


def _greatest(values, mask, empty):
    """The greatest of the last axis's values that a mask has; of several, the first."""
    mask = chx.expand_dims(mask, 1)
    first = chx.argmax(chx.where(mask, values.as_grad_stopped(), -np.inf), -1)
    chosen = chx.take_along_axis(values, chx.expand_dims(first, first.ndim), -1)
    return chx.where(chx.any(mask, -1), chx.squeeze(chosen, -1), empty)


def _max_of(x, index, used, empty):
    return _greatest(_gathered(x, index), sent(used, x), empty)


@route(roi_pooling_2d.ROIPooling2D)
def _roi_pooling(f, xs):
    x, rois = xs
    table = _fetched(rois)
    index, used = _boxes(x, table[:, [2, 1, 4, 3]], table[:, 0], f, 1)
    return (_max_of(x, index, used, 0),)


@route(roi_max_pooling_2d.ROIMaxPooling2D)
def _roi_max_pooling(f, xs):
    x, rois, batch = xs
    index, used = _boxes(x, _fetched(rois), chx.to_numpy(batch), f, 0)
    return (_max_of(x, index, used, -np.inf),)


@route(roi_average_pooling_2d.ROIAveragePooling2D)
def _roi_average_pooling(f, xs):
    x, rois, batch = xs
    index, used = _boxes(x, _fetched(rois), chx.to_numpy(batch), f, 0)
    weight = used / np.maximum(used.sum(-1, keepdims=True), 1)
    weight = chx.expand_dims(sent(weight.astype(x.dtype), x), 1)
    return (chx.sum(_gathered(x, index) * weight, -1),)


def _samples(x, rois, batch, f):
    """Bilinear samples of each bin: indices and weights (R, oh, ow, samples, 4), and how many."""
    h, w = x.shape[2:]
    table, scale = _fetched(rois), f.spatial_scale
    counts, lists, weights = [], [], []
    for (y0, x0, y1, x1), b in zip_strict(table * scale, chx.to_numpy(batch)):
        bin_h, bin_w = max(y1 - y0, 1.0) / f.outh, max(x1 - x0, 1.0) / f.outw
        grid_h = f.sampling_ratio[0] or int(np.ceil(bin_h))
        grid_w = f.sampling_ratio[1] or int(np.ceil(bin_w))
        for i in range(f.outh):
            rows = _neighbours(y0 + i * bin_h + (np.arange(grid_h) + 0.5) * bin_h / grid_h, h)
            for j in range(f.outw):
                columns = _neighbours(
                    x0 + j * bin_w + (np.arange(grid_w) + 0.5) * bin_w / grid_w, w
                )
                places = rows[0][:, None, :, None] * w + columns[0][None, :, None, :]
                shares = rows[1][:, None, :, None] * columns[1][None, :, None, :]
                lists.append((int(b) * h * w + places).reshape(-1, 4))
                weights.append(shares.reshape(-1, 4))
                counts.append(len(lists[-1]))
    longest = max(counts, default=1)
    shape = (len(table), f.outh, f.outw, longest)
    index = np.zeros((len(lists), longest, 4), np.int64)
    weight = np.zeros((len(lists), longest, 4))
    for row, (places, shares) in enumerate(zip_strict(lists, weights)):
        index[row, : len(places)], weight[row, : len(shares)] = places, shares
    return index.reshape(*shape, 4), weight.reshape(*shape, 4), np.reshape(counts, shape[:3])


def _neighbours(positions, limit):
    """The two elements beside each position, and their shares; none for one that is outside."""
    outside = (positions < -1) | (positions > limit)
    low = np.floor(positions).astype(np.int64)
    low = np.where(low == limit, low - 1, low)
    clamped = np.where(low <= -1, 0.0, np.where(low + 1 >= limit, limit - 1.0, positions))
    places = np.stack([low, low + 1], -1)
    shares = np.stack([low + 1 - clamped, clamped - low], -1)
    inside = (places >= 0) & (places < limit) & ~outside[:, None]
    return np.where(inside, places, 0), np.where(inside, shares, 0)


@route(roi_average_align_2d.ROIAverageAlign2D)
def _roi_average_align(f, xs):
    x = xs[0]
    index, weight, counts = _samples(*xs, f)
    weight = weight / counts[..., None, None]
    weight = chx.expand_dims(sent(weight.astype(x.dtype), x), 1)
    return (chx.sum(_gathered(x, index) * weight, (-2, -1)),)


@route(roi_max_align_2d.ROIMaxAlign2D)
def _roi_max_align(f, xs):
    x = xs[0]
    index, weight, _ = _samples(*xs, f)
    # A sample that is outside counts for nothing.
    used = sent((weight != 0).any(-1), x)
    weight = chx.expand_dims(sent(weight.astype(x.dtype), x), 1)
    values = chx.sum(_gathered(x, index) * weight, -1)
    return (_greatest(values, used, -np.inf),)
