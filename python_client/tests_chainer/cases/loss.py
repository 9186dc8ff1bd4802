"""chainer.functions.loss."""

import chainer.functions as F
import numpy as np

from cases import case, distinct, ints, u

PAIR = [(4, 3), (4, 3)]


def labelled(rng):
    return [u(rng, 6, 4), ints(rng, 4, 6)]


def ignoring(rng):
    t = ints(rng, 4, 6, low=-1)
    t[0] = -1
    return [u(rng, 6, 4), t]


case("absolute_error", F.absolute_error, PAIR)
case("bernoulli_nll", F.bernoulli_nll, PAIR)
case("black_out", F.black_out, lambda r: [u(r, 4, 3), ints(r, 5, 4), u(r, 5, 3), ints(r, 5, 4, 2)])
case(
    "connectionist_temporal_classification",
    lambda x, t: F.connectionist_temporal_classification(F.separate(x, 0), t, 0),
    lambda r: [u(r, 7, 3, 4), ints(r, 4, 3, 3, low=1)],
    double=False,
)
case(
    "connectionist_temporal_classification",
    lambda x, t, n, m: F.connectionist_temporal_classification(F.separate(x, 0), t, 2, n, m, "no"),
    lambda r: [u(r, 7, 3, 4), ints(r, 2, 3, 2), np.array([5, 7, 6], "i"), np.array([2, 1, 2], "i")],
    double=False,
)
# Labels padded with -1; without lengths, -1 is the last class. Then the blank among the labels.
case(
    "connectionist_temporal_classification",
    lambda x, t, n, m: F.connectionist_temporal_classification(F.separate(x, 0), t, 0, n, m),
    lambda r: [
        u(r, 8, 3, 5),
        np.array([[1, 2, 2], [4, 1, -1], [-1, -1, -1]], "i"),
        np.array([8, 4, 6], "i"),
        np.array([3, 2, 0], "i"),
    ],
    double=False,
)
case(
    "connectionist_temporal_classification",
    lambda x, t: F.connectionist_temporal_classification(F.separate(x, 0), t, 0, reduce="no"),
    lambda r: [u(r, 6, 2, 5), np.array([[1, -1, 2], [3, -1, -1]], "i")],
    double=False,
)
case(
    "connectionist_temporal_classification",
    lambda x, t: F.connectionist_temporal_classification(F.separate(x, 0), t, 1, reduce="no"),
    lambda r: [u(r, 6, 3, 4), np.array([[1, 0, 2], [1, 1, 3], [2, 1, 1]], "i")],
    double=False,
)
# Labels that no path gives. differences_test.py has the gradients.
for _reduce in ("mean", "no"):
    case(
        "connectionist_temporal_classification",
        lambda x, t, n, r=_reduce: F.connectionist_temporal_classification(
            F.separate(x, 0), t, 0, n, reduce=r
        ),
        lambda r: [
            u(r, 4, 3, 3),
            np.array([[1, 1, 1], [1, 2, 1], [2, 1, 2]], "i"),
            np.array([4, 3, 2], "i"),
        ],
        double=False,
        grads=False,
    )
case("contrastive", F.contrastive, lambda r: [u(r, 12, 3), u(r, 12, 3), ints(r, 2, 12)])
case(
    "contrastive",
    lambda *xs: F.contrastive(*xs, 2.0, "no"),
    lambda r: [u(r, 12, 3), u(r, 12, 3), ints(r, 2, 12)],
)


def _crf_inputs(rng):
    return [
        u(rng, 3, 3),
        u(rng, 3, 3),
        u(rng, 2, 3),
        u(rng, 2, 3),
        *[ints(rng, 3, n) for n in (3, 2, 2)],
    ]


case("crf1d", lambda c, *xs: F.crf1d(c, xs[:3], xs[3:]), _crf_inputs)
case("crf1d", lambda c, *xs: F.crf1d(c, xs[:3], xs[3:], "no"), _crf_inputs)


def _argmax(*arrays):
    score, path = F.argmax_crf1d(arrays[0], arrays[1:4])
    return (score, *path)


