"""What is measured on a GPU; each case is written once, for all sides (gpu_sides.py).

A case is a name, a function, what one call counts, and its unit: bytes moved ("B"), floating-point
operations ("FLOP"), or nothing ("").
"""

import numpy as np
from gpu_sides import rows


def kernels(f, scale):
    n = 4096 // scale
    rng = np.random.default_rng(0)
    a, b, row = f.uniform((n, n)), f.uniform((n, n)), f.uniform((n,))
    half, brain = f.cast(a, "float16"), f.cast(a, "bfloat16")
    labels = f.array(rows(rng, n, n))
    item = 4.0 * n * n
    yield "add", lambda: a + b, 3 * item, "B"
    yield "add a row", lambda: a + row, 2 * item, "B"
    yield "add transposed", lambda: a + b.T, 3 * item, "B"
    yield "exp", lambda: f.exp(a), 2 * item, "B"
    yield "tanh", lambda: f.tanh(a), 2 * item, "B"
    yield "astype float16", lambda: f.cast(a, "float16"), 1.5 * item, "B"
    yield "copy transposed", lambda: f.contiguous(a.T), 2 * item, "B"
    yield "sum", lambda: a.sum(), item, "B"
    yield "sum of rows", lambda: a.sum(1), item, "B"
    yield "sum of columns", lambda: a.sum(0), item, "B"
    yield "argmax of rows", lambda: a.argmax(1), item, "B"
    yield "cumsum of rows", lambda: f.cumsum_rows(a), 2 * item, "B"
    yield "sort rows", lambda: f.sort_rows(a), 2 * item, "B"
    yield "take rows", lambda: f.take_rows(a, labels), 2 * item, "B"
    yield "softmax", lambda: f.softmax(a), 2 * item, "B"
    yield "layer norm", lambda: f.layer_norm(a, row, row), 2 * item, "B"
    yield "cross entropy", lambda: f.cross_entropy(a, labels), item, "B"
    yield "matmul float32", lambda: f.dot(a, b), 2.0 * n**3, "FLOP"
    yield "matmul float16", lambda: f.dot(half, half), 2.0 * n**3, "FLOP"
    yield "matmul bfloat16", lambda: f.dot(brain, brain), 2.0 * n**3, "FLOP"
    yield "uniform numbers", lambda: f.uniform((n, n)), item, "B"


