"""RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import chx
from chx.onnx._import._node import Node
from chx.onnx._import._registry import operator

_ACTIVATIONS: dict[str, Callable[[Any, float, float], Any]] = {
    "relu": lambda x, a, b: chx.relu(x),
    "tanh": lambda x, a, b: chx.tanh(x),
    "sigmoid": lambda x, a, b: chx.sigmoid(x),
    "affine": lambda x, a, b: a * x + b,
    "leakyrelu": lambda x, a, b: chx.leaky_relu(x, a),
    "thresholdedrelu": lambda x, a, b: chx.where(x > a, x, chx.zeros_like(x)),
    "scaledtanh": lambda x, a, b: a * chx.tanh(b * x),
    "hardsigmoid": lambda x, a, b: chx.clip(a * x + b, 0, 1),
    "elu": lambda x, a, b: chx.elu(x, a),
    "softsign": lambda x, a, b: x / (chx.abs(x) + 1),
    "softplus": lambda x, a, b: chx.softplus(x),
}
_ALPHAS = {"leakyrelu": 0.01, "thresholdedrelu": 1.0, "hardsigmoid": 0.2, "elu": 1.0, "affine": 1.0}
_BETAS = {"hardsigmoid": 0.5}


def _functions(node: Node, default: list[str], directions: int) -> list[list[Callable[[Any], Any]]]:
    """The activations of each direction."""
    names = [name.lower() for name in node.attr("activations", default * directions)]
    if len(names) != len(default) * directions:
        raise node.error(f"{len(default) * directions} activations", names)
    alphas, betas = iter(node.attr("activation_alpha", [])), iter(node.attr("activation_beta", []))
    functions: list[Callable[[Any], Any]] = []
    limit = node.attr("clip")
    for name in names:
        if name not in _ACTIVATIONS:
            raise node.error(f"activations among {sorted(_ACTIVATIONS)}", name)
        alpha = next(alphas, 0.0) if name in _ALPHAS or name == "scaledtanh" else 0.0
        alpha = alpha or _ALPHAS.get(name, 1.0)
        beta = next(betas, 0.0) if name in (*_BETAS, "affine", "scaledtanh") else 0.0
        beta = beta or _BETAS.get(name, 0.0)

        def function(x: Any, f: Any = _ACTIVATIONS[name], a: Any = alpha, b: Any = beta) -> Any:
            return f(x if limit is None else chx.clip(x, -limit, limit), a, b)

        functions.append(function)
    count = len(default)
    return [functions[i * count : (i + 1) * count] for i in range(directions)]


class _Layer:
    """One direction: its weights, and the states of its steps."""

    def __init__(self, node: Node, x: Any, direction: int, gates: int) -> None:
        kind = node.attr("direction", "forward")
        self.reverse = kind == "reverse" or direction == 1
        self.w, self.r = node.array(1)[direction], node.array(2)[direction]
        self.hidden = self.r.shape[1]
        if self.r.shape[0] != gates * self.hidden or self.w.shape[0] != gates * self.hidden:
            raise node.error(f"weights of {gates} gates", (self.w.shape, self.r.shape))
        both = node[3]
        width = gates * self.hidden
        zeros = chx.zeros((width,), dtype=x.dtype)
        self.wb, self.rb = (
            (zeros, zeros) if both is None else (both[direction, :width], both[direction, width:])
        )
        self.inputs = chx.matmul(x, self.w.T) + self.wb
        self.states = []
        for index in (5, 6):
            state = node[index] if node.op == "LSTM" or index == 5 else None
            if state is None:
                self.states.append(chx.zeros((x.shape[1], self.hidden), dtype=x.dtype))
            else:
                state = chx.swapaxes(state, 0, 1) if node.attr("layout", 0) else state
                self.states.append(state[direction])
        self.lengths = node[4]

    def steps(self) -> Iterator[int]:
        count = self.inputs.shape[0]
        yield from reversed(range(count)) if self.reverse else range(count)

    def run(self, step: Callable[[Any, Any, Any], tuple[Any, Any]]) -> tuple[Any, Any, Any]:
        """All outputs (T, N, H), and the last states. `step` makes states of inputs and states."""
        h, c = self.states
        outputs = {}
        for t in self.steps():
            new_h, new_c = step(self.inputs[t], h, c)
            if self.lengths is None:
                h, c = outputs[t], _ = new_h, new_c
                continue
            alive = (self.lengths > t).reshape(-1, 1)
            h, c = chx.where(alive, new_h, h), chx.where(alive, new_c, c)
            outputs[t] = chx.where(alive, h, chx.zeros_like(h))
        y = chx.stack([outputs[t] for t in range(len(outputs))], axis=0)
        return y, h, c


def _recurrent(node: Node, gates: int, default: list[str], make_step: Any) -> Any:
    x = node.array(0)
    layout = node.attr("layout", 0)
    x = chx.swapaxes(x, 0, 1) if layout else x
    if x.shape[0] == 0:
        raise node.error("at least one step", x.shape)
    directions = 2 if node.attr("direction", "forward") == "bidirectional" else 1
    functions = _functions(node, default, directions)
    results = []
    for direction in range(directions):
        layer = _Layer(node, x, direction, gates)
        results.append(layer.run(make_step(node, layer, functions[direction], direction)))
    ys, hs, cs = zip(*results)
    y, h, c = chx.stack(ys, axis=1), chx.stack(hs, axis=0), chx.stack(cs, axis=0)
    if layout:
        y, h, c = chx.transpose(y, (2, 0, 1, 3)), chx.swapaxes(h, 0, 1), chx.swapaxes(c, 0, 1)
    return y, h, c


@operator("RNN")
def rnn(node: Node) -> Any:
    def make_step(node: Node, layer: _Layer, functions: Any, direction: int) -> Any:
        def step(x: Any, h: Any, c: Any) -> tuple[Any, Any]:
            return functions[0](x + chx.matmul(h, layer.r.T) + layer.rb), c

        return step

    return _recurrent(node, 1, ["Tanh"], make_step)[:2]


@operator("GRU")
def gru(node: Node) -> Any:
    def make_step(node: Node, layer: _Layer, functions: Any, direction: int) -> Any:
        n = layer.hidden
        f, g = functions

        def step(x: Any, h: Any, c: Any) -> tuple[Any, Any]:
            gates = chx.matmul(h, layer.r[: 2 * n].T) + layer.rb[: 2 * n]
            z = f(x[:, :n] + gates[:, :n])
            r = f(x[:, n : 2 * n] + gates[:, n:])
            weights, bias = layer.r[2 * n :].T, layer.rb[2 * n :]
            if node.attr("linear_before_reset", 0):
                candidate = g(x[:, 2 * n :] + r * (chx.matmul(h, weights) + bias))
            else:
                candidate = g(x[:, 2 * n :] + chx.matmul(r * h, weights) + bias)
            return (1 - z) * candidate + z * h, c

        return step

    return _recurrent(node, 3, ["Sigmoid", "Tanh"], make_step)[:2]


@operator("LSTM")
def lstm(node: Node) -> Any:
    def make_step(node: Node, layer: _Layer, functions: Any, direction: int) -> Any:
        n = layer.hidden
        f, g, k = functions
        peepholes = node[7]
        pi, po, pf = (
            (0, 0, 0)
            if peepholes is None
            else (peepholes[direction, i * n : (i + 1) * n] for i in range(3))
        )
        peeps = peepholes is not None

        def step(x: Any, h: Any, c: Any) -> tuple[Any, Any]:
            gates = x + chx.matmul(h, layer.r.T) + layer.rb
            i, o, forget, cell = (gates[:, j * n : (j + 1) * n] for j in range(4))
            i = f(i + pi * c if peeps else i)
            forget = (
                1 - i if node.attr("input_forget", 0) else f(forget + pf * c if peeps else forget)
            )
            c = forget * c + i * g(cell)
            return f(o + po * c if peeps else o) * k(c), c

        return step

    return _recurrent(node, 4, ["Sigmoid", "Tanh", "Tanh"], make_step)
