"""Products of matrices."""

from __future__ import annotations

from typing import Any

import chx
from chx.onnx._import._node import Node
from chx.onnx._import._registry import operator


@operator("MatMul")
def matmul(node: Node) -> Any:
    return chx.matmul(node.array(0), node.array(1))


@operator("Gemm")
def gemm(node: Node) -> Any:
    a, b, c = node.array(0), node.array(1), node[2]
    a = a.T if node.attr("transA", 0) else a
    b = b.T if node.attr("transB", 0) else b
    y = chx.matmul(a, b)
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    y = y if alpha == 1 else (y * alpha).astype(y.dtype)
    if c is None or beta == 0:
        return y
    return y + (c if beta == 1 else (c * beta).astype(c.dtype))


@operator("Einsum")
def einsum(node: Node) -> Any:
    return chx.einsum(node.attr("equation").replace(" ", ""), *node.arrays())


@operator("Det")
def det(node: Node) -> Any:
    return chx.linalg.det(node.array(0))
