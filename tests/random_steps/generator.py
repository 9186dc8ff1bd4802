"""Random steps: functions of chx arrays as users write them.

A step is a list of instructions over numbered values. Each instruction that is drawn is tried at
once; what chx refuses, what is too large, and what is far from 1 or not finite is no part of the step.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import chx
import numpy as np

from .instructions import Instruction, choose_kinds, draw

FLOATS = ("float32", "float64")
SHAPES = {
    "small": ((3, 4), (1, 5), (6, 2), (0, 3), (17, 33)),
    # From 8192 elements on, operators are fused, in several blocks.
    "medium": ((130, 67), (96, 128), (70, 300)),
    # Loops are split over threads; sums over the first axis are cut from 2^18 elements on.
    "large": ((520, 520), (1030, 260), (4, 70000)),
}
SIZES = ("small", "medium", "small", "large", "medium", "small")
PARTS = {"small": 1.0, "medium": 0.6, "large": 0.15}  # of the longest step
MOST_PARAMETERS = 600  # a side of a square one
MOST_TERMS = 12  # of the loss
REFUSALS = (
    chx.ChainerxError,
    ArithmeticError,
    IndexError,
    RuntimeError,
    TypeError,
    ValueError,
)


def size_of(seed: int) -> str:
    """Consecutive seeds have all of them."""
    return SIZES[seed % len(SIZES)]


class State:
    """What a step finds: arguments, and arrays from elsewhere that it reads and writes."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        chance = random.Random(seed)
        chx.random.seed(seed)
        rows, columns = chance.choice(SHAPES[size_of(seed)])
        self.shape = (rows, columns)
        self.dtype = chance.choice(FLOATS)
        square = min(columns, MOST_PARAMETERS)
        shapes = [(rows, columns), (columns,), (square, square)]
        self.params = [self._draw(s).require_grad() for s in shapes]
        self.buffers = [
            self._draw((rows, columns)),
            self._draw((columns,)),
            self._draw(()),
            self._draw((rows, columns), "float16"),
            self._draw((rows, columns), "int32"),
            self._draw((columns,), "int64"),
            self._draw((rows, columns), "bool_"),
            self._draw((rows, 1), "uint8"),
        ]
        self._first = [a.as_grad_stopped().copy() for a in (*self.params, *self.buffers)]
        name = chance.choice(("SGD", "MomentumSGD", "Adam", "RMSprop"))
        self.optimizer = getattr(chx.optimizers, name)().setup(self.params)
        if chance.random() < 0.5:
            self.optimizer.add_hook(chx.optimizers.GradientClipping(1.0))
        if chance.random() < 0.3:
            self.optimizer.add_hook(chx.optimizers.WeightDecay(1e-3))

    def _draw(self, shape: tuple[int, ...], dtype: str | None = None) -> Any:
        dtype = dtype or self.dtype
        if "float" in dtype:
            # Some are exact, and are equal now and then.
            values = self._random.normal(0, 0.7, shape)
            exact = self._random.integers(0, 4, shape) == 0
            values = np.where(exact, np.round(2 * values) / 2, values)
        else:
            values = self._random.integers(0, 2 if dtype == "bool_" else 7, shape)
        return chx.array(np.asarray(values).astype(dtype))

    def arguments(self, layout: int) -> list[Any]:
        """New values; the strides are of kind number `layout`."""
        rows, columns = self.shape
        x = self._draw((rows, columns))
        if layout % 4 == 2:
            x = self._draw((columns, rows)).T
        elif layout % 4 == 3:
            x = self._draw((rows, 2 * columns))[:, ::-2]
        index = chx.array(self._random.integers(0, columns, 3))
        ints = self._draw((rows, columns), "int16")
        return [x, self._draw((rows, columns), "bool_"), index, ints]

    def renew(self) -> None:
        """Writes what there was at first: values that have grown step by step begin anew."""
        for array, first in zip((*self.params, *self.buffers), self._first):
            chx.copyto(array.as_grad_stopped(), first)
        for param in self.params:
            param.cleargrad()

    def seen(self) -> dict[str, Any]:
        """All that a step may have changed."""
        found = {f"params[{i}]": p for i, p in enumerate(self.params)}
        found |= {f"buffers[{i}]": b for i, b in enumerate(self.buffers)}
        grads = {f"params[{i}].grad": p.grad for i, p in enumerate(self.params)}
        return found | {name: grad for name, grad in grads.items() if grad is not None}


