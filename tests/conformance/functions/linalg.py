import numpy as np

from .table import case

case(
    lambda xp, a: xp.linalg.pinv(a, xp.array([1e-15, 0.9])),
    (2, 3, 2),
    name="pinv tolerances",
    ints=False,
    domain=lambda rng, shape: np.linalg.qr(rng.standard_normal((2, 3, 2)))[0] * [2.0, 1.0],
)
