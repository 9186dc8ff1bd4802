"""Attention, and rotary position embedding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chx.onnx._export._builder import Builder, converter
from chx.onnx._export._trace import Call


def _as_batch(b: Builder, name: str, shape: Sequence[int]) -> Any:
    """(..., length, features) as (batch, heads, length, features)."""
    if len(shape) == 4:
        return name
    lead = [math.prod(shape[:-3]), *[1] * (3 - len(shape))]
    return b.reshape(name, [*lead, *list(shape)[-3:]])


def _mask(b: Builder, mask: Any, scores: Sequence[int], dtype: Any) -> Any:
    """A mask of at most 4 dimensions that is as long as the scores in the last one."""
    name = b.operand(mask, np.dtype("bool") if mask.dtype == "bool" else dtype)
    shape = [1] * (2 - mask.ndim) + list(mask.shape)
    shape[-1] = scores[-1]  # ONNX has no score count beyond a shorter mask
    if len(scores) > 4 and len(shape) > 3:
        shape = [*scores[:-3], *shape[-3:]]
    if tuple(shape) != mask.shape:
        name = b.op("Expand", name, b.ints(shape))
    return name if len(shape) <= 4 else b.reshape(name, [math.prod(shape[:-3]), *shape[-3:]])


@converter("scaled_dot_product_attention")
def _attention(b: Builder, call: Call) -> Any:
    arrays, mask = call.inputs[:3], call.inputs[3]
    y = call.outputs[0]
    inputs = [_as_batch(b, b.operand(a, y.dtype), a.shape) for a in arrays]
    if mask is not None:
        scores = [*arrays[0].shape[:-1], arrays[1].shape[-2]]
        inputs.append(_mask(b, mask, scores, y.dtype))
    scale = call.attrs["scale"]
    attributes: dict[str, Any] = {} if scale is None else {"scale": float(scale)}
    result = b.op("Attention", *inputs, is_causal=int(call.attrs["is_causal"]), **attributes)
    return result if y.ndim == 4 else b.reshape(result, y.shape)


def _angles(b: Builder, call: Call) -> Any:
    """Positions times frequencies, (..., L, D / 2), in float64: far positions have many digits."""
    (x, positions, frequencies), wide = call.inputs, np.dtype("float64")
    pairs = x.shape[-1] // 2
    powers = call.attrs["base"] ** (-np.arange(pairs) / max(pairs, 1))
    if positions is None:
        counted = np.arange(x.shape[-2])[:, None]
        if frequencies is None:
            return b.constant(counted * powers, wide)
        column = b.constant(counted, wide)
    else:
        column = b.op("Unsqueeze", b.operand(positions, wide), b.ints([-1]))
    steps = b.constant(powers, wide) if frequencies is None else b.operand(frequencies, wide)
    return b.op("Mul", column, steps)


@converter("rope")
def _rope(b: Builder, call: Call) -> Any:
    x, positions = call.inputs[:2]
    result = call.outputs[0].dtype
    dtype = np.result_type(result, np.float32)
    length, features = x.shape[-2:]
    # Axes along which positions differ are the batch, the others are heads.
    lead = [] if positions is None else list(positions.shape[:-1])
    lead = [1] * (x.ndim - 2 - len(lead)) + lead
    differ = max((i + 1 for i, n in enumerate(lead) if n != 1), default=0)
    batch = list(x.shape[:differ])
    name = b.operand(x, dtype)
    flat = b.reshape(name, [math.prod(batch), math.prod(x.shape[differ:-2]), length, features])
    angles, pairs = _angles(b, call), features // 2
    if positions is not None:
        last = positions.shape[-1] if positions.ndim else 1
        angles = b.reshape(angles, [*lead[:differ], last, pairs])
    angles = b.op("Expand", angles, b.ints([*batch, length, pairs]))
    angles = b.reshape(angles, [math.prod(batch), length, pairs])
    cos, sin = (b.cast(b.op(op, angles), np.dtype("float64"), dtype) for op in ("Cos", "Sin"))
    interleaved = call.attrs["interleaved"]
    if dtype == "float64":  # which RotaryEmbedding does not take
        y = _rotated(b, flat, cos, sin, interleaved, features)
    else:
        y = b.op("RotaryEmbedding", flat, cos, sin, interleaved=int(interleaved))
    return b.cast(b.reshape(y, x.shape), dtype, result)


def _rotated(b: Builder, x: str, cos: str, sin: str, interleaved: bool, features: int) -> Any:
    """x (batch, heads, length, features), by cosines and sines (batch, length, features / 2)."""
    axes = [1, 4] if interleaved else [1]
    cos, sin = (b.op("Unsqueeze", wave, b.ints(axes)) for wave in (cos, sin))
    if interleaved:
        x = b.op("Reshape", x, b.ints([0, 0, 0, features // 2, 2]))
    p, q = b.op("Split", x, outputs=2, axis=-1, num_outputs=2)
    first = b.op("Sub", b.op("Mul", p, cos), b.op("Mul", q, sin))
    second = b.op("Add", b.op("Mul", q, cos), b.op("Mul", p, sin))
    return b.op("Concat", first, second, axis=-1)
