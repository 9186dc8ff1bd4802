"""rnn, lstm_layer and their gradients, against NumPy: each sequence for itself, cell by cell. The gradient's
reference are imaginary steps, which are exact but for rounding."""

import dataclasses

import numpy as np

from ..table import row

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cell(mode, w, x, h, c):
    """w: (weights for x, weights for h, biases for x, biases for h), each of all gates."""
    from_x, from_h = w[0] @ x + w[2], w[1] @ h + w[3]
    if mode == "lstm":
        i, f, a, o = from_x + from_h
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(a)
        return sigmoid(o) * np.tanh(c), c
    if mode == "gru":
        r, z = sigmoid(from_x[:2] + from_h[:2])
        return (1 - z) * np.tanh(from_x[2] + r * from_h[2]) + z * h, c
    y = (from_x + from_h)[0]
    return (np.tanh(y) if mode == "tanh" else np.where(y.real > 0, y, 0)), c


@dataclasses.dataclass
class Network:
    mode: str
    layers: int
    directions: int
    rows: tuple[int, ...]
    batch: int
    inputs: int = 2
    hidden: int = 2

    def __post_init__(self):
        self.states = 2 if self.mode == "lstm" else 1
        parts = self.layers * self.directions
        self.shapes = [(sum(self.rows), self.inputs)]
        self.shapes += [(parts, self.batch, self.hidden)] * self.states
        for part in range(parts):
            width = self.inputs if part < self.directions else self.directions * self.hidden
            for shape in ((width,), (self.hidden,), (), ()):
                self.shapes += [(self.hidden, *shape)] * GATES[self.mode]
        y = (sum(self.rows), self.directions * self.hidden)
        self.results = [y, *self.shapes[1 : 1 + self.states]]

    def call(self, chx, *arrays):
        return chx.rnn(arrays, self.rows, self.layers, self.directions, self.mode)

    def weights(self, arrays, part):
        gates = GATES[self.mode]
        first = 1 + self.states + part * 4 * gates
        return [np.stack(arrays[first + i * gates : first + (i + 1) * gates]) for i in range(4)]

    def forward(self, *arrays):
        x, hy, cy = arrays[0], arrays[1].copy(), arrays[self.states].copy()
        starts = np.cumsum([0, *self.rows])
        for layer in range(self.layers):
            y = np.zeros((len(x), self.directions * self.hidden), x.dtype)
            for direction in range(self.directions):
                part = layer * self.directions + direction
                w = self.weights(arrays, part)
                for n in range(self.batch):
                    steps = [t for t, rows in enumerate(self.rows) if n < rows]
                    for t in steps[::-1] if direction else steps:
                        at = starts[t] + n
                        h, c = cell(self.mode, w, x[at], hy[part, n], cy[part, n])
                        hy[part, n], cy[part, n] = h, c
                        y[at, direction * self.hidden : (direction + 1) * self.hidden] = h
            x = y
        return [x, hy, cy][: 1 + self.states]


def gradients_of(chx, network, arrays):
    count = len(network.shapes)
    inputs = [a.as_grad_stopped().require_grad() for a in arrays[:count]]
    return chx.grad(network.call(chx, *inputs), inputs, grad_outputs=arrays[count:])


def in_float64(network):
    return lambda *a: [
        y.astype(a[0].dtype) for y in network.forward(*(x.astype("float64") for x in a))
    ]


def grad_row(op, network, domain, name):
    """From the network's arrays and the gradients of its results."""
    row(
        op,
        lambda chx, *a: gradients_of(chx, network, a),
        lambda *a: imaginary_steps(network, a),
        [*network.shapes, *network.results],
        domain=[*domain, *[(-1, 1)] * len(network.results)],
        name=name,
    )


def imaginary_steps(network, arrays):
    count = len(network.shapes)
    inputs = [a.astype("complex128") for a in arrays[:count]]
    gradients = []
    for array, given in zip(inputs, arrays, strict=False):
        gradient = np.empty(array.shape)
        for i in np.ndindex(array.shape):
            array[i] += 1e-30j
            terms = zip(network.forward(*inputs), arrays[count:], strict=True)
            gradient[i] = sum((y.imag * gy).sum() for y, gy in terms) / 1e-30
            array[i] = given[i]
        gradients.append(gradient.astype(given.dtype))
    return gradients


