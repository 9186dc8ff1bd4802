"""Steps of optimizers: lists of two parameters, the second one transposed. References are written
from the formulas of the papers as Chainer states them, in float64."""

import numpy as np

from ..table import FLOATS, row

SHAPES = [(3, 4), (5,)]


def lists_of(arrays, count):
    """Arrays alternate between the two places of the lists."""
    return [[arrays[2 * i], arrays[2 * i + 1]] for i in range(count)]


def step(op, written, reference, *attrs, positive=(), count):
    """A row whose operator takes `count` lists and writes those at `written`.

    positive: lists whose elements are not negative. reference(lists' elements, *attrs) -> new ones.
    """

    def call(chx, *arrays):
        lists = lists_of([a.copy() for a in arrays], count)
        # Neither C order nor dense: the engine sees to it.
        lists[0][0] = lists[0][0].T.copy().T
        getattr(chx.optimizers, op)(*lists, *attrs)
        return [a for i in written for a in lists[i]]

    def ref(*arrays):
        lists = lists_of([a.astype(np.float64) for a in arrays], count)
        for k in range(2):
            new = reference(*[values[k] for values in lists], *attrs)
            new = new if isinstance(new, tuple) else (new,)
            for i, value in zip(written, new, strict=True):
                lists[i][k] = value
        return [a.astype(arrays[0].dtype) for i in written for a in lists[i]]

    domains = [(0.5, 2.0) if i in positive else (-2.0, 2.0) for i in range(count) for _ in SHAPES]
    row(op, call, ref, SHAPES * count, domain=domains)


def momentum(p, g, v, lr, m):
    v = m * v - lr * g
    return p + v, v


def corrected(p, g, v, lr, m):
    v = m * v - g
    return p + lr * v, v


def nesterov(p, g, v, lr, m):
    v = m * v - lr * g
    return p + m * m * v - (1 + m) * lr * g, v


def ada_grad(p, g, h, lr, eps):
    h = h + g * g
    return p - lr * g / (np.sqrt(h) + eps), h


def ada_delta(p, g, msg, msdx, rho, eps):
    msg = rho * msg + (1 - rho) * g * g
    dx = np.sqrt((msdx + eps) / (msg + eps)) * g
    return p - dx, msg, rho * msdx + (1 - rho) * dx * dx


def adam(p, g, m, v, rate, beta1, beta2, eps, eta, decay, lower=-np.inf, upper=np.inf):
    m = m + (1 - beta1) * (g - m)
    v = v + (1 - beta2) * (g * g - v)
    step = np.clip(rate / (np.sqrt(v) + eps), lower, upper)
    return p - eta * (step * m + decay * p), m, v


def amsgrad(p, g, m, v, vhat, rate, beta1, beta2, eps, eta, decay, lower=-np.inf, upper=np.inf):
    m = m + (1 - beta1) * (g - m)
    v = v + (1 - beta2) * (g * g - v)
    vhat = np.maximum(v, vhat)
    step = np.clip(rate / (np.sqrt(vhat) + eps), lower, upper)
    return p - eta * (step * m + decay * p), m, v, vhat


def rmsprop(p, g, ms, lr, alpha, eps, inside=False):
    ms = alpha * ms + (1 - alpha) * g * g
    return p - lr * g / (np.sqrt(ms + eps) if inside else np.sqrt(ms) + eps), ms


def graves(p, g, n, mean, delta, lr, alpha, m, eps):
    n = alpha * n + (1 - alpha) * g * g
    mean = alpha * mean + (1 - alpha) * g
    delta = m * delta - lr * g / np.sqrt(n - mean * mean + eps)
    return p + delta, n, mean, delta


def smorms3(p, g, mem, mean, square, lr, eps):
    r = 1 / (mem + 1)
    mean = (1 - r) * mean + r * g
    square = (1 - r) * square + r * g * g
    x = mean * mean / (square + eps)
    p = p - g * np.minimum(x, lr) / (np.sqrt(square) + eps)
    return p, 1 + mem * (1 - x), mean, square


def msvag(p, g, m, v, lr, beta, eta, decay, power):
    rho = (1 - beta) ** 2 * (1 - power**2) / ((1 - power) ** 2 * (1 - beta**2))
    rho = min(rho, 0.9999)
    m = m + (1 - beta) * (g - m)
    v = v + (1 - beta) * (g * g - v)
    mt, vt = m / (1 - power), v / (1 - power)
    s = (vt - mt**2) / (1 - rho)
    factor = np.nan_to_num(np.clip(mt**2 / (mt**2 + rho * s), 0, 1))
    return p - eta * (lr * mt * factor + decay * p), m, v


