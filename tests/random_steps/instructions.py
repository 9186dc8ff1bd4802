"""The instructions of random steps: each makes an array of those that there are."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import chx

X, FLAGS, INDEX, INTS = range(4)  # a step's arguments
BUFFERS = range(7, 15)  # behind its parameters

UNARY = (
    "tanh",
    "sigmoid",
    "relu",
    "negative",
    "square",
    "sin",
    "cos",
    "arctan",
    "absolute",
    "exp",
    "floor",
    "erf",
    "sign",
    "softplus",
    "elu",
    "isfinite",
    "logical_not",
)
BINARY = (
    "add",
    "subtract",
    "multiply",
    "maximum",
    "minimum",
    "arctan2",
    "hypot",
    "copysign",
    "fmax",
    "squared_difference",
    "logaddexp",
)
INTEGER = ("bitwise_and", "bitwise_or", "bitwise_xor", "floor_divide", "remainder", "gcd")
INPLACE = ("__iadd__", "__isub__", "__imul__")
REDUCTIONS = ("sum", "mean", "max", "min", "var", "std", "prod", "logsumexp", "any", "all")
COMPARISONS = ("greater", "less_equal", "equal", "not_equal", "logical_and", "logical_or")
DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool_")


class Instruction:
    """One, with the numbers of the values that it works on."""

    def __init__(self, function: Callable[[list[Any], Any], Any]) -> None:
        self.dtype = ""  # of what it made when it was drawn
        self._function = function

    def __call__(self, values: list[Any], rate: Any) -> Any:
        return self._function(values, rate)


def _assign(target: Any, key: Any, value: Any) -> Any:
    target[key] = value
    return target


def _batch_norm(x: Any, mean: Any) -> Any:
    """Writes to a running mean."""
    ones = chx.ones(mean.shape, str(x.dtype))
    return chx.batch_norm(x, ones, ones * 0.5, mean, ones.copy(), eps=0.01, axis=0)


def _layer_norm(x: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / chx.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 0.01)


def _convolve(x: Any) -> Any:
    image = x.reshape((1, 1, *x.shape))
    kernel = chx.full((1, 1, 3, 3), 0.1, str(x.dtype))
    return chx.conv(image, kernel, pad=1)[0, 0]


ALWAYS = ("unary", "binary", "number", "line", "reduction", "kept reduction", "cast", "transpose")
WRITES = ("write", "assign", "batch norm")
# They may fail by the integers that they get: behind a write, they are no part of a window.
CHECKED = ("take", "sort", "argsort", "cumsum", "dot", "matmul", "join", "stack", "roll", "randint")


def choose_kinds(rng: random.Random) -> Callable[[str], bool]:
    """Which kinds of instructions a step has: what some of them prevent is seen without them."""
    groups = [group for group in (WRITES, CHECKED) if rng.random() < 0.55]
    without = tuple(name for group in groups for name in group)
    salt = rng.random()

    def has(name: str) -> bool:
        if name in ALWAYS:
            return True
        return not name.startswith(without) and random.Random(f"{salt} {name}").random() < 0.7

    return has


def draw(rng: random.Random, count: int, num_given: int, has: Callable[[str], bool]) -> Instruction:
    """An instruction for a step that has `count` values, of which it was given `num_given`."""
    a, b = (rng.randrange(count) for _ in range(2))
    # Later values more often: chains rather than bushes.
    if rng.random() < 0.6:
        a = count - 1 - rng.randrange(min(6, count))
    if rng.random() < 0.3:
        b = num_given + rng.randrange(max(1, count - num_given)) if count > num_given else b
    number = rng.choice((0.5, 2.0, -1.25, 3, 0, 0.9))
    axis = rng.choice((None, 0, -1))
    start, step = rng.randrange(3), rng.choice((1, 2, -1))
    unary, binary = rng.choice(UNARY), rng.choice(BINARY)
    integer, comparison = rng.choice(INTEGER), rng.choice(COMPARISONS)
    reduction, inplace = rng.choice(REDUCTIONS), rng.choice(INPLACE)
    dtype = rng.choice(DTYPES)
    buffer = rng.choice(BUFFERS)
    low = rng.randrange(4)

    def like(x: Any) -> dict[str, Any]:
        return {"size": x.shape, "dtype": str(x.dtype)}

    kinds: dict[str, tuple[int, Callable[[list[Any], Any], Any]]] = {
        "unary": (8, lambda v, r: getattr(chx, unary)(v[a])),
        "binary": (8, lambda v, r: getattr(chx, binary)(v[a], v[b])),
        "number": (3, lambda v, r: getattr(chx, binary)(v[a], number)),
        "rate": (1, lambda v, r: v[a] * r + v[b]),
        "line": (3, lambda v, r: v[a] * number + v[b]),
        "quotient": (2, lambda v, r: v[a] / (chx.absolute(v[b]) + 1)),
        "root": (2, lambda v, r: chx.sqrt(chx.absolute(v[a]) + 0.25)),
        "power": (1, lambda v, r: (chx.absolute(v[a]) + 0.5) ** -0.5),
        "log": (1, lambda v, r: chx.log1p(chx.absolute(v[a]))),
        "clip": (1, lambda v, r: chx.clip(v[a], -1, 1)),
        "integer": (2, lambda v, r: getattr(chx, integer)(v[a], v[b])),
        "integers": (2, lambda v, r: getattr(chx, integer)(v[a].astype("int32"), v[INTS])),
        "integer number": (2, lambda v, r: v[a].astype("int32") % 5 // 2 + v[b]),
        "shift": (1, lambda v, r: chx.left_shift(v[INTS], low)),
        "comparison": (2, lambda v, r: getattr(chx, comparison)(v[a], v[b])),
        "reduction": (2, lambda v, r: getattr(chx, reduction)(v[a], axis=axis)),
        "kept reduction": (3, lambda v, r: getattr(chx, reduction)(v[a], axis=axis, keepdims=True)),
        "centre": (2, lambda v, r: v[a] - v[a].mean(axis=-1, keepdims=True)),
        "layer norm": (1, lambda v, r: _layer_norm(v[a])),
        "batch norm": (1, lambda v, r: _batch_norm(v[a] * 0.5, v[BUFFERS[1]])),
        "softmax": (1, lambda v, r: chx.softmax(v[a], axis=-1)),
        "log softmax": (1, lambda v, r: chx.log_softmax(v[a], axis=-1)),
        "matmul": (1, lambda v, r: v[a] @ v[b] * 0.1),
        "dot": (1, lambda v, r: chx.tanh(chx.dot(v[a], v[b].T))),
        "outer": (1, lambda v, r: v[a][..., None] * v[b][..., None, :3]),
        "convolution": (1, lambda v, r: _convolve(v[a])),
        "transpose": (2, lambda v, r: v[a].T),
        "rows": (1, lambda v, r: v[a][start:]),
        "columns": (2, lambda v, r: v[a][..., ::step]),
        "flat": (1, lambda v, r: v[a].reshape(-1)),
        "back": (1, lambda v, r: v[a].reshape(v[X].shape)),
        "new axis": (1, lambda v, r: v[a][:, None]),
        "squeeze": (1, lambda v, r: chx.squeeze(v[a])),
        "flip": (1, lambda v, r: chx.flip(v[a], -1)),
        "roll": (1, lambda v, r: chx.roll(v[a], low, axis=-1)),
        "broadcast": (1, lambda v, r: chx.broadcast_to(v[a], (2, *v[a].shape)) * 1.5),
        "join": (1, lambda v, r: chx.concatenate([v[a], v[b]])),
        "stack": (1, lambda v, r: chx.stack([v[a], v[a]], axis=-1)),
        "split": (1, lambda v, r: chx.split(v[a], [1 + low], axis=-1)[low % 2]),
        "pad": (1, lambda v, r: chx.pad(v[a], 1)),
        "take": (1, lambda v, r: chx.take(v[a], v[INDEX] % v[a].shape[-1], axis=-1)),
        "take rows": (1, lambda v, r: chx.take(v[a], v[INDEX] % v[a].shape[0], axis=0)),
        "where": (2, lambda v, r: chx.where(v[FLAGS], v[a], v[b])),
        "where number": (1, lambda v, r: chx.where(v[a] > 0, v[a], number)),
        "cast": (4, lambda v, r: v[a].astype(dtype)),
        "copy": (1, lambda v, r: v[a].copy()),
        "stop": (1, lambda v, r: v[a].as_grad_stopped()),
        "argmax": (1, lambda v, r: chx.argmax(v[a], axis=-1)),
        "sort": (1, lambda v, r: chx.sort(v[a], axis=-1)),
        "argsort": (1, lambda v, r: chx.argsort(v[a], axis=-1)),
        "cumsum": (1, lambda v, r: chx.cumsum(v[a], axis=-1)),
        "made": (1, lambda v, r: chx.full(v[a].shape, number, str(v[a].dtype)) + v[b]),
        "normal": (1, lambda v, r: v[a] + 0.1 * chx.random.normal(**like(v[a]))),
        "dropout": (1, lambda v, r: v[a] * (chx.random.uniform(size=v[a].shape) > 0.5)),
        "randint": (1, lambda v, r: chx.random.randint(0, 9, v[a].shape) + v[a]),
        # Writes: to anything, to buffers, to views of them, and from what overlaps.
        "write": (8, lambda v, r: getattr(v[a], inplace)(v[b])),
        "write number": (6, lambda v, r: getattr(v[a], inplace)(number)),
        "write rate": (2, lambda v, r: getattr(v[buffer], inplace)(r)),
        "write view": (6, lambda v, r: getattr(v[a][..., ::step], inplace)(number)),
        "write buffer": (8, lambda v, r: getattr(v[buffer], inplace)(v[b].astype(v[buffer].dtype))),
        "write transposed": (3, lambda v, r: getattr(v[buffer].T, inplace)(v[INTS].T)),
        "write itself": (3, lambda v, r: getattr(v[buffer], inplace)(v[buffer][..., ::-1])),
        "write shifted": (3, lambda v, r: getattr(v[buffer][1:], inplace)(v[buffer][:-1])),
        "write copy": (4, lambda v, r: getattr(v[a].as_grad_stopped().copy(), inplace)(v[buffer])),
        "assign": (5, lambda v, r: _assign(v[buffer], (..., slice(None, None, step)), v[b])),
        "assign row": (3, lambda v, r: _assign(v[buffer], start % 2, v[b])),
        "assign number": (3, lambda v, r: _assign(v[a], (..., slice(start, None)), number)),
        # Others see what is written through these, and the other way round.
        "alias": (4, lambda v, r: v[buffer][..., ::step]),
        "alias transposed": (2, lambda v, r: v[buffer].T),
        "alias rows": (2, lambda v, r: v[buffer][start:]),
    }
    weights = [weight if has(name) else 0 for name, (weight, _) in kinds.items()]
    name = rng.choices(list(kinds), weights)[0]
    return Instruction(kinds[name][1])
