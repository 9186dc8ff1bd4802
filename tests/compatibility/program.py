"""What the recorded client does; each later client does the same with a daemon as old as the record.

Only additions at the end of a new file are fine: the values of records are compared with it.
"""

import chx
import numpy as np


def run(address):
    """Its results, as NumPy arrays and names of exceptions."""
    results = []

    def read(array):
        results.append(chx.to_numpy(array))

    with chx.connect(address, client_name="compatibility", reconnect=0):
        a = chx.array(np.arange(12.0, dtype="float32").reshape(3, 4))
        b = chx.full((4,), 2, "float32")
        read((a + b) * 3 - a / b)
        read(chx.concatenate([a, a[::-1]], axis=1)[:, 1::2])
        read(chx.sum(a, axis=0, keepdims=True))
        read(chx.dot(a, a.T))
        read(chx.where(a > 4, a, b).astype("int64"))
        read(chx.sort(-a, axis=1))
        read(chx.maximum(chx.exp(a * 0), 0.5))
        c = a.copy()
        c += b
        c[1] = 7
        read(c)
        # Gradients, and gradients of these.
        x = chx.array(np.array([1.0, -2, 3])).require_grad()
        w = chx.array(np.eye(3) + 1).require_grad()
        y = chx.sum(chx.linear(x[None], w) ** 2)
        y.backward(enable_double_backprop=True)
        read(x.grad)
        (second,) = chx.grad([chx.sum(x.grad * x.grad)], [x])
        read(second)
        with chx.no_backprop_mode():
            read(x * w)
        # More than a stream takes: an upload and a download.
        large = chx.array(np.arange(20000, dtype="int64") % 7)
        read(large.reshape(100, 200) * 2)
        read(chx.conv(chx.ones((1, 2, 5, 5)), chx.ones((3, 2, 3, 3)), stride=2))
        try:
            read(chx.take(chx.arange(3), chx.array([9]), axis=0))
        except Exception as error:
            results.append(np.array(type(error).__name__))
        results.append(np.array(float(chx.mean(a))))
    return results
