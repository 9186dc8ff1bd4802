"""What chx does in Python: everything that is not called once per operator."""

import inspect

import numpy as np

from chx import _core
from chx._autograd import (  # noqa: F401
    AnyGraph,
    BackpropId,
    anygraph,
    as_grad_stopped,
    backprop_scope,
    backward,
    force_backprop_mode,
    grad,
    id_name,
    is_backprop_required,
    no_backprop_mode,
)
from chx._context import (  # noqa: F401  what the compiled part looks for here
    Backend,
    get_device,
    reduce_device,
)
from chx._gradient_check import check_backward, check_double_backward  # noqa: F401
from chx._indexing import getitem_by_arrays, setitem_by_arrays  # noqa: F401
from chx._sessions import Session, cancel, connect, connect_default  # noqa: F401


def signature(text):
    """An inspect.Signature from a text like "(a, axis=None)"."""
    parameters = []
    for part in text.strip("()").split(", ") if text != "()" else []:
        name, _, default = part.partition("=")
        if not default:
            value = inspect.Parameter.empty
        elif default.startswith("'"):
            value = default.strip("'")
        else:
            value = {"None": None, "True": True, "False": False}.get(default, default)
            if isinstance(value, str):
                value = int(value) if value.lstrip("-").isdigit() else float(value)
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value)
        )
    # A required parameter may follow an optional one, as in random_uniform: keyword-only then.
    optional = False
    for i, parameter in enumerate(parameters):
        if parameter.default is inspect.Parameter.empty and optional:
            parameters[i:] = [
                p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters[i:]
            ]
            break
        optional = optional or parameter.default is not inspect.Parameter.empty
    return inspect.Signature(parameters)


# --- Arrays --------------------------------------------------------------------------------------


def array(object, dtype=None, copy=True, device=None):
    """An array from nested sequences, numbers, NumPy arrays or another array.

    The values are copied at the call. Dtypes are NumPy's: integers int64, floats float64.
    Without `copy` a NumPy array that to_numpy(copy=False) gave, or a view of one, comes back as an
    array over the same memory; all others are copied all the same, with their strides if these
    don't spread the elements over much more memory.
    """
    if isinstance(object, _core.ndarray):
        if device is not None and get_device(device) is not object.device:
            object = object.to_device(device)
            copy = False
        if dtype is not None and np.dtype(dtype) != object.dtype:
            return object.astype(dtype)
        return object.copy() if copy else object
    values = np.asarray(object, dtype)
    if values.dtype.hasobject:
        raise _core.DtypeError(f"unsupported dtype: {values.dtype}")
    if not copy and values is object:
        shared = _same_memory(values, device)
        if shared is not None:
            return shared
        if (
            not values.flags.c_contiguous
            and (strided := upload_strided(values, device)) is not None
        ):
            return strided
    # In native byte order and C order, which is what is sent.
    flat = values.astype(values.dtype.newbyteorder("="), copy=False).ravel()
    odd = not copy and values is object and _odd_strides(values)
    shape = flat.shape if odd else values.shape
    result = _core._upload(flat.view(np.uint8), flat.dtype, shape, device)
    return _core._as_strided(result, values.shape, values.strides, 0) if odd else result


def _odd_strides(values):
    """Whether a NumPy array in C order has strides of its own, for axes that are never stepped."""
    stride, odd = values.itemsize, False
    if not values.flags.c_contiguous or any(s % stride for s in values.strides):
        return False
    for n, s in zip(reversed(values.shape), reversed(values.strides), strict=True):
        odd = odd or s != (stride if values.size else 0)
        stride *= n
    return odd


def _same_memory(values, device):
    """The array over the memory of a NumPy array, if that is one that the daemon knows."""
    if not values.flags.writeable or not values.dtype.isnative or values.dtype.kind not in "bifu":
        return None
    address = values.__array_interface__["data"][0]
    try:
        return _core._import(address, values.dtype, values.shape, values.strides, device)
    except _core.DtypeError:
        return None  # which the copy says better


