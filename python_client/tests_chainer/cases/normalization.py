"""chainer.functions.normalization."""

import warnings

import chainer.functions as F
import numpy as np

from cases import case, positive, u


def norm(r, *shape, channels=None):
    channels = channels or shape[1]
    return [u(r, *shape) * 2, positive(r, channels), u(r, channels)]


def fixed(r):
    return [*norm(r, 4, 3, 2), u(r, 3), positive(r, 3)]


def updating(call):
    """A call that returns the running statistics, too, which it has updated."""

    def run(x, gamma, beta, mean, var):
        mean, var = mean.array.copy(), var.array.copy()
        return call(x, gamma, beta, mean, var), mean, var

    return run


case("batch_normalization", F.batch_normalization, lambda r: norm(r, 5, 3), tolerance=1e-6)
case("batch_normalization", F.batch_normalization, lambda r: norm(r, 4, 3, 2, 2), tolerance=1e-6)
case(
    "batch_normalization",
    lambda *xs: F.batch_normalization(*xs, axis=(0, 1)),
    lambda r: norm(r, 4, 3, 2, channels=2),
    tolerance=1e-6,
)
case(
    "batch_normalization",
    updating(
        lambda x, g, b, m, v: F.batch_normalization(
            x, g, b, running_mean=m, running_var=v, decay=0.7
        )
    ),
    fixed,
    tolerance=1e-6,
)
case("fixed_batch_normalization", F.fixed_batch_normalization, fixed)
case(
    "batch_renormalization",
    updating(
        lambda *xs: F.batch_renormalization(
            *xs[:3], 1.5, 0.7, running_mean=xs[3], running_var=xs[4]
        )
    ),
    fixed,
    double=False,
)


def _fixed_renormalization(*xs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return F.fixed_batch_renormalization(*xs)


case("fixed_batch_renormalization", _fixed_renormalization, fixed)
case(
    "decorrelated_batch_normalization",
    lambda x: F.decorrelated_batch_normalization(x, groups=2),
    (6, 4, 3),
    double=False,
)
case(
    "decorrelated_batch_normalization",
    lambda x: F.decorrelated_batch_normalization(x, groups=1),
    (9, 4),
    double=False,
)
case(
    "fixed_decorrelated_batch_normalization",
    lambda x, m, p: F.fixed_decorrelated_batch_normalization(x, m.array, p.array, 2),
    [(3, 4, 2), (2, 2), (2, 2, 2)],
    double=False,
)
case(
    "group_normalization",
    lambda x, g, b: F.group_normalization(x, 2, g, b),
    lambda r: norm(r, 3, 4, 2),
    tolerance=1e-6,
)
case("layer_normalization", F.layer_normalization, lambda r: norm(r, 3, 6), tolerance=1e-6)
case("local_response_normalization", F.local_response_normalization, (2, 7, 3, 2), double=False)
case(
    "local_response_normalization",
    lambda x: F.local_response_normalization(x, 3, 1.5, 0.1, 0.5),
    (2, 4, 3),
    double=False,
)
case("normalize", F.normalize, (3, 4))
case(
    "normalize",
    lambda x: F.normalize(x, axis=(1, 2)),
    lambda r: [np.concatenate([u(r, 3, 4, 2), np.zeros((1, 4, 2))])],
    double=False,
)
