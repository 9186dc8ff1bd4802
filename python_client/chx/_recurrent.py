"""Recurrent networks over sequences, with the arguments that ChainerX has for them.

`ws` and `bs` hold a list of weights and biases for each layer and direction: for x, then for h. `xs`
is a list of the steps, (n, I), in which n must not grow; a state whose row has ended stays.

A network is made of the operators of its cells, step by step, after one product for the inputs of all
steps: gradients of inputs that a result does not depend on are zeros. Or it is one operator, and each
result depends on all arguments: `rnn` as a whole where cuDNN may have that (on a GPU, unless the
session's setting `use_cudnn` is off), and `lstm_layer` for each layer and direction of an LSTM of
float32 or float64 on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, cast

from chx import _core
from chx._compat import TypeAlias, zip_strict
from chx._core import ndarray
from chx._types import is_float

_Weights: TypeAlias = Sequence[Sequence[ndarray]]
_Steps: TypeAlias = Sequence[ndarray]
_State: TypeAlias = tuple[ndarray, Any]  # h, and c where the cell has one
_Cell: TypeAlias = Callable[[ndarray, ndarray, ndarray, Any], _State]


def tree_lstm(*inputs: ndarray) -> tuple[ndarray, ndarray]:
    """The next state and output of a tree LSTM; the last input is x."""
    return _core.tree_lstm(list(inputs))


def n_step_lstm(
    n_layers: int, hx: ndarray, cx: ndarray, ws: _Weights, bs: _Weights, xs: _Steps
) -> tuple[ndarray, ndarray, list[ndarray]]:
    """(hy, cy, ys) of stacked LSTMs; 8 weights each: i, f, a, o for x, then for h."""
    hy, cy, ys = _stack("lstm", 1, n_layers, hx, cx, ws, bs, xs)
    return hy, cy, ys


def n_step_bilstm(
    n_layers: int, hx: ndarray, cx: ndarray, ws: _Weights, bs: _Weights, xs: _Steps
) -> tuple[ndarray, ndarray, list[ndarray]]:
    """(hy, cy, ys) of stacked bidirectional LSTMs; weights as in n_step_lstm."""
    return _stack("lstm", 2, n_layers, hx, cx, ws, bs, xs)


def n_step_gru(
    n_layers: int, hx: ndarray, ws: _Weights, bs: _Weights, xs: _Steps
) -> tuple[ndarray, list[ndarray]]:
    """(hy, ys) of stacked GRUs; 6 weights each: r, z and the candidate for x, then for h."""
    hy, _, ys = _stack("gru", 1, n_layers, hx, None, ws, bs, xs)
    return hy, ys


def n_step_bigru(
    n_layers: int, hx: ndarray, ws: _Weights, bs: _Weights, xs: _Steps
) -> tuple[ndarray, list[ndarray]]:
    """(hy, ys) of stacked bidirectional GRUs; weights as in n_step_gru."""
    hy, _, ys = _stack("gru", 2, n_layers, hx, None, ws, bs, xs)
    return hy, ys


def n_step_rnn(
    n_layers: int, hx: ndarray, ws: _Weights, bs: _Weights, xs: _Steps, activation: str
) -> tuple[ndarray, list[ndarray]]:
    """(hy, ys) of stacked plain networks; 2 weights each. `activation` is 'tanh' or 'relu'."""
    hy, _, ys = _stack(_plain(activation), 1, n_layers, hx, None, ws, bs, xs)
    return hy, ys


def n_step_birnn(
    n_layers: int, hx: ndarray, ws: _Weights, bs: _Weights, xs: _Steps, activation: str
) -> tuple[ndarray, list[ndarray]]:
    """(hy, ys) of stacked bidirectional plain networks; as n_step_rnn."""
    hy, _, ys = _stack(_plain(activation), 2, n_layers, hx, None, ws, bs, xs)
    return hy, ys


def _plain(activation: str) -> str:
    if activation not in ("tanh", "relu"):
        raise ValueError(f"[n_step_rnn] expects activation 'tanh' or 'relu', got {activation!r}")
    return activation


def _lstm(from_x: ndarray, from_h: ndarray, h: ndarray, c: Any) -> _State:
    c, h = _core.lstm_cell(from_x, from_h, c)
    return h, c


def _gru(from_x: ndarray, from_h: ndarray, h: ndarray, c: Any) -> _State:
    (rx, zx, ax), (rh, zh, ah) = (_core.split(part, 3, None, 1) for part in (from_x, from_h))
    z = _core.sigmoid(zx + zh)
    return (1.0 - z) * _core.tanh(ax + _core.sigmoid(rx + rh) * ah) + z * h, c


def _tanh(from_x: ndarray, from_h: ndarray, h: ndarray, c: Any) -> _State:
    return _core.tanh(from_x + from_h), c


def _relu(from_x: ndarray, from_h: ndarray, h: ndarray, c: Any) -> _State:
    return _core.relu(from_x + from_h), c


# The cell's function, and its number of gates.
_CELLS = {"lstm": (_lstm, 4), "gru": (_gru, 3), "tanh": (_tanh, 1), "relu": (_relu, 1)}


def _stack(
    cell: str,
    directions: int,
    n_layers: int,
    hx: ndarray,
    cx: ndarray | None,
    ws: _Weights,
    bs: _Weights,
    xs: _Steps,
) -> tuple[ndarray, Any, list[ndarray]]:
    step, gates = _CELLS[cell]
    xs = list(xs)
    parts = n_layers * directions
    if hx.ndim != 3 or len(hx) != parts or not len(ws) == len(bs) == parts or not xs:
        raise _core.DimensionError(
            f"[n_step] expects states ({parts}, N, C), {parts} lists of weights and of biases, and "
            f"steps, got {hx.shape}, {len(ws)}, {len(bs)} and {len(xs)}"
        )
    if any(len(later) > len(earlier) for earlier, later in zip(xs, xs[1:])):
        raise _core.DimensionError("[n_step] expects steps whose rows do not grow in number")
    whole, layers = _may_use_cudnn(hx), _has_lstm_layer(cell, hx, xs)
    if (whole or layers) and not _is_regular(gates, directions, hx, cx, ws, bs, xs):
        whole = layers = False
    if whole:
        return _whole(cell, directions, n_layers, hx, cx, ws, bs, xs)
    hs, cs = [], []
    for layer in range(n_layers):
        outputs = []
        for part in range(layer * directions, (layer + 1) * directions):
            if not len(ws[part]) == len(bs[part]) == 2 * gates:
                raise _core.DimensionError(f"[n_step] expects {2 * gates} weights and biases each")
            # Put together once for all steps.
            joined = [
                _core.concatenate(list(weights[first : first + gates]))
                for first in (0, gates)
                for weights in (ws[part], bs[part])
            ]
            state = hx[part], None if cx is None else cx[part]
            backwards = part % directions == 1
            if layers:
                ys, (h, c) = _lstm_layer(joined, state, xs, backwards)
            else:
                ys, (h, c) = _run(step, joined, state, xs[::-1] if backwards else xs)
                ys = ys[::-1] if backwards else ys
            outputs.append(ys)
            hs.append(h)
            cs.append(c)
        xs = [
            ys[0] if directions == 1 else _core.concatenate(list(ys), 1)
            for ys in zip_strict(*outputs)
        ]
    return _core.stack(hs), None if cx is None else _core.stack(cs), xs


# How many arrays concatenate and split take.
_MAX_PARTS = 4096


def _from_inputs(xs: _Steps, w: ndarray, b: ndarray) -> Iterator[ndarray]:
    """linear() of each step's input: one product for all steps, which do not depend on each other.

    Not so where only some of them are in a graph: results of earlier steps would be in it, too.
    """
    if len({x.is_backprop_required() for x in xs}) > 1:
        yield from (_core.linear(x, w, b) for x in xs)
        return
    for first in range(0, len(xs), _MAX_PARTS):
        part = xs[first : first + _MAX_PARTS]
        ends = list(accumulate(len(x) for x in part))
        yield from _core.split(_core.linear(_core.concatenate(part), w, b), None, ends[:-1])


def _run(
    step: _Cell, joined: list[ndarray], state: _State, xs: _Steps
) -> tuple[list[ndarray], _State]:
    """The outputs of one layer in one direction, and its final state."""
    xw, xb, hw, hb = joined
    h, c = state
    ys = []
    for from_x in _from_inputs(xs, xw, xb):
        rows = len(from_x)
        whole = rows == len(h)
        top_h = h if whole else h[:rows]
        top_c = c if whole or c is None else c[:rows]
        y, next_c = step(from_x, _core.linear(top_h, hw, hb), top_h, top_c)
        ys.append(y)
        h = y if whole else _core.concatenate([y, h[rows:]])
        if c is not None:
            c = next_c if whole else _core.concatenate([next_c, c[rows:]])
    return ys, (h, c)


def _lstm_layer(
    joined: list[ndarray], state: _State, xs: _Steps, backwards: bool
) -> tuple[list[ndarray], _State]:
    """As _run, by one operator; its ys are views of one array."""
    xw, xb, hw, hb = joined
    rows = [len(x) for x in xs]
    packed = xs[0] if len(xs) == 1 else _core.concatenate(list(xs))
    from_x = _core.linear(packed, xw, xb)
    y, h, c = _core.lstm_layer(from_x, *state, hw, hb, rows, backwards)
    return _core.split(y, None, list(accumulate(rows))[:-1]), (h, c)


# What the operators take at most: steps, and cells of all layers and directions (ops/rnn.h).
_MAX_STEPS, _MAX_CELLS = 4096, 65536


def _may_use_cudnn(hx: ndarray) -> bool:
    backend = hx.device.backend
    return backend.name == "cuda" and bool(backend._session.settings["use_cudnn"])


def _is_regular(
    gates: int,
    directions: int,
    hx: ndarray,
    cx: ndarray | None,
    ws: _Weights,
    bs: _Weights,
    xs: _Steps,
) -> bool:
    """Whether an operator takes the whole, which is stricter: what it refuses is done, or said, by steps."""
    if len(xs) > _MAX_STEPS or len(xs) * len(hx) > _MAX_CELLS or not is_float(hx.dtype):
        return False
    hidden = hx.shape[2]
    expected = [(hx, hx.shape), *((x, (len(x), *xs[0].shape[1:])) for x in xs)]
    if cx is not None:
        expected.append((cx, hx.shape))
    for part, (weights, biases) in enumerate(zip_strict(ws, bs)):
        width = xs[0].shape[1:] if part < directions else (directions * hidden,)
        shapes = [(hidden, *width)] * gates + [(hidden, hidden)] * gates
        if not len(weights) == len(biases) == 2 * gates:
            return False
        expected += [*zip_strict(weights, shapes), *((b, (hidden,)) for b in biases)]
    return xs[0].ndim == 2 and all(
        array.shape == shape and array.dtype == hx.dtype and array.device is hx.device
        for array, shape in expected
    )


def _has_lstm_layer(cell: str, hx: ndarray, xs: _Steps) -> bool:
    """Whether `lstm_layer` is faster than steps.

    Not so where only some steps are in a graph: results of earlier ones would be in it, too.
    """
    return (
        cell == "lstm"
        and hx.device.backend.name == "native"
        and hx.dtype in ("float32", "float64")
        and len({x.is_backprop_required() for x in xs}) == 1
    )


def _whole(
    mode: str,
    directions: int,
    n_layers: int,
    hx: ndarray,
    cx: ndarray | None,
    ws: _Weights,
    bs: _Weights,
    xs: _Steps,
) -> tuple[ndarray, Any, list[ndarray]]:
    """As _stack, by the operator; its ys are views of one array."""
    states = [hx] if cx is None else [hx, cx]
    weights = [a for pair in zip_strict(ws, bs) for part in pair for a in part]
    rows = [len(x) for x in xs]
    packed = xs[0] if len(xs) == 1 else _core.concatenate(xs)
    y, *finals = _core.rnn([packed, *states, *weights], rows, n_layers, directions, cast(Any, mode))
    ys = _core.split(y, None, list(accumulate(rows))[:-1])
    return finals[0], finals[1] if cx is not None else None, ys