def upload_strided(values, device=None, limit=None):
    """A copy of a NumPy array that has its strides; zeros lie between its elements.

    None if kernels could not work with such strides, or if it takes more than `limit` bytes, by
    default 64 KiB or four times the elements'.
    """
    itemsize = values.itemsize
    before = size = 0
    if values.size:
        steps = [s * (n - 1) for n, s in zip(values.shape, values.strides, strict=True)]
        before = -sum(step for step in steps if step < 0)
        size = before + sum(step for step in steps if step > 0) + itemsize
    if limit is None:
        limit = max(65536, 4 * values.nbytes)
    if size > limit or not values.dtype.isnative or any(s % itemsize for s in values.strides):
        return None
    memory = np.zeros(size, np.uint8)
    if values.size:
        np.ndarray(values.shape, values.dtype, memory, before, values.strides)[...] = values
    base = _core._upload(memory, values.dtype, (size // itemsize,), device)
    return _core._as_strided(base, values.shape, values.strides, before)


def asarray(object, dtype=None, device=None):
    """As array(), without a copy of what is an array already."""
    return array(object, dtype, False, device)


def as_array_like(value, like):
    return array(np.asarray(value), dtype=like.dtype, device=like.device)


def as_indices(value, like):
    """take's indices, from what NumPy makes an array of; on the device of the array indexed."""
    return array(np.asarray(value), device=like.device)


def split(ary, indices_or_sections, axis=0):
    """Parts along an axis, as a list: equal ones if given a number, or cut at indices. Views."""
    if np.ndim(indices_or_sections) == 0:
        number = np.asarray(indices_or_sections)
        if number.dtype.kind == "f" and float(number).is_integer():  # as NumPy takes it
            indices_or_sections = int(number)
        return _core.split(ary, indices_or_sections, None, axis)
    return _core.split(ary, None, indices_or_sections, axis)


def new_ndarray(shape, dtype, device=None):
    return _core.empty(shape, dtype, device)


# From here on the system's allocator gives memory back and makes it anew, small page by small page.
_LARGE_RESULT = 4 << 20


def to_numpy(array, copy=True):
    """The array's values as a new NumPy array; waits for them.

    Without `copy` and for an array on "native" of a daemon reached over a Unix socket, the NumPy
    array is the array's memory itself, with its strides: what either side writes, the other sees.
    All that was called before has run by then, and as long as the NumPy array lives, operators on
    that memory have run when their calls return. It is a read-only copy when the daemon is on another
    host or the session has no memory left to share. Of an array on another backend, such as a GPU's,
    it is always a copy, which may be written.

    Copies of 4 MiB and more lie in memory that the library uses again when nobody has them (at most
    256 MiB idle, which the system may take back): their `base` is not None.
    """
    if not isinstance(array, _core.ndarray):
        raise TypeError(f"expected an ndarray, got {type(array).__name__}")
    shared = None if copy else _core._export(array)
    if shared is not None:
        memory, offset, strides = shared
        return np.ndarray(array.shape, array.dtype, memory, offset, strides)
    if array.nbytes < _LARGE_RESULT:
        out = np.empty(array.shape, array.dtype)
    else:
        out = np.ndarray(array.shape, array.dtype, _core._result_memory(array.nbytes))
    _core._fetch(array, out.reshape(-1).view(np.uint8))
    # Writes that the array was expected to see fail rather than get lost.
    out.flags.writeable = bool(copy) or array.device.backend.name != "native"
    return out


def repr_array(array):
    values = np.array2string(to_numpy(array), separator=", ", prefix="array(")
    text = f"array({values}, shape={array.shape}, dtype={array.dtype}, device='{array.device}'"
    ids = _core._backprop_ids(array)
    if ids:
        text += f", backprop_ids={[id_name(i) for i in ids]}"
    return text + ")"
