"""Where pickled devices come back. Pickles name this module."""

from chx._core import Device
from chx._runtime import devices


def _recover_device(backend_name: str, index: int) -> Device:
    return devices.get_device(backend_name, index)
