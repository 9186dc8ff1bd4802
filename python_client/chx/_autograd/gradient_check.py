"""Gradients against differences: for tests of what is built from arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chx import _core
from chx._autograd.backward import grad
from chx._compat import TypeAlias, zip_strict
from chx._core import ndarray
from chx._numpy import creation, transfer
from chx._runtime.context import BackpropId
from chx._types import NumpyArray

_Func: TypeAlias = Callable[[list[ndarray]], Sequence[ndarray]]


def _values(array: ndarray) -> NumpyArray:
    return transfer.to_numpy(array).astype(np.float64)


def _array_like(values: NumpyArray, like: ndarray) -> ndarray:
    return creation.array(values.astype(like.dtype), device=like.device)


def _leaf(array: ndarray, like: ndarray, backprop_id: BackpropId | None) -> ndarray:
    """The array as a leaf of the graphs that another is in, apart from the caller's nodes."""
    leaf = array.as_grad_stopped()
    for graph in {None, backprop_id}:
        if like.is_backprop_required(graph):
            leaf.require_grad(graph)
    return leaf


def _call(func: _Func, inputs: list[ndarray]) -> list[ndarray]:
    outputs = func(inputs)
    if isinstance(outputs, _core.ndarray):
        raise TypeError("expected func to give a sequence of arrays, got an ndarray")
    return list(outputs)


def _check_shapes(what: str, arrays: Sequence[ndarray | None], like: Sequence[ndarray]) -> None:
    if len(arrays) != len(like):
        raise _core.GradientCheckError(f"{what}: expected {len(like)} arrays, got {len(arrays)}")
    for i, (array, other) in enumerate(zip_strict(arrays, like)):
        if array is not None and array.shape != other.shape:
            raise _core.GradientCheckError(
                f"{what}[{i}]: expected shape {other.shape}, got {array.shape}"
            )


def _gradients(
    func: _Func,
    inputs: list[ndarray],
    grad_outputs: list[ndarray],
    backprop_id: BackpropId | None,
) -> list[ndarray | None]:
    """By backprop: None for inputs that don't require it."""
    inputs = [_leaf(x, x, backprop_id) for x in inputs]
    outputs = _call(func, inputs)
    _check_shapes("grad_outputs", grad_outputs, outputs)
    for i, x in enumerate(inputs):
        if x.is_backprop_required(backprop_id) and any(y is x for y in outputs):
            raise _core.GradientCheckError(f"input {i} is an output itself: give a view of it")
    grads = grad(outputs, inputs, backprop_id, grad_outputs=grad_outputs)
    for i, (x, gx) in enumerate(zip_strict(inputs, grads)):
        if gx is not None and gx.is_backprop_required(backprop_id):
            raise _core.GradientCheckError(
                f"the gradient of input {i} is in the graph, without double backprop"
            )
        if gx is None and x.is_backprop_required(backprop_id):
            grads[i] = _array_like(np.zeros(x.shape), x)
    return grads


def _differences(
    func: _Func,
    inputs: list[ndarray],
    grad_outputs: list[ndarray],
    eps: list[ndarray],
    backprop_id: BackpropId | None,
    i: int,
) -> NumpyArray:
    """By central differences, of input i."""
    values, steps = _values(inputs[i]), _values(eps[i])
    weights = [_values(g) for g in grad_outputs]

    def outputs_at(moved: ndarray) -> list[NumpyArray]:
        arrays = inputs[:i] + [moved] + inputs[i + 1 :]
        leaves = [_leaf(a, x, backprop_id) for a, x in zip_strict(arrays, inputs)]
        return [_values(y) for y in _call(func, leaves)]

    result = np.zeros(values.shape)
    for index in np.ndindex(values.shape):
        moved = []
        for sign in (1, -1):
            changed = values.copy()
            changed[index] += sign * steps[index]
            moved.append(_array_like(changed, inputs[i]))
        # As far as it moved in the array's own dtype.
        step = _values(moved[0])[index] - _values(moved[1])[index]
        sums = [
            np.sum((above - below) * weight)
            for above, below, weight in zip_strict(*map(outputs_at, moved), weights)
        ]
        result[index] = sum(sums) / step
    return result


