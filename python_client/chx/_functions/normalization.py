"""Normalizations by PyTorch's names and arguments."""

from __future__ import annotations

from collections.abc import Sequence

from chx import _core
from chx._core import ndarray


def layer_norm(
    x: ndarray,
    normalized_shape: int | Sequence[int],
    weight: ndarray | None = None,
    bias: ndarray | None = None,
    eps: float = 1e-5,
) -> ndarray:
    """x normalized over its last axes, of sizes `normalized_shape`, times weight, plus bias."""
    return _core.layer_norm(x, weight, bias, normalized_shape, eps)


def rms_norm(
    x: ndarray,
    normalized_shape: int | Sequence[int],
    weight: ndarray | None = None,
    eps: float | None = None,
) -> ndarray:
    """x divided by the root of its mean square over its last axes, of sizes `normalized_shape`, times
    weight. Without `eps`, it's that of x's dtype."""
    return _core.rms_norm(x, weight, normalized_shape, eps)


def group_norm(
    x: ndarray,
    num_groups: int,
    weight: ndarray | None = None,
    bias: ndarray | None = None,
    eps: float = 1e-5,
) -> ndarray:
    """x (N, C, ...) normalized over groups of channels of each sample, times weight, plus bias, which
    are (C)."""
    return _core.group_norm(x, weight, bias, num_groups, eps)
