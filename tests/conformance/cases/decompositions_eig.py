"""Eigenvalues of matrices that are not symmetric, made of eigenvalues that are known to be real."""

import numpy as np

from ..table import row
from .decompositions import chx_projections, projections

DTYPES = ("float32", "float64")


def real_spectrum(rng, shape):
    n = shape[-1]
    v = np.eye(n) + rng.uniform(-0.3, 0.3, shape)
    return (v * (np.arange(n) * 0.9 + 0.4)) @ np.linalg.inv(v)


def in_order(w, v):
    """By eigenvalue: LAPACK's order depends on the matrix's last bits."""
    order = np.argsort(w, -1)
    return np.take_along_axis(w, order, -1), np.take_along_axis(v, order[..., None, :], -1)


def eig(a):
    w, v = in_order(*np.linalg.eig(a))
    return w.astype(a.dtype), projections(v).astype(a.dtype)


def chx_eig(chx, a):
    w, v = chx.linalg.eig(a)
    order = chx.argsort(w, -1)
    w = chx.take_along_axis(w, order, -1)
    order = chx.broadcast_to(chx.expand_dims(order, -2), v.shape)
    return [w, chx_projections(chx.take_along_axis(v, order, -1))]


for shape in ((1, 1), (3, 3), (2, 4, 4), (0, 3, 3)):
    size = "x".join(map(str, shape))
    row(
        "eig",
        chx_eig,
        eig,
        [shape],
        dtypes=[DTYPES],
        grad=[0],
        domain=real_spectrum,
        name=f"eig-{size}",
    )
    row(
        "eigvals",
        lambda chx, a: chx.sort(chx.linalg.eigvals(a), -1),
        lambda a: np.sort(np.linalg.eigvals(a), -1).astype(a.dtype),
        [shape],
        dtypes=[DTYPES],
        grad=[0],
        domain=real_spectrum,
        name=f"eigvals-{size}",
    )
