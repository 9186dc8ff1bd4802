"""Where pickled arrays come back. Pickles name this module."""

from chx._core import Device, ndarray
from chx._numpy import creation
from chx._types import NumpyArray


def _recover(values: NumpyArray, device: Device) -> ndarray:
    return creation.array(values, device=device)
