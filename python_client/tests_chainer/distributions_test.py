"""Chainer's distributions with parameters on a daemon: densities, moments, samples."""

import inspect

import chainer
import chainer.distributions as D
import chainer.functions as F
import chx
import numpy as np
import pytest

N = 20000


def u(rng, *shape):
    return rng.uniform(0.2, 0.8, shape).astype("f")


def chances(rng):
    return rng.dirichlet(np.ones(4), 2).astype("f")


PARAMETERS = {
    "Bernoulli": lambda r: {"p": u(r, 3)},
    "Beta": lambda r: {"a": u(r, 3) + 1, "b": u(r, 3) + 1},
    "Categorical": lambda r: {"p": chances(r)},
    "Cauchy": lambda r: {"loc": u(r, 3), "scale": u(r, 3)},
    "Chisquare": lambda r: {"k": u(r, 3) + 2},
    "Dirichlet": lambda r: {"alpha": u(r, 2, 3) + 1},
    "Exponential": lambda r: {"lam": u(r, 3)},
    "Gamma": lambda r: {"k": u(r, 3) + 1, "theta": u(r, 3)},
    "Geometric": lambda r: {"p": u(r, 3)},
    "Gumbel": lambda r: {"loc": u(r, 3), "scale": u(r, 3)},
    "Laplace": lambda r: {"loc": u(r, 3), "scale": u(r, 3)},
    "LogNormal": lambda r: {"mu": u(r, 3), "sigma": u(r, 3) / 2},
    "MultivariateNormal": lambda r: {
        "loc": u(r, 2, 3),
        "scale_tril": np.tril(u(r, 2, 3, 3)) + np.eye(3, dtype="f"),
    },
    "Normal": lambda r: {"loc": u(r, 3), "scale": u(r, 3)},
    "OneHotCategorical": lambda r: {"p": chances(r)},
    "Pareto": lambda r: {"scale": u(r, 3), "alpha": u(r, 3) + 5},
    "Poisson": lambda r: {"lam": u(r, 3)},
    "Uniform": lambda r: {"low": u(r, 3), "high": u(r, 3) + 1},
}


@pytest.fixture(params=PARAMETERS)
def pair(request, rng, device):
    """A distribution on NumPy and on the device."""
    parameters = PARAMETERS[request.param](rng)
    cls = getattr(D, request.param)
    return cls(**parameters), cls(**{k: device.send(v) for k, v in parameters.items()})


def test_all_distributions_are_here():
    classes = {name for name, value in vars(D).items() if inspect.isclass(value)}
    assert classes == PARAMETERS.keys() | {"Independent"}


def close(actual, expected):
    actual, expected = chainer.as_array(actual), chainer.as_array(expected)
    assert isinstance(actual, chx.ndarray) and actual.shape == np.shape(expected)
    np.testing.assert_allclose(chx.to_numpy(actual), expected, 1e-4, 1e-5)


def value_of(distribution):
    """A value that it is defined for; an index for Categorical, else a float."""
    x = distribution.sample().array
    return np.asarray(x, "i" if isinstance(distribution, D.Categorical) else "f")


def test_moments(pair):
    local, remote = pair
    compared = 0
    for name in ("mean", "mode", "variance", "stddev", "covariance", "entropy"):
        try:
            expected = getattr(local, name)
        except Exception:
            continue
        close(getattr(remote, name), expected)
        compared += 1
    assert compared >= 1


def test_densities(pair, rng, device):
    local, remote = pair
    x = value_of(local)
    compared = 0
    for name in "log_prob prob cdf icdf log_cdf survival_function log_survival_function".split():
        argument = u(rng, *x.shape) if name == "icdf" else x
        try:
            expected = getattr(local, name)(argument)
        except NotImplementedError:
            continue
        close(getattr(remote, name)(device.send(argument)), expected)
        compared += 1
    assert compared >= 1


