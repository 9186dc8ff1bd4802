from typing import Any

def assert_allclose(
    x: Any,
    y: Any,
    rtol: float = 1e-7,
    atol: float = 0,
    equal_nan: bool = True,
    err_msg: str = "",
    verbose: bool = True,
) -> None: ...
def assert_array_equal(x: Any, y: Any, err_msg: str = "", verbose: bool = True) -> None: ...
def assert_allclose_ex(x: Any, y: Any, *args: Any, **kwargs: Any) -> None: ...
def assert_array_equal_ex(x: Any, y: Any, *args: Any, **kwargs: Any) -> None: ...
