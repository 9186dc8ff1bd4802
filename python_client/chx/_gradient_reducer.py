"""Gradients that the ranks of a process group reduce while they compute them."""

from __future__ import annotations

from collections.abc import Sequence

from chx import _core
from chx._autograd.backward import _scale
from chx._core import ndarray
from chx._process_groups import ProcessGroup, _group_of
from chx._runtime.context import BackpropId
from chx._types import DtypeLike

_REDUCTIONS = ("sum", "mean", "max", "min", "prod")


class GradientReducer:
    """backward() of each rank, in which the daemon reduces gradients as soon as they are computed.

        reducer = chx.distributed.GradientReducer([w1, b1, w2, b2])
        ...
        reducer.backward(loss)  # then w1.grad is the mean of all ranks' gradients

    Gradients are reduced in buckets. A bucket is begun as soon as the pass has all of its gradients,
    and goes on while the pass computes the others. Every rank calls backward() as often as the
    others, with the same parameters.

    Args:
      params: arrays that require a gradient, in the order in which the model uses them: the pass
        comes to the last ones first.
      group: the default one of the parameters' session if None.
      op: "mean" or another reduction of all_reduce().
      dtype: that gradients are exchanged and reduced in, for example "bfloat16"; their own if None.
        The parameters' gradients have their own dtype in any case.
      bucket_bytes: how many bytes of gradients are reduced at once, about.
      delayed: whether each pass gives the gradients that the pass before has begun to reduce, the
        first one zeros (ChainerMN's double buffering). No rank waits for the others then, but for
        what they did a step before.

    Attributes:
      params: the parameters.
    """

    def __init__(
        self,
        params: Sequence[ndarray],
        group: ProcessGroup | None = None,
        op: str = "mean",
        dtype: DtypeLike | None = None,
        bucket_bytes: int = 1 << 20,
        delayed: bool = False,
    ) -> None:
        self.params = list(params)
        self._group = group
        if op not in _REDUCTIONS:
            raise ValueError(f"expects op to be one of {', '.join(_REDUCTIONS)}, got {op!r}")
        number = _core._new_reducer()
        self._options = (number, _REDUCTIONS.index(op), dtype, int(bucket_bytes), bool(delayed))

    def backward(
        self,
        outputs: ndarray | Sequence[ndarray],
        backprop_id: BackpropId | None = None,
        loss_scale: float | None = None,
    ) -> None:
        """As chx.backward(), but the parameters get the reduced gradients.

        What was reduced is added to the gradients that they have: zeros for a parameter that no
        rank's outputs depend on. Other arrays that require a gradient get that of this rank.

        Raises:
          GradientError: a parameter does not require a gradient.
          ContextError: the group is broken.
        """
        if isinstance(outputs, _core.ndarray):
            outputs = [outputs]
        if not self.params:
            raise ValueError("[backward] expects parameters to reduce, got none")
        group = tuple(_group_of(self.params[0], self._group))
        _core._reduce_backward(
            outputs, self.params, group, *self._options, backprop_id, _scale(loss_scale)
        )
