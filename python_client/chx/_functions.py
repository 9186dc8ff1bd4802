"""Functions of NumPy that are made of a few operators: products, searching, counting.

Gradients come from the operators. Those whose result's shape depends on values wait for them, and
say so.
"""

import numpy as np

import chx
from chx import _core

# --- Products ------------------------------------------------------------------------------------


def outer(a, b):
    """The products of all pairs of elements, (a.size, b.size)."""
    return _core.ravel(a).reshape(a.size, 1) * _core.ravel(b)


def inner(a, b):
    """Sums of products over the last axes; of a number and an array, their product."""
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    return tensordot(a, b, ([-1], [-1]))


def vdot(a, b):
    """The dot product of the flattened arrays, 0-d."""
    return _core.dot(_core.ravel(a), _core.ravel(b))


def kron(a, b):
    """The Kronecker product."""
    ndim = max(a.ndim, b.ndim)
    left = (1,) * (ndim - a.ndim) + a.shape
    right = (1,) * (ndim - b.ndim) + b.shape
    apart = a.reshape([n for d in left for n in (d, 1)]) * b.reshape(
        [n for d in right for n in (1, d)]
    )
    return apart.reshape([m * n for m, n in zip(left, right, strict=True)])


def tensordot(a, b, axes=2):
    """Sums of products over axes: the last of a and the first of b, or two lists of them.

    Raises:
      DimensionError: the axes' sizes differ.
    """
    if isinstance(axes, int):
        axes = (list(range(a.ndim - axes, a.ndim)), list(range(axes)))
    of_a, of_b = ([int(i) for i in np.atleast_1d(part)] for part in axes)
    of_a = [i + a.ndim if i < 0 else i for i in of_a]
    of_b = [i + b.ndim if i < 0 else i for i in of_b]
    sizes = [a.shape[i] for i in of_a]
    if sizes != [b.shape[i] for i in of_b]:
        raise _core.DimensionError(
            f"[tensordot] expects axes of equal sizes, got {a.shape} over {of_a} and {b.shape} over {of_b}"
        )
    free_a = [i for i in range(a.ndim) if i not in of_a]
    free_b = [i for i in range(b.ndim) if i not in of_b]
    size = int(np.prod(sizes, dtype=np.int64))
    shape = [a.shape[i] for i in free_a] + [b.shape[i] for i in free_b]
    left = a.transpose(free_a + of_a).reshape(_size(a, free_a), size)
    right = b.transpose(of_b + free_b).reshape(size, _size(b, free_b))
    return _core.matmul(left, right).reshape(shape)


def _size(a, axes):
    return int(np.prod([a.shape[i] for i in axes], dtype=np.int64))


def einsum(subscripts, *operands):
    """Sums of products by Einstein's convention: 'ij,jk->ik', '...i,i', 'ii'. From left to right.

    Raises:
      ValueError: the subscripts don't parse, or don't fit the arrays.
    """
    terms, output = _parse(subscripts, operands)
    result, labels = _diagonals(operands[0], terms[0])
    for i, (operand, term) in enumerate(zip(operands[1:], terms[1:], strict=True), start=1):
        operand, term = _diagonals(operand, term)
        later = set(output).union(*terms[i + 1 :])
        result, labels = _contract(result, labels, operand, term, later)
    result, labels = _sum_out(result, labels, set(output))
    return result.transpose([labels.index(label) for label in output])


