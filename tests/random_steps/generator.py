"""Random steps: functions of chx arrays as users write them, made while they run for the first time.

A step is a list of instructions over numbered values. Each instruction that is drawn is tried at
once; what chx refuses is no part of the step.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import chx

Instruction = Callable[[list[Any]], Any]

FLOATS = ("float32", "float64")
UNARY = (
    "tanh",
    "sigmoid",
    "relu",
    "negative",
    "square",
    "sin",
    "arctan",
    "absolute",
    "exp",
    "floor",
)
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "arctan2")
INPLACE = ("__iadd__", "__isub__", "__imul__")
REDUCTIONS = ("sum", "mean", "max", "var")
COMPARISONS = ("greater", "less_equal", "equal")


class State:
    """What a step finds: arguments, and arrays from elsewhere that it reads and writes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        chx.random.seed(seed)
        rows, columns = self._random.choice(((3, 4), (1, 5), (6, 2), (0, 3), (17, 33), (130, 67)))
        self.shape = (rows, columns)
        self.dtype = self._random.choice(FLOATS)
        shapes = [(rows, columns), (columns,), (columns, columns)]
        self.params = [self._draw(s).require_grad() for s in shapes]
        self.buffers = [self._draw((rows, columns)), self._draw((columns,)), self._draw(())]
        self.count = chx.zeros((), "int64")
        name = self._random.choice(("SGD", "MomentumSGD", "Adam", "RMSprop"))
        self.optimizer = getattr(chx.optimizers, name)().setup(self.params)

    def _draw(self, shape: tuple[int, ...], dtype: str | None = None) -> Any:
        size = 1
        for dim in shape:
            size *= dim
        values = [self._random.choice((0.5, -1.5, 2.0, 0.0, -0.25)) for _ in range(size)]
        return chx.array(values, dtype=dtype or self.dtype).reshape(shape)

    def arguments(self, call: int) -> list[Any]:
        """Of call number `call`: the values, and sometimes the strides, differ."""
        rows, columns = self.shape
        x = self._draw((rows, columns))
        if call % 4 == 2:
            x = self._draw((columns, rows)).T
        elif call % 4 == 3:
            x = self._draw((rows, 2 * columns))[:, ::-2]
        flags = self._draw((rows, columns)) > 0
        index = chx.array([self._random.randrange(columns) for _ in range(3)], dtype="int64")
        return [x, flags, index]

    def seen(self) -> list[Any]:
        """All that a step may have changed."""
        grads = [p.grad for p in self.params]
        return [*self.params, *self.buffers, self.count, *(g for g in grads if g is not None)]


