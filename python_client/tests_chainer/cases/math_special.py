"""Special functions of chainer.functions.math."""

import chainer.functions as F
import numpy as np

from cases import case, ints, u

for _name, _low, _high in (
    ("digamma", 0.5, 12),
    ("digamma", -1.9, -1.1),
    ("erfc", -2, 3),
    ("erfcinv", 0.05, 1.95),
    ("erfcx", -1.5, 4),
    ("erfinv", -0.95, 0.95),
    ("lgamma", 0.5, 12),
    ("lgamma", -1.9, -1.1),
    ("log_ndtr", -8, 3),
    ("ndtr", -3, 3),
    ("ndtri", 0.02, 0.98),
):
    case(_name, getattr(F, _name), lambda r, a=_low, b=_high: [u(r, 3, 4, low=a, high=b)])
case("polygamma", F.polygamma, lambda r: [ints(r, 5, 3, 4), u(r, 3, 4, low=0.5, high=9)])
case("zeta", lambda q: F.zeta(2.5, q), lambda r: [u(r, 3, 4, low=0.5, high=9)])
case(
    "zeta",
    lambda x, q: F.zeta(x.array, q),
    lambda r: [u(r, 3, low=1.5, high=5), u(r, 3, low=1.5, high=9)],
)
case("zeta", lambda q: F.zeta(np.float64(3), q), lambda r: [u(r, 3, low=1.5, high=9)])
