"""The functions that the compiled core calls. Importing this module registers them, once for all."""

from collections.abc import Callable
from typing import Any

from chx import _core, _signatures
from chx._autograd import backward, modes
from chx._numpy import advanced_indexing, creation, io, keywords, operands, transfer
from chx._runtime import connection, devices, log, pickling, traced_numbers

CALLBACKS: dict[str, Callable[..., Any]] = {
    "Backend": devices.Backend,
    "as_array_like": creation.as_array_like,
    "as_grad_stopped": modes.as_grad_stopped,
    "as_indices": creation.as_indices,
    "as_operand": operands.as_operand,
    "backward": backward.backward,
    "call_with_keywords": keywords.call_with_keywords,
    "connect_default": connection.connect_default,
    "getitem_by_arrays": advanced_indexing.getitem_by_arrays,
    "new_ndarray": creation.new_ndarray,
    "Number": traced_numbers.Number,
    "reduce_device": pickling.reduce_device,
    "repr_array": io.repr_array,
    "setitem_by_arrays": advanced_indexing.setitem_by_arrays,
    "signature": _signatures.signature,
    "to_numpy": transfer.to_numpy,
}

_core._register(**CALLBACKS)
log.start()
