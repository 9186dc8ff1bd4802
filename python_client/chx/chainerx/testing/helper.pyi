from collections.abc import Callable
from typing import Any, TypeAlias

_Test: TypeAlias = Callable[..., Any]
_Errors: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]

def ignore() -> Any: ...
def numpy_chainerx_allclose(
    *, name: str = "xp", accept_error: _Errors = (), **kwargs: Any
) -> Callable[[_Test], _Test]: ...
def numpy_chainerx_array_equal(
    *, name: str = "xp", accept_error: _Errors = (), **kwargs: Any
) -> Callable[[_Test], _Test]: ...
