"""Convolutions and transposed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import chx
from chx.onnx._import._node import Node
from chx.onnx._import._registry import operator
from chx.onnx._import._windows import Windows, padded, shifts, spatial_attributes, windows


def dilated(w: Any, dilations: Sequence[int]) -> Any:
    """Kernels (outputs, inputs, spatial...) with zeros between their elements."""
    for axis, d in enumerate(dilations, 2):
        if d == 1:
            continue
        k = w.shape[axis]
        widths = [0] * (2 * w.ndim + 2)
        widths[2 * axis + 3] = d - 1
        apart = chx._core.constant_pad(chx.expand_dims(w, axis + 1), widths, 0)
        apart = apart.reshape(*w.shape[:axis], k * d, *w.shape[axis + 1 :])
        w = apart[(slice(None),) * axis + (slice((k - 1) * d + 1),)]
    return w


def convolve(node: Node, x: Any, w: Any, b: Any, outside: Any = 0) -> Any:
    """The convolution that a node's attributes say; `outside` is the padding's value."""
    if x.ndim < 3 or w.ndim != x.ndim:
        raise node.error("x and w of the same dimensions, 3 or more", (x.shape, w.shape))
    groups = node.attr("group", 1)
    if groups < 1 or x.shape[1] != groups * w.shape[1] or w.shape[0] % groups:
        raise node.error(f"channels in {groups} groups", (x.shape, w.shape))
    kernel = node.attr("kernel_shape", list(w.shape[2:]))
    if list(kernel) != list(w.shape[2:]):
        raise node.error(f"the kernel_shape of w, {list(w.shape[2:])}", kernel)
    win = windows(node, x.shape[2:], kernel)
    if groups > 4 and w.shape[1] == 1 and w.shape[0] == groups:
        y = _depthwise(padded(x, win.before, win.after, outside), w, win)
        return y if b is None else y + b.reshape(-1, *[1] * len(kernel))
    pad: Any = tuple(win.before)
    if win.before != win.after or outside != 0:
        x, pad = padded(x, win.before, win.after, outside), 0
    stride = tuple(win.strides)
    if groups == 1 and set(win.dilations) == {1}:
        return chx.conv(x, w, b, stride, pad)
    return chx.grouped_conv(x, w, b, stride, pad, tuple(win.dilations), groups)


def _depthwise(x: Any, w: Any, win: Windows) -> Any:
    """A kernel for each channel: sums over the kernel's elements, each in the memory of the last,
    which takes less time than grouped_conv."""
    flat = w.reshape(w.shape[0], -1)
    total = None
    for i, part in enumerate(shifts(x, win)):
        term = part * flat[:, i].reshape(-1, *[1] * len(win.kernel))
        total = term if total is None else total + term
    return total


@operator("Conv")
def conv(node: Node) -> Any:
    return convolve(node, node.array(0), node.array(1), node[2])


@operator("ConvTranspose")
def conv_transpose(node: Node) -> Any:
    x, w, b = node.array(0), node.array(1), node[2]
    groups = node.attr("group", 1)
    sizes, kernel = x.shape[2:], list(w.shape[2:])
    strides, dilations = spatial_attributes(node, kernel)
    count = len(kernel)
    extra = list(node.attr("output_padding", [0] * count))
    mode, wanted = node.attr("auto_pad", "NOTSET"), node.attr("output_shape")
    pads = list(node.attr("pads", [0] * (2 * count)))
    w = dilated(w, dilations)
    full = [(n - 1) * s + k for n, s, k in zip(sizes, strides, w.shape[2:])]
    if wanted is not None or mode.startswith("SAME"):
        outs = list(wanted)[-count:] if wanted else [n * s for n, s in zip(sizes, strides)]
        # What a shape has beyond the last window is more of output_padding.
        extra = [max(e, o - f) for f, e, o in zip(full, extra, outs)]
        total = [f + e - o for f, e, o in zip(full, extra, outs)]
        less = [t // 2 for t in total]
        more = [t - h for t, h in zip(total, less)]
        before, after = (less, more) if mode == "SAME_UPPER" else (more, less)
    else:
        before, after = pads[:count], pads[count:]
    stride = tuple(strides)
    if groups == 1:
        y = chx.conv_transpose(x, w, None, stride)
    else:
        parts = zip(chx.split(x, groups, 1), chx.split(w, groups, 0))
        y = chx.concatenate([chx.conv_transpose(xg, wg, None, stride) for xg, wg in parts], 1)
    # A size beyond the last window is filled with zeros; what is padded is cut off.
    ends = [e - a for e, a in zip(extra, after)]
    y = padded(y, [max(-p, 0) for p in before], [max(e, 0) for e in ends])
    key = [
        slice(max(p, 0), n + min(e, 0) if e < 0 else None)
        for p, e, n in zip(before, ends, y.shape[2:])
    ]
    y = y[(slice(None), slice(None), *key)]
    return y if b is None else y + b.reshape(-1, *[1] * count)


@operator("Col2Im")
def col_to_im(node: Node) -> Any:
    """Blocks added where they came from: a transposed convolution with one kernel per element."""
    x = node.array(0)
    sizes, block = node.ints(1) or [], node.ints(2) or []
    attributes = {**node.attributes, "kernel_shape": block}
    inner = Node(node.label, node.op, node.version, attributes, node.inputs, [""], node.call)
    win = windows(inner, sizes, block)
    elements = 1
    for k in block:
        elements *= k
    channels = x.shape[1] // elements
    rows = x.reshape(x.shape[0] * channels, elements, *win.outs)
    kernel = dilated(chx.eye(elements, dtype=x.dtype).reshape(elements, 1, *block), win.dilations)
    outs = tuple(n + b + a for n, b, a in zip(sizes, win.before, win.after))
    y = chx.conv_transpose(rows, kernel, None, tuple(win.strides), 0, outs)
    y = y[(slice(None), slice(None), *(slice(b, b + n) for b, n in zip(win.before, sizes)))]
    return y.reshape(x.shape[0], channels, *sizes)