def _compare(
    func: _Func,
    inputs: list[ndarray],
    grad_outputs: list[ndarray],
    eps: list[ndarray],
    atol: float,
    rtol: float,
    backprop_id: BackpropId | None,
) -> None:
    _check_shapes("eps", eps, inputs)
    grads = _gradients(func, inputs, grad_outputs, backprop_id)
    failures = []
    for i, gx in enumerate(grads):
        if gx is None:
            continue
        expected = _differences(func, inputs, grad_outputs, eps, backprop_id, i)
        actual = _values(gx)
        if not np.allclose(actual, expected, atol=atol, rtol=rtol):
            failures.append(
                f"input {i}: by backprop\n{actual}\nby differences\n{expected}\n"
                f"greatest difference {np.max(np.abs(actual - expected))}"
            )
    if failures:
        raise _core.GradientCheckError(
            f"gradients differ (atol {atol}, rtol {rtol}, graph "
            f"'{'<default>' if backprop_id is None else backprop_id.name}')\n" + "\n".join(failures)
        )


def check_backward(
    func: _Func,
    inputs: Sequence[ndarray],
    grad_outputs: Sequence[ndarray],
    eps: Sequence[ndarray],
    atol: float = 1e-5,
    rtol: float = 1e-4,
    backprop_id: BackpropId | None = None,
) -> None:
    """Compares a function's gradients with differences of its values.

    Args:
      func: takes a list of arrays and gives a sequence of arrays.
      inputs: arrays; those that require backprop are checked.
      grad_outputs: by what the outputs are weighted, one array for each.
      eps: how far each element of each input is moved, arrays of the inputs' shapes.
      atol, rtol: tolerances.
      backprop_id: the graph; the default one if None.

    Raises:
      GradientCheckError: they differ, or the arguments don't fit the function.
    """
    _compare(func, list(inputs), list(grad_outputs), list(eps), atol, rtol, backprop_id)


def check_double_backward(
    func: _Func,
    inputs: Sequence[ndarray],
    grad_outputs: Sequence[ndarray],
    grad_grad_inputs: Sequence[ndarray],
    eps: Sequence[ndarray],
    atol: float = 1e-5,
    rtol: float = 1e-4,
    backprop_id: BackpropId | None = None,
) -> None:
    """Compares a function's second-order gradients with differences of its gradients.

    All inputs and grad_outputs must require backprop. `grad_grad_inputs` weigh the gradients, one
    array for each input; `eps` has an array for each input, then for each of grad_outputs. The rest
    is as for check_backward().

    Raises:
      ChainerxError: an array that must require backprop doesn't.
      GradientCheckError: they differ, or the arguments don't fit the function.
    """
    inputs, grad_outputs = list(inputs), list(grad_outputs)
    for what, arrays in (("inputs", inputs), ("grad_outputs", grad_outputs)):
        for i, array in enumerate(arrays):
            if not array.is_backprop_required(backprop_id):
                raise _core.ChainerxError(f"expected {what}[{i}] to require backprop")

    def first_order(arrays: list[ndarray]) -> list[ndarray]:
        xs, gys = arrays[: len(inputs)], arrays[len(inputs) :]
        for x in xs:
            x.require_grad(backprop_id)
        ys = _call(func, xs)
        _check_shapes("grad_outputs", gys, ys)
        grads = grad(ys, xs, backprop_id, enable_double_backprop=True, grad_outputs=gys)
        found = []
        for i, gx in enumerate(grads):
            if gx is None:
                raise _core.GradientCheckError(f"no output depends on input {i}")
            found.append(gx)
        return found

    _compare(
        first_order,
        inputs + grad_outputs,
        list(grad_grad_inputs),
        list(eps),
        atol,
        rtol,
        backprop_id,
    )
