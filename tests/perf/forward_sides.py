"""Functions by the sides that take training steps: of large arrays, for what fusing operators is worth,
and of one element, for what an operator costs.

As in training_sides.py, make() gives step(n, every) and values(), the result as a NumPy array.
"""

import types

import numpy as np

SIZES = {
    "elementwise": (10**7,),
    "norm": (4096, 1024),
    "attention": (4, 256, 256),
    "additions": (1,),
}
ADDITIONS = 1000
HEADS = 8
PEERS = ("chx", "jit", "torch", "compiled", "jax")


def names_of(side):
    """Of those of SIZES, what the side has: a compiler would take long for so many additions."""
    return [name for name in SIZES if name != "additions" or side not in ("compiled", "jax")]


def elementwise(lib, x):
    """Eight operators."""
    return lib.tanh(lib.abs(x * 2.0 + 1.0) * x - 0.5) * x + 3.0


def norm(lib, x):
    """Layer normalization, GELU, and a residual connection."""
    return lib.gelu(lib.layer_norm(x)) + x


def attention(lib, x):
    """Causal self-attention of (batch, time, width), as in a small GPT block."""
    batch, time, width = x.shape
    q, k, v = ((x @ w).reshape(batch, time, HEADS, width // HEADS) for w in lib.weights[:3])
    return lib.attention(q, k, v).reshape(batch, time, width) @ lib.weights[3]


def additions(lib, x):
    """Operators one by one: each takes the result of the one before."""
    y = x
    for _ in range(ADDITIONS):
        y = y + x
    return y


def _weights(asarray):
    """Those of attention()."""
    width = SIZES["attention"][-1]
    rng = np.random.default_rng(1)
    return [
        asarray((rng.standard_normal((width, width)) / width**0.5).astype(np.float32))
        for _ in range(4)
    ]


def _heads_first(attention, transpose):
    """Attention of (batch, time, heads, features) by a function of (batch, heads, time, features)."""

    def call(q, k, v):
        q, k, v = (transpose(a, (0, 2, 1, 3)) for a in (q, k, v))
        return transpose(attention(q, k, v, is_causal=True), (0, 2, 1, 3))

    return call


def _jax_functions(jax):
    def layer_norm(x):
        d = x - x.mean(axis=1, keepdims=True)
        return d / jax.numpy.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5)

    return types.SimpleNamespace(
        tanh=jax.numpy.tanh,
        abs=jax.numpy.abs,
        layer_norm=layer_norm,
        gelu=lambda x: jax.nn.gelu(x, approximate=False),
        attention=lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        weights=_weights(jax.device_put),
    )


def make(side, session, name):
    """Of one of SIZES; `session`: chx's."""
    function = {f.__name__: f for f in (elementwise, norm, attention, additions)}[name]
    values = np.random.default_rng(0).standard_normal(SIZES[name], dtype=np.float32)
    if side in ("chx", "jit"):
        import chx

        def asarray(values):
            return chx.array(values, device=session.devices[0])

        lib = types.SimpleNamespace(
            tanh=chx.tanh,
            abs=chx.abs,
            layer_norm=lambda x: chx.layer_norm(x, x.shape[1:]),
            gelu=chx.gelu,
            attention=_heads_first(chx.scaled_dot_product_attention, chx.transpose),
            weights=_weights(asarray),
        )
        x = asarray(values)
        wait, to_numpy = lambda y: session.synchronize(), chx.to_numpy
        wrap = chx.jit if side == "jit" else lambda f: f
    elif side == "jax":
        import jax

        jax.config.update("jax_platforms", "cpu")
        lib, x = _jax_functions(jax), jax.device_put(values)
        wait, to_numpy, wrap = lambda y: y.block_until_ready(), np.asarray, jax.jit
    else:
        import torch
        import torch.nn.functional as F

        lib = types.SimpleNamespace(
            tanh=torch.tanh,
            abs=torch.abs,
            layer_norm=lambda x: F.layer_norm(x, x.shape[1:]),
            gelu=F.gelu,
            attention=_heads_first(F.scaled_dot_product_attention, torch.permute),
            weights=_weights(torch.from_numpy),
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
