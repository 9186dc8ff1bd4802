"""Cases of op_bench.py: attention and its positions."""

import chx
import torch
import torch.nn.functional as F
from op_case import Case, normal

ATTENTIONS = (chx.scaled_dot_product_attention, F.scaled_dot_product_attention)
HAS_GROUPS = "enable_gqa" in F.scaled_dot_product_attention.__doc__  # PyTorch 2.5


def angles_of(x):
    """Of each position and pair of features: cosines and sines."""
    pairs = x.shape[-1] // 2
    frequencies = 10000.0 ** (-torch.arange(pairs) / pairs)
    angles = torch.arange(x.shape[-2])[:, None] * frequencies
    return torch.cos(angles), torch.sin(angles)


def half_split_rope(x):
    """As PyTorch's users write it."""
    cos, sin = angles_of(x)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def interleaved_rope(x):
    cos, sin = angles_of(x)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)


def attentions():
    """Of (batch, heads, length, features)."""
    for shape in ((1, 2, 16, 16), (4, 8, 256, 32), (1, 8, 2048, 64)):
        make = lambda s=shape: [normal(*s), normal(*s)[::-1].copy(), normal(*s)]  # noqa: E731
        size = " x ".join(map(str, shape))
        length = shape[2]
        masked = lambda make=make, n=length: [*make(), normal(n, n)]  # noqa: E731
        grouped = lambda s=shape: [  # noqa: E731
            normal(*s), *(normal(s[0], s[1] // 2, *s[2:])[::-1].copy() for _ in range(2))]  # fmt: skip
        for suffix, inputs, options in (
            ("", make, {}),
            (", causal", make, {"is_causal": True}),
            (", mask", masked, {}),
            (", grouped heads", grouped, {"enable_gqa": True}),
            (", dropout", make, {"dropout_p": 0.1}),
        ):
            if suffix == ", grouped heads" and not HAS_GROUPS:
                continue
            sides = [lambda *a, f=f, o=options: f(*a, **o) for f in ATTENTIONS]
            given = {"rtol": 1e-3, "random": "dropout_p" in options}
            yield Case("layer", "attention" + suffix, size, inputs, *sides, **given)
            yield Case("layer", f"attention{suffix}, gradients", size, inputs, *sides,
                       wrt=(0, 1, 2), **given)  # fmt: skip
        if length > 16:
            yield Case("layer", "attention, bfloat16", size, make, *ATTENTIONS, rtol=3e-2,
                       dtype="bfloat16")  # fmt: skip
        one = lambda s=shape: [normal(*s)]  # noqa: E731
        for name, ours, theirs in (
            ("rope", chx.rope, half_split_rope),
            ("rope, interleaved", lambda x: chx.rope(x, interleaved=True), interleaved_rope),
        ):
            yield Case("layer", name, size, one, ours, theirs, rtol=1e-3)
            yield Case("layer", name + ", gradient", size, one, ours, theirs, wrt=(0,), rtol=1e-3)
