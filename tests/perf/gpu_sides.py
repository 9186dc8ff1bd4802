"""The sides of the comparison on a GPU: what the cases (gpu_cases.py) call, by chx and by PyTorch."""

import numpy as np


class Chx:
    def __init__(self, device, address=None):
        import chx

        self.chx = chx
        self.session = chx.connect(address) if address else chx.connect(devices=device)
        self.device = self.session.devices[0]
        chx.set_default_device(self.device)
        self.synchronize = self.session.synchronize
        for name in ("exp", "tanh", "relu", "dot", "conv", "linear", "concatenate"):
            setattr(self, name, getattr(chx, name))

    def configure(self, tf32=False, **settings):
        self.session.configure(tf32=tf32, **settings)

    def array(self, values):
        return self.chx.array(values)

    def uniform(self, shape, dtype="float32"):
        return self.chx.random.uniform(-1.0, 1.0, size=shape, dtype=dtype)

    def parameter(self, values):
        return self.chx.array(values).require_grad()

    def cast(self, x, dtype):
        return x.astype(dtype)

    def contiguous(self, x):
        return x.copy()

    def take_rows(self, x, index):
        return self.chx.take(x, index, 0)

    def sort_rows(self, x):
        return self.chx.sort(x, 1)

    def cumsum_rows(self, x):
        return self.chx.cumsum(x, 1)

    def softmax(self, x):
        return self.chx.softmax(x, 1)

    def cross_entropy(self, x, t):
        return self.chx.mean(self.chx.softmax_cross_entropy(x, t))

    def layer_norm(self, x, gamma, beta):
        return self.chx.layer_norm(x, gamma.shape, gamma, beta)

    def batch_norm(self, x, gamma, beta, mean, var):
        return self.chx.batch_norm(x, gamma, beta, mean, var, axis=(0, 2, 3))

    def max_pool(self, x):
        return self.chx.max_pool(x, 3, 2, 1)

    def average_pool(self, x):
        return self.chx.average_pool(x, 3, 2, 1)

    def solve(self, a, b):
        return self.chx.linalg.solve(a, b)

    def eigh(self, a):
        return self.chx.linalg.eigh(a)

    def momentum(self, parameters):
        optimizer = self.chx.optimizers.MomentumSGD(lr=0.01).setup(parameters)
        return optimizer.update, optimizer.cleargrads

    def recorded(self, step):
        return self.chx.jit(step)

    def recorded_with(self, step, values):
        """A step of an array that is uploaded each time."""
        recorded = self.chx.jit(step)
        return lambda: recorded(self.array(values))

    def upload(self, values):
        return self.chx.array(values)

    def download(self, x):
        return self.chx.to_numpy(x)


class Torch:
    def __init__(self, device, address=None):
        import torch
        import torch.nn.functional as F

        self.torch, self.F = torch, F
        self.device = "cuda" if device.startswith("cuda") else "cpu"
        self.synchronize = torch.cuda.synchronize if self.device == "cuda" else lambda: None
        for name in ("exp", "tanh", "relu"):
            setattr(self, name, getattr(torch, name))
        self.dot = torch.matmul
        self.linear = F.linear

    def configure(self, tf32=False, autotune=False, **_):
        self.torch.backends.cuda.matmul.allow_tf32 = tf32
        self.torch.backends.cudnn.benchmark = autotune

    def array(self, values):
        return self.torch.from_numpy(values).to(self.device)

    def uniform(self, shape, dtype="float32"):
        kind = getattr(self.torch, dtype)
        return self.torch.empty(shape, dtype=kind, device=self.device).uniform_(-1, 1)

    def parameter(self, values):
        return self.array(values).requires_grad_()

    def cast(self, x, dtype):
        return x.to(getattr(self.torch, dtype))

    def contiguous(self, x):
        return x.contiguous()

    def conv(self, x, w, stride=1, pad=0):
        return self.F.conv2d(x, w, stride=stride, padding=pad)

    def take_rows(self, x, index):
        return self.torch.index_select(x, 0, index)

    def sort_rows(self, x):
        return self.torch.sort(x, 1).values

    def cumsum_rows(self, x):
        return self.torch.cumsum(x, 1)

    def softmax(self, x):
        return self.torch.softmax(x, 1)

    def cross_entropy(self, x, t):
        return self.F.cross_entropy(x, t)

    def layer_norm(self, x, gamma, beta):
        return self.F.layer_norm(x, gamma.shape, gamma, beta)

    def batch_norm(self, x, gamma, beta, mean, var):
        return self.F.batch_norm(x, mean, var, gamma, beta, training=True)

    def max_pool(self, x):
        return self.F.max_pool2d(x, 3, 2, 1)

    def average_pool(self, x):
        return self.F.avg_pool2d(x, 3, 2, 1)

    def solve(self, a, b):
        return self.torch.linalg.solve(a, b)

    def eigh(self, a):
        return self.torch.linalg.eigh(a)

    def momentum(self, parameters):
        optimizer = self.torch.optim.SGD(parameters, lr=0.01, momentum=0.9)
        return optimizer.step, optimizer.zero_grad

    def recorded(self, step):
        """A CUDA graph of the step."""
        side = self.torch.cuda.Stream()
        side.wait_stream(self.torch.cuda.current_stream())
        with self.torch.cuda.stream(side):
            for _ in range(3):
                step()
        self.torch.cuda.current_stream().wait_stream(side)
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            step()
        return graph.replay

    def recorded_with(self, step, values):
        x = self.array(values)
        replay = self.recorded(lambda: step(x))

        def call():
            x.copy_(self.torch.from_numpy(values))
            replay()

        return call

    def upload(self, values):
        return self.array(values)

    def download(self, x):
        return x.cpu()

    def pinned(self, values):
        """Copies from and to pinned memory, the fastest that there are."""
        host = self.torch.from_numpy(values).pin_memory()
        x = self.array(values)
        return (
            lambda: host.to(self.device, non_blocking=True),
            lambda: host.copy_(x, non_blocking=True),
        )


SIDES = {"chx": Chx, "torch": Torch}


def rows(rng, below, n):
    return rng.integers(0, below, n).astype(np.int64)
