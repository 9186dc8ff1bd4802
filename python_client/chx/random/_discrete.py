"""Discrete distributions of chx.random.Generator, as int64. Parameters as in _continuous.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import creation, sorting, transfer
from chx._types import DeviceLike, DtypeLike, Parameter, Size
from chx.random._parameters import (
    accepted,
    converted,
    device_of,
    expect,
    filled,
    shape_of,
    takes_arrays,
)
from chx.random._source import Source


def _probability(x: float) -> bool:
    return 0 <= x <= 1


@takes_arrays
class Discrete(Source):
    """All methods take the result's size and device last; sizes are shapes."""

    def bernoulli(self, p: Parameter, size: Size = None, device: DeviceLike = None) -> ndarray:
        """True with probability p."""
        result: ndarray = self.random(shape_of(size, p), device=device_of(device, p)) < p
        return result

    def binomial(
        self, n: Parameter, p: Parameter, size: Size = None, device: DeviceLike = None
    ) -> ndarray:
        """How many of n trials succeed with probability p; -1 where an array's n or p is no such."""
        expect("binomial", "n from 0 on", n, lambda x: x >= 0)
        expect("binomial", "p in [0, 1]", p, _probability)
        shape, device = shape_of(size, n, p), device_of(device, n, p)
        return self._draw_of(
            "random_binomial",
            filled(n, shape, "int64", device),
            filled(p, shape, "float64", device),
        )

    def poisson(
        self, lam: Parameter = 1.0, size: Size = None, device: DeviceLike = None
    ) -> ndarray:
        """How many events there are at a rate; -1 where an array's rate is negative."""
        expect("poisson", "a rate in [0, 9.2e18]", lam, lambda x: 0 <= x <= 9.2e18)
        shape, device = shape_of(size, lam), device_of(device, lam)
        return self._draw_of("random_poisson", filled(lam, shape, "float64", device))

    def geometric(self, p: Parameter, size: Size = None, device: DeviceLike = None) -> ndarray:
        """How many trials it takes to succeed, with probability p each: 1 or more."""
        expect("geometric", "p in (0, 1]", p, lambda x: 0 < x <= 1)
        shape, device = shape_of(size, p), device_of(device, p)
        if not isinstance(p, _core.ndarray) and p == 1:
            return _core.ones(shape, "int64", device=device)
        failures: Any = _core.log1p(-p) if isinstance(p, _core.ndarray) else float(np.log1p(-p))
        waits = self.standard_exponential(shape, device=device) / -failures
        # Beyond int64 there is no difference any more.
        return _core.minimum(_core.maximum(_core.ceil(waits), 1.0), 2.0**62).astype("int64")

    def negative_binomial(
        self, n: Parameter, p: Parameter, size: Size = None, device: DeviceLike = None
    ) -> ndarray:
        """How many trials fail before n succeed, with probability p each."""
        expect("negative_binomial", "n above 0", n, lambda x: x > 0)
        expect("negative_binomial", "p in (0, 1]", p, lambda x: 0 < x <= 1)
        shape, device = shape_of(size, n, p), device_of(device, n, p)
        rate = self.standard_gamma(n, shape, device=device) * ((1.0 - p) / p)
        return self.poisson(rate, shape)

    def hypergeometric(
        self, ngood: int, nbad: int, nsample: int, size: Size = None, device: DeviceLike = None
    ) -> ndarray:
        """How many of `nsample`, drawn without replacement, are good. Parameters are numbers.

        ValueError: a negative number, or more draws than there are.
        """
        for name, value in (("ngood", ngood), ("nbad", nbad), ("nsample", nsample)):
            expect("hypergeometric", f"{name} from 0 on", value, lambda x: x >= 0)
        if nsample > ngood + nbad:
            raise ValueError(
                f"[hypergeometric] expects nsample up to {ngood + nbad}, got {nsample}"
            )
        low, high = max(0, nsample - nbad), min(ngood, nsample)
        # Logarithms of the probabilities' ratios to that of the least outcome, then the inverse of
        # their running sum.
        k = np.arange(low, high, dtype=np.float64)
        with np.errstate(divide="ignore"):
            steps = np.log((ngood - k) * (nsample - k)) - np.log((k + 1) * (nbad - nsample + k + 1))
        logs = np.concatenate([[0.0], np.cumsum(steps)])
        edges = np.cumsum(np.exp(logs - logs.max()))
        u = self.random(shape_of(size), device=device) * edges[-1]
        bounds = creation.array(edges, device=u.device)
        return _core.minimum(sorting.searchsorted(bounds, u, "right"), high - low) + low

    def logseries(self, p: Parameter, size: Size = None, device: DeviceLike = None) -> ndarray:
        """Logarithmic series values, 1 or more."""
        # Kemp, "Efficient generation of logarithmically distributed pseudo-random variables", 1981.
        expect("logseries", "p in (0, 1)", p, lambda x: 0 < x < 1)
        shape, device = shape_of(size, p), device_of(device, p)
        v = 1.0 - self.random(shape, device=device)
        r: Any = _core.log1p(-p) if isinstance(p, _core.ndarray) else float(np.log1p(-p))
        q = -_core.expm1(self.random(shape, device=device) * r)
        q = _core.maximum(q, np.finfo("float64").tiny)
        many = _core.floor(_core.log(v) / _core.log(q)) + 1.0
        few = _core.where(v >= q, 1.0, 2.0)
        values = _core.where(_core.logical_and(v < p, v <= q * q), many, few)
        return _core.where(v >= p, 1.0, values).astype("int64")

    def zipf(self, a: float, size: Size = None, device: DeviceLike = None) -> ndarray:
        """Zipf values, 1 or more, with probability proportional to k ** -a. `a` is a number. Waits."""
        # Devroye, "Non-uniform random variate generation", 1986, chapter X.6.1.
        expect("zipf", "a above 1", a, lambda x: x > 1)
        shape = shape_of(size)
        b = 2.0 ** (a - 1)

        def draw() -> tuple[ndarray, ndarray]:
            u = 1.0 - self.random(shape, device=device)
            x = _core.floor(u ** (-1.0 / (a - 1)))
            t = (1.0 + 1.0 / x) ** (a - 1)
            v = self.random(shape, device=device)
            good = v * x * (t - 1.0) / (b - 1) <= t / b
            return x, _core.logical_and(good, x < 2.0**62)

        return accepted(draw).astype("int64")

    def multinomial(
        self, n: Parameter, pvals: Any, size: Size = None, device: DeviceLike = None
    ) -> ndarray:
        """How often each of k outcomes comes up in n trials, (size, k): `pvals` are k probabilities.

        ValueError: they are not in [0, 1], or sum to more than 1; or a negative n. The last one is what
        the others leave.
        """
        expect("multinomial", "n from 0 on", n, lambda x: bool((np.asarray(x) >= 0).all()))
        n = converted(n, device)
        if isinstance(pvals, _core.ndarray):
            pvals = transfer.to_numpy(pvals)
        p = np.asarray(pvals, np.float64)
        good = ((p >= 0) & (p <= 1)).all()
        if p.ndim != 1 or p.size == 0 or not good or p[:-1].sum() > 1 + 1e-12:
            raise ValueError(f"[multinomial] expects probabilities that sum to 1, got {pvals}")
        shape, device = shape_of(size, n), device_of(device, n)
        left = filled(n, shape, "int64", device)
        rest = 1.0
        counts = []
        for chance in p[:-1]:
            share = min(chance / rest, 1.0) if rest > 0 else 0.0
            counts.append(self.binomial(left, share, shape))
            left = left - counts[-1]
            rest -= chance
        return _core.stack([*counts, left], -1)

    def integers(
        self,
        low: Any,
        high: Any = None,
        size: Size = None,
        dtype: DtypeLike = "int64",
        endpoint: bool = False,
        device: DeviceLike = None,
    ) -> ndarray:
        """Integers in [low, high), or in [0, low) without high; with `endpoint`, high too.

        The bounds may be arrays, or lists. Those on a device are waited for.

        Raises:
          ValueError: there are none, more than 2**53, or such as the dtype doesn't have.
          TypeError: the dtype is not one of integers.
        """
        dtype = np.dtype(dtype)
        if dtype.kind not in "iub":
            raise TypeError(f"[integers] expects a dtype of integers, got {dtype}")
        low, high = (0, low) if high is None else (low, high)
        numbers = [transfer.to_numpy(x) if isinstance(x, _core.ndarray) else x for x in (low, high)]
        # As int64 at least: the count may not fit in the dtype of the bounds.
        first, last = (np.asarray(x, np.result_type(np.asarray(x), np.int64)) for x in numbers)
        count = last - first + bool(endpoint)
        if not ((count > 0) & (count <= 2**53)).all():
            raise ValueError(
                f"[integers] expects 1 to 2**53 numbers, got low {numbers[0]}, high {numbers[1]}"
            )
        least, most = (0, 1) if dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if count.size and not least <= first.min() <= (first + count - 1).max() <= most:
            raise ValueError(
                f"[integers] expects numbers of {dtype}, in [{least}, {most}], got low "
                f"{numbers[0]}, high {numbers[1]}"
            )
        device = device_of(device, low, high)
        shape = count.shape if size is None else shape_of(size)
        u = self.random(shape, device=device)
        start: int | ndarray
        greatest: int | ndarray
        if count.ndim == 0:
            start, greatest = int(first), int(count) - 1
        else:
            start = creation.array(first.astype(np.int64), device=u.device)
            greatest = creation.array(count - 1.0, "float64", device=u.device)
        # A product that was rounded up to the count is one too many.
        steps = _core.minimum(_core.floor(u * (greatest + 1)), greatest).astype("int64")
        return (steps + start).astype(dtype, copy=False)
