"""Routes of what chainer.distributions and chainer.links define, and samples of distributions."""

import math

import chainer
import numpy as np
from chainer.distributions import (
    bernoulli,
    laplace,
    multivariate_normal,
    normal as normal_distribution,
    uniform as uniform_distribution,
    utils,
)
from chainer.links.loss import hierarchical_softmax

import chx
from chx.chainer._routes._common import cast, normal, sent, uniform
from chx.chainer._routes._registry import route


@route(utils.ModifiedXLogX)
def _modified_xlogx(f, xs):
    (x,) = xs
    # The logarithm is of 1 where x is 0.
    return (x * f._logx._data[0],)


@route(bernoulli.BernoulliLogProb)
def _bernoulli_log_prob(f, xs):
    logit, x = xs
    x = cast(x.as_grad_stopped(), logit.dtype)
    y = logit * (x - 1) - chx.log(chx.exp(-logit) + 1)
    sure = chx.isinf(logit.as_grad_stopped())
    above = chx.logical_and(sure, logit > 0)
    y = chx.where(above, chx.log(x), y)
    y = chx.where(chx.logical_and(sure, logit < 0), chx.log(1 - x), y)
    if f.binary_check:
        y = chx.where(chx.logical_and(x != 0, x != 1), -math.inf, y)
    return (y,)


@route(laplace.LaplaceCDF)
def _laplace_cdf(f, xs):
    (x,) = xs
    tail = chx.exp(chx.negative(chx.where(x > 0, x, -x))) * 0.5
    return (chx.where(x > 0, 1 - tail, tail),)


@route(laplace.LaplaceICDF)
def _laplace_icdf(f, xs):
    (p,) = xs
    below = p <= 0.5
    y = chx.log(chx.where(below, p, 1 - p) * 2)
    return (chx.where(below, y, -y),)


@route(multivariate_normal.TriangularInv)
def _triangular_inv(f, xs):
    (x,) = xs
    return (chx.linalg.inv(chx.tril(x) if f._lower else chx.triu(x)),)


@route(hierarchical_softmax.BinaryHierarchicalSoftmaxFunction)
def _hierarchical_softmax(f, xs):
    x, t, w = xs
    begins, paths = sent(f.begins, x), sent(f.paths, x)
    longest = int(np.diff(chx.to_numpy(begins)).max())
    first = chx.expand_dims(chx.take(begins, t, axis=0), 1)
    end = chx.expand_dims(chx.take(begins, t + 1, axis=0), 1)
    place = first + chx.arange(longest, dtype=first.dtype, device=x.device)
    used = place < end
    place = chx.where(used, place, 0)
    nodes = chx.take(w, chx.take(paths, place, axis=0), axis=0)
    codes = cast(chx.take(sent(f.codes, x), place, axis=0), x.dtype)
    score = chx.squeeze(chx.matmul(nodes, chx.expand_dims(x, 2)), 2) * codes
    return (chx.sum(chx.where(used, chx.softplus(-score), 0)),)


def _sample_bernoulli(self, n):
    p = self.p.array
    return chainer.Variable((uniform((n, *p.shape), p) < p).astype("int64"))


def _sample_laplace(self, n):
    loc = self.loc.array
    noise = chx.random.laplace(size=(n, *loc.shape), dtype="float32", device=loc.device)
    return self.scale * noise + self.loc


def _sample_multivariate_normal(self, n):
    functions = chainer.functions
    noise = normal((n, *self.loc.shape, 1), self.loc.array)
    return self.loc + functions.squeeze(functions.matmul(self.scale_tril, noise), axis=-1)


def _sample_normal(self, n):
    return self.loc + self.scale * normal((n, *self.loc.shape), self.loc.array)


def _sample_uniform(self, n):
    low = self.low.array
    return self.icdf(cast(uniform((n, *low.shape), low), low.dtype))


def adapt(chainer):
    """Samples are the device's. Chainer asks chainerx.random for generators that it has not."""
    import chainerx

    for name in dir(chx.random.RandomState):
        if not name.startswith("_") and not hasattr(chainerx.random, name) and name != "seed":
            setattr(chainerx.random, name, getattr(chx.random, name))
    for cls, sample in (
        (bernoulli.Bernoulli, _sample_bernoulli),
        (laplace.Laplace, _sample_laplace),
        (multivariate_normal.MultivariateNormal, _sample_multivariate_normal),
        (normal_distribution.Normal, _sample_normal),
        (uniform_distribution.Uniform, _sample_uniform),
    ):
        cls.sample_n = _either(cls.sample_n, sample)


def _either(original, ours):
    def sample_n(self, n):
        remote = any(
            isinstance(chainer.as_array(v), chx.ndarray)
            for v in self.params.values()
            if v is not None
        )
        return ours(self, n) if remote else original(self, n)

    sample_n.__doc__ = original.__doc__
    return sample_n
