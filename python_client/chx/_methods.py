"""Methods of numpy.ndarray that ChainerX's arrays lack. Imported for its effect on chx.ndarray.

Those that are about an array's own memory (base, data, ctypes, setflags, byteswap, newbyteorder,
getfield, setfield, and resize in place) are not here: the memory is in the daemon.
"""

import pickle

import chx
from chx import _calculus, _choosing, _core, _functions, _indexing


class flatiter:  # NumPy's name
    """The elements of an array in C order: a.flat[key], a.flat[key] = values, iteration, len()."""

    def __init__(self, base):
        self.base = base

    def __len__(self):
        return self.base.size

    def __iter__(self):
        return iter(_core.ravel(self.base))

    def __getitem__(self, key):
        return _core.ravel(self.base)[key]

    def __setitem__(self, key, value):
        base = self.base
        flat = base.reshape(base.size)
        flat[key] = value
        if not base.is_contiguous:
            _core.copyto(base, flat.reshape(base.shape))


class flagsobj:
    """How an array lies in the daemon's memory: a.flags.c_contiguous, a.flags["C_CONTIGUOUS"], ..."""

    aligned = True

    def __init__(self, array):
        self.c_contiguous = array.is_contiguous
        self.f_contiguous = array.T.is_contiguous
        # The rule of in-place operators: those on arrays in a graph are refused.
        self.writeable = not chx._core._backprop_ids(array)

    @property
    def contiguous(self):
        return self.c_contiguous

    forc = property(lambda self: self.c_contiguous or self.f_contiguous)
    fnc = property(lambda self: self.f_contiguous and not self.c_contiguous)

    def __getitem__(self, key):
        return getattr(self, {"C": "c_contiguous", "F": "f_contiguous"}.get(key, key.lower()))

    def __repr__(self):
        names = ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE", "ALIGNED")
        return "\n".join(f"  {name} : {self[name]}" for name in names)


def _sort(self, axis=-1):
    """Sorts along an axis, in place. Refused on arrays in a graph."""
    _core.copyto(self, _core.sort(self, axis))


def _partition(self, kth, axis=-1):
    """partition(), in place. Refused on arrays in a graph."""
    _core.copyto(self, _choosing.partition(self, kth, axis))


def _compress(self, condition, axis=None):
    """The parts along an axis (flattened by default) for which a condition holds."""
    return _choosing.compress(condition, self, axis)


def _tobytes(self):
    """The elements' bytes in C order; waits."""
    return chx.to_numpy(self).tobytes()


def _tofile(self, fid, sep="", format="%s"):
    """Writes the elements to a file, as numpy.ndarray.tofile does; waits."""
    chx.to_numpy(self).tofile(fid, sep, format)


def _dumps(self):
    """The array pickled; waits."""
    return pickle.dumps(self)


def _dump(self, file):
    """Pickles the array to a file, which is a path or open for writing; waits."""
    if hasattr(file, "write"):
        pickle.dump(self, file)
        return
    with open(file, "wb") as opened:
        pickle.dump(self, opened)


def _itemset(self, *args):
    """a.itemset(value) of one element, a.itemset(index, value): writes an element in place."""
    *index, value = args
    if not index and self.size != 1:
        raise ValueError(f"[itemset] expects an index for an array of {self.size} elements")
    if not index:
        _core.copyto(self, value)
    elif isinstance(index[0], tuple):
        self[index[0]] = value
    else:
        self.flat[index[0]] = value


def _complex(self):
    return complex(float(self))


def _format(self, spec):
    """Formats a 0-d array as its element, as numpy.ndarray does; waits. Without a spec, str()."""
    if spec and self.ndim == 0:
        return format(self.item(), spec)
    return object.__format__(self, spec)


def _set_flat(self, value):
    self.flat[:] = value


for _name, _value in {
    "sort": _sort,
    "partition": _partition,
    "argpartition": _choosing.argpartition,
    "nonzero": _indexing.nonzero,
    "round": _core.around,
    "searchsorted": _functions.searchsorted,
    "choose": _choosing.choose,
    "compress": _compress,
    "put": _choosing.put,
    "real": property(_calculus.real, doc="The array itself: there are no complex dtypes."),
    "imag": property(_calculus.imag, doc="Zeros: there are no complex dtypes."),
    "conj": _calculus.conjugate,
    "conjugate": _calculus.conjugate,
    "flags": property(flagsobj, doc="How the array lies in the daemon's memory."),
    "flat": property(flatiter, _set_flat, doc="The elements in C order."),
    "tobytes": _tobytes,
    "tostring": _tobytes,
    "tofile": _tofile,
    "dumps": _dumps,
    "dump": _dump,
    "itemset": _itemset,
    "__complex__": _complex,
    "__format__": _format,
}.items():
    _core._add_array_attribute(_name, _value)
