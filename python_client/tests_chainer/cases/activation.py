"""chainer.functions.activation."""

import chainer.functions as F

from cases import case, distinct, grid, u

case("clipped_relu", lambda x: F.clipped_relu(x, 1.0), lambda r: [grid(r, 20, 20)])
case("crelu", F.crelu, lambda r: [distinct(r, 2, 3, 2)])
case("crelu", lambda x: F.crelu(x, 2), lambda r: [distinct(r, 2, 3, 2)])
case("elu", lambda x: F.elu(x, 0.7), lambda r: [distinct(r, 4, 5) - 0.03])
case("hard_sigmoid", F.hard_sigmoid, lambda r: [grid(r, 4, 5) * 2])
case("leaky_relu", lambda x: F.leaky_relu(x, 0.1), lambda r: [grid(r, 4, 5)])
case("log_softmax", F.log_softmax, (3, 4, 2))
case("log_softmax", lambda x: F.log_softmax(x, axis=-1), (3, 4, 2))
case("lstm", F.lstm, [(3, 4), (3, 16)])
case("lstm", lambda c, x: F.lstm(c, x), [(4, 2), (3, 8)])
case("maxout", lambda x: F.maxout(x, 2), lambda r: [distinct(r, 3, 4, 2)])
case("prelu", F.prelu, lambda r: [distinct(r, 3, 4, 2) - 0.03, u(r, 4)])
case("prelu", F.prelu, lambda r: [distinct(r, 3, 4, 2) - 0.03, u(r)])
case("relu", F.relu, lambda r: [grid(r, 20, 20)])
case("relu6", F.relu6, lambda r: [grid(r, 20, 20) * 4])
case(
    "rrelu",
    lambda x, m: F.rrelu(x, r=m.array),
    lambda r: [distinct(r, 4, 5) - 0.03, u(r, 4, 5, low=0.2)],
)
case("selu", F.selu, lambda r: [distinct(r, 4, 5) - 0.03])
case("sigmoid", F.sigmoid, (4, 5))
case("slstm", F.slstm, [(3, 2), (3, 2), (3, 8), (3, 8)])
case("softmax", F.softmax, (3, 4, 2))
case("softmax", lambda x: F.softmax(x, axis=0), (3, 4, 2))
case("softplus", lambda x: F.softplus(x, 2.0), (4, 5))
case("swish", F.swish, [(3, 4, 2), (4,)])
case("tanh", F.tanh, (4, 5))
case("tree_lstm", F.tree_lstm, [(3, 2), (3, 2), (3, 10)], double=False)
