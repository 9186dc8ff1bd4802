"""Determinants of singular matrices, and cofactors, which are their gradients."""

import numpy as np

from .decompositions import near_identity, one


def cofactors(a):
    """By the determinants of minors."""
    n = a.shape[-1]
    out = np.empty_like(a)
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(a, i, -2), j, -1)
            out[..., i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    return out


def rotation(rng, shape):
    return np.linalg.qr(rng.standard_normal(shape))[0]


def of_rank(missing, equal=False):
    """Matrices of which `missing` singular values are zero, and the others are equal or not."""

    def make(rng, shape):
        n = shape[-1]
        s = np.ones(n) if equal else rng.uniform(0.5, 1.5, n)
        s[n - missing :] = 0
        return (rotation(rng, shape) * s) @ rotation(rng, shape)

    return make


def exactly_singular(rng, shape):
    """Small multiples of 1/4, with a row twice another."""
    a = rng.integers(-3, 4, shape) / 4
    a[..., -1, :] = 2 * a[..., 0, :]
    return a


def shifted(rng, shape):
    """Of rank n - 1, with zeros on the diagonal."""
    return np.broadcast_to(np.eye(shape[-1], k=1), shape)


def some_singular(rng, shape):
    a = near_identity(rng, shape)
    a[1] = of_rank(1)(rng, shape[1:])
    return a


DOMAINS = {
    "-rank-1": of_rank(1),
    "-rank-2": of_rank(2),
    "-rank-3": of_rank(3),
    "-equal": of_rank(1, equal=True),
    "-orthogonal": of_rank(0, equal=True),
    "-regular": near_identity,
    "-exact": exactly_singular,
    "-shifted": shifted,
    "-zeros": lambda rng, shape: np.zeros(shape),
}
for shape in ((3, 3), (4, 4)):
    for name, domain in DOMAINS.items():
        one("det", shape, lambda chx, a: chx.linalg.det(a), np.linalg.det, name, domain=domain)
        one(
            "cofactors",
            shape,
            lambda chx, a: chx.linalg.cofactors(a),
            cofactors,
            name,
            domain=domain,
            # Third derivatives of determinants need singular values that differ.
            double=name in ("-regular", "-orthogonal", "-rank-1"),
        )
# Rounding errors are all that there is of their determinants and cofactors: zero in some of them.
one(
    "det",
    (64, 3, 3),
    lambda chx, a: chx.linalg.det(a),
    np.linalg.det,
    "-rank-2-of-many",
    domain=of_rank(2),
)
for shape in ((1, 1), (2, 2)):
    for name in ("-regular", "-zeros"):
        one(
            "det",
            shape,
            lambda chx, a: chx.linalg.det(a),
            np.linalg.det,
            name,
            domain=DOMAINS[name],
        )
for name, tiny in (("-shifted", 0.0), ("-nearly-shifted", 1e-30)):
    one(
        "cofactors",
        (12, 12),
        lambda chx, a: chx.linalg.cofactors(a),
        cofactors,
        name,
        grad=(),
        domain=lambda rng, shape, t=tiny: np.eye(shape[-1], k=1) + t * np.eye(shape[-1]),
    )
for op, ref in (("det", np.linalg.det), ("cofactors", cofactors)):
    one(
        op,
        (3, 4, 4),
        lambda chx, a, op=op: getattr(chx.linalg, op)(a),
        ref,
        "-some-singular",
        domain=some_singular,
    )
    one(op, (0, 3, 3), lambda chx, a, op=op: getattr(chx.linalg, op)(a), ref, "-none")
