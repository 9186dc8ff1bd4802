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
