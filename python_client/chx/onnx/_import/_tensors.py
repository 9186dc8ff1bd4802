"""Dtypes and tensors of ONNX files."""

from __future__ import annotations

import contextlib
import math
import os
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

DTYPES = {
    TensorProto.BOOL: "bool",
    TensorProto.INT8: "int8",
    TensorProto.INT16: "int16",
    TensorProto.INT32: "int32",
    TensorProto.INT64: "int64",
    TensorProto.UINT8: "uint8",
    TensorProto.FLOAT16: "float16",
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
}
with contextlib.suppress(TypeError):  # NumPy does not know it without ml_dtypes
    DTYPES[TensorProto.BFLOAT16] = np.dtype("bfloat16").name
NUMBERS = {dtype: number for number, dtype in DTYPES.items()}
_MOST_ELEMENTS = 2**40


def dtype_name(number: int, where: str) -> str:
    """The dtype of this number in files."""
    if number not in DTYPES:
        known = TensorProto.DataType.values()
        name = TensorProto.DataType.Name(number) if number in known else number
        raise TypeError(f"[onnx] expects one of {', '.join(NUMBERS)}, got {name} ({where})")
    return DTYPES[number]


def to_numpy(tensor: Any, folder: str | None, where: str) -> Any:
    """The elements of a tensor of a file, whose external data are in the file's folder.

    The sizes in a file are checked before anything is allocated.
    """
    where = f"tensor {tensor.name!r} of {where}" if tensor.name else where
    dtype = np.dtype(dtype_name(tensor.data_type, where))
    shape = tuple(tensor.dims)
    if any(size < 0 for size in shape) or math.prod(shape) > _MOST_ELEMENTS:
        raise ValueError(f"[onnx] expects a shape of at most 2**40 elements, got {shape} ({where})")
    nbytes = math.prod(shape) * dtype.itemsize
    if tensor.data_location == TensorProto.EXTERNAL:
        raw = _external(tensor, folder, nbytes, where)
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data
    else:
        given = max(len(tensor.float_data), len(tensor.int32_data))
        given = max(given, len(tensor.int64_data), len(tensor.double_data))
        if given != math.prod(shape):
            raise ValueError(
                f"[onnx] expects {math.prod(shape)} elements for shape {shape}, got {given} ({where})"
            )
        # bfloat16 is float32 in older versions.
        return numpy_helper.to_array(tensor).astype(dtype, copy=False)
    if len(raw) != nbytes:
        raise ValueError(
            f"[onnx] expects {nbytes} bytes for shape {shape} of {dtype}, got {len(raw)} ({where})"
        )
    return np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)


def _external(tensor: Any, folder: str | None, nbytes: int, where: str) -> bytes:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ValueError(
            f"[onnx] expects a path for a model with external data, got none ({where})"
        )
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, location))
    if os.path.isabs(location) or os.path.commonpath([root, path]) != root or path == root:
        raise ValueError(
            f"[onnx] expects external data in the model's folder, got {location!r} ({where})"
        )
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", nbytes))
    except ValueError:
        raise ValueError(
            f"[onnx] expects an offset and a length, got {entries} ({where})"
        ) from None
    if not os.path.isfile(path):
        raise ValueError(f"[onnx] expects external data in a file, got {location!r} ({where})")
    size = os.path.getsize(path)
    if length != nbytes or not 0 <= offset <= size - length:
        raise ValueError(
            f"[onnx] expects {nbytes} bytes of external data, got {length} from byte {offset} on "
            f"of {size} ({where})"
        )
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(length)


def read_model(source: Any) -> tuple[Any, str | None]:
    """The parsed file and its folder; of bytes or a parsed model, no folder."""
    if isinstance(source, onnx.ModelProto):
        return source, None
    folder = None
    if not isinstance(source, (bytes, bytearray)):
        path = os.fspath(source)
        folder = os.path.dirname(os.path.abspath(path))
        with open(path, "rb") as file:
            source = file.read()
    model = onnx.ModelProto()
    try:
        model.ParseFromString(bytes(source))
    except Exception as error:  # protobuf's own exception class depends on its version
        raise ValueError(
            f"[onnx] expects an ONNX model, got what does not parse: {error}"
        ) from None
    return model, folder
