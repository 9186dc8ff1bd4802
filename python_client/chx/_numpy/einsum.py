"""chx.einsum: diagonals, sums and products of matrices, by NumPy's notation."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, NoReturn, cast

import numpy as np

from chx import _core
from chx._compat import zip_strict
from chx._core import ndarray
from chx._numpy.arguments import arrays_like

# As numpy.einsum numbers them in lists of labels.
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def einsum(*operands: Any, optimize: Any = False) -> ndarray:
    """Sums of products by Einstein's convention: 'ij,jk->ik', '...i,i', 'ii'.

    einsum('ij,jk->ik', a, b), or with lists of labels einsum(a, [0, 1], b, [1, 2], [0, 2]). From left
    to right, unless `optimize` has numpy.einsum_path find an order, or is the path that it gave.

    Raises:
      ValueError: the subscripts don't parse, or don't fit the arrays.
    """
    subscripts, arrays = _arguments(operands)
    terms, output = _parse(subscripts, arrays)
    parts = [_diagonals(*part) for part in zip_strict(arrays, terms)]
    for step in _path(subscripts, arrays, optimize):
        chosen = [parts[i] for i in step]
        parts = [part for i, part in enumerate(parts) if i not in step]
        result = chosen[0]
        for i, part in enumerate(chosen[1:], start=1):
            later = set(output).union(*(labels for _, labels in [*chosen[i + 1 :], *parts]))
            result = _contract(*result, *part, later)
        parts.append(result)
    total, labels = _sum_out(*parts[0], set(output))
    return total.transpose([labels.index(label) for label in output])


def _arguments(operands: tuple[Any, ...]) -> tuple[str, list[ndarray]]:
    """The subscripts as a text, and the arrays."""
    if operands and isinstance(operands[0], str):
        subscripts, arrays = operands[0], list(operands[1:])
    else:
        arrays = list(operands[: len(operands) // 2 * 2 : 2])
        terms = [_text(labels) for labels in operands[1::2]]
        output = f"->{_text(operands[-1])}" if len(operands) % 2 else ""
        subscripts = ",".join(terms) + output
    if not any(isinstance(a, _core.ndarray) for a in arrays):
        raise TypeError("[einsum] expects subscripts and at least one array")
    return subscripts, arrays_like("einsum", *arrays)


def _text(labels: Any) -> str:
    try:
        return "".join(
            "..." if x is Ellipsis else _LETTERS[range(len(_LETTERS)).index(x)] for x in labels
        )
    except (TypeError, ValueError):
        raise ValueError(
            f"[einsum] expects lists of labels in [0, {len(_LETTERS)}) and Ellipsis, got {labels!r}"
        ) from None


def _path(subscripts: str, arrays: list[ndarray], optimize: Any) -> Sequence[Sequence[int]]:
    """Which operands to multiply at each step; what a step gives comes last."""
    if isinstance(optimize, (list, tuple)) and optimize and optimize[0] == "einsum_path":
        return _checked(list(optimize[1:]), len(arrays))
    if isinstance(optimize, str) and optimize not in ("greedy", "optimal"):
        raise ValueError(f"[einsum] expects optimize 'greedy' or 'optimal', got {optimize!r}")
    if not isinstance(optimize, (bool, np.bool_)) or (optimize and len(arrays) > 2):
        shapes = [np.broadcast_to(0.0, a.shape) for a in arrays]  # without memory
        path: list[tuple[int, ...]] = np.einsum_path(
            subscripts,
            *shapes,
            optimize=cast(Any, optimize),
        )[0][1:]
        return path
    return [range(len(arrays))]


def _checked(path: list[Any], count: int) -> list[Any]:
    left = count
    for step in path:
        if not step or len(set(step)) != len(step) or not set(step) <= set(range(left)):
            break
        left += 1 - len(step)
    else:
        if left == 1:
            return path
    raise ValueError(f"[einsum] expects a path through {count} arrays, got {path}")


def _parse(subscripts: str, operands: list[ndarray]) -> tuple[list[list[str]], list[str]]:
    """A list of labels for each operand, and those of the result; '...' makes labels of its own."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ValueError(
            f"[einsum] expects {len(terms)} arrays for '{subscripts}', got {len(operands)}"
        )
    parsed = []
    for term, operand in zip_strict(terms, operands):
        named = term.replace("...", "")
        if not all(label.isalpha() for label in named) or ("." in named):
            raise ValueError(f"[einsum] expects letters, ',', '...' and '->', got '{subscripts}'")
        rest = operand.ndim - len(named)
        if rest < 0 or (rest > 0 and "..." not in term):
            raise ValueError(
                f"[einsum] expects {len(named)} dimensions for '{term}', got {operand.ndim}"
            )
        before, _, after = term.partition("...")
        parsed.append([*before, *(f"...{i}" for i in range(rest - 1, -1, -1)), *after])
    ellipsis = sorted({x for term in parsed for x in term if len(x) > 1}, reverse=True)
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        output = [*ellipsis, *sorted(x for x in set(letters) if letters.count(x) == 1)]
    else:
        before, dots, after = right.partition("...")
        output = [*before, *(ellipsis if dots else ()), *after]
    known = {x for term in parsed for x in term}
    if len(set(output)) != len(output) or not known.issuperset(output):
        raise ValueError(
            f"[einsum] expects an output of labels from the inputs, got '{subscripts}'"
        )
    return parsed, output


