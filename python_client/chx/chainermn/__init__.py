"""ChainerMN 7.8.1 on chx: its communicators exchange arrays through the daemon.

    import chx.chainermn  # before chainermn
    import chainermn

    comm = chainermn.create_communicator("flat")

Importing this module adapts Chainer as chx.chainer does, and ChainerMN as soon as it is imported;
`python -m chx run` does so for scripts that say nothing of chx. Each process is a rank of the group
that chx.distributed.init() makes: call it before, or the environment says rank and size, as torchrun,
mpiexec and Kubernetes set them. mpi4py is not needed. All names of chainermn are here, too.
"""

from __future__ import annotations

from typing import Any

import chx.chainer  # noqa: F401  # before chainer

# isort: split
import chainermn as _chainermn

from chx.chainermn import _creation
from chx.chainermn._communicator import Communicator
from chx.chainermn._creation import NAMES, create_communicator

__all__ = ["NAMES", "Communicator", "create_communicator"]


def __getattr__(name: str) -> Any:
    return getattr(_chainermn, name)


_creation.adapt(_chainermn)
