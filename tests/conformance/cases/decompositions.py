import numpy as np

from ..table import row

DTYPES = ("float16", "float32", "float64")


def near_identity(rng, shape):
    """Well-conditioned, neither symmetric nor triangular."""
    return rng.uniform(-0.3, 0.3, shape) + np.eye(shape[-2], shape[-1])


def spread(rng, shape):
    """Singular values that are well apart and far from zero."""
    u, _, vh = np.linalg.svd(rng.uniform(-1, 1, shape), full_matrices=False)
    k = min(shape[-2:])
    return (u * (1 + 0.7 * np.arange(k))) @ vh


def swap(a):
    return a.transpose(*range(a.ndim - 2), a.ndim - 1, a.ndim - 2)


def positive(a):
    """Symmetric and positive definite, as NumPy and chx compute it."""
    return a @ swap(a) + np.eye(a.shape[-1], dtype=a.dtype)


def chx_positive(chx, a):
    return a @ swap(a) + chx.eye(a.shape[-1], dtype=a.dtype)


def in_dtype_of(function):
    """NumPy refuses float16 and keeps Python floats; rows need the input's dtype."""

    def call(a, *args, **kwargs):
        wide = [x.astype("float64") if x.dtype == "float16" else x for x in (a, *args)]
        result = function(*wide, **kwargs)
        if isinstance(result, tuple):
            return tuple(np.asarray(r).astype(a.dtype) for r in result)
        return np.asarray(result).astype(a.dtype)

    return call


def one(op, shape, call, ref, name="", grad=(0,), domain=near_identity, **kwargs):
    row(
        op,
        call,
        in_dtype_of(ref),
        [shape],
        dtypes=[DTYPES],
        grad=grad,
        domain=domain,
        name=f"{op}-{'x'.join(map(str, shape))}{name}",
        **kwargs,
    )


for a, b in [
    ((3, 3), (3,)),
    ((3, 3), (3, 2)),
    ((4, 3, 3), (4, 3)),
    ((2, 1, 3, 3), (1, 4, 3, 2)),
    ((3, 3), (4, 3, 2)),
    ((0, 0), (0, 2)),
]:
    row(
        "solve",
        lambda chx, a, b: chx.linalg.solve(a, b),
        in_dtype_of(np.linalg.solve),
        [a, b],
        dtypes=[DTYPES, DTYPES],
        grad=[0, 1],
        domain=[near_identity, (-1, 1)],
    )
SQUARE = [(3, 3), (1, 1), (2, 2, 4, 4), (0, 3, 3)]
for shape in SQUARE:
    one("inv", shape, lambda chx, a: chx.linalg.inv(a), np.linalg.inv)
    one(
        "cholesky",
        shape,
        lambda chx, a: chx.linalg.cholesky(chx_positive(chx, a)),
        lambda a: np.linalg.cholesky(positive(a)),
    )
    one("det", shape, lambda chx, a: chx.linalg.det(a), np.linalg.det)
    one(
        "slogdet",
        shape,
        lambda chx, a: chx.linalg.slogdet(-a),
        lambda a: np.linalg.slogdet(-a),
    )
    for n in (-3, 0, 1, 2, 5):
        one(
            "matrix_power",
            shape,
            lambda chx, a, n=n: chx.linalg.matrix_power(a, n),
            lambda a, n=n: np.linalg.matrix_power(a, n),
            name=f"-{n}",
            grad=(0,) if n else (),
        )
    for uplo in "LU":
        one(
            "eigvalsh",
            shape,
            lambda chx, a, uplo=uplo: chx.linalg.eigvalsh(a, uplo),
            lambda a, uplo=uplo: np.linalg.eigvalsh(a, uplo),
            name=f"-{uplo}",
            grad=(),
        )
one(
    "cholesky",
    (4, 4),
    lambda chx, a: chx.linalg.cholesky(a),
    np.linalg.cholesky,
    name="-lower-half",
    grad=(),
    domain=lambda rng, shape: rng.uniform(-1, 1, shape) + 5 * np.eye(4),
)


def projections(v):
    """Eigenvectors without their signs: the products of each with itself."""
    return v[..., :, None, :] * v[..., None, :, :]


def chx_projections(v):
    return v.reshape(*v.shape[:-1], 1, v.shape[-1]) * v.reshape(*v.shape[:-2], 1, *v.shape[-2:])


def eigh(a, uplo):
    w, v = np.linalg.eigh(a, uplo)
    return w, projections(v)


def chx_eigh(chx, a, uplo):
    w, v = chx.linalg.eigh(a, uplo)
    return [w, chx_projections(v)]


def apart(rng, shape):
    return rng.uniform(-0.3, 0.3, shape) + np.diag(np.arange(shape[-1]))


