"""Windows that move over spatial dimensions: sizes, paddings, and their elements as slices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import chx
from chx.onnx._import._node import Node


class Windows(NamedTuple):
    """The geometry of a convolution or pooling. Each field has a number per spatial dimension."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]
    outs: list[int]
    """How many windows there are."""

    def spans(self) -> list[int]:
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations)]

    def beyond(self, sizes: Sequence[int]) -> list[int]:
        """What the last windows reach beyond the padding after, as with ceil_mode."""
        return [
            max((o - 1) * s + span - (n + b + a), 0)
            for o, s, span, n, b, a in zip(
                self.outs, self.strides, self.spans(), sizes, self.before, self.after
            )
        ]


def spatial_attributes(node: Node, kernel: Sequence[int]) -> tuple[list[int], list[int]]:
    """Strides and dilations, checked."""
    strides = list(node.attr("strides", [1] * len(kernel)))
    dilations = list(node.attr("dilations", [1] * len(kernel)))
    for name, values in (("kernel", kernel), ("strides", strides), ("dilations", dilations)):
        if len(values) != len(kernel) or any(v < 1 for v in values):
            raise node.error(f"{len(kernel)} positive numbers as {name}", list(values))
    return strides, dilations


def windows(node: Node, sizes: Sequence[int], kernel: Sequence[int]) -> Windows:
    """The windows of a node over spatial dimensions of these sizes."""
    if len(kernel) != len(sizes):
        raise node.error(f"a kernel of {len(sizes)} dimensions", list(kernel))
    strides, dilations = spatial_attributes(node, kernel)
    mode = node.attr("auto_pad", "NOTSET")
    pads = list(node.attr("pads", [0] * (2 * len(sizes))))
    if len(pads) != 2 * len(sizes) or any(p < 0 for p in pads):
        raise node.error(f"{2 * len(sizes)} pads from 0 on", pads)
    before, after, outs = [], [], []
    for i, n in enumerate(sizes):
        span = (kernel[i] - 1) * dilations[i] + 1
        a, b = pads[i], pads[i + len(sizes)]
        if mode.startswith("SAME"):
            out = -(-n // strides[i])
            total = max((out - 1) * strides[i] + span - n, 0)
            a = total // 2 if mode == "SAME_UPPER" else total - total // 2
            b = total - a
        elif mode == "VALID":
            a = b = 0
        room = n + a + b - span
        if room < 0:
            raise node.error(f"at least {span} elements in a window's dimension", n + a + b)
        out = room // strides[i] + 1
        if node.attr("ceil_mode", 0) and not mode.startswith("SAME"):
            out = -(-room // strides[i]) + 1
            if (out - 1) * strides[i] >= n + a:  # a window must begin before the padding after
                out -= 1
        before.append(a)
        after.append(b)
        outs.append(out)
    return Windows(list(kernel), strides, dilations, before, after, outs)


def padded(x: Any, before: Sequence[int], after: Sequence[int], value: Any = 0) -> Any:
    """x (N, C, spatial...) with a border of a value."""
    widths = [0, 0, 0, 0] + [w for pair in zip(before, after) for w in pair]
    return chx._core.constant_pad(x, widths, value) if any(widths) else x


def shifts(x: Any, w: Windows) -> Iterator[Any]:
    """For each element of the kernel in C order: what the windows have there, (N, C, outs...)."""
    for place in itertools.product(*map(range, w.kernel)):
        key = [
            slice(p * d, p * d + (o - 1) * s + 1, s)
            for p, d, o, s in zip(place, w.dilations, w.outs, w.strides)
        ]
        yield x[(slice(None), slice(None), *key)]
