"""Comparing arrays, and chx with NumPy."""

from chx.chainerx._testing import (
    _DeviceBuffer as _DeviceBuffer,
    _fromnumpy as _fromnumpy,
)
from chx.chainerx.testing import (
    array as array,
    helper as helper,
)
from chx.chainerx.testing.array import (
    assert_allclose as assert_allclose,
    assert_allclose_ex as assert_allclose_ex,
    assert_array_equal as assert_array_equal,
    assert_array_equal_ex as assert_array_equal_ex,
)
from chx.chainerx.testing.dtypes import (
    all_dtypes as all_dtypes,
    float_dtypes as float_dtypes,
    integral_dtypes as integral_dtypes,
    nonfloat_dtypes as nonfloat_dtypes,
    numeric_dtypes as numeric_dtypes,
    parametrize_dtype_specifier as parametrize_dtype_specifier,
    signed_dtypes as signed_dtypes,
    signed_integral_dtypes as signed_integral_dtypes,
    unsigned_dtypes as unsigned_dtypes,
)
from chx.chainerx.testing.helper import (
    ignore as ignore,
    numpy_chainerx_allclose as numpy_chainerx_allclose,
    numpy_chainerx_array_equal as numpy_chainerx_array_equal,
)