def _refuse_sizes(label: str, one: int, other: int) -> NoReturn:
    raise ValueError(f"[einsum] expects one size for '{label}', got {one} and {other}")


def _diagonals(operand: ndarray, term: list[str]) -> tuple[ndarray, list[str]]:
    """Repeated labels of one operand taken along the diagonal."""
    labels = list(term)
    for label in dict.fromkeys(term):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if operand.shape[first] != operand.shape[second]:
                _refuse_sizes(label, operand.shape[first], operand.shape[second])
            operand = _core.diagonal(operand, 0, first, second)
            labels = [x for i, x in enumerate(labels) if i not in (first, second)] + [label]
    return operand, labels


def _sum_out(a: ndarray, labels: list[str], wanted: Set[str]) -> tuple[ndarray, list[str]]:
    axes = [i for i, label in enumerate(labels) if label not in wanted]
    if not axes:
        return a, labels
    # Of the array's dtype, unlike sum(); of bools whether there is one.
    total = _core.any(a, axes) if a.dtype == np.bool_ else _core.sum(a, axes, dtype=a.dtype)
    return total, [label for label in labels if label in wanted]


def _contract(
    a: ndarray, of_a: list[str], b: ndarray, of_b: list[str], later: set[str]
) -> tuple[ndarray, list[str]]:
    """One product of matrices: labels in both are batches if needed later, else summed over."""
    a, of_a = _sum_out(a, of_a, later.union(of_b))
    b, of_b = _sum_out(b, of_b, later.union(of_a))
    sizes: dict[str, int] = {}
    for label, size in [*zip_strict(of_a, a.shape), *zip_strict(of_b, b.shape)]:
        if sizes.setdefault(label, size) not in (size, 1) and size != 1:
            _refuse_sizes(label, sizes[label], size)
        sizes[label] = max(sizes[label], size) if size and sizes[label] else 0
    both = [label for label in of_a if label in of_b]
    batch = [label for label in both if label in later]
    summed = [label for label in both if label not in later]
    left = [label for label in of_a if label not in both]
    right = [label for label in of_b if label not in both]

    def matrices(x: ndarray, labels: list[str], rows: list[str], columns: list[str]) -> ndarray:
        x = x.transpose([labels.index(label) for label in batch + rows + columns])
        x = _core.broadcast_to(x, [sizes[label] for label in batch + rows + columns])
        return x.reshape([_product(sizes, part) for part in (batch, rows, columns)])

    product = _core.matmul(matrices(a, of_a, left, summed), matrices(b, of_b, summed, right))
    labels = batch + left + right
    return product.reshape([sizes[label] for label in labels]), labels


def _product(sizes: Mapping[str, int], labels: Iterable[str]) -> int:
    result = 1
    for label in labels:
        result *= sizes[label]
    return result
