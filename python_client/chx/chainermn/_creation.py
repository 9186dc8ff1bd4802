"""create_communicator() and the other functions of ChainerMN that choose by the communicator."""

from __future__ import annotations

import functools
import os
import sys
import uuid
import warnings
from typing import Any

import chainer

from chx import _core, distributed
from chx.chainermn import _functions
from chx.chainermn._communicator import Communicator
from chx.chainermn._optimizers import create_multi_node_optimizer

#: Names that ChainerMN has, or had. All exchange the same way here; `dummy` does not exchange gradients.
NAMES = (
    "naive",
    "flat",
    "hierarchical",
    "two_dimensional",
    "single_node",
    "non_cuda_aware",
    "pure_nccl",
    "dummy",
)


def _group_address() -> str:
    """Where ranks of several daemons meet: the default group's address, or the environment's."""
    if distributed.is_initialized():
        return distributed.get_group()._address
    return os.environ.get("CHX_GROUP_ADDRESS", "")


def create_communicator(
    communicator_name: str = "pure_nccl", mpi_comm: Any = None, **kwargs: Any
) -> Communicator:
    """A communicator of the ranks of the default group, which is made if there is none yet.

    A process that no launcher has started is the only rank.

    Args:
      communicator_name: one of those of ChainerMN.
      mpi_comm: of mpi4py; its ranks are the communicator's, instead of the default group's. Those of
        several daemons meet at the default group's address, or $CHX_GROUP_ADDRESS, of its rank 0.
      allreduce_grad_dtype: in which gradients are exchanged, for `pure_nccl` only: float16 or float32.
      batched_copy: taken, and without effect: gradients are exchanged by one command in any case.

    Raises:
      ValueError: the name is unknown, or the dtype is given for another one than `pure_nccl`.
    """
    dtype = kwargs.pop("allreduce_grad_dtype", None)
    batched_copy = kwargs.pop("batched_copy", True)
    if kwargs:
        raise TypeError(f"create_communicator() got unexpected arguments: {', '.join(kwargs)}")
    if communicator_name not in NAMES:
        raise ValueError(f'Unrecognized communicator: "{communicator_name}"')
    if communicator_name != "pure_nccl" and dtype is not None:
        raise ValueError("allreduce_grad_dtype is only available at 'pure_nccl' communicator.")
    if mpi_comm is not None:
        name, address = mpi_comm.bcast((uuid.uuid4().hex, _group_address()))
        group = distributed.join(name, mpi_comm.rank, mpi_comm.size, address=address)
    elif distributed.is_initialized():
        group = distributed.get_group()
    elif _core._is_group_in_environment():
        group = distributed.init()
    else:  # as MPI does for a process that no launcher has started
        group = distributed.init(0, 1, name=uuid.uuid4().hex)
    comm = Communicator(group, communicator_name)
    comm.set_config("batched_copy", batched_copy)
    if communicator_name == "pure_nccl":
        comm.set_config("allreduce_grad_dtype", dtype)
    return comm


def _get_communication_backend(own: Any) -> Any:
    @functools.wraps(own)
    def get_communication_backend(comm: Any, communication_backend: str = "auto") -> str:
        if not isinstance(comm, Communicator):
            return own(comm, communication_backend)
        if communication_backend not in ("mpi", "nccl", "auto"):
            raise ValueError(
                f"MultiNodeBatchNormalization does not support {communication_backend}."
            )
        if communication_backend == "nccl" and comm.name != "pure_nccl":
            raise ValueError(
                f"nccl is not supported in MultiNodeBatchNormalization when using {comm!r}."
            )
        return "mpi"  # which means comm._multi_node_mean()

    return get_communication_backend


def _statistics(own: Any) -> Any:
    class MultiNodeBNImplSelector(own):
        def over_ranks(self, xs: Any) -> Any:
            """Means, for arrays of the daemon (chx.chainer's route of batch normalization)."""
            return distributed.all_reduce(xs, "mean", self.comm.exchange.group)

    def select(comm: Any, communication_backend_name: str) -> Any:
        kind = MultiNodeBNImplSelector if isinstance(comm, Communicator) else own
        return kind(comm, communication_backend_name)

    return select


def _except_hook(module: Any) -> Any:
    def hook(exctype: Any, value: Any, traceback: Any) -> None:
        """Prints what was not caught and ends the process; the other ranks' collectives fail."""
        try:
            (module._orig_except_hook or sys.__excepthook__)(exctype, value, traceback)
        finally:
            rank = distributed.get_rank() if distributed.is_initialized() else 0
            stars = "*" * 42
            sys.stderr.write(
                f"\n{stars}\nChainerMN:\n   Uncaught exception on rank {rank}.\n"
                f"   Leaving its groups, which ends the other ranks' collectives...\n{stars}\n\n\n"
            )
            sys.stderr.flush()
            try:
                distributed.destroy()
            finally:
                os._exit(1)

    return hook


def adapt(chainermn: Any) -> None:
    """Puts communicators of the daemon in the place of MPI's."""
    if chainer.__version__ != "7.8.1":
        warnings.warn("chx.chainermn knows ChainerMN of Chainer 7.8.1 only", stacklevel=2)
    for module in (chainermn, chainermn.communicators):
        module.create_communicator = create_communicator
    optimizers = chainermn.optimizers
    optimizers.create_multi_node_optimizer = create_multi_node_optimizer(optimizers)
    chainermn.create_multi_node_optimizer = optimizers.create_multi_node_optimizer
    normalization = sys.modules["chainermn.functions.batch_normalization"]
    chosen = _get_communication_backend(normalization.get_communication_backend)
    normalization.get_communication_backend = chosen
    normalization.MultiNodeBNImplSelector = _statistics(normalization.MultiNodeBNImplSelector)
    _functions.adapt(chainermn)
    hook = chainermn.global_except_hook
    own = hook._global_except_hook
    hook._global_except_hook = _except_hook(hook)
    if sys.excepthook is own:  # $CHAINERMN_FORCE_ABORT_ON_EXCEPTION
        sys.excepthook = hook._global_except_hook
