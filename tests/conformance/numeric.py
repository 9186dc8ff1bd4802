"""Gradients and double gradients against numerical ones, in float64: along random directions, and
element by element where one of those differs, which decides."""

import numpy as np

EPS = 1e-5

# Random directions along which gradients are checked; a wrong element shows in each of them.
DIRECTIONS = 3


def slope(f, x, direction):
    """The derivative of a scalar function at x along a direction, by central differences."""
    old = x.copy()
    x += EPS * direction
    high = f()
    x[...] = old - EPS * direction
    low = f()
    x[...] = old
    return (high - low) / (2 * EPS)


def is_slope(f, x, grad, direction):
    """Whether the gradient has the function's slope along the direction."""
    want = slope(f, x, direction)
    scale = max(1.0, np.linalg.norm(grad))
    return abs(np.vdot(grad, direction) - want) <= 1e-7 * scale


def numerical(f, x):
    """df/dx of a scalar function by central differences: each element, which is slow."""
    grad = np.zeros_like(x)
    it = np.nditer(x, flags=["multi_index", "zerosize_ok"])
    for _ in it:
        i = it.multi_index
        old = x[i]
        x[i] = old + EPS
        high = f()
        x[i] = old - EPS
        low = f()
        x[i] = old
        grad[i] = (high - low) / (2 * EPS)
    return grad


def check_gradients(chx, row, arrays, rng, double=False):
    """First gradients of sum(weights * outputs), or those of sum(weights * first gradients)."""
    out_weights = None
    grad_weights = [rng.uniform(0.5, 1.5, arrays[i].shape) for i in row.grad]

    def leaves():
        made = [chx.array(a) for a in arrays]
        for i in row.grad:
            made[i].require_grad()
        return made

    def objective(made):
        nonlocal out_weights
        result = row.call(chx, *made)
        outs = list(result) if isinstance(result, (list, tuple)) else [result]
        if out_weights is None:
            out_weights = [rng.uniform(0.5, 1.5, o.shape) for o in outs]
        total = None
        for out, weights in zip(outs, out_weights, strict=True):
            # tanh bends what would be linear, so that second derivatives are not all zero.
            term = (chx.tanh(out * 0.3) * chx.array(weights)).sum()
            total = term if total is None else total + term
        return total

    def first_gradients(made, enable_double):
        wanted = [made[i] for i in row.grad]
        return chx.grad([objective(made)], wanted, enable_double_backprop=enable_double)

    def penalty(made):
        grads = first_gradients(made, True)
        total = None
        for grad, weights in zip(grads, grad_weights, strict=True):
            term = (grad * chx.array(weights)).sum()
            total = term if total is None else total + term
        return total

    made = leaves()
    if double:
        target = penalty
        got = chx.grad([penalty(made)], [made[i] for i in row.grad])
    else:
        target = objective
        got = first_gradients(made, False)
    for i, grad in zip(row.grad, got, strict=True):
        assert grad is not None
        assert grad.shape == arrays[i].shape
        assert grad.dtype == arrays[i].dtype

        def value():
            return float(target(leaves()))

        if all(
            is_slope(value, arrays[i], chx.to_numpy(grad), direction)
            for direction in rng.uniform(-1, 1, (DIRECTIONS, *arrays[i].shape))
        ):
            continue
        want = numerical(value, arrays[i])
        scale = max(1.0, np.max(np.abs(want), initial=0.0))
        # Differences of gradients are less exact where these change fast, as beside equal singular
        # values.
        atol = (1e-5 if double else 1e-6) * scale
        np.testing.assert_allclose(chx.to_numpy(grad), want, rtol=1e-5, atol=atol)