class Step:
    """One random step. Call it with a state and its arguments."""

    def __init__(self, seed: int, length: int) -> None:
        self._random = random.Random(seed)
        self._length = length
        self._instructions: list[Instruction] | None = None
        self._results: list[int] = []
        self.clears = self._random.choice(("before", "after", "never"))
        self.trains = self._random.random() < 0.7
        self.updates = self.trains and self._random.random() < 0.7
        self.penalizes = self.trains and self._random.random() < 0.3

    def __call__(self, state: State, *arguments: Any) -> Any:
        if self.clears == "before":
            state.optimizer.cleargrads()
        values: list[Any] = [*arguments, *state.params, *state.buffers, state.count]
        if self._instructions is None:
            self._instructions = []
            self._draw(values, len(arguments))
        else:
            for instruction in self._instructions:
                values.append(instruction(values))
        if self.trains:
            loss = sum((v * v).mean() for v in state.params) * 0.01
            for value in values[len(arguments) :]:
                if value.is_backprop_required() and value.size and value.ndim:
                    loss = loss + chx.tanh(value).astype(state.dtype).sum() * 0.1
            if self.penalizes:
                grads = chx.grad([loss], state.params, enable_double_backprop=True)
                loss = loss + sum((g * g).mean() for g in grads if g is not None) * 0.01
            loss.backward()
            if self.updates:
                state.optimizer.update()
        if self.clears == "after":
            state.optimizer.cleargrads()
        return {"values": [values[i].as_grad_stopped() for i in self._results], "count": 1}

    def _draw(self, values: list[Any], num_arguments: int) -> None:
        assert self._instructions is not None
        first = len(values)
        for _ in range(20 * self._length):
            if len(values) - first >= self._length:
                break
            instruction = self._instruction(values)
            try:
                value = instruction(values)
                chx.to_numpy(value)
            except (chx.ChainerxError, ArithmeticError, IndexError, TypeError, ValueError):
                continue
            self._instructions.append(instruction)
            values.append(value)
        made = range(first, len(values))
        self._results = [i for i in made if self._random.random() < 0.2] or [len(values) - 1]
        if self._random.random() < 0.3:
            self._results.append(self._random.randrange(num_arguments))

    def _instruction(self, values: Sequence[Any]) -> Instruction:
        rng = self._random
        a, b = (rng.randrange(len(values)) for _ in range(2))
        # Later values more often: chains rather than bushes.
        if rng.random() < 0.5:
            a = len(values) - 1 - min(rng.randrange(4), len(values) - 1)
        number = rng.choice((0.5, 2.0, -1.25, 3, 0))
        axis = rng.choice((None, 0, -1))
        start, step = rng.randrange(3), rng.choice((1, 2, -1))
        unary, binary = rng.choice(UNARY), rng.choice(BINARY)
        reduction, inplace = rng.choice(REDUCTIONS), rng.choice(INPLACE)
        comparison = rng.choice(COMPARISONS)
        dtype = rng.choice(("float32", "float64", "float16", "int32", "bool_"))
        kinds: list[Instruction] = [
            lambda v: getattr(chx, unary)(v[a]),
            lambda v: getattr(chx, unary)(v[a]),
            lambda v: getattr(chx, binary)(v[a], v[b]),
            lambda v: getattr(chx, binary)(v[a], v[b]),
            lambda v: getattr(chx, binary)(v[a], number),
            lambda v: v[a] * number + v[b],
            lambda v: v[a] / (chx.absolute(v[b]) + 1),
            lambda v: getattr(chx, reduction)(v[a], axis=axis, keepdims=True),
            lambda v: getattr(chx, reduction)(v[a], axis=axis),
            lambda v: v[a] - v[a].mean(axis=-1, keepdims=True),
            lambda v: v[a] @ v[b],
            lambda v: chx.dot(v[a].reshape(v[a].shape), v[b].T),
            lambda v: v[a].T,
            lambda v: v[a][start:],
            lambda v: v[a][..., ::step],
            lambda v: v[a].reshape(-1),
            lambda v: chx.broadcast_to(v[a], (2, *v[a].shape)) * 1.5,
            lambda v: chx.concatenate([v[a], v[b]]),
            lambda v: chx.stack([v[a], v[a]], axis=-1),
            lambda v: chx.take(v[a], v[2] % v[a].shape[-1], axis=-1),
            lambda v: chx.where(v[1], v[a], v[b]),
            lambda v: getattr(chx, comparison)(v[a], v[b]),
            lambda v: v[a].astype(dtype),
            lambda v: v[a].copy(),
            lambda v: v[a].as_grad_stopped(),
            lambda v: chx.argmax(v[a], axis=-1),
            lambda v: chx.softmax(v[a], axis=-1) if v[a].ndim else v[a] + 1,
            lambda v: chx.cumsum(v[a], axis=-1),
            lambda v: v[a] + chx.random.normal(size=v[a].shape, dtype=str(v[a].dtype)),
            lambda v: v[a] * (chx.random.uniform(size=v[a].shape) > 0.5),
            lambda v: getattr(v[a], inplace)(v[b]),
            lambda v: getattr(v[a], inplace)(number),
            lambda v: getattr(v[a][..., ::step], inplace)(number),
            lambda v: getattr(v[6], inplace)(v[b]),
            lambda v: getattr(v[7], inplace)(number),
        ]
        return rng.choice(kinds)
