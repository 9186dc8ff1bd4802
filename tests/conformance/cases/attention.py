"""Attention: masks of both kinds, heads that share keys, sequences longer than the blocks of the
kernel, rows that see nothing."""

import numpy as np

from ..table import row


def scores_of(q, k, mask=None, is_causal=False, scale=None):
    scores = (
        q @ np.swapaxes(k, -1, -2) * (1 / np.sqrt(max(1, q.shape[-1])) if scale is None else scale)
    )
    if mask is not None and mask.dtype.kind == "b":
        scores = np.where(mask, scores, -np.inf)
    elif mask is not None:
        scores = scores + mask
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    return scores


def attention(q, k, v, mask=None, factors=1, **options):
    """In NumPy, with the whole matrix. factors: of the weights, as dropout has them."""
    dtype = q.dtype
    q, k, v = (a.astype("float64") for a in (q, k, v))
    if k.shape[:-2] != q.shape[:-2]:
        k, v = (np.repeat(a, q.shape[-3] // k.shape[-3], axis=-3) for a in (k, v))
    scores = scores_of(q, k, mask, **options)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    return (weights / np.where(total == 0, 1, total) * factors @ v).astype(dtype)


def chx_attention(chx, q, k, v, mask=None, **options):
    grouped = k.shape[:-2] != q.shape[:-2]
    return chx.scaled_dot_product_attention(q, k, v, mask, enable_gqa=grouped, **options)


def seen(rng, shape):
    """A mask in which some rows see nothing."""
    return (rng.random(shape) < 0.6) & (rng.random((*shape[:-1], 1)) < 0.8)


def add(
    name, q, k, v, mask=None, mask_dtype=None, domain=(-2, 2), grad=True, dtypes=None, **options
):
    floats = dtypes or ("float16", "float32", "float64")
    shapes = [q, k, v] + ([] if mask is None else [mask])
    both = [floats] * 3 + ([] if mask is None else [mask_dtype or floats])
    domains = [(-2, 2)] * 3 + ([] if mask is None else [domain])
    row(
        "scaled_dot_product_attention",
        lambda chx, *a: chx_attention(chx, *a, **options),
        lambda *a: attention(*a, **options),
        shapes,
        both,
        grad=[i for i in range(len(shapes)) if mask_dtype is None or i < 3] if grad else [],
        domain=domains,
        same_dtypes=mask_dtype is None,
        name=f"attention-{name}",
    )


Q, K, V = (2, 2, 4, 3), (2, 2, 5, 3), (2, 2, 5, 2)
add("plain", Q, K, V)
add("causal", Q, K, V, is_causal=True)
add("causal-few-keys", (2, 5, 3), (2, 3, 3), (2, 3, 2), is_causal=True)
add("scale", (4, 3), (5, 3), (5, 2), scale=0.3)
add("additive", Q, K, V, (2, 1, 4, 5))
add("additive-row", Q, K, V, (1, 5))
add("additive-column", Q, K, V, (4, 1), is_causal=True)
add("grouped", (2, 4, 3, 3), (2, 2, 5, 3), (2, 2, 5, 2), is_causal=True)
add("grouped-one", (6, 3, 2), (1, 4, 2), (1, 4, 2))
add("grouped-additive", (2, 4, 3, 3), (2, 2, 5, 3), (2, 2, 5, 2), (4, 3, 5))
add("no-keys", (2, 3, 4), (2, 0, 4), (2, 0, 5))
add("no-queries", (2, 0, 4), (2, 3, 4), (2, 3, 5))
add("no-features", (2, 3, 0), (2, 4, 0), (2, 4, 5))
# A mask of bools takes one dtype with floats of the others': these in turn.
for floats in ("float16", "float32", "float64"):
    for shape in ((4, 5), (2, 1, 4, 5), (1,)):
        add(
            f"mask-{'x'.join(map(str, shape))}-{floats}",
            Q,
            K,
            V,
            shape,
            ("bool",),
            seen,
            grad=floats == "float64",
            dtypes=(floats,),
        )
# Of more rows than are there at once where no kernel is: here for the gradient of the mask.
for name, mask, options in (("rows", (700, 3), {}), ("rows-causal", (1, 3), {"is_causal": True})):
    add(f"additive-{name}", (2, 700, 2), (2, 3, 2), (2, 3, 2), mask, dtypes=("float64",), **options)
# Longer than blocks of 64 rows and 512 columns.
for name, options in (("long", {}), ("long-causal", {"is_causal": True})):
    add(name, (2, 130, 8), (2, 1100, 8), (2, 1100, 5), grad=False, **options)
add("long-additive", (1, 2, 600, 4), (1, 1, 600, 4), (1, 1, 600, 4), (600, 600), grad=False,
    is_causal=True)  # fmt: skip
add("long-mask", (2, 130, 8), (2, 1100, 8), (2, 1100, 5), (130, 1100), ("bool",), seen, grad=False,
    dtypes=("float32",))  # fmt: skip
# Scores far apart: the largest comes last, or first.
for name, order in (("rising", 1), ("falling", -1)):
    row(
        "attention_forward",
        lambda chx, q, k, v: chx_attention(chx, q, k, v),
        attention,
        [(3, 2), (1200, 2), (1200, 3)],
        [("float32", "float64")] * 3,
        domain=[
            lambda rng, shape: rng.uniform(1, 2, shape),
            lambda rng, shape, o=order: (
                np.linspace(-60, 60, shape[0])[::o, None] * rng.uniform(0.9, 1, shape)
            ),
            (-1, 1),
        ],
        name=f"attention_forward-{name}",
    )


def gradients(chx, gy, q, k, v, **options):
    leaves = [a.as_grad_stopped().require_grad() for a in (q, k, v)]
    return chx.grad([chx_attention(chx, *leaves, **options)], leaves, grad_outputs=[gy])


def np_gradients(gy, q, k, v, **options):
    dtype = q.dtype
    gy, q, k, v = (a.astype("float64") for a in (gy, q, k, v))
    groups = q.shape[-3] // k.shape[-3]
    wide_k, wide_v = (np.repeat(a, groups, axis=-3) for a in (k, v))
    scores = scores_of(q, wide_k, **options)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    products = weights * (gy @ np.swapaxes(wide_v, -1, -2))
    gscores = (products - weights * products.sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    gk = np.swapaxes(gscores, -1, -2) @ q
    gv = np.swapaxes(weights, -1, -2) @ gy
    gk, gv = (a.reshape(*a.shape[:-3], -1, groups, *a.shape[-2:]).sum(-3) for a in (gk, gv))
    return [a.astype(dtype) for a in (gscores @ wide_k, gk, gv)]


for name, q, k, v, options in (
    ("long", (1, 2, 130, 8), (1, 2, 1100, 8), (1, 2, 1100, 5), {}),
    ("long-causal", (1, 4, 700, 8), (1, 2, 700, 8), (1, 2, 700, 5), {"is_causal": True}),
):
    row(
        "attention_grad",
        lambda chx, *a, o=options: gradients(chx, *a, **o),
        lambda *a, o=options: np_gradients(*a, **o),
        [(*q[:-1], v[-1]), q, k, v],
        [("float32", "float64")] * 4,
        name=f"attention_grad-{name}",
    )


# Dropout of weights.
P, KEY = 0.3, 0.123456789


def philox(key, n):
    """n numbers of Philox4x32-10 (Salmon et al., 2011) as floats in [0, 1)."""
    low = np.uint64(0xFFFFFFFF)
    c0, c1, c2, c3 = (np.zeros((n + 3) // 4, "uint64") for _ in range(4))
    c0 += np.arange(len(c0), dtype="uint64")
    k0, k1 = (int(np.float64(key).view("uint64")) >> bits & 0xFFFFFFFF for bits in (0, 32))
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c2 = (
            (p1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0),
            (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1),
        )
        c1, c3 = p1 & low, p0 & low
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return (np.stack([c0, c1, c2, c3], 1).ravel()[:n] >> np.uint64(8)) * 2.0**-24


def dropped(q, k, v, mask=None, **options):
    shape = (*q.shape[:-1], k.shape[-2])
    factors = (philox(KEY, np.prod(shape)) >= np.float32(P)).reshape(shape) / (1 - P)
    return attention(q, k, v, mask, factors, **options)


def chx_dropped(chx, q, k, v, mask=None, **options):
    grouped = k.shape[:-2] != q.shape[:-2]
    key = chx.array([KEY], "float64", device=q.device)
    operator = chx._core._submodules["random"]["attention_with_dropout"]
    return operator(q, k, v, mask, key, enable_gqa=grouped, dropout_p=P, **options)


for name, op, shapes, options, grad in (
    ("plain", "attention_with_dropout", (Q, K, V), {}, True),
    ("causal", "attention_with_dropout", (Q, K, V), {"is_causal": True}, True),
    ("grouped", "attention_with_dropout", ((2, 4, 3, 3), (2, 2, 5, 3), (2, 2, 5, 2)), {}, True),
    # The gradient of a mask has the whole matrix.
    ("additive", "uniform_by_key", (Q, K, V, (2, 1, 4, 5)), {"scale": 0.7}, True),
    ("rows", "uniform_by_key", ((2, 700, 2), (2, 3, 2), (2, 3, 2), (2, 1, 3)), {}, True),
    ("long", "attention_with_dropout", ((2, 130, 8), (2, 1103, 8), (2, 1103, 5)), {}, False),
    ("long-causal", "attention_with_dropout", ((2, 601, 8), (2, 603, 8), (2, 603, 5)),
     {"is_causal": True}, False),
):  # fmt: skip
    row(
        op,
        lambda chx, *a, o=options: chx_dropped(chx, *a, **o),
        lambda *a, o=options: dropped(*a, **o),
        shapes,
        [("float16", "float32", "float64")] * len(shapes),
        grad=range(len(shapes)) if grad else [],
        domain=(-2, 2),
        same_dtypes=True,
        name=f"{op}-{name}",
    )


# Rotary embedding.
def rope(x, positions=None, frequencies=None, base=10000.0, interleaved=False, sign=1):
    pairs = x.shape[-1] // 2
    if positions is None:
        positions = np.arange(x.shape[-2])
    if frequencies is None:
        frequencies = base ** (-np.arange(pairs) / max(pairs, 1))
    angles = sign * positions[..., None].astype("float64") * frequencies
    pair = np.arange(pairs)
    first, second = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + pairs)
    turned = (x[..., first] + 1j * x[..., second]) * np.exp(1j * angles)
    y = np.empty(x.shape)
    y[..., first], y[..., second] = turned.real, turned.imag
    return y.astype(x.dtype)


def places(rng, shape):
    return rng.integers(0, 5000, shape)


ROPES = [
    ("plain", (2, 3, 5, 6), None, None, {}),
    ("base", (5, 4), None, None, {"base": 500.0}),
    ("positions", (2, 3, 5, 6), (5,), None, {}),
    ("positions-each", (2, 3, 5, 6), (2, 1, 5), None, {}),
    ("position-one", (2, 3, 6), (1,), None, {}),
    ("frequencies", (3, 5, 6), (3, 1), (3,), {}),
    ("no-features", (3, 0), None, None, {}),
    ("nothing", (0, 3, 4), None, None, {}),
]
for name, x, positions, frequencies, options in ROPES:
    for interleaved in (False, True):
        given = [x] + [s for s in (positions, frequencies) if s is not None]
        options = {**options, "interleaved": interleaved}
        row(
            "rope",
            lambda chx, *a, o=options: chx.rope(*a, **o),
            lambda *a, o=options: rope(*a, **o),
            given,
            [("float32", "float64", "float16"), ("int64", "int32"), ("float64",)][: len(given)],
            grad=[0],
            domain=[(-2, 2), places, (0, 1)][: len(given)],
            same_dtypes=False,
            name=f"rope-{name}{'-interleaved' if interleaved else ''}",
        )


def turned_back(chx, gy, x, **options):
    x = x.as_grad_stopped().require_grad()
    return chx.grad([chx.rope(x, **options)], [x], grad_outputs=[gy])[0]


for interleaved in (False, True):
    row(
        "rope_grad",
        lambda chx, *a, i=interleaved: turned_back(chx, *a, interleaved=i),
        lambda gy, x, i=interleaved: rope(gy, interleaved=i, sign=-1),
        [(2, 300, 66), (2, 300, 66)],
        [("float32", "float64")] * 2,
        name=f"rope_grad-{'interleaved' if interleaved else 'halves'}",
    )
