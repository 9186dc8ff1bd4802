"""How arrays and devices are pickled and copied.

A pickle names the functions that make them again: chx._ndarray and chx._device, as ChainerX's do.
"""

from collections.abc import Callable
from typing import Any

from chx import _device, _ndarray
from chx._core import Device, ndarray
from chx._numpy import transfer


def reduce_array(self: ndarray) -> tuple[Callable[..., ndarray], tuple[Any, ...]]:
    """An array is pickled with its values and its device; waits."""
    return _ndarray._recover, (transfer.to_numpy(self), self.device)


def reduce_device(device: Device) -> tuple[Callable[..., Device], tuple[Any, ...]]:
    """How a device is pickled: it comes back as the default context's device of that name."""
    return _device._recover_device, (device.backend.name, device.index)


def deepcopy(self: ndarray, memo: Any) -> ndarray:
    """A copy outside of the graphs."""
    return self.as_grad_stopped(copy=True)
