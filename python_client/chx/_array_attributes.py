"""Attributes of chx.ndarray that are made in Python. Importing this module adds them to the type."""

from typing import Any

from chx import _core
from chx._numpy import (
    dlpack,
    index_arrays,
    indexing,
    interoperability,
    mathematics,
    methods,
    sorting,
    statistics,
    ufuncs,
)
from chx._runtime import asynchronous, pickling, sharing
from chx.array_api import _methods as array_api_methods

_ATTRIBUTES: dict[str, Any] = {
    # NumPy's
    "argpartition": sorting.argpartition,
    "argsort": sorting.argsort,
    "choose": indexing.choose,
    "clip": methods.clip,
    "compress": methods.compress,
    "conj": mathematics.conjugate,
    "conjugate": mathematics.conjugate,
    "dump": methods.dump,
    "dumps": methods.dumps,
    "flags": property(methods.flagsobj, doc="How the array lies in the daemon's memory."),
    "flat": property(methods.flatiter, methods.set_flat, doc="The elements in C order."),
    "imag": property(mathematics.imag, doc="Zeros: there are no complex dtypes."),
    "itemset": methods.itemset,
    "nonzero": index_arrays.nonzero,
    "partition": methods.partition,
    "put": indexing.put,
    "real": property(mathematics.real, doc="The array itself: there are no complex dtypes."),
    "round": _core.around,
    "searchsorted": sorting.searchsorted,
    "sort": methods.sort,
    "std": statistics.std,
    "tobytes": methods.tobytes,
    "tofile": methods.tofile,
    "tostring": methods.tobytes,
    "var": statistics.var,
    "__format__": methods.format_array,
    # Of the array API standard.
    "mT": property(
        array_api_methods.transposed, doc="Matrices in the last two axes transposed, a view."
    ),
    "__array_namespace__": array_api_methods.array_namespace,
    "__complex__": array_api_methods.complex_of,
    # For asyncio.
    "item_async": asynchronous.item_async,
    "to_numpy_async": asynchronous.to_numpy_async,
    "tolist_async": asynchronous.tolist_async,
    # For other processes.
    "share": sharing.share,
    # What NumPy and other libraries ask for.
    "__array__": interoperability.array_of,
    "__array_function__": interoperability.array_function,
    "__array_ufunc__": ufuncs.array_ufunc,
    "__buffer__": interoperability.buffer,
    "__dlpack__": dlpack.export,
    "__dlpack_device__": dlpack.device,
    # Python's and ChainerX's.
    "__deepcopy__": pickling.deepcopy,
    "__reduce__": pickling.reduce_array,
    "__remainder__": lambda self, other: self.__mod__(other),
    "__rremainder__": lambda self, other: self.__rmod__(other),
    "__iremainder__": lambda self, other: self.__imod__(other),
    "_debug_flat_data": property(methods.flat_data, doc="The elements in C order, as a list."),
}

for _name, _attribute in _ATTRIBUTES.items():
    _core._add_array_attribute(_name, _attribute)
