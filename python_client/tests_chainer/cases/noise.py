"""chainer.functions.noise, with the noise given; functions_test.py looks at their own noise."""

import chainer.functions as F

from cases import case, u


def _mask(r, *shape):
    return (r.random(shape) > 0.4).astype("d")


case("dropout", lambda x, m: F.dropout(x, mask=m.array), lambda r: [u(r, 3, 4), _mask(r, 3, 4)])
case("gaussian", lambda m, v, e: F.gaussian(m, v, eps=e.array), [(3, 4)] * 3)
case(
    "simplified_dropconnect",
    lambda x, w, b, m: F.simplified_dropconnect(x, w, b, 0.4, mask=m.array > 0),
    lambda r: [u(r, 3, 4), u(r, 2, 4), u(r, 2), _mask(r, 3, 2, 4)],
)
case(
    "simplified_dropconnect",
    lambda x, w, m: F.simplified_dropconnect(
        x, w, None, 0.4, mask=m.array > 0, use_batchwise_mask=False
    ),
    lambda r: [u(r, 3, 4), u(r, 2, 4), _mask(r, 2, 4)],
)
