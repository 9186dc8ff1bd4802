"""chainer.functions.pooling."""

import chainer.functions as F
import numpy as np

from cases import case, grid, u

case("average_pooling_1d", lambda x: F.average_pooling_1d(x, 3, 2, 1), (2, 3, 7))
case("average_pooling_2d", lambda x: F.average_pooling_2d(x, (3, 2), 2, 1), (2, 3, 7, 6))
case("average_pooling_3d", lambda x: F.average_pooling_3d(x, 2), (1, 2, 4, 5, 4))
case("average_pooling_nd", lambda x: F.average_pooling_nd(x, 3, 1, 1, pad_value=None), (2, 3, 5))


def tied(r, *shape):
    return [r.permutation(int(np.prod(shape))).reshape(shape) * 0.1]


case("max_pooling_1d", lambda x: F.max_pooling_1d(x, 3, 2, 1), lambda r: tied(r, 2, 3, 7))
case("max_pooling_2d", lambda x: F.max_pooling_2d(x, 2), lambda r: tied(r, 2, 3, 7, 6))
case(
    "max_pooling_2d",
    lambda x: F.max_pooling_2d(x, 3, 2, 1, False, True),
    lambda r: tied(r, 2, 3, 7, 6),
)
case("max_pooling_2d", lambda x: F.max_pooling_2d(x, 3, 2, 1), lambda r: [grid(r, 2, 3, 7, 6)])
case(
    "max_pooling_3d",
    lambda x: F.max_pooling_3d(x, 2, cover_all=False),
    lambda r: tied(r, 1, 2, 5, 4, 4),
)
case(
    "max_pooling_nd",
    lambda x: F.max_pooling_nd(x, 2, return_indices=True),
    lambda r: tied(r, 2, 3, 7),
)


def _rois(columns):
    boxes = np.array([[0, 1, 5, 7], [2, 0, 3.5, 9], [3, 3, 3, 3], [6, 7, 11, 9]], "d")
    return boxes[:, columns]


def _regions(r):
    return [u(r, 3, 2, 8, 9), _rois([0, 1, 2, 3]), np.array([0, 2, 1, 2], "i")]


for _scale in (1.0, 0.6):
    case(
        "roi_pooling_2d",
        lambda x, b, s=_scale: F.roi_pooling_2d(x, b.array, 3, 2, s),
        lambda r: [
            u(r, 3, 2, 8, 9),
            np.concatenate([[[0], [2], [1], [2]], _rois([0, 1, 2, 3])], 1),
        ],
        double=False,
    )
    for _name in (
        "roi_average_align_2d",
        "roi_average_pooling_2d",
        "roi_max_align_2d",
        "roi_max_pooling_2d",
    ):
        case(
            _name,
            lambda x, b, i, n=_name, s=_scale: getattr(F, n)(x, b.array, i, (3, 2), s),
            _regions,
            double=False,
            single="align" in _name,
        )
for _name in ("roi_average_align_2d", "roi_max_align_2d"):
    case(
        _name,
        lambda x, b, i, n=_name: getattr(F, n)(x, b.array, i, 2, 0.7, (2, 3)),
        _regions,
        double=False,
        single=True,
    )
case(
    "spatial_pyramid_pooling_2d",
    lambda x: F.spatial_pyramid_pooling_2d(x, 3, "max"),
    lambda r: tied(r, 2, 3, 9, 8),
)
case("unpooling_1d", lambda x: F.unpooling_1d(x, 3, 2), (2, 3, 4))
case("unpooling_2d", lambda x: F.unpooling_2d(x, 2, cover_all=False), (2, 3, 4, 3))
case("unpooling_2d", lambda x: F.unpooling_2d(x, 3, 2, 1, (7, 6)), (2, 3, 4, 4))
case("unpooling_3d", lambda x: F.unpooling_3d(x, 2), (1, 2, 3, 2, 2))
case("unpooling_nd", lambda x: F.unpooling_nd(x, 2, 2, cover_all=False), (2, 3, 4))


def _upsample(x, y):
    _, indices = F.max_pooling_2d(x, 2, 2, return_indices=True)
    return F.upsampling_2d(y, indices, 2, 2, outsize=x.shape[2:])


case("upsampling_2d", _upsample, lambda r: [*tied(r, 2, 3, 6, 4), u(r, 2, 3, 3, 2)])
case(
    "forget",
    lambda x, y: F.forget(lambda a, b: (a + b) * F.exp(a), x, y),
    [(3, 4), (3, 4)],
    double=False,
)