def test_gradients_of_densities(pair, device):
    local, remote = pair
    x = value_of(local)
    grads = []
    for distribution, place in ((local, chainer.get_device("@numpy")), (remote, device)):
        variables = [v for v in distribution.params.values() if v is not None]
        if not all(isinstance(v, chainer.Variable) for v in variables):
            pytest.skip("Chainer takes its parameters as they are")
        given = {k: chainer.Variable(v.array) for k, v in distribution.params.items()}
        again = type(distribution)(**given)
        F.sum(again.log_prob(place.send(x))).backward()
        grads.append([v.grad for v in given.values()])
    for a, b in zip(*grads, strict=True):
        close(b, a) if a is not None else None


def test_samples_are_the_device_s(pair):
    local, remote = pair
    chx.random.seed(3)
    sample = remote.sample(N)
    values = chx.to_numpy(sample.array)
    assert values.shape == (N, *np.shape(local.sample().array))
    chx.random.seed(3)
    np.random.seed(3)
    before = np.random.get_state()
    np.testing.assert_array_equal(chx.to_numpy(remote.sample(N).array), values)
    for a, b in zip(np.random.get_state(), before, strict=True):
        np.testing.assert_array_equal(a, b)  # nothing was drawn here
    expected = local.sample(N).array.astype("d")
    if type(local).__name__ == "Cauchy":  # without a mean
        np.testing.assert_allclose(np.median(values, 0), np.median(expected, 0), atol=0.05)
        return
    spread = expected.std(0) + 0.05
    assert (np.abs(values.mean(0) - expected.mean(0)) < 0.1 * spread).all()
    np.testing.assert_allclose(values.std(0), expected.std(0), rtol=0.25, atol=0.02)


FORMS = {
    "Normal": lambda loc, scale: {"loc": loc, "log_scale": np.log(scale)},
    "Uniform": lambda loc, scale: {"loc": loc, "scale": scale},
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("dtype", ["e", "f", "d"])
def test_samples_of_other_forms(name, dtype, rng, device):
    """Of other parameters than the usual, and other dtypes, with gradients."""
    loc, scale = (rng.uniform(0.5, 2, (2, 3)).astype(dtype) for _ in range(2))
    parameters = {k: np.asarray(v, dtype) for k, v in FORMS[name](loc, scale).items()}
    given = {k: chainer.Variable(device.send(v)) for k, v in parameters.items()}
    sample = getattr(D, name)(**given).sample((N // 2,))
    assert sample.dtype == dtype and sample.shape == (N // 2, 2, 3)
    values = chx.to_numpy(sample.array).astype("d")
    noise = (values - loc) / scale
    if name == "Uniform":
        slack = 4 * np.finfo(dtype).eps / scale.min()
        assert (noise > -slack).all() and (noise < 1 + slack).all()
        mean, variance, fourth = 0.5, 1 / 12, 1 / 80
    else:
        mean, variance, fourth = 0, 1, 3
    count = noise.size
    assert abs(noise.mean() - mean) < 5 * (variance / count) ** 0.5 + 1e-3
    spread = ((noise - mean) ** 2).mean()
    assert abs(spread - variance) < 5 * ((fourth - variance**2) / count) ** 0.5 + 2e-3
    F.sum(sample * device.send(np.full((N // 2, 2, 3), 1 / 128, dtype))).backward()
    expected = values.shape[0] / 128
    np.testing.assert_allclose(chx.to_numpy(given["loc"].grad), expected, rtol=1e-2)


def test_divergences(pair):
    local, remote = pair
    try:
        expected = chainer.kl_divergence(local, local)
    except (KeyError, NotImplementedError):
        pytest.skip("not in Chainer")
    close(chainer.kl_divergence(remote, remote), expected)


def test_independent(rng, device):
    loc, scale = u(rng, 2, 3), u(rng, 2, 3)
    local = D.Independent(D.Normal(loc, scale))
    remote = D.Independent(D.Normal(device.send(loc), device.send(scale)))
    x = u(rng, 2, 3)
    close(remote.log_prob(device.send(x)), local.log_prob(x))
    close(remote.mean, local.mean)
    close(remote.entropy, local.entropy)
