"""Routines that work on the client: input and output, NumPy's helpers, what NumPy does for us."""

import numbers
import threading

import numpy as np

from chx import _autograd, _core, _support
from chx._support import array, asarray, to_numpy

# --- Creation ------------------------------------------------------------------------------------


def asanyarray(a, dtype=None, device=None):
    """As asarray(): there are no subclasses of ndarray."""
    return asarray(a, dtype, device)


def ascontiguousarray(a, dtype=None, device=None):
    """The array in C order: itself if it is that already, of the dtype and on the device.

    Of one dimension at least, as NumPy's are.
    """
    there = asarray(a, dtype, device)
    if there.ndim == 0:
        return there.reshape(1)
    if not there.is_contiguous:
        return _core.copy(there)
    # Strides of axes that are never stepped are kept, on another device too.
    kept = isinstance(a, _core.ndarray) and a.is_contiguous and a.dtype == there.dtype
    if kept and a.strides != there.strides:
        return _core._as_strided(there, a.shape, a.strides, 0)
    return there


def frombuffer(buffer, dtype="float32", count=-1, offset=0, device=None):
    """A one-dimensional array of what is in an object with the buffer protocol.

    The values are copied at the call. ValueError if `count` and `offset` don't fit the buffer.
    """
    return array(np.frombuffer(buffer, np.dtype(dtype), count, offset), device=device)


def fromfile(file, dtype=float, count=-1, sep="", device=None):
    """A one-dimensional array of what is in a file, as numpy.fromfile reads it."""
    return array(np.fromfile(file, np.dtype(dtype), count, sep), copy=False, device=device)


def fromfunction(function, shape, *, dtype=float, device=None, **kwargs):
    """The array of what `function` gives for NumPy arrays of the coordinates."""
    return array(np.fromfunction(function, shape, dtype=np.dtype(dtype), **kwargs), device=device)


def fromiter(iterable, dtype, count=-1, device=None):
    """A one-dimensional array of the numbers of an iterable: all, or the first `count`."""
    return array(np.fromiter(iterable, np.dtype(dtype), count), device=device)


def fromstring(string, dtype=float, count=-1, sep="", device=None):
    """A one-dimensional array of the numbers of a text, or of bytes without a separator."""
    if sep:
        return array(np.fromstring(string, np.dtype(dtype), count, sep=sep), device=device)
    data = string.encode("latin1") if isinstance(string, str) else string
    return array(np.frombuffer(data, np.dtype(dtype), count), device=device)


def loadtxt(
    fname,
    dtype=float,
    comments="#",
    delimiter=None,
    converters=None,
    skiprows=0,
    usecols=None,
    unpack=False,
    ndmin=0,
    encoding="bytes",
    device=None,
):
    """The array of a text file's lines, as numpy.loadtxt reads it."""
    values = np.loadtxt(
        fname,
        dtype=np.dtype(dtype),
        comments=comments,
        delimiter=delimiter,
        converters=converters,
        skiprows=skiprows,
        usecols=usecols,
        unpack=unpack,
        ndmin=ndmin,
        encoding=encoding,
    )
    return array(values, device=device)


# --- Files ---------------------------------------------------------------------------------------


def save(file, arr):
    """Writes an array to a .npy file, as numpy.save does."""
    np.save(file, _support.to_numpy(asarray(arr)))


def savez(file, *args, **kwds):
    """Writes several arrays to a .npz file, as numpy.savez does."""
    np.savez(
        file,
        *(to_numpy(asarray(a)) for a in args),
        **{name: to_numpy(asarray(a)) for name, a in kwds.items()},
    )