def away_from_zero(rng, shape):
    """Biases after which a small network's relu is far from its kink, on both of its sides."""
    return rng.uniform(1, 1.5, shape) * (-1) ** np.arange(shape[0])


def domains(network):
    if network.mode != "relu":
        return (-0.8, 0.8)
    return [away_from_zero if len(s) == 1 else (-0.15, 0.15) for s in network.shapes]


for mode in GATES:
    for layers, directions, rows, batch in (
        (1, 1, (2, 2), 2),
        (1, 2, (3, 1), 3),
        (2, 1, (2, 1, 0), 3),
        (2, 2, (3, 2, 2, 1), 3),
        (1, 2, (0,), 2),
    ):
        network = Network(mode, layers, directions, rows, batch)
        name = f"{mode}-{layers}-{directions}-{'.'.join(map(str, rows))}"
        domain = domains(network)
        count = len(network.shapes)
        wanted = range(count)
        if layers * directions > 1:
            # Numerical gradients take time: of the larger ones, some of all kinds.
            wanted = sorted({0, 1, network.states, 4, count // 2, count - 3, count - 1})
        row(
            "rnn",
            network.call,
            in_float64(network),
            network.shapes,
            grad=wanted,
            double=sum(rows) < 6,
            domain=domain,
            name=f"rnn-{name}",
        )
        every = domain if isinstance(domain, list) else [domain] * count
        grad_row("rnn_grad", network, every, f"rnn_grad-{name}")


@dataclasses.dataclass
class LstmLayer:
    """from_x, hx, cx, weights and biases for h."""

    rows: tuple[int, ...]
    batch: int
    backwards: bool
    hidden: int = 2

    def __post_init__(self):
        gates = 4 * self.hidden
        state = (self.batch, self.hidden)
        self.shapes = [(sum(self.rows), gates), state, state, (gates, self.hidden), (gates,)]
        self.results = [(sum(self.rows), self.hidden), state, state]

    def call(self, chx, *arrays):
        return chx.lstm_layer(*arrays, self.rows, self.backwards)

    def forward(self, from_x, hx, cx, weights, biases):
        y, hy, cy = np.zeros((len(from_x), self.hidden), from_x.dtype), hx.copy(), cx.copy()
        starts = np.cumsum([0, *self.rows])
        for n in range(self.batch):
            steps = [t for t, rows in enumerate(self.rows) if n < rows]
            for t in steps[::-1] if self.backwards else steps:
                gates = from_x[starts[t] + n] + weights @ hy[n] + biases
                i, f, a, o = gates.reshape(4, self.hidden)
                cy[n] = sigmoid(f) * cy[n] + sigmoid(i) * np.tanh(a)
                hy[n] = y[starts[t] + n] = sigmoid(o) * np.tanh(cy[n])
        return [y, hy, cy]


for backwards in (False, True):
    for rows, batch in (((2, 2), 2), ((3, 1, 1), 3), ((2, 1, 0), 3), ((0,), 2)):
        layer = LstmLayer(rows, batch, backwards)
        name = f"{'.'.join(map(str, rows))}{'-backwards' * backwards}"
        row(
            "lstm_layer",
            layer.call,
            in_float64(layer),
            layer.shapes,
            grad=range(5),
            double=sum(rows) < 5,
            domain=(-0.8, 0.8),
            name=f"lstm_layer-{name}",
        )
        grad_row("lstm_layer_grad", layer, [(-0.8, 0.8)] * 5, f"lstm_layer_grad-{name}")

# So many rows that the kernel copies weights.
layer = LstmLayer((130, 130, 7), 130, False, 5)
row(
    "lstm_layer_forward",
    layer.call,
    in_float64(layer),
    layer.shapes,
    domain=(-0.8, 0.8),
    name="lstm_layer_forward-large",
)