class Values(list[Any]):
    """Notes which ones are used."""

    def __init__(self, values: Sequence[Any]) -> None:
        super().__init__(values)
        self.used: set[int] = set()

    def __getitem__(self, i: Any) -> Any:
        self.used.add(i)
        return super().__getitem__(i)


class Step:
    """One random step, of `length` instructions at most. Call it with a state and its arguments."""

    def __init__(self, seed: int, length: int) -> None:
        self._random = random.Random(seed)
        self.instructions: list[Instruction] = []
        self.clears = self._random.choice(("before", "after", "never"))
        self.trains = self._random.random() < 0.7
        self.updates = self.trains and self._random.random() < 0.7
        self.penalizes = self.trains and self._random.random() < 0.25
        state = State(seed)
        arguments = state.arguments(0)
        values = Values(self._given(state, arguments))
        self._num_given = len(values)
        self._draw(values, length, 4 * state.shape[0] * state.shape[1] + 64)
        made = range(self._num_given, len(values))
        chosen = self._random.sample(made, min(len(made), 2 + len(made) // 8))
        # Otherwise the daemon may leave some instructions out.
        if self._random.random() < 0.6:
            chosen += [i for i in made if i not in values.used]
        self._results = sorted({*chosen, len(values) - 1})
        if self._random.random() < 0.3:
            self._results.append(self._random.randrange(len(arguments)))
        self._terms: list[int] = []
        for i in self._random.sample(made, len(made)):
            value = values[i]
            if len(self._terms) < MOST_TERMS and value.is_backprop_required() and value.size:
                self._terms.append(i)
        self._calm_down(seed)

    @property
    def dtypes(self) -> set[str]:
        """Of the instructions' values, as they were drawn."""
        return {instruction.dtype for instruction in self.instructions}

    def __call__(self, state: State, rate: Any, *arguments: Any) -> Any:
        if self.clears == "before":
            state.optimizer.cleargrads()
        values = self._given(state, arguments)
        for instruction in self.instructions:
            values.append(instruction(values, rate))
        if self.trains:
            loss = sum((v * v).mean() for v in state.params if v.size) * 0.01
            for i in self._terms:
                loss = loss + chx.tanh(values[i]).astype(state.dtype).mean() * 0.1
            if self.penalizes:
                grads = chx.grad([loss], state.params, enable_double_backprop=True)
                loss = loss + sum((g * g).mean() for g in grads if g is not None and g.size)
            loss.backward()
            if self.updates:
                state.optimizer.update()
        if self.clears == "after":
            state.optimizer.cleargrads()
        return {"values": [values[i].as_grad_stopped() for i in self._results], "count": 1}

    def _given(self, state: State, arguments: Sequence[Any]) -> list[Any]:
        return [*arguments, *state.params, *state.buffers]

    def _draw(self, values: Values, length: int, most: int) -> None:
        has = choose_kinds(self._random)
        for _ in range(6 * length):
            if len(self.instructions) >= length:
                break
            instruction = draw(self._random, len(values), self._num_given, has)
            used = set(values.used)
            try:
                value = instruction(values, 0.5)
                fits = value.size <= most and value.ndim <= 4
                if not fits or (not is_calm(value) and self._random.random() < 0.98):
                    values.used = used
                    continue
            except REFUSALS:
                values.used = used
                continue
            instruction.dtype = str(value.dtype)
            self.instructions.append(instruction)
            values.append(value)

    def _calm_down(self, seed: int) -> None:
        """Trains less if what that writes is no number after a few steps: all would be NaN soon."""
        while self.trains:
            state = State(seed)
            for _ in range(6):
                self(state, 0.5, *state.arguments(0))
            seen = state.seen()
            calm = (is_calm(a, 1e30 if name.endswith("grad") else 1e6) for name, a in seen.items())
            if all(calm):
                return
            if self.penalizes:
                self.penalizes = False
            elif self.updates:
                self.updates = False
            else:
                self.trains = False


def is_calm(array: Any, most: float = 1e4) -> bool:
    """Whether nearly all of its elements are numbers of usual sizes."""
    values = chx.to_numpy(array)
    if values.size == 0 or values.dtype.kind == "b":
        return True
    return bool(np.mean(np.abs(values.astype("float64")) < most) > 0.97)
