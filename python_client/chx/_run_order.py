"""The order in which a shuffled run takes rows, as the daemon has it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def permutation(seed: int, epoch: int, rows: int) -> npt.NDArray[np.int64]:
    """As runs.order."""
    mask = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    blocks = np.arange((rows + 1) // 2, dtype=np.uint64)
    c = [blocks & mask, blocks >> shift, np.full_like(blocks, epoch % 2**32), np.zeros_like(blocks)]
    key = [seed % 2**32, (seed >> 32) % 2**32]
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c[0]
        p1 = np.uint64(0xCD9E8D57) * c[2]
        c = [
            (p1 >> shift) ^ c[1] ^ np.uint64(key[0]),
            p1 & mask,
            (p0 >> shift) ^ c[3] ^ np.uint64(key[1]),
            p0 & mask,
        ]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    words = np.stack([c[1] << shift | c[0], c[3] << shift | c[2]], axis=1).reshape(-1)
    return np.argsort(words[:rows], kind="stable").astype(np.int64)
