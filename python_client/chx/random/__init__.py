"""Random arrays, made on the device from a seed and the number of draws before.

    chx.random.seed(0)
    x = chx.random.normal(size=(100, 4), dtype="float32")
    rng = chx.random.default_rng(1)
    batch = rng.permutation(60000)

Floats are float64 unless a dtype is given; sizes are shapes, () without one, or that of parameters
which are arrays. numpy.random's functions are here too: they are the methods of one RandomState.

This module's functions, and Generator() and RandomState() without arguments, draw from the session's
stream, which seed() restarts; default_rng() and RandomState(seed) make streams of their own.
"""

from __future__ import annotations

from chx._core import ndarray as _ndarray
from chx._runtime import connection as _connection, random_streams as _random_streams
from chx._types import DeviceLike as _DeviceLike, DtypeLike as _DtypeLike, Size as _Size
from chx.random._generator import (
    Generator as Generator,
    RandomState as RandomState,
    default_rng as default_rng,
)


def normal(
    loc: float = 0.0,
    scale: float = 1.0,
    size: _Size = None,
    *,
    dtype: _DtypeLike = "float64",
    device: _DeviceLike = None,
) -> _ndarray:
    """Normal values with mean `loc` and deviation `scale`, in the shape `size`."""
    shape = () if size is None else size
    return _random_streams.draw(None, "random_normal", shape, loc, scale, dtype, device)


def uniform(
    low: float = 0.0,
    high: float = 1.0,
    size: _Size = None,
    *,
    dtype: _DtypeLike = "float64",
    device: _DeviceLike = None,
) -> _ndarray:
    """Uniform values in [low, high), in the shape `size`."""
    shape = () if size is None else size
    return _random_streams.draw(None, "random_uniform", shape, low, high, dtype, device)


def seed(seed: int | None = None) -> None:
    """Makes what follows of the session's stream repeatable, on every device; or not, without a seed."""
    _connection.connect_default().seed(seed)


# NumPy's functions of this module, which normal(), uniform() and seed() above are the first of.
_state = RandomState()
bernoulli = _state.bernoulli
beta = _state.beta
binomial = _state.binomial
bytes = _state.bytes
chisquare = _state.chisquare
choice = _state.choice
dirichlet = _state.dirichlet
exponential = _state.exponential
f = _state.f
gamma = _state.gamma
geometric = _state.geometric
gumbel = _state.gumbel
hypergeometric = _state.hypergeometric
integers = _state.integers
laplace = _state.laplace
logistic = _state.logistic
lognormal = _state.lognormal
logseries = _state.logseries
multinomial = _state.multinomial
multivariate_normal = _state.multivariate_normal
negative_binomial = _state.negative_binomial
noncentral_chisquare = _state.noncentral_chisquare
noncentral_f = _state.noncentral_f
pareto = _state.pareto
permutation = _state.permutation
permuted = _state.permuted
poisson = _state.poisson
power = _state.power
rand = _state.rand
randint = _state.randint
randn = _state.randn
random = _state.random
random_sample = _state.random_sample
rayleigh = _state.rayleigh
shuffle = _state.shuffle
standard_cauchy = _state.standard_cauchy
standard_exponential = _state.standard_exponential
standard_gamma = _state.standard_gamma
standard_normal = _state.standard_normal
standard_t = _state.standard_t
triangular = _state.triangular
vonmises = _state.vonmises
wald = _state.wald
weibull = _state.weibull
zipf = _state.zipf
