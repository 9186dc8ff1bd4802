import numpy as np

from ._core import Device

Scalar = bool | int | float | np.generic
DtypeLike = str | type | np.dtype
DeviceLike = str | Device | None
