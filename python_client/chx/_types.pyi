from collections.abc import Sequence
from typing import Any

import numpy as np

from ._core import Device

Scalar = bool | int | float | np.generic
DtypeLike = str | type | np.dtype[Any]
DeviceLike = str | Device | None
Indices = int | np.ndarray[Any, Any] | Sequence[Any]
