from ._core import ndarray
from ._types import DeviceLike, DtypeLike

def normal(
    loc: float = 0.0,
    scale: float = 1.0,
    size: int | tuple[int, ...] | None = None,
    *,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def uniform(
    low: float = 0.0,
    high: float = 1.0,
    size: int | tuple[int, ...] | None = None,
    *,
    dtype: DtypeLike = "float64",
    device: DeviceLike = None,
) -> ndarray: ...
def seed(seed: int) -> None: ...
