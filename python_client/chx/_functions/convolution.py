"""Convolutions by PyTorch's names and arguments."""

from __future__ import annotations

from typing import Any, Union

from chx import _core
from chx._compat import TypeAlias, zip_strict
from chx._core import ndarray

_PerAxis: TypeAlias = Union[int, "tuple[int, ...]"]


def _conv(
    name: str,
    ndim: int,
    x: ndarray,
    w: ndarray,
    b: ndarray | None,
    stride: _PerAxis,
    padding: _PerAxis | str,
    dilation: _PerAxis,
    groups: int,
) -> ndarray:
    if x.ndim == ndim + 1:
        args = (stride, padding, dilation, groups)
        return _core.squeeze(_conv(name, ndim, _core.expand_dims(x, 0), w, b, *args), 0)
    if x.ndim != ndim + 2 or w.ndim != ndim + 2:
        raise _core.DimensionError(
            f"[{name}] expects x of {ndim + 1} or {ndim + 2} dimensions and w of {ndim + 2}, got "
            f"{x.shape} and {w.shape}"
        )
    if padding == "valid":
        padding = 0
    elif padding == "same":
        x, padding = _padded(name, ndim, x, w, stride, dilation)
    elif isinstance(padding, str):
        raise ValueError(f"[{name}] expects padding 'valid', 'same' or numbers, got {padding!r}")
    if groups == 1 and _each(dilation, ndim) == (1,) * ndim:
        return _core.conv(x, w, b, stride, padding)
    return _core.grouped_conv(x, w, b, stride, padding, dilation, groups)


def _each(value: Any, ndim: int) -> tuple[int, ...]:
    return (value,) * ndim if isinstance(value, int) else tuple(value)


def _padded(
    name: str, ndim: int, x: ndarray, w: ndarray, stride: _PerAxis, dilation: _PerAxis
) -> tuple[ndarray, _PerAxis]:
    """x, and the padding that makes the result as large; an odd element is put behind x before."""
    if _each(stride, ndim) != (1,) * ndim:
        raise ValueError(f"[{name}] expects stride 1 with padding 'same', got {stride}")
    totals = [d * (k - 1) for d, k in zip_strict(_each(dilation, ndim), w.shape[2:])]
    if any(total % 2 for total in totals):
        widths = [0, 0, 0, 0]
        for total in totals:
            widths += [0, total % 2]
        x = _core.constant_pad(x, widths)
    return x, tuple(total // 2 for total in totals)


def conv1d(
    x: ndarray,
    w: ndarray,
    b: ndarray | None = None,
    stride: _PerAxis = 1,
    padding: _PerAxis | str = 0,
    dilation: _PerAxis = 1,
    groups: int = 1,
) -> ndarray:
    """The cross-correlation of x (N, C, L), or (C, L), and kernels w (K, C / groups, k), plus b (K,).

    padding is the number of zeros on either side, 'valid' (none) or 'same', for a result of x's size.
    """
    return _conv("conv1d", 1, x, w, b, stride, padding, dilation, groups)


def conv2d(
    x: ndarray,
    w: ndarray,
    b: ndarray | None = None,
    stride: _PerAxis = 1,
    padding: _PerAxis | str = 0,
    dilation: _PerAxis = 1,
    groups: int = 1,
) -> ndarray:
    """As conv1d, of images (N, C, H, W) or (C, H, W)."""
    return _conv("conv2d", 2, x, w, b, stride, padding, dilation, groups)


def conv3d(
    x: ndarray,
    w: ndarray,
    b: ndarray | None = None,
    stride: _PerAxis = 1,
    padding: _PerAxis | str = 0,
    dilation: _PerAxis = 1,
    groups: int = 1,
) -> ndarray:
    """As conv1d, of volumes (N, C, D, H, W) or (C, D, H, W)."""
    return _conv("conv3d", 3, x, w, b, stride, padding, dilation, groups)
