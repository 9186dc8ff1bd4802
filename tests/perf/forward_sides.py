"""Functions of large arrays by the sides that take training steps: what fusing operators is worth.

As in training_sides.py, make() gives step(n, every) and values(), the result as a NumPy array.
"""

import types

import numpy as np

SIZES = {"elementwise": (10**7,), "norm": (4096, 1024), "attention": (4, 256, 256)}
HEADS = 8
PEERS = ("chx", "jit", "torch", "compiled", "jax")


def elementwise(lib, x):
    """Eight operators."""
    return lib.tanh(lib.abs(x * 2.0 + 1.0) * x - 0.5) * x + 3.0


def norm(lib, x):
    """Layer normalization, GELU, and a residual connection."""
    return lib.gelu(lib.layer_norm(x)) + x


def attention(lib, x):
    """Causal self-attention of (batch, time, width), as in a small GPT block."""
    batch, time, width = x.shape
    q, k, v = (
        lib.transpose((x @ w).reshape(batch, time, HEADS, width // HEADS), (0, 2, 1, 3))
        for w in lib.weights[:3]
    )
    scores = q @ lib.transpose(k, (0, 1, 3, 2)) * (width // HEADS) ** -0.5
    mixed = lib.softmax(scores + lib.mask) @ v
    return lib.transpose(mixed, (0, 2, 1, 3)).reshape(batch, time, width) @ lib.weights[3]


def _constants(asarray):
    """The weights and the mask of attention()."""
    _, time, width = SIZES["attention"]
    rng = np.random.default_rng(1)
    weights = [
        asarray((rng.standard_normal((width, width)) / width**0.5).astype(np.float32))
        for _ in range(4)
    ]
    mask = np.triu(np.full((time, time), -1e9, np.float32), 1)
    return {"weights": weights, "mask": asarray(mask)}


def _composed(lib, erf, **more):
    def layer_norm(x):
        d = x - lib.mean(x, axis=1, keepdims=True)
        return d / lib.sqrt(lib.mean(d * d, axis=1, keepdims=True) + 1e-5)

    def gelu(x):
        return 0.5 * x * (1.0 + erf(x / 2**0.5))

    def softmax(x):
        e = lib.exp(x - lib.max(x, axis=-1, keepdims=True))
        return e / lib.sum(e, axis=-1, keepdims=True)

    return types.SimpleNamespace(
        tanh=lib.tanh,
        abs=lib.abs,
        transpose=lib.transpose,
        layer_norm=layer_norm,
        gelu=gelu,
        softmax=softmax,
        **more,
    )


def make(side, session, name):
    """Of one of SIZES; `session`: chx's."""
    function = {"elementwise": elementwise, "norm": norm, "attention": attention}[name]
    values = np.random.default_rng(0).standard_normal(SIZES[name], dtype=np.float32)
    if side in ("chx", "jit"):
        import chx

        def asarray(values):
            return chx.array(values, device=session.devices[0])

        lib, x = _composed(chx, chx.erf, **_constants(asarray)), asarray(values)
        wait, to_numpy = lambda y: session.synchronize(), chx.to_numpy
        wrap = chx.jit if side == "jit" else lambda f: f
    elif side == "jax":
        import jax

        jax.config.update("jax_platforms", "cpu")
        lib = _composed(jax.numpy, jax.scipy.special.erf, **_constants(jax.device_put))
        lib.softmax = jax.nn.softmax
        x = jax.device_put(values)
        wait, to_numpy, wrap = lambda y: y.block_until_ready(), np.asarray, jax.jit
    else:
        import torch
        import torch.nn.functional as F

        lib = types.SimpleNamespace(
            tanh=torch.tanh,
            abs=torch.abs,
            layer_norm=lambda x: F.layer_norm(x, x.shape[1:]),
            gelu=F.gelu,
            transpose=torch.permute,
            softmax=lambda x: F.softmax(x, -1),
            **_constants(torch.from_numpy),
        )
        x = torch.from_numpy(values)
        wait, to_numpy = lambda y: None, lambda y: y.numpy()
        wrap = torch.compile if side == "compiled" else lambda f: f
    call = wrap(lambda x: function(lib, x))

    def step(n, every):
        del every  # each result is waited for
        for _ in range(n):
            wait(call(x))

    return step, lambda: [to_numpy(call(x))]