def libraries(f, scale):
    """What cuDNN and cuSOLVER compute where they are installed."""
    n, size = max(1, 32 // scale), max(7, 56 // scale)
    shape, kernel = (n, 64, size, size), (64, 64, 3, 3)
    rng = np.random.default_rng(0)
    x, w = f.uniform(shape), f.uniform(kernel)
    half, half_w = f.cast(x, "float16"), f.cast(w, "float16")
    brain, brain_w = f.cast(x, "bfloat16"), f.cast(w, "bfloat16")
    leaf = f.parameter(rng.random(shape, np.float32))
    leaf_w = f.parameter(rng.random(kernel, np.float32))

    def backward():
        f.conv(leaf, leaf_w, stride=1, pad=1).sum().backward()
        leaf.grad = leaf_w.grad = None

    flops = 2.0 * n * 64 * 64 * 9 * size * size
    yield "conv float32", lambda: f.conv(x, w, stride=1, pad=1), flops, "FLOP"
    yield "conv float16", lambda: f.conv(half, half_w, stride=1, pad=1), flops, "FLOP"
    yield "conv bfloat16", lambda: f.conv(brain, brain_w, stride=1, pad=1), flops, "FLOP"
    yield "conv and gradients", backward, 3 * flops, "FLOP"
    yield "average pool", lambda: f.average_pool(x), 5.0 * n * 64 * size * size, "B"
    for m in (64, 512):
        m = max(2, m // scale)
        values = rng.random((m, m), np.float32) + m * np.eye(m, dtype=np.float32)
        a = f.array(values + values.T)
        yield f"solve {m}", lambda a=a: f.solve(a, a), 8 / 3 * m**3, "FLOP"
        yield f"eigh {m}", lambda a=a: f.eigh(a), 9.0 * m**3, "FLOP"


def mlp(f, sizes, batch):
    """A training step of a multi-layer perceptron."""
    rng = np.random.default_rng(0)
    x = f.array(rng.standard_normal((batch, sizes[0]), np.float32))
    t = f.array(rows(rng, sizes[-1], batch))
    parameters = []
    for i, o in zip(sizes[:-1], sizes[1:], strict=True):
        values = rng.standard_normal((o, i), np.float32) / np.float32(np.sqrt(i))
        parameters += [f.parameter(values), f.parameter(np.zeros(o, np.float32))]
    update, clear = f.momentum(parameters)

    def step():
        h = x
        for k in range(0, len(parameters), 2):
            h = f.linear(h, parameters[k], parameters[k + 1])
            if k + 2 < len(parameters):
                h = f.relu(h)
        f.cross_entropy(h, t).backward()
        update()
        clear()

    return step


class ResNet50:
    """The training step of a ResNet-50 on images of `size`, NCHW."""

    def __init__(self, f, batch, size):
        self.f = f
        self.rng = np.random.default_rng(0)
        self.x = f.array(self.rng.standard_normal((batch, 3, size, size), np.float32))
        self.t = f.array(rows(self.rng, 1000, batch))
        self.parameters = []
        self.stem = self.conv_norm(3, 64, 7, 2, 3)
        self.blocks = []
        channels = 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                self.blocks.append(self.block(channels, width, stride if i == 0 else 1))
                channels = 4 * width
        self.w = self.weight(1000, channels)
        self.b = self.parameter(np.zeros(1000, np.float32))
        self.update, self.clear = f.momentum(self.parameters)

    def parameter(self, values):
        self.parameters.append(self.f.parameter(values))
        return self.parameters[-1]

    def weight(self, *shape):
        bound = np.float32(np.sqrt(2 / np.prod(shape[1:])))
        return self.parameter(self.rng.standard_normal(shape, np.float32) * bound)

    def conv_norm(self, i, o, size, stride, pad):
        f = self.f
        w = self.weight(o, i, size, size)
        gamma = self.parameter(np.ones(o, np.float32))
        beta = self.parameter(np.zeros(o, np.float32))
        mean, var = f.array(np.zeros(o, np.float32)), f.array(np.ones(o, np.float32))
        return lambda x: f.batch_norm(f.conv(x, w, stride=stride, pad=pad), gamma, beta, mean, var)

    def block(self, i, width, stride):
        f = self.f
        first = self.conv_norm(i, width, 1, 1, 0)
        second = self.conv_norm(width, width, 3, stride, 1)
        third = self.conv_norm(width, 4 * width, 1, 1, 0)
        short = None
        if stride != 1 or i != 4 * width:
            short = self.conv_norm(i, 4 * width, 1, stride, 0)

        def run(x):
            h = f.relu(first(x))
            h = f.relu(second(h))
            return f.relu(third(h) + (x if short is None else short(x)))

        return run

    def step(self, x=None):
        f = self.f
        h = f.max_pool(f.relu(self.stem(self.x if x is None else x)))
        for block in self.blocks:
            h = block(h)
        h = f.linear(h.mean((2, 3)), self.w, self.b)
        f.cross_entropy(h, self.t).backward()
        self.update()
        self.clear()


def steps(f, scale):
    """Training steps, as they are called and recorded (chx.jit; a CUDA graph)."""
    batch, size = (32, 224) if scale == 1 else (2, 32)
    resnet = ResNet50(f, batch, size).step
    made = {
        "MLP 784-32-32-10, 1 row": mlp(f, [784, 32, 32, 10], 1),
        "MLP 784-1000-1000-10, 100 rows": mlp(f, [784, 1000, 1000, 10], 100),
        f"ResNet-50, {batch} images": resnet,
    }
    images = np.random.default_rng(1).standard_normal((batch, 3, size, size), np.float32)
    from_host = f"ResNet-50, {batch} images from the host"
    for name, step in made.items():
        yield name, step, 0, ""
    yield from_host, lambda: resnet(f.upload(images)), 0, ""
    for name, step in made.items():
        yield f"{name}, recorded", f.recorded(step), 0, ""
    yield f"{from_host}, recorded", f.recorded_with(resnet, images), 0, ""


def transfers(f, scale):
    """Of NumPy's arrays; and, for comparison, of pinned memory."""
    for mega in (1, 16, 256):
        values = np.ones((mega << 18) // scale, np.float32)
        on_device = f.uniform(values.shape)
        yield f"upload {mega} MiB", lambda v=values: f.upload(v), values.nbytes, "B"
        yield f"download {mega} MiB", lambda x=on_device: f.download(x), values.nbytes, "B"
        if hasattr(f, "pinned"):
            upload, download = f.pinned(values)
            yield f"upload {mega} MiB, pinned", upload, values.nbytes, "B"
            yield f"download {mega} MiB, pinned", download, values.nbytes, "B"
