from .table import case

case(
    lambda xp, a, b, c: xp.einsum("ij,jk,kl->il", a, b, c, optimize="greedy"),
    (2, 3),
    (3, 4),
    (4, 2),
    name="einsum path",
)
case(
    lambda xp, a, b: xp.einsum(a, [0, 1, ...], b, [1, 2], [..., 2, 0]),
    (2, 3, 2),
    (3, 4),
    name="einsum lists",
)
