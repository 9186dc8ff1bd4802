"""Continuous distributions of chx.random.Generator. Parameters are numbers or arrays that broadcast, of
chx or what NumPy makes arrays of.

Gradients flow to parameters of location and scale that are arrays, and to nothing else.
"""

import functools
import inspect
import numbers

import numpy as np

from chx import _core, _streams


def shape_of(size, *parameters):
    """The shape `size`, or that of the parameters broadcast."""
    if size is None:
        arrays = [p.shape for p in parameters if isinstance(p, _core.ndarray)]
        return np.broadcast_shapes(*arrays) if arrays else ()
    return (size,) if isinstance(size, (int, np.integer)) else tuple(size)


def device_of(device, *parameters):
    """The device that is named, or else that of the first parameter that is an array."""
    arrays = [p.device for p in parameters if isinstance(p, _core.ndarray)]
    return arrays[0] if device is None and arrays else device


def filled(value, shape, dtype, device):
    """A parameter as an array of a shape; outside of the graph, where draws have no gradient."""
    if isinstance(value, _core.ndarray):
        value = value.as_grad_stopped().astype(dtype, copy=False)
        return _core.broadcast_to(value, shape)
    return _core.full(shape, value, dtype, device=device)


def expect(name, what, value, holds):
    """ValueError if a number is not as expected; arrays are not waited for."""
    if not isinstance(value, _core.ndarray) and not holds(value):
        raise ValueError(f"[{name}] expects {what}, got {value}")


def _positive(x):
    return x > 0


def _not_negative(x):
    return x >= 0


def are_numbers(*values):
    """Whether these are numbers, which can be checked at the call."""
    return all(isinstance(v, numbers.Real) for v in values)


def takes_arrays(cls):
    """Has a class's distributions take lists and NumPy arrays as parameters: the arguments up to size."""
    for name, method in list(vars(cls).items()):
        parameters = [] if name.startswith("_") else list(inspect.signature(method).parameters)
        if "size" in parameters[2:] and name not in _OWN_WAYS:
            setattr(cls, name, _with_arrays(method, parameters[1 : parameters.index("size")]))
    return cls


# What these do with lists is their own business.
_OWN_WAYS = ("dirichlet", "integers", "multinomial", "hypergeometric", "zipf")


def _with_arrays(method, parameters):
    count = len(parameters)

    @functools.wraps(method)
    def distribution(self, *args, **kwargs):
        values = [*args[:count], *(kwargs[p] for p in parameters if p in kwargs)]
        if not any(isinstance(v, (list, tuple, np.ndarray)) for v in values):
            return method(self, *args, **kwargs)
        device = device_of(kwargs.get("device"), *values)
        args = (*(converted(v, device) for v in args[:count]), *args[count:])
        for p in parameters:
            if p in kwargs:
                kwargs[p] = converted(kwargs[p], device)
        return method(self, *args, **kwargs)

    return distribution


