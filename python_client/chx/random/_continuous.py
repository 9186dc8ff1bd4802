"""Continuous distributions of chx.random.Generator.

Gradients flow to parameters of location and scale that are arrays, and to nothing else.
"""

from typing import Any

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import creation
from chx._types import DeviceLike, DtypeLike, Parameter, Shape, Size
from chx.random._parameters import (
    accepted,
    are_numbers,
    device_of,
    expect,
    filled,
    not_negative,
    positive,
    shape_of,
    takes_arrays,
)
from chx.random._source import Source


@takes_arrays
class Continuous(Source):
    """All methods take the result's size, dtype and device last; sizes are shapes."""

    def random(
        self, size: Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
    ) -> ndarray:
        """Uniform values in [0, 1)."""
        return self._draw("random_uniform", shape_of(size), 0.0, 1.0, dtype, device)

    def uniform(
        self,
        low: Parameter = 0.0,
        high: Parameter = 1.0,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Uniform values in [low, high)."""
        device = device_of(device, low, high)
        shape = shape_of(size, low, high)
        if isinstance(low, _core.ndarray) or isinstance(high, _core.ndarray):
            result: ndarray = self.random(shape, dtype, device) * (high - low) + low
            return result
        return self._draw("random_uniform", shape, low, high, dtype, device)

    def normal(
        self,
        loc: Parameter = 0.0,
        scale: Parameter = 1.0,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Normal values with mean `loc` and deviation `scale`."""
        expect("normal", "a scale from 0 on", scale, not_negative)
        device = device_of(device, loc, scale)
        shape = shape_of(size, loc, scale)
        if isinstance(loc, _core.ndarray) or isinstance(scale, _core.ndarray):
            result: ndarray = self.standard_normal(shape, dtype, device) * scale + loc
            return result
        return self._draw("random_normal", shape, loc, scale, dtype, device)

    def standard_normal(
        self, size: Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
    ) -> ndarray:
        """Normal values with mean 0 and deviation 1."""
        return self._draw("random_normal", shape_of(size), 0.0, 1.0, dtype, device)

    def lognormal(
        self,
        mean: Parameter = 0.0,
        sigma: Parameter = 1.0,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """exp() of normal values."""
        return _core.exp(self.normal(mean, sigma, size, dtype, device))

    def standard_exponential(
        self, size: Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
    ) -> ndarray:
        """Exponential values with mean 1."""
        # 1 - u is in (0, 1]: the logarithm is finite.
        return -_core.log1p(-self.random(size, dtype, device))

    def exponential(
        self,
        scale: Parameter = 1.0,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Exponential values with mean `scale`."""
        expect("exponential", "a scale from 0 on", scale, not_negative)
        result: ndarray = self._exponential(size, dtype, device, scale) * scale
        return result

    def _exponential(
        self, size: Size, dtype: DtypeLike, device: DeviceLike, *parameters: Any
    ) -> ndarray:
        return self.standard_exponential(
            shape_of(size, *parameters), dtype, device_of(device, *parameters)
        )

    def weibull(
        self,
        a: Parameter,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Weibull values with shape `a` and scale 1."""
        expect("weibull", "a shape above 0", a, positive)
        result: ndarray = self._exponential(size, dtype, device, a) ** (1.0 / a)
        return result

    def rayleigh(
        self,
        scale: Parameter = 1.0,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Rayleigh values."""
        result: ndarray = _core.sqrt(self._exponential(size, dtype, device, scale) * 2.0) * scale
        return result

    def pareto(
        self,
        a: Parameter,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Pareto values (Lomax's, from 0 on) with shape `a`."""
        expect("pareto", "a shape above 0", a, positive)
        return _core.expm1(self._exponential(size, dtype, device, a) * (1.0 / a))

    def power(
        self,
        a: Parameter,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Values in [0, 1] with density a * x ** (a - 1)."""
        expect("power", "a shape above 0", a, positive)
        return _core.exp(-(self._exponential(size, dtype, device, a) * (1.0 / a)))

    def gumbel(
        self,
        loc: Parameter = 0.0,
        scale: Parameter = 1.0,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Gumbel values."""
        # Never log(0): the least exponential value that is not 0 stands for it.
        waits = self._exponential(size, dtype, device, loc, scale)
        result: ndarray = loc - _core.log(_core.maximum(waits, np.finfo(dtype).tiny)) * scale
        return result

    def logistic(
        self,
        loc: Parameter = 0.0,
        scale: Parameter = 1.0,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Logistic values."""
        u = self.random(shape_of(size, loc, scale), dtype, device_of(device, loc, scale))
        u = _core.maximum(u, np.finfo(dtype).tiny)
        result: ndarray = (_core.log(u) - _core.log1p(-u)) * scale + loc
        return result

    def laplace(
        self,
        loc: Parameter = 0.0,
        scale: Parameter = 1.0,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Laplace values."""
        first = self._exponential(size, dtype, device, loc, scale)
        second = self._exponential(size, dtype, device, loc, scale)
        result: ndarray = (first - second) * scale + loc
        return result

    def standard_cauchy(
        self, size: Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
    ) -> ndarray:
        """Cauchy values."""
        return _core.tan((self.random(size, dtype, device) - 0.5) * np.pi)

    def triangular(
        self,
        left: Parameter,
        mode: Parameter,
        right: Parameter,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Values in [left, right] whose density rises linearly to `mode`, then falls."""
        parameters = (left, mode, right)
        for low, high, apart in ((left, mode, False), (mode, right, False), (left, right, True)):
            if are_numbers(low, high) and not (low < high if apart else low <= high):
                raise ValueError(
                    f"[triangular] expects left <= mode <= right, left < right, got {parameters}"
                )
        u = self.random(shape_of(size, *parameters), dtype, device_of(device, *parameters))
        width = right - left
        rising = _core.sqrt(u * (width * (mode - left))) + left
        falling = right - _core.sqrt((1.0 - u) * (width * (right - mode)))
        return _core.where(u * width < mode - left, rising, falling)

    def standard_gamma(
        self,
        shape: Parameter,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Gamma values with a shape and scale 1. A negative shape in an array gives NaN."""
        expect("standard_gamma", "a shape from 0 on", shape, not_negative)
        dims = shape_of(size, shape)
        return self._draw_of("random_gamma", filled(shape, dims, dtype, device))

    def gamma(
        self,
        shape: Parameter,
        scale: Parameter = 1.0,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Gamma values with a shape and a scale: their mean is the product."""
        expect("gamma", "a scale from 0 on", scale, not_negative)
        device = device_of(device, shape, scale)
        result: ndarray = (
            self.standard_gamma(shape, shape_of(size, shape, scale), dtype, device) * scale
        )
        return result

    def chisquare(
        self,
        df: Parameter,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Sums of the squares of `df` normal values, which need not be a whole number."""
        expect("chisquare", "df above 0", df, positive)
        return self.standard_gamma(df * 0.5, size, dtype, device) * 2.0

    def noncentral_chisquare(
        self,
        df: Parameter,
        nonc: Parameter,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """chisquare() of normal values whose means are not 0: `nonc` is the sum of their squares."""
        expect("noncentral_chisquare", "df above 0", df, positive)
        shape, device = shape_of(size, df, nonc), device_of(device, df, nonc)
        more = self.poisson(nonc * 0.5, shape, device).astype(dtype)
        return self.standard_gamma(more + df * 0.5, shape, dtype, device) * 2.0

    def f(
        self,
        dfnum: Parameter,
        dfden: Parameter,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Ratios of chisquare() values, each over its df."""
        shape, device = shape_of(size, dfnum, dfden), device_of(device, dfnum, dfden)
        above = self.chisquare(dfnum, shape, dtype, device) / dfnum
        result: ndarray = above / (self.chisquare(dfden, shape, dtype, device) / dfden)
        return result

    def noncentral_f(
        self,
        dfnum: Parameter,
        dfden: Parameter,
        nonc: Parameter,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """f() with a noncentral_chisquare() above."""
        parameters = (dfnum, dfden, nonc)
        shape, device = shape_of(size, *parameters), device_of(device, *parameters)
        above = self.noncentral_chisquare(dfnum, nonc, shape, dtype, device) / dfnum
        result: ndarray = above / (self.chisquare(dfden, shape, dtype, device) / dfden)
        return result

    def standard_t(
        self,
        df: Parameter,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Student's t values."""
        shape, device = shape_of(size, df), device_of(device, df)
        scale = _core.sqrt(self.chisquare(df, shape, dtype, device) / df)
        return self.standard_normal(shape, dtype, device) / scale

    def beta(
        self,
        a: Parameter,
        b: Parameter,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Beta values."""
        expect("beta", "a above 0", a, positive)
        expect("beta", "b above 0", b, positive)
        shape, device = shape_of(size, a, b), device_of(device, a, b)
        share = self._log_gamma(a, shape, device) - self._log_gamma(b, shape, device)
        return _core.sigmoid(share).astype(dtype, copy=False)

    def _log_gamma(self, a: Any, shape: Shape, device: DeviceLike) -> ndarray:
        """Logarithms of gamma values, which for small parameters would be 0."""
        above = _core.log(self.standard_gamma(a + 1.0, shape, device=device))
        result: ndarray = above - self.standard_exponential(shape, device=device) / a
        return result

    def dirichlet(
        self, alpha: Any, size: Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
    ) -> ndarray:
        """Vectors (size, k) that sum to 1, for a vector of k parameters."""
        if not isinstance(alpha, _core.ndarray):
            expect("dirichlet", "parameters above 0", alpha, lambda v: all(x > 0 for x in v))
            alpha = creation.array(np.asarray(alpha, dtype), device=device)
        if alpha.ndim != 1:
            raise ValueError(f"[dirichlet] expects a vector, got shape {alpha.shape}")
        alpha = alpha.as_grad_stopped()
        parts = self._log_gamma(alpha, (*shape_of(size), alpha.size), alpha.device)
        return _core.softmax(parts, -1).astype(dtype, copy=False)

    def wald(
        self,
        mean: Parameter,
        scale: Parameter,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Inverse Gaussian values."""
        # Michael, Schucany and Haas, "Generating random variates using transformations with
        # multiple roots", 1976.
        expect("wald", "a mean above 0", mean, positive)
        expect("wald", "a scale above 0", scale, positive)
        shape, device = shape_of(size, mean, scale), device_of(device, mean, scale)
        y = _core.square(self.standard_normal(shape, dtype, device)) * mean
        root = y + _core.sqrt(y * (y + scale * 4.0))
        # The smaller root, in a form without cancellation.
        x = mean / (1.0 + root / (scale * 2.0))
        u = self.random(shape, dtype, device)
        return _core.where(u * (x + mean) <= mean, x, (mean / x) * mean)

    def vonmises(
        self,
        mu: Parameter,
        kappa: float,
        size: Size = None,
        dtype: DtypeLike = "float64",
        device: DeviceLike = None,
    ) -> ndarray:
        """Angles in [-pi, pi] around `mu`, with concentration `kappa`, a number. Waits."""
        # Best and Fisher, "Efficient simulation of the von Mises distribution", 1979.
        expect("vonmises", "kappa from 0 on", kappa, not_negative)
        shape, device = shape_of(size, mu), device_of(device, mu)
        if kappa < 1e-8:
            angle = (self.random(shape, dtype, device) * 2.0 - 1.0) * np.pi
        else:
            tau = 1 + np.sqrt(1 + 4 * kappa * kappa)
            rho = (tau - np.sqrt(2 * tau)) / (2 * kappa)
            # Near 1 / kappa, where the formula cancels.
            r = (1 + rho * rho) / (2 * rho) if kappa < 1e5 else 1 + 1 / kappa

            def draw() -> tuple[ndarray, ndarray]:
                z = _core.cos(self.random(shape, dtype, device) * np.pi)
                f = (z * r + 1.0) / (z + r)
                c = (r - f) * kappa
                u = 1.0 - self.random(shape, dtype, device)
                near = _core.logical_or(c * (2.0 - c) > u, _core.log(c / u) + 1.0 >= c)
                sign = _core.where(self.random(shape, dtype, device) < 0.5, -1.0, 1.0)
                return _core.arccos(_core.minimum(f, 1.0)) * sign, near

            angle = accepted(draw)
        return _core.remainder(angle + mu + np.pi, 2 * np.pi) - np.pi
