import itertools

import numpy as np

from ..table import FLOATS, row
from .loss_classes import log_softmax, reduced


def collapsed(path, blank):
    return [k for k, _ in itertools.groupby(path) if k != blank]


def ctc_loss(x, t, input_lengths, target_lengths, blank, reduction="none"):
    """By all paths: each way to name a class in each step."""
    losses = []
    for n in range(x.shape[1]):
        steps, wanted = input_lengths[n], list(t[n, : target_lengths[n]])
        total = 0.0
        for path in itertools.product(range(x.shape[2]), repeat=int(steps)):
            if collapsed(path, blank) == wanted:
                total += np.exp(sum(float(x[i, n, k]) for i, k in enumerate(path)))
        with np.errstate(divide="ignore"):
            losses.append(-np.log(total))
    losses = np.array(losses)
    if reduction == "mean":
        losses = losses / np.maximum(target_lengths, 1)
    return reduced(losses, len(losses), reduction, x.dtype)


# Lengths, targets and the blank: equal neighbours, no labels, no steps to spare.
CASES = {
    "plain": ([5, 4], [[1, 2], [2, 1]], [2, 2], 0),
    "repeated": ([5, 3], [[1, 1], [2, 2]], [2, 2], 0),
    "short": ([3, 5], [[2, 1], [0, 0]], [1, 0], 0),
    "last": ([4, 4], [[0, 1], [1, -7]], [2, 1], 2),
}
for name, (steps, targets, lengths, blank) in CASES.items():
    for reduction in ("none", "sum", "mean"):
        if reduction != "none" and name != "short":
            continue
        fixed = [np.array(steps), np.array(targets), np.array(lengths)]

        def call(chx, x, f=fixed, b=blank, r=reduction):
            steps, targets, lengths = (chx.array(a.astype("int32")) for a in f)
            return chx.ctc_loss(x, targets, steps, lengths, b, r)

        row(
            "ctc_loss",
            call,
            lambda x, f=fixed, b=blank, r=reduction: ctc_loss(x, f[1], f[0], f[2], b, r),
            [(5, 2, 3)],
            dtypes=[FLOATS],
            grad=[0],
            domain=lambda rng, shape: log_softmax(rng.normal(size=shape), 2),
            name=f"ctc_loss-{name}-{reduction}",
        )


def probability(x, t, steps, length):
    """Of the targets: forward variables, as probabilities."""
    labels = [0, *itertools.chain.from_iterable((k, 0) for k in t[:length])]
    alpha = [1.0, *[0.0] * (len(labels) - 1)]
    for step in range(steps):
        before, alpha = alpha, []
        for s, label in enumerate(labels):
            into = before[s] + (before[s - 1] if s > 0 and (step > 0 or s == 1) else 0)
            if step > 0 and s > 1 and label not in (0, labels[s - 2]):
                into += before[s - 2]
            alpha.append(into * np.exp(x[step, label]))
    return sum(alpha[-2:])


# More places than the kernel computes at once.
LONG = [np.array([[1, 2, 2, 3, 1, 2, 3, 3, 1], [3, 1, 3, 1, 2, 0, 0, 0, 0]]), [14, 11], [9, 5]]


def long_loss(x):
    return np.array([-np.log(probability(x[:, n], *(a[n] for a in LONG))) for n in range(2)])


def chx_long_loss(chx, x):
    targets, steps, lengths = (chx.array(np.asarray(a, "int32")) for a in LONG)
    return chx.ctc_loss(x, targets, steps, lengths, 0, "none")


def chx_long_grad(chx, gy, x):
    x = x.as_grad_stopped().require_grad()
    return chx.grad([chx_long_loss(chx, x)], [x], grad_outputs=[gy])


def long_grad(gy, x):
    """By imaginary steps."""
    at = x.astype("complex128")
    gradient = np.empty(x.shape)
    for i in np.ndindex(x.shape):
        at[i] += 1e-30j
        gradient[i] = (long_loss(at).imag * gy).sum() / 1e-30
        at[i] = x[i]
    return gradient.astype(x.dtype)


def log_probs(rng, shape):
    return log_softmax(rng.normal(size=shape), 2)


row(
    "ctc_forward",
    chx_long_loss,
    lambda x: long_loss(x.astype("float64")).astype(x.dtype),
    [(14, 2, 4)],
    dtypes=[FLOATS],
    domain=log_probs,
    name="ctc_forward-long",
)
row(
    "ctc_grad",
    chx_long_grad,
    long_grad,
    [(2,), (14, 2, 4)],
    dtypes=[("float32", "float64")] * 2,
    domain=[(-1, 1), log_probs],
    name="ctc_grad-long",
)