def converted(value, device):
    """A list or a NumPy array as an array, or a number."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return value
    from chx import _support

    value = np.asarray(value)
    return value.item() if value.ndim == 0 else _support.array(value, device=device)


@takes_arrays
class Continuous:
    """All methods take the result's size, dtype and device last; sizes are shapes."""

    _stream = None  # the session's

    def _draw(self, name, shape, a, b, dtype, device):
        return _streams.draw(self._stream, name, shape, a, b, dtype, device)

    def _draw_of(self, name, *parameters):
        return _streams.draw_of(self._stream, name, *parameters)

    def random(self, size=None, dtype="float64", device=None):
        """Uniform values in [0, 1)."""
        return self._draw("random_uniform", shape_of(size), 0.0, 1.0, dtype, device)

    def uniform(self, low=0.0, high=1.0, size=None, dtype="float64", device=None):
        """Uniform values in [low, high)."""
        device = device_of(device, low, high)
        shape = shape_of(size, low, high)
        if isinstance(low, _core.ndarray) or isinstance(high, _core.ndarray):
            return self.random(shape, dtype, device) * (high - low) + low
        return self._draw("random_uniform", shape, low, high, dtype, device)

    def normal(self, loc=0.0, scale=1.0, size=None, dtype="float64", device=None):
        """Normal values with mean `loc` and deviation `scale`."""
        expect("normal", "a scale from 0 on", scale, _not_negative)
        device = device_of(device, loc, scale)
        shape = shape_of(size, loc, scale)
        if isinstance(loc, _core.ndarray) or isinstance(scale, _core.ndarray):
            return self.standard_normal(shape, dtype, device) * scale + loc
        return self._draw("random_normal", shape, loc, scale, dtype, device)

    def standard_normal(self, size=None, dtype="float64", device=None):
        """Normal values with mean 0 and deviation 1."""
        return self._draw("random_normal", shape_of(size), 0.0, 1.0, dtype, device)

    def lognormal(self, mean=0.0, sigma=1.0, size=None, dtype="float64", device=None):
        """exp() of normal values."""
        return _core.exp(self.normal(mean, sigma, size, dtype, device))

    def standard_exponential(self, size=None, dtype="float64", device=None):
        """Exponential values with mean 1."""
        # 1 - u is in (0, 1]: the logarithm is finite.
        return -_core.log1p(-self.random(size, dtype, device))

    def exponential(self, scale=1.0, size=None, dtype="float64", device=None):
        """Exponential values with mean `scale`."""
        expect("exponential", "a scale from 0 on", scale, _not_negative)
        return self._exponential(size, dtype, device, scale) * scale

    def _exponential(self, size, dtype, device, *parameters):
        return self.standard_exponential(
            shape_of(size, *parameters), dtype, device_of(device, *parameters)
        )

    def weibull(self, a, size=None, dtype="float64", device=None):
        """Weibull values with shape `a` and scale 1."""
        expect("weibull", "a shape above 0", a, _positive)
        return self._exponential(size, dtype, device, a) ** (1.0 / a)

    def rayleigh(self, scale=1.0, size=None, dtype="float64", device=None):
        """Rayleigh values."""
        return _core.sqrt(self._exponential(size, dtype, device, scale) * 2.0) * scale

    def pareto(self, a, size=None, dtype="float64", device=None):
        """Pareto values (Lomax's, from 0 on) with shape `a`."""
        expect("pareto", "a shape above 0", a, _positive)
        return _core.expm1(self._exponential(size, dtype, device, a) * (1.0 / a))

    def power(self, a, size=None, dtype="float64", device=None):
        """Values in [0, 1] with density a * x ** (a - 1)."""
        expect("power", "a shape above 0", a, _positive)
        return _core.exp(-(self._exponential(size, dtype, device, a) * (1.0 / a)))

    def gumbel(self, loc=0.0, scale=1.0, size=None, dtype="float64", device=None):
        """Gumbel values."""
        # Never log(0): the least exponential value that is not 0 stands for it.
        waits = self._exponential(size, dtype, device, loc, scale)
        return loc - _core.log(_core.maximum(waits, np.finfo(dtype).tiny)) * scale

    def logistic(self, loc=0.0, scale=1.0, size=None, dtype="float64", device=None):
        """Logistic values."""
        u = self.random(shape_of(size, loc, scale), dtype, device_of(device, loc, scale))
        u = _core.maximum(u, np.finfo(dtype).tiny)
        return (_core.log(u) - _core.log1p(-u)) * scale + loc

    def laplace(self, loc=0.0, scale=1.0, size=None, dtype="float64", device=None):
        """Laplace values."""
        first = self._exponential(size, dtype, device, loc, scale)
        second = self._exponential(size, dtype, device, loc, scale)
        return (first - second) * scale + loc

    def standard_cauchy(self, size=None, dtype="float64", device=None):
        """Cauchy values."""
        return _core.tan((self.random(size, dtype, device) - 0.5) * np.pi)

    def triangular(self, left, mode, right, size=None, dtype="float64", device=None):
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

    # --- By gamma values -------------------------------------------------------------------------

    def standard_gamma(self, shape, size=None, dtype="float64", device=None):
        """Gamma values with a shape and scale 1. A negative shape in an array gives NaN."""
        expect("standard_gamma", "a shape from 0 on", shape, _not_negative)
        dims = shape_of(size, shape)
        return self._draw_of("random_gamma", filled(shape, dims, dtype, device))

    def gamma(self, shape, scale=1.0, size=None, dtype="float64", device=None):
        """Gamma values with a shape and a scale: their mean is the product."""
        expect("gamma", "a scale from 0 on", scale, _not_negative)
        device = device_of(device, shape, scale)
        return self.standard_gamma(shape, shape_of(size, shape, scale), dtype, device) * scale

    def chisquare(self, df, size=None, dtype="float64", device=None):
        """Sums of the squares of `df` normal values, which need not be a whole number."""
        expect("chisquare", "df above 0", df, _positive)
        return self.standard_gamma(df * 0.5, size, dtype, device) * 2.0

    def noncentral_chisquare(self, df, nonc, size=None, dtype="float64", device=None):
        """chisquare() of normal values whose means are not 0: `nonc` is the sum of their squares."""
        expect("noncentral_chisquare", "df above 0", df, _positive)
        shape, device = shape_of(size, df, nonc), device_of(device, df, nonc)
        more = self.poisson(nonc * 0.5, shape, device).astype(dtype)
        return self.standard_gamma(more + df * 0.5, shape, dtype, device) * 2.0

    def f(self, dfnum, dfden, size=None, dtype="float64", device=None):
        """Ratios of chisquare() values, each over its df."""
        shape, device = shape_of(size, dfnum, dfden), device_of(device, dfnum, dfden)
        above = self.chisquare(dfnum, shape, dtype, device) / dfnum
        return above / (self.chisquare(dfden, shape, dtype, device) / dfden)

    def noncentral_f(self, dfnum, dfden, nonc, size=None, dtype="float64", device=None):
        """f() with a noncentral_chisquare() above."""
        parameters = (dfnum, dfden, nonc)
        shape, device = shape_of(size, *parameters), device_of(device, *parameters)
        above = self.noncentral_chisquare(dfnum, nonc, shape, dtype, device) / dfnum
        return above / (self.chisquare(dfden, shape, dtype, device) / dfden)

    def standard_t(self, df, size=None, dtype="float64", device=None):
        """Student's t values."""
        shape, device = shape_of(size, df), device_of(device, df)
        scale = _core.sqrt(self.chisquare(df, shape, dtype, device) / df)
        return self.standard_normal(shape, dtype, device) / scale

    def beta(self, a, b, size=None, dtype="float64", device=None):
        """Beta values."""
        expect("beta", "a above 0", a, _positive)
        expect("beta", "b above 0", b, _positive)
        shape, device = shape_of(size, a, b), device_of(device, a, b)
        share = self._log_gamma(a, shape, device) - self._log_gamma(b, shape, device)
        return _core.sigmoid(share).astype(dtype, copy=False)

    def _log_gamma(self, a, shape, device):
        """Logarithms of gamma values, which for small parameters would be 0."""
        above = _core.log(self.standard_gamma(a + 1.0, shape, device=device))
        return above - self.standard_exponential(shape, device=device) / a

    def dirichlet(self, alpha, size=None, dtype="float64", device=None):
        """Vectors (size, k) that sum to 1, for a vector of k parameters."""
        if not isinstance(alpha, _core.ndarray):
            import chx

            expect("dirichlet", "parameters above 0", alpha, lambda v: all(x > 0 for x in v))
            alpha = chx.array(np.asarray(alpha, dtype), device=device)
        if alpha.ndim != 1:
            raise ValueError(f"[dirichlet] expects a vector, got shape {alpha.shape}")
        alpha = alpha.as_grad_stopped()
        parts = self._log_gamma(alpha, (*shape_of(size), alpha.size), alpha.device)
        return _core.softmax(parts, -1).astype(dtype, copy=False)

    def wald(self, mean, scale, size=None, dtype="float64", device=None):
        """Inverse Gaussian values."""
        # Michael, Schucany and Haas, "Generating random variates using transformations with
        # multiple roots", 1976.
        expect("wald", "a mean above 0", mean, _positive)
        expect("wald", "a scale above 0", scale, _positive)
        shape, device = shape_of(size, mean, scale), device_of(device, mean, scale)
        y = _core.square(self.standard_normal(shape, dtype, device)) * mean
        root = y + _core.sqrt(y * (y + scale * 4.0))
        # The smaller root, in a form without cancellation.
        x = mean / (1.0 + root / (scale * 2.0))
        u = self.random(shape, dtype, device)
        return _core.where(u * (x + mean) <= mean, x, (mean / x) * mean)

    def vonmises(self, mu, kappa, size=None, dtype="float64", device=None):
        """Angles in [-pi, pi] around `mu`, with concentration `kappa`, a number. Waits."""
        # Best and Fisher, "Efficient simulation of the von Mises distribution", 1979.
        expect("vonmises", "kappa from 0 on", kappa, _not_negative)
        shape, device = shape_of(size, mu), device_of(device, mu)
        if kappa < 1e-8:
            angle = (self.random(shape, dtype, device) * 2.0 - 1.0) * np.pi
        else:
            tau = 1 + np.sqrt(1 + 4 * kappa * kappa)
            rho = (tau - np.sqrt(2 * tau)) / (2 * kappa)
            # Near 1 / kappa, where the formula cancels.
            r = (1 + rho * rho) / (2 * rho) if kappa < 1e5 else 1 + 1 / kappa

            def draw():
                z = _core.cos(self.random(shape, dtype, device) * np.pi)
                f = (z * r + 1.0) / (z + r)
                c = (r - f) * kappa
                u = 1.0 - self.random(shape, dtype, device)
                near = _core.logical_or(c * (2.0 - c) > u, _core.log(c / u) + 1.0 >= c)
                sign = _core.where(self.random(shape, dtype, device) < 0.5, -1.0, 1.0)
                return _core.arccos(_core.minimum(f, 1.0)) * sign, near

            angle = accepted(draw)
        return _core.remainder(angle + mu + np.pi, 2 * np.pi) - np.pi


def accepted(draw):
    """Values of draw() -> (candidates, whether they are accepted), once all are. Waits."""
    values, done = draw()
    while not bool(_core.all(done)):
        others, good = draw()
        values = _core.where(done, values, others)
        done = _core.logical_or(done, good)
    return values
