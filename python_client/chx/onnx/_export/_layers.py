"""Products, convolutions, pooling, and batch normalization."""

from __future__ import annotations

from typing import Any

from chx.onnx._export._builder import Builder, axes_of, converter, refuse
from chx.onnx._export._trace import Call


@converter("matmul", "dot")
def _matmul(b: Builder, call: Call) -> Any:
    x, y = call.inputs
    if call.op == "dot" and 0 in (x.ndim, y.ndim):
        return b.op("Mul", *b.operands(call))
    if call.op == "dot" and y.ndim > 2:
        raise refuse(call, "a second array of at most 2 dimensions", y.ndim)
    return b.op("MatMul", *b.operands(call))


@converter("linear")
def _linear(b: Builder, call: Call) -> Any:
    x, w = call.inputs[:2]
    names = b.operands(call)
    batch = call.attrs["n_batch_axes"]
    if x.ndim != batch + 1 or batch != 1:
        names[0] = b.reshape(names[0], (-1, w.shape[1]))
    y = b.op("Gemm", *names, transB=1)
    return y if batch == 1 else b.reshape(y, call.outputs[0].shape)


def _spatial(call: Call, name: str, default: int | None = None) -> list[int]:
    """An attribute with a number for each spatial dimension."""
    ndim: int = call.inputs[0].ndim - 2
    given = call.attrs[name]
    if given is None:
        return [default or 0] * ndim
    values = [given] if isinstance(given, int) else [int(v) for v in given]
    return values * ndim if len(values) == 1 else values


def _pads(call: Call, kernel: list[int], strides: list[int]) -> list[int]:
    """Before, then after; with what windows reach beyond that for cover_all."""
    pad = _spatial(call, "pad")
    after = []
    sizes = zip(call.inputs[0].shape[2:], call.outputs[0].shape[2:], kernel, strides, pad)
    for n, outs, k, s, p in sizes:
        after.append(max((outs - 1) * s + k - n - p, p if not call.attrs.get("cover_all") else 0))
    return pad + after


@converter("conv")
def _conv(b: Builder, call: Call) -> Any:
    kernel = list(call.inputs[1].shape[2:])
    strides = _spatial(call, "stride")
    names = b.operands(call)
    pads = _pads(call, kernel, strides)
    return b.op("Conv", *names, kernel_shape=kernel, strides=strides, pads=pads)


@converter("grouped_conv")
def _grouped_conv(b: Builder, call: Call) -> Any:
    pad = _spatial(call, "pad")
    return b.op(
        "Conv",
        *b.operands(call),
        kernel_shape=list(call.inputs[1].shape[2:]),
        strides=_spatial(call, "stride"),
        dilations=_spatial(call, "dilate"),
        pads=pad + pad,
        group=call.attrs["groups"],
    )


@converter("conv_transpose")
def _conv_transpose(b: Builder, call: Call) -> Any:
    x, w = call.inputs[:2]
    strides, pad = _spatial(call, "stride"), _spatial(call, "pad")
    sizes = zip(x.shape[2:], call.outputs[0].shape[2:], w.shape[2:], strides, pad)
    extra = [outs - ((n - 1) * s + k - 2 * p) for n, outs, k, s, p in sizes]
    # A smaller size cuts off at the end.
    pads = pad + [p - min(e, 0) for p, e in zip(pad, extra)]
    return b.op(
        "ConvTranspose",
        *b.operands(call),
        kernel_shape=list(w.shape[2:]),
        strides=strides,
        pads=pads,
        output_padding=[max(e, 0) for e in extra],
    )


@converter("max_pool")
def _max_pool(b: Builder, call: Call) -> Any:
    kernel = _spatial(call, "ksize")
    strides = _spatial(call, "stride") if call.attrs["stride"] is not None else kernel
    name = b.operands(call)[0]
    pads = _pads(call, kernel, strides)
    if any(p >= k for p, k in zip(pads, kernel + kernel)):
        raise refuse(call, f"pads below the size of a window, {kernel}", pads)
    return b.op("MaxPool", name, kernel_shape=kernel, strides=strides, pads=pads)


@converter("average_pool")
def _average_pool(b: Builder, call: Call) -> Any:
    kernel = _spatial(call, "ksize")
    strides = _spatial(call, "stride") if call.attrs["stride"] is not None else kernel
    include = call.attrs["pad_mode"]  # 0: padding is ignored
    pad = _spatial(call, "pad")
    return b.op(
        "AveragePool",
        *b.operands(call),
        kernel_shape=kernel,
        strides=strides,
        pads=pad + pad,
        count_include_pad=include,
    )


def _statistics_shape(call: Call) -> list[int]:
    """Of arrays with an element for each of what is not normalized over."""
    x = call.inputs[0]
    axes = axes_of(call) if call.attrs["axis"] is not None else [0]
    return [1 if i in axes else n for i, n in enumerate(x.shape)]


@converter("fixed_batch_norm")
def _fixed_batch_norm(b: Builder, call: Call) -> Any:
    x = call.inputs[0]
    names = b.operands(call)
    eps = call.attrs["eps"]
    shape = _statistics_shape(call)
    if x.ndim >= 2 and shape == [1, x.shape[1]] + [1] * (x.ndim - 2):
        return b.op("BatchNormalization", *names, epsilon=float(eps))
    gamma, beta, mean, var = (b.reshape(name, shape) for name in names[1:])
    return _normalized(b, call, names[0], gamma, beta, mean, var)


def _normalized(b: Builder, call: Call, x: str, gamma: str, beta: str, mean: str, var: str) -> Any:
    eps = b.constant(call.attrs["eps"], call.outputs[0].dtype)
    scaled = b.op("Div", b.op("Sub", x, mean), b.op("Sqrt", b.op("Add", var, eps)))
    return b.op("Add", b.op("Mul", scaled, gamma), beta)


@converter("batch_norm")
def _batch_norm(b: Builder, call: Call) -> Any:
    """By the statistics of the batch; the running ones, which it writes, are not part of a file."""
    dtype = call.outputs[0].dtype
    names = [b.operand(value, dtype) for value in call.inputs[:3]]
    shape = _statistics_shape(call)
    axes = b.ints(axes_of(call) if call.attrs["axis"] is not None else [0])
    mean = b.op("ReduceMean", names[0], axes)
    distance = b.op("Sub", names[0], mean)
    var = b.op("ReduceMean", b.op("Mul", distance, distance), axes)
    gamma, beta = (b.reshape(name, shape) for name in names[1:])
    return _normalized(b, call, names[0], gamma, beta, mean, var)
