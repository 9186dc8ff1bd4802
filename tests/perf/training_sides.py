"""The sides of the comparison of training steps: the same step by chx, PyTorch, JAX and Chainer.

Each function below returns two functions: step(n, every), which takes n steps and reads the loss at
every `every`-th, and values(), which returns the parameters as NumPy arrays, in the same order for
all sides. Each side runs with as many threads as there are cores.
"""

import logging
import os

import numpy as np

RATE = 0.01


def batch_of(sizes, batch):
    """x (batch, inputs) float32, t (batch,) int64, and the parameters: each layer's w and b."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, sizes[0]), dtype=np.float32)
    t = rng.integers(0, sizes[-1], batch)
    params = []
    for i, o in zip(sizes[:-1], sizes[1:], strict=True):
        w = rng.standard_normal((o, i), dtype=np.float32) / np.sqrt(i)
        params += [w.astype(np.float32), np.zeros(o, np.float32)]
    return x, t, params


def chx_step(session, sizes, batch, jit=False):
    """By chx; with `jit`, the steps between two reads are one command."""
    import chx

    with chx.using_device(session.devices[0]):
        x, t, params = batch_of(sizes, batch)
        x, t = chx.array(x), chx.array(t)
        params = [chx.array(p).require_grad() for p in params]
        optimizer = chx.optimizers.SGD(lr=RATE).setup(params)

    def update():
        h = x
        for k in range(0, len(params), 2):
            h = chx.linear(h, params[k], params[k + 1])
            if k + 2 < len(params):
                h = chx.relu(h)
        loss = chx.mean(chx.softmax_cross_entropy(h, t))
        loss.backward()
        optimizer.update()
        optimizer.cleargrads()
        return loss

    recorded = chx.jit(update)

    def step(n, every):
        for i in range(n):
            loss = update()
            if (i + 1) % every == 0:
                float(loss)

    def recorded_step(n, every):
        for done in range(0, n, every):
            float(recorded.repeat(min(every, n - done)))

    return recorded_step if jit else step, lambda: [chx.to_numpy(p) for p in params]


def torch_loss(params, x, t):
    import torch.nn.functional as F

    h = x
    for k in range(0, len(params), 2):
        h = F.linear(h, params[k], params[k + 1])
        if k + 2 < len(params):
            h = F.relu(h)
    return F.cross_entropy(h, t)


def torch_tensors(sizes, batch):
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    x, t, params = batch_of(sizes, batch)
    return torch.from_numpy(x), torch.from_numpy(t), [torch.from_numpy(p) for p in params]


def torch_step(sizes, batch):
    """By PyTorch eager."""
    import torch

    x, t, params = torch_tensors(sizes, batch)
    for p in params:
        p.requires_grad_()

    def step(n, every):
        for i in range(n):
            loss = torch_loss(params, x, t)
            loss.backward()
            with torch.no_grad():
                for p in params:
                    p -= p.grad * RATE
                    p.grad = None
            if (i + 1) % every == 0:
                loss.item()

    return step, lambda: [p.detach().numpy() for p in params]


def compiled_torch_step(sizes, batch):
    """By PyTorch: torch.compile of the whole step."""
    import torch

    logging.disable(logging.WARNING)  # that there is no Triton
    x, t, params = torch_tensors(sizes, batch)

    @torch.compile
    def update(params, x, t):
        grads, loss = torch.func.grad_and_value(torch_loss)(params, x, t)
        for p, g in zip(params, grads, strict=True):
            p.sub_(g, alpha=RATE)
        return loss

    def step(n, every):
        for i in range(n):
            loss = update(params, x, t)
            if (i + 1) % every == 0:
                loss.item()

    return step, lambda: [p.numpy() for p in params]


def jax_step(sizes, batch):
    """By JAX: jit of the whole step; the parameters' buffers are donated."""
    import functools

    import jax

    jax.config.update("jax_platforms", "cpu")

    def loss_of(params, x, t):
        h = x
        for k in range(0, len(params), 2):
            h = h @ params[k].T + params[k + 1]
            if k + 2 < len(params):
                h = jax.nn.relu(h)
        return -jax.nn.log_softmax(h)[jax.numpy.arange(len(t)), t].mean()

    @functools.partial(jax.jit, donate_argnums=0)
    def update(params, x, t):
        loss, grads = jax.value_and_grad(loss_of)(params, x, t)
        return [p - RATE * g for p, g in zip(params, grads, strict=True)], loss

    x, t, params = jax.device_put(batch_of(sizes, batch))

    def step(n, every):
        nonlocal params
        for i in range(n):
            params, loss = update(params, x, t)
            if (i + 1) % every == 0:
                float(loss)

    return step, lambda: [np.asarray(p) for p in params]


def chainer_step(device, sizes, batch):
    """By Chainer on one of its devices."""
    import chainer
    import chainer.functions as F
    import chainer.links as L

    x, t, params = batch_of(sizes, batch)
    x, t = device.send(x), device.send(t.astype(np.int32))
    links = []
    for w, b in zip(params[::2], params[1::2], strict=True):
        links.append(L.Linear(w.shape[1], w.shape[0], initialW=w, initial_bias=b))
    model = chainer.Sequential(*[f for link in links for f in (link, F.relu)][:-1])
    model.to_device(device)
    optimizer = chainer.optimizers.SGD(lr=RATE).setup(model)

    def step(n, every):
        for i in range(n):
            loss = F.softmax_cross_entropy(model(x), t)
            model.cleargrads()
            loss.backward()
            optimizer.update()
            if (i + 1) % every == 0:
                float(loss.array)

    def values():
        arrays = [p.array for link in links for p in (link.W, link.b)]
        return [chainer.get_device("@numpy").send(a) for a in arrays]

    return step, values
