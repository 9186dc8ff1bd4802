from typing import Any

from chx import ndarray
from chx._types import DeviceLike

def normal(*args: Any, device: DeviceLike = None, **kwargs: Any) -> ndarray: ...
def uniform(*args: Any, device: DeviceLike = None, **kwargs: Any) -> ndarray: ...