ADAM = (0.01, 0.9, 0.99, 1e-3, 0.7, 0.02)
step("sgd_update", [0], lambda p, g, lr: p - lr * g, 0.3, count=2)
step("momentum_sgd_update", [0, 2], momentum, 0.3, 0.9, count=3)
step("corrected_momentum_sgd_update", [0, 2], corrected, 0.3, 0.9, count=3)
step("nesterov_ag_update", [0, 2], nesterov, 0.3, 0.9, count=3)
step("ada_grad_update", [0, 2], ada_grad, 0.3, 1e-3, positive=[2], count=3)
step("ada_delta_update", [0, 2, 3], ada_delta, 0.9, 1e-3, positive=[2, 3], count=4)
step("adam_update", [0, 2, 3], adam, *ADAM, positive=[3], count=4)
step("adam_update", [0, 2, 3], adam, *ADAM, 0.007, 0.009, positive=[3], count=4)
step("amsgrad_update", [0, 2, 3, 4], amsgrad, *ADAM, positive=[3, 4], count=5)
step("amsgrad_update", [0, 2, 3, 4], amsgrad, *ADAM, 0.007, 0.009, positive=[3, 4], count=5)
step("rmsprop_update", [0, 2], rmsprop, 0.1, 0.9, 1e-3, positive=[2], count=3)
step("rmsprop_update", [0, 2], rmsprop, 0.1, 0.9, 1e-3, True, positive=[2], count=3)
# With this eps no root is of a negative number: n may be below the square of g here.
step("rmsprop_graves_update", [0, 2, 3, 4], graves, 0.1, 0.9, 0.8, 5.0, positive=[2], count=5)
step("smorms3_update", [0, 2, 3, 4], smorms3, 0.1, 1e-3, positive=[2, 4], count=5)
step("msvag_update", [0, 2, 3], msvag, 0.1, 0.9, 0.7, 0.02, 0.81, positive=[3], count=4)
step("weight_decay", [0], lambda g, p, rate: g + rate * p, 0.3, count=2)
step("lasso", [0], lambda g, p, rate: g + rate * np.sign(p), 0.3, count=2)
step("moving_average", [0], lambda a, p, decay: decay * a + (1 - decay) * p, 0.9, count=2)
step("gradient_hard_clipping", [0], lambda g, low, high: np.clip(g, low, high), -1.0, 0.5, count=1)


def rows_twice(chx, table, rates, indices):
    """Two steps of SGD by rows: the second one is the recording's plan."""
    table, rates = table.as_grad_stopped(copy=True).require_grad(), rates.as_grad_stopped()
    optimizer = chx.optimizers.SGD(lr=0.3).setup([table])

    @chx.jit
    def step():
        chx.sum(chx.take(table, indices, 0) * rates).backward()
        optimizer.update()
        optimizer.cleargrads()
        return chx.sum(table)

    step()
    step()
    return table.as_grad_stopped()


def rows_added(table, rates, indices):
    grad = np.zeros(table.shape)
    np.add.at(grad, indices, rates.astype(np.float64))
    return (table - 2 * 0.3 * grad).astype(table.dtype)


row(
    "sgd_update_rows",
    rows_twice,
    rows_added,
    [(5, 3), (8, 3), (8,)],
    dtypes=[FLOATS, FLOATS, ("int64",)],
    domain=[(-2, 2), (-2, 2), lambda rng, shape: rng.integers(-5, 5, shape)],
    same_dtypes=False,
)


def lars(g, p, threshold, decay, eps):
    p_norm, g_norm = np.linalg.norm(p), np.linalg.norm(g)
    rate = p_norm / (eps + g_norm + decay * p_norm) if p_norm > threshold else 1.0
    return (g + decay * p) * rate


step("gradient_lars", [0], lars, 0.01, 0.1, 1e-3, count=2)
step("gradient_lars", [0], lars, 100.0, 0.1, 1e-3, count=2)


def clipping(threshold):
    def call(chx, *arrays):
        grads = [a.copy() for a in arrays]
        chx.optimizers.gradient_clipping(grads, threshold)
        return grads

    def ref(*arrays):
        wide = [a.astype(np.float64) for a in arrays]
        norm = np.sqrt(sum((a * a).sum() for a in wide))
        return [(a * min(threshold / norm, 1.0)).astype(arrays[0].dtype) for a in wide]

    row("gradient_clipping", call, ref, SHAPES)


clipping(1.5)
clipping(1e4)


def all_finite(chx, *arrays):
    bad = arrays[1].copy()
    bad[2] = float("nan")
    return [chx.optimizers.all_finite(arrays), chx.optimizers.all_finite([arrays[0], bad])]


row(
    "all_finite",
    all_finite,
    lambda *arrays: [np.array(True), np.array(False)],
    SHAPES,
    exact=True,
)
