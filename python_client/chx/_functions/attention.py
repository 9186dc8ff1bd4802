"""Attention by PyTorch's names and arguments."""

from __future__ import annotations

import math

from chx import _core
from chx._core import ndarray
from chx._runtime import random_streams


def scaled_dot_product_attention(
    query: ndarray,
    key: ndarray,
    value: ndarray,
    attn_mask: ndarray | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> ndarray:
    """softmax(query key^T * scale + attn_mask) value.

    On "native" and without dropout the memory for it grows with the lengths. On GPUs, which have no kernel
    for it, with dropout, and in gradients that are differentiated again, the whole matrix of weights is
    made, which grows with their product. With dropout `dropout_p` of the weights are zero and the others
    greater.
    """
    if dropout_p == 0:
        return _core.scaled_dot_product_attention(
            query, key, value, attn_mask, is_causal, scale, enable_gqa
        )
    if not 0 < dropout_p < 1:
        raise ValueError(
            f"[scaled_dot_product_attention] expects dropout_p in [0, 1), got {dropout_p}"
        )
    if enable_gqa and query.ndim > 2:
        groups = query.shape[-3] // max(1, key.shape[-3])
        key, value = (_core.repeat(a, groups, query.ndim - 3) for a in (key, value))
    weights = _weights(query, key, attn_mask, is_causal, scale)
    drawn = random_streams.draw(
        None, "random_uniform", weights.shape, 0.0, 1.0, "float32", weights.device
    )
    kept = (drawn >= dropout_p).astype(weights.dtype) * (1 / (1 - dropout_p))
    return _core.matmul(weights * kept, value)


def _weights(
    query: ndarray, key: ndarray, mask: ndarray | None, is_causal: bool, scale: float | None
) -> ndarray:
    """The whole matrix of weights; rows in which no score counts are zero."""
    if scale is None:
        scale = 1 / math.sqrt(max(1, query.shape[-1]))
    scores = _core.matmul(query, _core.swapaxes(key, -1, -2)) * scale
    if mask is not None:
        scores = _core.where(mask, scores, -math.inf) if mask.dtype.kind == "b" else scores + mask
    if is_causal:
        rows, columns = (
            _core.arange(n, device=query.device) for n in (scores.shape[-2], scores.shape[-1])
        )
        scores = _core.where(_core.expand_dims(rows, 1) >= columns, scores, -math.inf)
    dead = _core.amax(scores, -1, True) == -math.inf
    return _core.where(dead, 0.0, _core.softmax(_core.where(dead, 0.0, scores), -1))
