"""Assertions about arrays, which may be of chx or of NumPy."""

from typing import Any

import numpy as np

import chx


def _numpy(x: Any) -> Any:
    return chx.to_numpy(x) if isinstance(x, chx.ndarray) else x


def _is_array(x: object) -> bool:
    return isinstance(x, (chx.ndarray, np.ndarray, np.generic))


def assert_allclose(
    x: Any,
    y: Any,
    rtol: float = 1e-7,
    atol: float = 0,
    equal_nan: bool = True,
    err_msg: str = "",
    verbose: bool = True,
) -> None:
    """As numpy.testing.assert_allclose."""
    np.testing.assert_allclose(
        _numpy(x), _numpy(y), rtol, atol, equal_nan=equal_nan, err_msg=err_msg, verbose=verbose
    )


def assert_array_equal(x: Any, y: Any, err_msg: str = "", verbose: bool = True) -> None:
    """As numpy.testing.assert_array_equal."""
    np.testing.assert_array_equal(_numpy(x), _numpy(y), err_msg=err_msg, verbose=verbose)


def _check_metadata(x: Any, y: Any, dtype_check: bool, strides_check: bool) -> None:
    if not (_is_array(x) and _is_array(y)):
        return
    for name, wanted in (("dtype", dtype_check), ("strides", dtype_check and strides_check)):
        if wanted and getattr(x, name) != getattr(y, name):
            raise AssertionError(
                f"{name} of the arrays differ: {getattr(x, name)}, {getattr(y, name)}"
            )


def _tolerances(x: Any, y: Any, options: dict[str, Any]) -> None:
    """Takes <dtype>_rtol and <dtype>_atol out of the options; what applies to x and y stays.

    If both arrays' dtypes have one, the greater counts.
    """
    names = {str(a.dtype) for a in (x, y) if _is_array(a)}
    for option in ("rtol", "atol"):
        found = []
        for dtype in chx.all_dtypes:
            value = options.pop(f"{dtype.__name__}_{option}", None)
            if value is not None and np.dtype(dtype).name in names:
                found.append(value)
        if found:
            options[option] = max(found)


def assert_allclose_ex(x: Any, y: Any, *args: Any, **kwargs: Any) -> None:
    """As assert_allclose, and dtypes and strides are the same.

    Keyword arguments, besides assert_allclose's:
      dtype_check: whether dtypes count; True by default.
      strides_check: whether strides count, if dtypes do; True by default.
      <dtype>_rtol, <dtype>_atol: tolerances for arrays of a dtype, such as float16_rtol.
    """
    _check_metadata(x, y, kwargs.pop("dtype_check", True), kwargs.pop("strides_check", True))
    _tolerances(x, y, kwargs)
    assert_allclose(x, y, *args, **kwargs)


def assert_array_equal_ex(x: Any, y: Any, *args: Any, **kwargs: Any) -> None:
    """As assert_array_equal, and dtypes and strides are the same.

    Keyword arguments, besides assert_array_equal's:
      dtype_check: whether dtypes count; True by default.
      strides_check: whether strides count, if dtypes do; True by default.
    """
    _check_metadata(x, y, kwargs.pop("dtype_check", True), kwargs.pop("strides_check", True))
    assert_array_equal(x, y, *args, **kwargs)
