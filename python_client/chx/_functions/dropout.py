"""Elements left out at random."""

from __future__ import annotations

from chx import _core, random
from chx._core import ndarray
from chx._types import is_float


def dropout(x: ndarray, p: float = 0.5, training: bool = True) -> ndarray:
    """x with zeros in place of each element with probability p, and the others times 1 / (1 - p).

    Without `training`, x itself. The random numbers are the session's, as those of chx.random.

    Raises:
      DtypeError: x is not of floats.
      ValueError: p is not in [0, 1].
    """
    if not is_float(x.dtype):
        raise _core.DtypeError(f"[dropout] expects floats, got {x.dtype}")
    if not 0 <= p <= 1:
        raise ValueError(f"[dropout] expects p in [0, 1], got {p}")
    if not training or p == 0:
        return x
    kept = random.uniform(size=x.shape, dtype="float32", device=x.device) >= p
    return _core.where(kept, x * (1 / (1 - p) if p < 1 else 0.0), 0)
