"""Where a quantile is among ordered elements, for each of numpy.quantile's methods."""

# Hyndman and Fan, "Sample quantiles in statistical packages", 1996. Continuous ones by (alpha, beta).
from typing import Any

_CONTINUOUS = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "linear": (1.0, 1.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
_ROUNDED = {"lower": "floor", "higher": "ceil", "nearest": "rint"}
METHODS = (
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    *_CONTINUOUS,
    *_ROUNDED,
    "midpoint",
)


def places(xp: Any, count: Any, q: Any, method: str) -> Any:
    """Places among `count` elements, 0 ... count - 1; fractions are between two. float64.

    `xp` is numpy or chx, whichever the arguments are of.
    """
    last = xp.maximum(count - 1.0, 0.0)
    return xp.minimum(xp.maximum(_anywhere(xp, count, last, q, method), 0.0), last)


def _anywhere(xp: Any, count: Any, last: Any, q: Any, method: str) -> Any:
    if method == "linear":
        return last * q
    if method in _CONTINUOUS:
        alpha, beta = _CONTINUOUS[method]
        return count * q + (q * (1.0 - alpha - beta) + alpha) - 1.0
    if method in _ROUNDED:
        return getattr(xp, _ROUNDED[method])(last * q)
    if method == "midpoint":
        return (xp.floor(last * q) + xp.ceil(last * q)) * 0.5
    index = count * q - (1.5 if method == "closest_observation" else 1.0)
    below = xp.floor(index)
    whole = xp.equal(index, below)
    if method == "averaged_inverted_cdf":
        return below + xp.where(whole, 0.5, 1.0)
    if method == "closest_observation":
        whole = xp.logical_and(whole, xp.equal(xp.remainder(below, 2.0), 1.0))
    return below + xp.where(whole, 0.0, 1.0)
