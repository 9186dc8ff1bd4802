"""chainer.functions.connection."""

import chainer.functions as F

from cases import case, ints, u

case("bilinear", F.bilinear, [(3, 2), (3, 4), (2, 4, 5)], single=True)
case("bilinear", F.bilinear, [(3, 2), (3, 4), (2, 4, 5), (2, 5), (4, 5), (5,)], single=True)
case(
    "convolution_1d", lambda x, w, b: F.convolution_1d(x, w, b, 2, 1), [(2, 3, 8), (4, 3, 3), (4,)]
)
case(
    "convolution_2d",
    lambda x, w: F.convolution_2d(x, w, None, 2, 1, True),
    [(2, 3, 6, 5), (4, 3, 3, 2)],
)
case(
    "convolution_2d",
    lambda x, w, b: F.convolution_2d(x, w, b, (1, 2), (2, 1), dilate=(2, 1), groups=2),
    [(2, 4, 6, 5), (6, 2, 3, 2), (6,)],
)
case(
    "convolution_2d",
    lambda x, w, b: F.convolution_2d(x, w, b, 2, 1, groups=3),
    [(2, 6, 7, 5), (9, 2, 3, 3), (9,)],
    single=True,
)
case(
    "convolution_2d",
    lambda x, w: F.convolution_2d(x, w, None, (2, 1), (1, 2), dilate=(1, 2), groups=4),
    [(2, 4, 6, 7), (8, 1, 3, 2)],
    single=True,
)
# cover_all with windows that it adds, and where it adds none.
for _size in (6, 7):
    case(
        "convolution_2d",
        lambda x, w, b: F.convolution_2d(x, w, b, 2, 0, True, dilate=2, groups=2),
        [(2, 4, _size, _size), (4, 2, 2, 2), (4,)],
    )
case(
    "convolution_3d",
    lambda x, w: F.convolution_3d(x, w, None, 1, 1),
    [(1, 2, 4, 3, 4), (2, 2, 2, 2, 3)],
)
case(
    "convolution_3d",
    lambda x, w, b: F.convolution_3d(x, w, b, 1, (0, 1, 2), dilate=(1, 2, 1), groups=2),
    [(1, 4, 3, 5, 4), (4, 2, 2, 2, 3), (4,)],
    single=True,
)
case(
    "convolution_nd",
    lambda x, w, b: F.convolution_nd(x, w, b, 1, 1, dilate=2, groups=2),
    [(2, 4, 7), (4, 2, 3), (4,)],
)
case("deconvolution_1d", lambda x, w: F.deconvolution_1d(x, w, None, 2, 1), [(2, 3, 4), (3, 4, 3)])
case(
    "deconvolution_2d",
    lambda x, w, b: F.deconvolution_2d(x, w, b, 2, 1),
    [(2, 3, 4, 3), (3, 4, 3, 2), (4,)],
)
case(
    "deconvolution_2d",
    lambda x, w: F.deconvolution_2d(x, w, None, 2, 1, (6, 5), dilate=2, groups=3),
    [(2, 3, 3, 3), (3, 2, 2, 2)],
)
case("deconvolution_3d", lambda x, w: F.deconvolution_3d(x, w), [(1, 2, 3, 2, 2), (2, 3, 2, 2, 2)])
case(
    "deconvolution_nd",
    lambda x, w: F.deconvolution_nd(x, w, None, 2, 1, groups=2),
    [(2, 4, 4), (4, 1, 3)],
)
case(
    "deconvolution_nd",
    lambda x, w: F.deconvolution_nd(x, w, None, 2, 1, (8, 6)),
    [(2, 2, 4, 3), (2, 3, 3, 3)],
)
case("depthwise_convolution_2d", F.depthwise_convolution_2d, [(2, 3, 5, 4), (2, 3, 3, 2), (6,)])
case(
    "deformable_convolution_2d_sampler",
    lambda x, o, w: F.deformable_convolution_2d_sampler(x, o, w, None, 1, 1),
    lambda r: [u(r, 2, 3, 5, 4), u(r, 2, 18, 5, 4), u(r, 4, 3, 3, 3)],
    double=False,
)
case(
    "dilated_convolution_2d",
    lambda x, w: F.dilated_convolution_2d(x, w, None, 1, 1, 2),
    [(2, 3, 7, 6), (4, 3, 3, 2)],
)
case("embed_id", F.embed_id, lambda r: [ints(r, 5, 3, 2), u(r, 5, 4)])
case(
    "embed_id",
    lambda x, w: F.embed_id(x, w, ignore_label=-1),
    lambda r: [ints(r, 5, 8, low=-1), u(r, 5, 4)],
)
case("linear", F.linear, [(3, 4), (5, 4), (5,)])
case("linear", lambda x, w: F.linear(x, w, n_batch_axes=2), [(2, 3, 4), (5, 4)])
case(
    "local_convolution_2d",
    lambda x, w, b: F.local_convolution_2d(x, w, b, (2, 1)),
    [(2, 3, 5, 4), (4, 2, 3, 3, 3, 2), (4, 2, 3)],
    double=False,
)


def _weights(n_layers, directions, inputs, hidden, gates):
    """Shapes of the weights and biases of an RNN, flat."""
    shapes = []
    for layer in range(n_layers):
        for _ in range(directions):
            for gate in range(2 * gates):
                first = inputs if layer == 0 else hidden * directions
                shapes.append((hidden, first if gate < gates else hidden))
    return shapes, [shape[:1] for shape in shapes]


def _rnn(name, states, gates, directions, *options):
    layers, inputs, hidden, lengths = 2, 3, 2, (3, 2, 2)
    ws, bs = _weights(layers, directions, inputs, hidden, gates)
    state = (layers * directions, len(lengths), hidden)

    def call(*xs):
        xs = list(xs)

        def take(n):
            taken, xs[:] = xs[:n], xs[n:]
            return taken

        given = take(states)
        per = 2 * gates
        weights, biases = take(len(ws)), take(len(bs))
        weights = [weights[i : i + per] for i in range(0, len(weights), per)]
        biases = [biases[i : i + per] for i in range(0, len(biases), per)]
        *made, ys = getattr(F, name)(layers, 0.0, *given, weights, biases, xs, *options)
        return (*made, *ys)

    shapes = [state] * states + ws + bs + [(n, inputs) for n in lengths]
    # Double backprop of these takes NumPy's Chainer long.
    case(name, call, shapes, double=False)


for _directions, _prefix in ((1, "n_step_"), (2, "n_step_bi")):
    _rnn(_prefix + "gru", 1, 3, _directions)
    _rnn(_prefix + "lstm", 2, 4, _directions)
    _rnn(_prefix + "rnn", 1, 1, _directions, "tanh")
    _rnn(_prefix + "rnn", 1, 1, _directions, "relu")

case("shift", F.shift, (2, 11, 4, 5))
case("shift", lambda x: F.shift(x, (1, 3), (1, 2)), (2, 7, 4, 5))
