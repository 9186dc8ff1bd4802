"""chainer.functions.evaluation."""

import chainer.functions as F
import numpy as np

from cases import case, grid, ints, u


def evaluation(name, call, inputs):
    case(name, call, inputs, grads=False, double=False)


def labels(rng):
    return [u(rng, 12, 3), np.append(ints(rng, 3, 9), [0, 1, 2]).astype("i")]


evaluation("accuracy", F.accuracy, labels)
evaluation("accuracy", lambda y, t: F.accuracy(y, t, 1), labels)
evaluation("accuracy", F.accuracy, lambda r: [u(r, 4, 3, 2), ints(r, 3, 4, 2)])
evaluation(
    "binary_accuracy", F.binary_accuracy, lambda r: [grid(r, 4, 5), ints(r, 2, 4, 5, low=-1)]
)
evaluation("classification_summary", lambda y, t: F.classification_summary(y, t, 3), labels)
evaluation(
    "classification_summary", lambda y, t: F.classification_summary(y, t, None, 2.0, 1), labels
)
evaluation("f1_score", F.f1_score, labels)
evaluation("precision", F.precision, labels)
evaluation("recall", F.recall, labels)
evaluation("r2_score", F.r2_score, lambda r: [u(r, 6, 3), u(r, 6, 3)])
evaluation(
    "r2_score",
    lambda y, t: F.r2_score(y, t, multioutput="raw_values"),
    lambda r: [u(r, 6, 3), grid(r, 1, 3) + np.zeros((6, 1))],
)
