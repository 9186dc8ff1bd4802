"""Which reductions of arrays without dimensions take an axis: NumPy's answer for each."""

import chx
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("seeded_session")

NAMES = """sum prod max min amax amin argmax argmin mean var std any all cumsum cumprod ptp nansum
nanprod nanmean nanmax nanmin nanvar nanstd nanargmax nanargmin median nanmedian count_nonzero
average nancumsum nancumprod sort argsort argpartition flip squeeze""".split()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("axis", [0, -1, 1, -2, (0,), (-1,), (0, -1), ()])
def test_as_numpy(name, axis):
    more = (0,) if name == "argpartition" else ()
    x = np.array(np.float32(3))
    try:
        expected = getattr(np, name)(x, *more, axis=axis)
    except (ValueError, TypeError):  # AxisError is the former
        with pytest.raises((chx.DimensionError, TypeError, ValueError)):
            chx.to_numpy(getattr(chx, name)(chx.array(x), *more, axis=axis))
        return
    result = chx.to_numpy(getattr(chx, name)(chx.array(x), *more, axis=axis))
    assert result.shape == np.shape(expected)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "cumsum", "cumprod", "nansum", "squeeze"])
def test_gradients(name):
    x = chx.array(np.float32(3)).require_grad()
    y = getattr(chx, name)(x, axis=0)
    (y * 2).sum().backward()
    assert x.grad.shape == () and x.grad.item() == 2
