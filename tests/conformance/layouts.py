"""The same values in different memory layouts."""

import numpy as np

LAYOUTS = ["transposed", "strided", "negative", "broadcast"]


def lay_out(chx, values, layout):
    """An array with these values, not C-contiguous where its shape allows that."""
    if values.ndim == 0:
        return chx.array(np.array([values, values]))[1]
    if layout == "transposed":
        return chx.array(np.ascontiguousarray(values.T)).T
    if layout == "broadcast":
        # Repeated in front and read back once: strides of views of views.
        repeated = chx.broadcast_to(chx.array(values), (3, *values.shape))
        return repeated[1]
    step = 2 if layout == "strided" else -1
    index = (slice(None, None, step),) * values.ndim
    if layout == "negative":
        return chx.array(np.ascontiguousarray(values[index]))[index]
    padded = np.zeros([2 * n for n in values.shape], values.dtype)
    padded[index] = values
    return chx.array(padded)[index]
