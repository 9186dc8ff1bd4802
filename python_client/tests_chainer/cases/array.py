"""chainer.functions.array."""

import chainer
import chainer.functions as F
import numpy as np

from cases import case, distinct, ints, u

xp = chainer.backend.get_array_module

case("as_strided", lambda x: F.as_strided(x, (3, 2), (1, 1), 0), (6,), double=False)
case("as_strided", lambda x: F.as_strided(x, (2, 3), (0, 2), 1), (2, 4), double=False)
case("broadcast", F.broadcast, [(3, 1), (1, 4), (3, 4)])
case("broadcast_to", lambda x: F.broadcast_to(x, (2, 3, 4)), (3, 1))
case("cast", lambda x: F.cast(x, "float32"), (3, 4), tolerance=1e-6)
case("cast", lambda x: F.cast(x, "float64"), (3, 4))
case("concat", lambda *xs: F.concat(xs, axis=1), [(2, 3), (2, 1), (2, 2)])
case("copy", lambda x: F.copy(x, chainer.backend.get_device_from_array(x.array)), (3, 4))
case("depth2space", lambda x: F.depth2space(x, 2), (2, 8, 3, 2))
case("diagonal", lambda x: F.diagonal(x, 1, 0, 2), (3, 2, 4))
case("dstack", lambda *xs: F.dstack(xs), [(2, 3), (2, 3)])
case("expand_dims", lambda x: F.expand_dims(x, -1), (2, 3))
case("flatten", F.flatten, (2, 3, 2))
case("flip", lambda x: F.flip(x, 1), (2, 3))
case("fliplr", F.fliplr, (2, 3))
case("flipud", F.flipud, (2, 3))
case("get_item", lambda x: F.get_item(x, (slice(None, None, 2), Ellipsis, None, -1)), (3, 2, 4))
case("get_item", lambda x: x[1, ::-1], (3, 2, 4))
case("get_item", lambda x: x[[2, 0, 2]], (3, 2))
case("get_item", lambda x: x[:, np.array([1, 1, 0])], (3, 2))
case("get_item", lambda x: x[np.array([2, 0]), :, np.array([[1], [3]])], (3, 2, 4))
case("get_item", lambda x: x[1:, (0, 2)], (3, 4))
case("get_item", lambda x: x[(0, 2),], (3, 4))
case("get_item", lambda x: x[range(2)], (3, 4))
case("get_item", lambda x: x[range(1, 3), None, (True, False, True)], (3, 3, 2))
case("get_item", lambda x: x[True], (3, 2))
case("get_item", lambda x: x[:, np.True_, (1, 1)], (3, 2))
case("get_item", lambda x: x[((0, 1), (2, 0)),], (3, 2))
case("get_item", lambda x, i: x[i], lambda r: [u(r, 3, 2), ints(r, 3, 5)])
case("hstack", lambda *xs: F.hstack(xs), [(2, 3), (2, 1)])
case("hstack", lambda *xs: F.hstack(xs), [(2,), (1,)])
case("im2col", lambda x: F.im2col(x, 3, 2, 1), (2, 3, 5, 6))
case("im2col", lambda x: F.im2col(x, (2, 3), (1, 2), (0, 1), True, (2, 1)), (2, 2, 5, 6))
case("moveaxis", lambda x: F.moveaxis(x, (0, 2), (1, 0)), (2, 3, 4))
case("pad", lambda x: F.pad(x, ((1, 2), (0, 1)), "constant"), (2, 3))
case("pad", lambda x: F.pad(x, 2, "constant", constant_values=1.5), (2, 3))
case("pad_sequence", lambda *xs: F.pad_sequence(xs), [(3, 2), (1, 2), (4, 2)])
case("pad_sequence", lambda *xs: F.pad_sequence(xs, 5, -1), [(3, 2), (1, 2), (4, 2)])
case(
    "permutate",
    lambda x, i: F.permutate(x, i),
    lambda r: [u(r, 4, 2), r.permutation(4).astype("i")],
)
case(
    "permutate",
    lambda x, i: F.permutate(x, i, 1, True),
    lambda r: [u(r, 2, 4), r.permutation(4).astype("i")],
)
case("repeat", lambda x: F.repeat(x, 3, 1), (2, 3))
case("repeat", lambda x: F.repeat(x, (2, 0, 1), 1), (2, 3))
case("repeat", lambda x: F.repeat(x, 2), (2, 3))
case("reshape", lambda x: F.reshape(x, (3, -1)), (2, 6))
case("resize_images", lambda x: F.resize_images(x, (7, 4)), (2, 3, 5, 6), single=True)
case(
    "resize_images",
    lambda x: F.resize_images(x, (3, 9), align_corners=False),
    (2, 3, 5, 6),
    single=True,
)
case(
    "resize_images",
    lambda x: F.resize_images(x, (3, 9), mode="nearest", align_corners=False),
    (2, 3, 5, 6),
    single=True,
)
# NumPy's positions are rounded: some elements are read before the exact ones.
case(
    "resize_images",
    lambda x: F.resize_images(x, (22, 66), mode="nearest"),
    (1, 2, 30, 18),
    single=True,
)
case(
    "resize_images",
    lambda x: F.resize_images(x, (10, 3), mode="nearest"),
    (2, 3, 5, 6),
    single=True,
)
# Arrays, of which no gradients are asked.
for _corners in (True, False):
    for _outs in ((7, 4), (1, 9), (5, 12), (10, 6)):
        case(
            "resize_images",
            lambda x, o=_outs, c=_corners: F.resize_images(x.array, o, align_corners=c),
            (2, 3, 5, 6),
            single=True,
            grads=False,
        )