for shape in [(3, 3), (2, 4, 4)]:
    for uplo in "LU":
        one(
            "eigh",
            shape,
            lambda chx, a, uplo=uplo: chx_eigh(chx, a, uplo),
            lambda a, uplo=uplo: eigh(a, uplo),
            name=f"-{uplo}",
            grad=(),
            domain=apart,
        )
    one(
        "eigh",
        shape,
        lambda chx, a: chx_eigh(chx, a + swap(a), "L"),
        lambda a: eigh(a + swap(a), "L"),
        name="-symmetric",
        domain=apart,
    )
    one(
        "eigvalsh",
        shape,
        lambda chx, a: chx.linalg.eigvalsh(a + swap(a)),
        lambda a: np.linalg.eigvalsh(a + swap(a)),
        name="-symmetric",
        domain=apart,
    )


def svd(a):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return s, projections(u), projections(np.swapaxes(vh, -1, -2)), (u * s[..., None, :] ** 2) @ vh


def chx_svd(chx, a):
    u, s, vh = chx.linalg.svd(a, full_matrices=False)
    scaled = u * s.reshape(*s.shape[:-1], 1, s.shape[-1]) ** 2
    return [s, chx_projections(u), chx_projections(swap(vh)), scaled @ vh]


def rebuild(u, s, vh):
    return (u[..., : s.shape[-1]] * s[..., None, :]) @ vh[..., : s.shape[-1], :]


def full_svd(a):
    u, s, vh = np.linalg.svd(a)
    return s, rebuild(u, s, vh), u @ np.swapaxes(u, -1, -2), vh @ np.swapaxes(vh, -1, -2)


def chx_full_svd(chx, a):
    u, s, vh = chx.linalg.svd(a)
    k = s.shape[-1]
    scaled = u[..., :k] * s.reshape(*s.shape[:-1], 1, k)
    return [s, scaled @ vh[..., :k, :], u @ swap(u), vh @ swap(vh)]


def cut(rng, shape):
    """Singular values of which a cut-off at 0.3 of the largest leaves some, none of them near it."""
    u, _, vh = np.linalg.svd(rng.uniform(-1, 1, shape), full_matrices=False)
    k = min(shape[-2:])
    return (u * np.array([2.0, 0.3, 1.3, 0.4])[:k]) @ vh


def rank_one(rng, shape):
    return rng.uniform(0.5, 1, shape[:-1])[..., None] * rng.uniform(0.5, 1, shape[-1:])


for shape in [(3, 3), (4, 2), (2, 3, 4)]:
    one("svd", shape, chx_svd, svd, domain=spread)
    one("svd", shape, chx_full_svd, full_svd, name="-full", grad=(), domain=spread)
    one(
        "svd",
        shape,
        lambda chx, a: chx.linalg.svd(a, compute_uv=False),
        lambda a: np.linalg.svd(a, compute_uv=False),
        name="-values",
        grad=(),
        domain=spread,
    )
    one("pinv", shape, lambda chx, a: chx.linalg.pinv(a), np.linalg.pinv, domain=spread)
    one(
        "pinv",
        shape,
        lambda chx, a: chx.linalg.pinv(a, rcond=1e-3),
        lambda a: np.linalg.pinv(a, rcond=1e-3),
        name="-rank-one",
        grad=(),
        domain=rank_one,
    )
    for mode in ("complete", "r", "raw"):
        one(
            "qr",
            shape,
            lambda chx, a, mode=mode: chx.linalg.qr(a, mode=mode),
            lambda a, mode=mode: np.linalg.qr(a, mode=mode),
            name=f"-{mode}",
            grad=(0,) if mode == "complete" and shape == (3, 3) else (),
            domain=spread,
        )
    one(
        "qr",
        shape,
        lambda chx, a: chx.linalg.qr(a),
        np.linalg.qr,
        grad=(0,) if shape[-2] >= shape[-1] else (),
        domain=spread,
    )
for shape in [(2, 2), (3, 3), (5, 3), (2, 4, 5)]:
    one(
        "pinv",
        shape,
        lambda chx, a: chx.linalg.pinv(a, rcond=0.3),
        lambda a: np.linalg.pinv(a, rcond=0.3),
        name="-cut",
        domain=cut,
    )
for shape in [(0, 0), (3, 0), (0, 3), (2, 3, 0), (0, 2, 3)]:
    one(
        "svd",
        shape,
        lambda chx, a: chx.linalg.svd(a),
        np.linalg.svd,
        name="-empty",
        grad=(),
    )
    for mode in ("reduced", "complete"):
        one(
            "qr",
            shape,
            lambda chx, a, mode=mode: chx.linalg.qr(a, mode=mode),
            lambda a, mode=mode: np.linalg.qr(a, mode=mode),
            name=f"-empty-{mode}",
            grad=(),
        )
