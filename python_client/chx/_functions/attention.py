"""Attention by PyTorch's names and arguments."""

from __future__ import annotations

from chx import _core
from chx._core import ndarray
from chx._runtime import random_streams

_with_dropout = _core._submodules["random"]["attention_with_dropout"]


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

    The memory for it grows with the lengths, not with their product: at most 512 rows of weights are there
    at once, and on "native" 64. The gradient of attn_mask, and gradients that are differentiated again,
    have all of them. With dropout `dropout_p` of the weights are zero and the others greater.
    """
    if dropout_p == 0:
        return _core.scaled_dot_product_attention(
            query, key, value, attn_mask, is_causal, scale, enable_gqa
        )
    if not 0 < dropout_p < 1:
        raise ValueError(
            f"[scaled_dot_product_attention] expects dropout_p in [0, 1), got {dropout_p}"
        )
    drawn = random_streams.draw(None, "random_uniform", (1,), 0.0, 1.0, "float64", query.device)
    y: ndarray = _with_dropout(
        query, key, value, attn_mask, drawn, is_causal, scale, enable_gqa, dropout_p
    )
    return y