case("rollaxis", lambda x: F.rollaxis(x, 2, 1), (2, 3, 4))
case("scatter_add", lambda a, b: F.scatter_add(a, ([0, 2, 0],), b), [(3, 2), (3, 2)])
case("scatter_add", lambda a, b: F.scatter_add(a, (slice(1, 3), 0), b), [(3, 2), (2,)])
case("select_item", F.select_item, lambda r: [u(r, 4, 3), ints(r, 3, 4)])
case("separate", lambda x: F.separate(x, 1), (2, 3, 4))
case("space2depth", lambda x: F.space2depth(x, 2), (2, 3, 4, 6))
case(
    "spatial_transformer_grid",
    lambda x: F.spatial_transformer_grid(x, (3, 4)),
    (2, 2, 3),
    double=False,
)
case(
    "spatial_transformer_sampler",
    F.spatial_transformer_sampler,
    lambda r: [u(r, 2, 3, 5, 6), u(r, 2, 2, 4, 3) * 1.6],
    double=False,
)
case("split_axis", lambda x: F.split_axis(x, [1, 3], 1), (2, 4))
case("split_axis", lambda x: F.split_axis(x, 2, 0), (2, 4))
case("squeeze", lambda x: F.squeeze(x, 1), (2, 1, 3, 1))
case("squeeze", F.squeeze, (2, 3))
case("stack", lambda *xs: F.stack(xs, 1), [(2, 3), (2, 3)])
case("swapaxes", lambda x: F.swapaxes(x, 0, 2), (2, 3, 4))
case("tile", lambda x: F.tile(x, (2, 1, 2)), (2, 3))
case("transpose", lambda x: F.transpose(x, (1, 2, 0)), (2, 3, 4))
case("transpose_sequence", lambda *xs: F.transpose_sequence(xs), [(4, 2), (2, 2), (1, 2)])
case("vstack", lambda *xs: F.vstack(xs), [(2, 3), (1, 3)])
case("where", lambda x, y, z: F.where(z.array > 0, x, y), [(2, 3), (2, 3), (2, 3)])
case(
    "where",
    lambda x, y, z: F.where(z.array > 0, x, y),
    lambda r: [u(r, 2, 3), u(r, 2, 3), distinct(r, 2, 3)],
)
