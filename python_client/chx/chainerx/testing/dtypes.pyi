from collections.abc import Callable, Sequence
from typing import Any

all_dtypes: tuple[str, ...]
numeric_dtypes: tuple[str, ...]
signed_dtypes: tuple[str, ...]
unsigned_dtypes: tuple[str, ...]
integral_dtypes: tuple[str, ...]
signed_integral_dtypes: tuple[str, ...]
nonfloat_dtypes: tuple[str, ...]
float_dtypes: tuple[str, ...]

def parametrize_dtype_specifier(
    argname: str,
    dtypes: Sequence[str] | None = None,
    additional_args: Sequence[Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