case("argmax_crf1d", _argmax, _crf_inputs, grads=False, double=False)
case("cross_covariance", F.cross_covariance, [(5, 3), (5, 2)])
case("cross_covariance", lambda y, z: F.cross_covariance(y, z, "no"), [(5, 3), (5, 2)])
case("decov", F.decov, (5, 3), double=False)
case("decov", lambda h: F.decov(h, "no"), (5, 3), double=False)
case(
    "discriminative_margin_based_clustering_loss",
    lambda x, t: F.discriminative_margin_based_clustering_loss(x, t, 0.5, 1.5, 3),
    # Chainer takes as many samples as there are dimensions.
    lambda r: [u(r, 3, 3, 4, 4), ints(r, 4, 3, 4, 4)],
    double=False,
)
case("gaussian_kl_divergence", F.gaussian_kl_divergence, PAIR)
case("gaussian_nll", lambda *xs: F.gaussian_nll(*xs, "mean"), [*PAIR, (4, 3)])
case("hinge", F.hinge, labelled, double=False)
case("hinge", lambda x, t: F.hinge(x, t, "L2", "no"), labelled, double=False)
case("huber_loss", lambda *xs: F.huber_loss(*xs, 0.5), PAIR)
case("huber_loss", lambda *xs: F.huber_loss(*xs, 0.5, "no"), PAIR)
case("mean_absolute_error", F.mean_absolute_error, PAIR)
case("mean_squared_error", F.mean_squared_error, PAIR)


class _Sampler:
    """The same samples at each call."""

    def __call__(self, shape):
        return (np.arange(np.prod(shape)).reshape(shape) * 7 % 5).astype("i")


case(
    "negative_sampling",
    lambda x, t, w: F.negative_sampling(x, t, w, _Sampler(), 3),
    lambda r: [u(r, 4, 3), np.append(ints(r, 5, 3), -1).astype("i"), u(r, 5, 3)],
    double=False,
)
case(
    "negative_sampling",
    lambda x, t, w: F.negative_sampling(x, t, w, _Sampler(), 2, "no"),
    lambda r: [u(r, 4, 3), ints(r, 5, 4), u(r, 5, 3)],
    double=False,
)
case(
    "sigmoid_cross_entropy",
    F.sigmoid_cross_entropy,
    lambda r: [u(r, 4, 3), ints(r, 2, 4, 3, low=-1)],
)
case(
    "sigmoid_cross_entropy",
    lambda x, t: F.sigmoid_cross_entropy(x, t, False),
    lambda r: [distinct(r, 4, 3) * 50, ints(r, 2, 4, 3)],
)
case(
    "sigmoid_cross_entropy",
    lambda x, t: F.sigmoid_cross_entropy(x, t, reduce="no"),
    lambda r: [u(r, 4, 3), ints(r, 2, 4, 3, low=-1)],
)
for _options in (
    {},
    {"normalize": False},
    {"reduce": "no"},
    {"ignore_label": 2},
    {"ignore_label": 0, "reduce": "no"},
):
    case(
        "softmax_cross_entropy",
        lambda x, t, o=_options: F.softmax_cross_entropy(x, t, **o),
        labelled if "ignore_label" in _options else ignoring,
        double=False,
    )
case(
    "softmax_cross_entropy",
    lambda x, t: F.softmax_cross_entropy(x, t, enable_double_backprop=True),
    ignoring,
)
case(
    "softmax_cross_entropy",
    F.softmax_cross_entropy,
    lambda r: [u(r, 2, 4, 3, 2), ints(r, 4, 2, 3, 2, low=-1)],
    double=False,
)
case(
    "softmax_cross_entropy",
    lambda x, t, w: F.softmax_cross_entropy(x, t, class_weight=w.array),
    lambda r: [*ignoring(r), u(r, 4, low=0.5)],
    double=False,
)
case(
    "softmax_cross_entropy",
    F.softmax_cross_entropy,
    lambda r: [np.zeros((3, 4)), np.full(3, -1, "i")],
    double=False,
)
for _kind in ("cross-entropy", "kl-divergence"):
    case(
        "softmax_cross_entropy",
        lambda x, t, k=_kind: F.softmax_cross_entropy(x, t.array, soft_target_loss=k),
        lambda r: [u(r, 6, 4), r.dirichlet(np.ones(4), 6)],
        double=False,
    )
case("squared_difference", F.squared_difference, PAIR)
case("squared_error", F.squared_error, PAIR)
case("triplet", F.triplet, [(40, 3)] * 3)
case("triplet", lambda *xs: F.triplet(*xs, 1.0, "no"), [(40, 3)] * 3)