def _parse(subscripts, operands):
    """A list of labels for each operand, and those of the result; '...' makes labels of its own."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ValueError(
            f"[einsum] expects {len(terms)} arrays for '{subscripts}', got {len(operands)}"
        )
    parsed = []
    for term, operand in zip(terms, operands, strict=True):
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


def _diagonals(operand, term):
    """Repeated labels of one operand taken along the diagonal."""
    labels = list(term)
    for label in dict.fromkeys(term):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            operand = _core.diagonal(operand, 0, first, second)
            labels = [x for i, x in enumerate(labels) if i not in (first, second)] + [label]
    return operand, labels


def _sum_out(a, labels, wanted):
    axes = [i for i, label in enumerate(labels) if label not in wanted]
    if not axes:
        return a, labels
    return _core.sum(a, axis=axes), [label for label in labels if label in wanted]


def _contract(a, of_a, b, of_b, later):
    """One product of matrices: labels in both are batches if needed later, else summed over."""
    a, of_a = _sum_out(a, of_a, later.union(of_b))
    b, of_b = _sum_out(b, of_b, later.union(of_a))
    sizes = {}
    for label, size in [*zip(of_a, a.shape, strict=True), *zip(of_b, b.shape, strict=True)]:
        if sizes.setdefault(label, size) not in (size, 1) and size != 1:
            raise ValueError(
                f"[einsum] expects one size for '{label}', got {sizes[label]} and {size}"
            )
        sizes[label] = max(sizes[label], size) if size and sizes[label] else 0
    both = [label for label in of_a if label in of_b]
    batch = [label for label in both if label in later]
    summed = [label for label in both if label not in later]
    left = [label for label in of_a if label not in both]
    right = [label for label in of_b if label not in both]

    def matrices(x, labels, rows, columns):
        x = x.transpose([labels.index(label) for label in batch + rows + columns])
        x = _core.broadcast_to(x, [sizes[label] for label in batch + rows + columns])
        return x.reshape([_product(sizes, part) for part in (batch, rows, columns)])

    product = _core.matmul(matrices(a, of_a, left, summed), matrices(b, of_b, summed, right))
    labels = batch + left + right
    return product.reshape([sizes[label] for label in labels]), labels


def _product(sizes, labels):
    result = 1
    for label in labels:
        result *= sizes[label]
    return result


# --- Differences -----------------------------------------------------------------------------------


def diff(a, n=1, axis=-1, prepend=None, append=None):
    """Differences of neighbours along an axis, n times; `prepend` and `append` are put around first:
    arrays, or a number along the axis.
    """
    if n < 0:
        raise ValueError(f"[diff] expects n from 0 on, got {n}")
    axis %= a.ndim
    if n and (prepend is not None or append is not None):
        shape = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
        parts = [a]
        for value, first in ((prepend, True), (append, False)):
            if value is None:
                continue
            if not isinstance(value, _core.ndarray):
                value = chx.array(np.asarray(value), a.dtype, device=a.device)
            value = _core.broadcast_to(value, shape) if value.ndim == 0 else value
            parts = [value, *parts] if first else [*parts, value]
        a = _core.concatenate(parts, axis)
    before = [slice(None)] * axis
    for _ in range(n):
        later, earlier = a[(*before, slice(1, None))], a[(*before, slice(None, -1))]
        a = _core.not_equal(later, earlier) if a.dtype == np.bool_ else later - earlier
    return a


# --- Searching and counting ----------------------------------------------------------------------


def array_equal(a1, a2, equal_nan=False):
    """Whether shapes and all elements are equal, as a bool. Waits for the answer."""
    if a1.shape != a2.shape:
        return False
    same = _core.equal(a1, a2)
    if equal_nan:
        same = _core.logical_or(same, _core.logical_and(_core.isnan(a1), _core.isnan(a2)))
    return bool(_core.all(same))


def searchsorted(a, v, side="left", sorter=None):
    """Where the elements of v go into the sorted a (1-d), as int64: before or after equal ones.

    `sorter` are indices that sort an a which is not sorted.
    """
    if sorter is not None:
        a = _core.take(a, _on_device_of(a, sorter), 0)
    v = _on_device_of(a, v)
    if side not in ("left", "right"):
        raise ValueError(f"[searchsorted] expects side 'left' or 'right', got {side!r}")
    flat = _core.ravel(v)
    parts = [flat, a] if side == "left" else [a, flat]
    start = 0 if side == "left" else a.size
    # Equal elements keep their order: a new one's place, less the new ones before it.
    order = _core.argsort(_core.concatenate(parts))
    is_new = _core.logical_and(order >= start, order < start + flat.size)
    new_before = _core.cumsum(is_new) - 1
    place = _core.argsort(order)[start : start + flat.size]
    return (place - _core.take(new_before, place, axis=0)).reshape(v.shape)


def digitize(x, bins, right=False):
    """The number of the bin of each element: bins are increasing, and hold their lower edge, or with
    `right` the upper one. Lists and NumPy arrays of bins may decrease.
    """
    side = "left" if right else "right"
    if not isinstance(bins, _core.ndarray):
        bins = np.asarray(bins)
        if bins.size > 1 and bins[0] > bins[-1]:
            return bins.size - searchsorted(_on_device_of(x, bins[::-1].copy()), x, side)
        bins = _on_device_of(x, bins)
    return searchsorted(bins, x, side)


def bincount(x, weights=None, minlength=0):
    """How often each number from 0 on occurs, or the sum of its weights. Waits for the greatest.

    Raises:
      ValueError: there are negative numbers.
    """
    if x.ndim != 1 or x.dtype.kind not in "iu":
        raise TypeError(f"[bincount] expects integers of one dimension, got {x.dtype}{x.shape}")
    size = minlength
    if x.size:
        if int(_core.amin(x)) < 0:
            raise ValueError("[bincount] expects numbers from 0 on")
        size = max(size, int(_core.amax(x)) + 1)
    if weights is None:
        weights = _core.ones(x.shape, "int64", device=x.device)
    return _core.take_along_axis_grad(weights, x, [size], 0)


def histogram(a, bins=10, range=None, density=False, weights=None):
    """Counts in bins, and the edges: equal bins over a range, or those between given edges.

    Counts are int64, or sums of weights; with `density`, so that the integral is 1. Without a range
    it waits for it; edges on a device are trusted to increase.

    Raises:
      ValueError: no bins, edges that decrease, or weights of another shape.
    """
    flat = _core.ravel(a)
    edges = _edges(flat, bins, range)
    x = flat.astype(edges.dtype, copy=False)
    count = edges.size - 1
    # The last bin holds its upper edge too.
    place = _core.minimum(searchsorted(edges, x, "right") - 1, count - 1)
    inside = _core.logical_and(x >= edges[0], x <= edges[-1])
    place = _core.where(inside, place, count)
    if weights is None:
        weights = _core.ones(x.shape, "int64", device=a.device)
    else:
        weights = _on_device_of(a, weights)
        if weights.shape != a.shape:
            raise ValueError(f"[histogram] expects weights of shape {a.shape}, got {weights.shape}")
    counts = _core.take_along_axis_grad(_core.ravel(weights), place, [count + 1], 0)[:count]
    if density:
        counts = counts / diff(edges) / _core.sum(counts)
    return counts, edges


def _on_device_of(a, values):
    if isinstance(values, _core.ndarray):
        return values
    return chx.array(np.asarray(values), device=a.device)


def _edges(a, bins, range):
    if np.ndim(bins) == 1:
        if not isinstance(bins, _core.ndarray) and (np.diff(bins) < 0).any():
            raise ValueError(f"[histogram] expects edges that increase, got {bins}")
        edges = _on_device_of(a, bins)
        return edges if edges.dtype.kind == "f" else edges.astype("float64")
    if bins < 1:
        raise ValueError(f"[histogram] expects at least one bin, got {bins}")
    if range is None:
        low, high = (float(_core.amin(a)), float(_core.amax(a))) if a.size else (0.0, 1.0)
    else:
        low, high = map(float, range)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return chx.array(np.linspace(low, high, bins + 1), device=a.device)


def unique(ar, return_index=False, return_inverse=False, return_counts=False):
    """The sorted distinct elements, and where asked for, the first index of each, the number of each
    element's, and how often each occurs. Waits for how many there are.
    """
    flat = _core.ravel(ar)
    order = _core.argsort(flat)
    ordered = _core.take(flat, order, axis=0)
    first = _core.ones(flat.shape, "bool", device=ar.device)
    if flat.size > 1:
        first[1:] = ordered[1:] != ordered[:-1]
        if flat.dtype.kind == "f":  # all NaNs are one
            first[1:] = _core.logical_and(first[1:], _core.logical_not(_core.isnan(ordered[:-1])))
    (starts,) = chx.nonzero(first)
    results = [_core.take(ordered, starts, axis=0)]
    if return_index:
        results.append(_core.take(order, starts, axis=0))
    if return_inverse:
        numbers = _core.cumsum(first) - 1
        results.append(_core.take(numbers, _core.argsort(order), axis=0))
    if return_counts:
        end = chx.array([flat.size], "int64", device=ar.device)
        results.append(diff(_core.concatenate([starts, end])))
    return results[0] if len(results) == 1 else tuple(results)


def flatnonzero(a):
    """Positions (int64) of the non-zero elements in C order. Waits for their number."""
    return _core.nonzero_positions(a, int(_core.count_nonzero(a)))


def argwhere(a):
    """The indices of the non-zero elements, (number, ndim). Waits for their number."""
    return _core.stack(list(chx.nonzero(a)), axis=1)


def put_along_axis(arr, indices, values, axis):
    """Writes values into arr along an axis, at the indices of an array of arr's shape but for it."""
    values = chx.asarray(values, dtype=arr.dtype, device=arr.device)
    axis %= arr.ndim
    lanes = _core.moveaxis(arr, axis, 0)
    at = _core.moveaxis(
        _core.broadcast_to(indices, _along(arr.shape, indices.shape, axis)), axis, 0
    )
    at = _core.where(at < 0, at + len(lanes), at)
    count = _size(lanes, range(1, lanes.ndim))
    lane = _core.arange(count, dtype="int64", device=arr.device)
    new = _core.moveaxis(
        _core.broadcast_to(values, at.shape[1 : axis + 1] + at.shape[:1] + at.shape[axis + 1 :]),
        axis,
        0,
    )
    flat = lanes.reshape(len(lanes) * count).copy()
    places = at.reshape(at.shape[0], count) * count + lane
    _core.index_put(flat, _core.ravel(places), _core.ravel(new.reshape(at.shape[0], count)))
    _core.copyto(lanes, flat.reshape(lanes.shape))


def _along(shape, other, axis):
    return shape[:axis] + (other[axis],) + shape[axis + 1 :]
