"""Attention."""

from __future__ import annotations

from typing import Any

import chx
from chx.onnx._import._node import Node
from chx.onnx._import._registry import operator


def _heads(node: Node, x: Any, count: Any) -> Any:
    """(batch, length, heads * features) as (batch, heads, length, features)."""
    if x.ndim == 4:
        return x
    if x.ndim != 3 or not isinstance(count, int) or count < 1 or x.shape[2] % count:
        raise node.error("4 dimensions, or 3 whose last is a multiple of heads", (x.shape, count))
    parts = x.reshape(*x.shape[:2], count, x.shape[2] // count)
    return chx.transpose(parts, (0, 2, 1, 3))


def _visible(mask: Any, length: int, total: int, past: int) -> Any:
    """A mask by which each position sees those before it, too."""
    causal = chx.tri(length, total, past, dtype="bool")
    if mask is None:
        return causal
    if mask.dtype == "bool":
        return chx.logical_and(mask, causal)
    return chx.where(causal, mask, -chx.inf)


@operator("Attention")
def attention(node: Node) -> Any:
    """By one operator; what that has not is left to the standard's own definition."""
    windows = [node.attr(f"{side}_window_size", -1) for side in ("left", "right")]
    if node.attr("softcap", 0.0) or windows != [-1, -1] or node.has(6) or node.wants(3):
        return NotImplemented
    if node.has(4) != node.has(5):
        raise node.error("past keys with past values", "one of them")
    counts = [node.attr("q_num_heads"), *[node.attr("kv_num_heads")] * 2]
    q, k, v = (_heads(node, node.array(i), count) for i, count in enumerate(counts))
    mask, past = node[3], 0
    if node.has(4):
        past = node.array(4).shape[2]
        k, v = (chx.concatenate([node.array(4 + i), x], axis=2) for i, x in enumerate((k, v)))
    length, total = q.shape[2], k.shape[2]
    if mask is not None and (mask.ndim == 0 or mask.shape[-1] != total):
        return NotImplemented  # a shorter one says that no other keys count
    causal = bool(node.attr("is_causal", 0))
    if causal and past:
        mask, causal = _visible(mask, length, total, past), False
    y = chx.scaled_dot_product_attention(
        q,
        k,
        v,
        mask,
        is_causal=causal,
        scale=node.attr("scale"),
        enable_gqa=q.shape[1] != k.shape[1],
    )
    if node.array(0).ndim == 3:
        y = chx.transpose(y, (0, 2, 1, 3))
        y = y.reshape(*y.shape[:2], y.shape[2] * y.shape[3])
    return y, k, v