def load(file, device=None):
    """The array of a .npy file, or the dict of arrays of a .npz file. Nothing is unpickled."""
    loaded = np.load(file, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return array(loaded, device=device)
    with loaded:
        return {name: array(loaded[name], device=device) for name in loaded.files}


# --- Maths ---------------------------------------------------------------------------------------


def clip(a, a_min, a_max):
    """The elements limited to [a_min, a_max]; the bounds are numbers, one of which may be None.

    Differentiable, as maximum and minimum are.

    Raises:
      ValueError: both bounds are None.
      TypeError: a bound is an array.
    """
    if a_min is None and a_max is None:
        raise ValueError("[clip] expects a_min, a_max or both, got None")
    for bound in (a_min, a_max):
        if bound is not None and not isinstance(bound, (numbers.Real, np.generic)):
            raise TypeError(f"[clip] expects numbers as bounds, got {type(bound).__name__}")
    if a_min is not None:
        a = _core.maximum(a, a_min)
    if a_max is not None:
        a = _core.minimum(a, a_max)
    return a


def _checked(name, arrays):
    """NumPy arrays of arrays of which none is in a graph, and the device of the first."""
    for a in arrays:
        if not isinstance(a, _core.ndarray):
            raise TypeError(f"[{name}] expects ndarrays, got {type(a).__name__}")
        if a.is_backprop_required(_support.anygraph):
            raise RuntimeError(f"[{name}] has no gradient: use as_grad_stopped()")
    return [to_numpy(a) for a in arrays], arrays[0].device if arrays else None


def fix(a):
    """Towards zero, to whole numbers. By NumPy; RuntimeError if the array is in a graph."""
    (values,), device = _checked("fix", [a])
    return array(np.asarray(np.fix(values)), device=device)


def broadcast_arrays(*args):
    """Copies in a common shape. By NumPy; RuntimeError if an array is in a graph."""
    values, device = _checked("broadcast_arrays", args)
    return [array(v, device=device) for v in np.broadcast_arrays(*values)]


# --- Arguments that the table has in another form --------------------------------------------------


def _split_along(name, axis, ndim):
    def split(ary, indices_or_sections):
        if ary.ndim < ndim:
            raise _core.DimensionError(
                f"[{name}] expects at least {ndim} dimensions, got shape {ary.shape}"
            )
        return _support.split(ary, indices_or_sections, axis if ary.ndim > 1 else 0)

    split.__name__ = split.__qualname__ = name
    split.__doc__ = f"Parts along axis {axis}, as a list of views: see split()."
    return split


vsplit = _split_along("vsplit", 0, 2)
hsplit = _split_along("hsplit", 1, 1)
dsplit = _split_along("dsplit", 2, 3)


def meshgrid(*xi, indexing="xy", sparse=False, copy=True):
    """Coordinate arrays of a grid from one-dimensional ones, as a list; 'xy' swaps two axes.

    Arrays with more dimensions are flattened.
    With `sparse` each has ones where it would repeat itself. Without `copy` they are not of C order.
    """
    if not xi:
        return []
    if not sparse and copy:
        return _core.meshgrid(list(xi), indexing=indexing)
    if indexing not in ("xy", "ij"):
        raise ValueError(f"[meshgrid] expects indexing 'xy' or 'ij', got {indexing!r}")
    axes = list(range(len(xi)))
    if indexing == "xy" and len(xi) > 1:
        axes[:2] = 1, 0
    grids = [
        x.reshape([x.size if axis == d else 1 for d in range(len(xi))])
        for x, axis in zip(xi, axes, strict=True)
    ]
    if not sparse:
        shape = np.broadcast_shapes(*(grid.shape for grid in grids))
        return [_core.broadcast_to(grid, shape) for grid in grids]
    return [_core.copy(grid) for grid in grids] if copy else grids


def tree_lstm(*inputs):
    """The next state and output of a tree LSTM; the last input is x."""
    return _core.tree_lstm(list(inputs))


def copyto(dst, src, casting="no", where=True):
    """Writes src, broadcast, into dst where a condition holds.

    Raises:
      DtypeError: the dtypes differ, and `casting` is 'no'.
    """
    if isinstance(src, _core.ndarray) and src.dtype != dst.dtype and casting == "no":
        raise _core.DtypeError(f"[copyto] expects {dst.dtype}, got {src.dtype}")
    if where is True:
        _core.copyto(dst, src)
    elif where is not False:
        where = asarray(where, device=dst.device)
        _core.copyto(dst, _core.where(where, src, dst.as_grad_stopped()))


# --- Methods of ndarray --------------------------------------------------------------------------


def _clip(self, a_min, a_max):
    """The elements limited to [a_min, a_max]; the bounds are numbers, one of which may be None."""
    return clip(self, a_min, a_max)


_unseen = threading.local()  # .error: the array and what its last buffer has raised


def _buffer(self, flags):
    """What memoryview(a) and numpy.asarray(a) see: the memory that to_numpy(a, copy=False) shows.

    Over a Unix socket that is the array's own, writable unless it is in a graph, whose gradients
    need the values; else a copy that is read-only.
    """
    _unseen.error = None
    try:
        view = memoryview(to_numpy(self, copy=False))
    except BaseException as error:  # NumPy drops it, and asks for __array__ then
        _unseen.error = self, error
        raise
    return view.toreadonly() if self.is_backprop_required(_autograd.anygraph) else view


def _array(self, dtype=None):
    """For those who ask for __array__(): a NumPy array with a copy of the values."""
    array, error = getattr(_unseen, "error", None) or (None, None)
    _unseen.error = None
    if array is self:
        raise error
    values = to_numpy(self)
    return values if dtype is None else values.astype(dtype, copy=False)


def _array_ufunc(self, ufunc, method, *inputs, **kwargs):
    """NumPy's part in expressions that mix both kinds of arrays, as ChainerX has it.

    A NumPy number is a number. Else, if an array of ours is first, it counts as an object array of
    its elements; if it is second, it is not for NumPy to say.
    """
    if isinstance(inputs[0], np.ndarray) and inputs[0].ndim == 0:
        inputs = (inputs[0][()], *inputs[1:])  # what NumPy makes of a number in comparisons
    if method == "__call__" and not kwargs and len(inputs) == 2 and any(map(np.isscalar, inputs)):
        operator = getattr(_core, ufunc.__name__, None)
        return NotImplemented if operator is None else operator(*inputs)
    if not isinstance(inputs[0], _core.ndarray):
        return NotImplemented
    return getattr(ufunc, method)(*map(_as_objects, inputs), **kwargs)


def _as_objects(a):
    if not isinstance(a, _core.ndarray):
        return a
    objects = np.empty(a.shape, object)
    for index in np.ndindex(*a.shape):
        objects[index] = a[index]
    return objects


_WRITING = {np.copyto, np.put, np.putmask, np.place, np.put_along_axis, np.fill_diagonal}


def _array_function(self, func, types, args, kwargs):
    """What NumPy's functions do with arrays of ours: the function of that name here, if any.

    NumPy arrays where it expects one of ours go to the device of the one that there is.
    """
    import chx

    module = {"numpy": chx, "numpy.linalg": chx.linalg}.get(func.__module__)
    own = getattr(module, func.__name__, None)
    if own is None:
        return NotImplemented
    if args and isinstance(args[0], np.ndarray):
        if func in _WRITING:
            return NotImplemented  # a copy would be written
        args = (array(args[0], device=self.device), *args[1:])
    if not isinstance(own, type(_core.add)):
        return own(*args, **kwargs)
    try:
        return own(*args, **kwargs)
    except TypeError:  # raised before anything was done
        ours = [_ours(a, self.device) for a in args]
        if all(a is b for a, b in zip(ours, args, strict=True)):
            raise
        return own(*ours, **kwargs)


def _ours(a, device):
    if isinstance(a, np.ndarray):
        return array(a, device=device)
    if isinstance(a, (list, tuple)) and any(isinstance(x, np.ndarray) for x in a):
        return [_ours(x, device) for x in a]
    return a


def _dlpack(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    """A DLPack capsule over a copy of the values, in the memory of this process.

    Raises:
      BufferError: `copy` is False, or the device is not the CPU.
    """
    if copy is False or dl_device not in (None, (1, 0)):
        raise BufferError(f"[dlpack] gives a copy in host memory, not {copy=} on {dl_device}")
    return to_numpy(self).__dlpack__()


def _dlpack_device(self):
    return 1, 0  # a copy in the memory of this process


def from_dlpack(x, device=None):
    """An array with the values of another library's array in host memory, by DLPack. A copy."""
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"[from_dlpack] expects an array with __dlpack__(), got {type(x).__name__}")
    return array(np.from_dlpack(x), device=device)


def _reduce(self):
    from chx import _ndarray

    return _ndarray._recover, (to_numpy(self), self.device)


def _deepcopy(self, memo):
    return self.as_grad_stopped(copy=True)


def _flat_data(self):
    return to_numpy(self).ravel().tolist()


for _name, _value in {
    "clip": _clip,
    "__array__": _array,
    "__buffer__": _buffer,
    "__array_function__": _array_function,
    "__array_ufunc__": _array_ufunc,
    "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack_device,
    "__reduce__": _reduce,
    "__deepcopy__": _deepcopy,
    "__remainder__": lambda self, other: self.__mod__(other),
    "__rremainder__": lambda self, other: self.__rmod__(other),
    "__iremainder__": lambda self, other: self.__imod__(other),
    "_debug_flat_data": property(_flat_data, doc="The elements in C order, as a list."),
}.items():
    _core._add_array_attribute(_name, _value)
