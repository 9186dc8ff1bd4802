from typing import Any

from ._core import ndarray

def pad(
    array: ndarray,
    pad_width: Any,
    mode: Any = "constant",
    constant_values: Any = 0,
    *,
    end_values: Any = 0,
    stat_length: Any = None,
    reflect_type: str = "even",
    **kwargs: Any,
) -> ndarray: ...
