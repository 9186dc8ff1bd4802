"""Comparing arrays, and chx with NumPy."""

from chx.chainerx._testing import _DeviceBuffer, _fromnumpy  # noqa: F401
from chx.chainerx.testing import array, helper  # noqa: F401
from chx.chainerx.testing.array import (  # noqa: F401
    assert_allclose,
    assert_allclose_ex,
    assert_array_equal,
    assert_array_equal_ex,
)
from chx.chainerx.testing.dtypes import (  # noqa: F401
    all_dtypes,
    float_dtypes,
    integral_dtypes,
    nonfloat_dtypes,
    numeric_dtypes,
    parametrize_dtype_specifier,
    signed_dtypes,
    signed_integral_dtypes,
    unsigned_dtypes,
)
from chx.chainerx.testing.helper import (  # noqa: F401
    ignore,
    numpy_chainerx_allclose,
    numpy_chainerx_array_equal,
)
