"""create_multi_node_optimizer(): gradients are reduced while the backward pass computes them."""

from __future__ import annotations

import functools
from typing import Any

from chx import distributed
from chx._compat import zip_strict
from chx.chainermn._communicator import Communicator


class _NoStream:
    """Of CUDA, in this process: the daemon has them."""

    def synchronize(self) -> None:
        pass


class _Overlap:
    """The backward passes of one optimizer that reduce gradients meanwhile."""

    def __init__(self, communicator: Communicator, delayed: bool) -> None:
        self._communicator = communicator
        self._delayed = delayed
        self._reducer: distributed.GradientReducer | None = None

    def forget(self) -> None:
        """What has been begun is of other parameters."""
        self._reducer = None

    def backward(self, loss: Any, target: Any, loss_scale: float | None) -> bool:
        """loss.backward() and multi_node_mean_grad(); False: nothing was done, as arrays are not the
        daemon's, or gradients are exchanged in several dtypes.
        """
        params = [param for _, param in sorted(target.namedparams()) if param.array is not None]
        if self._communicator.name == "dummy" or not params:
            return False
        if not all(variable._has_chainerx_array for variable in [loss, *params]):
            return False
        arrays = [param._data[0] for param in params]  # in the graph, as `array` is not
        exchanged = [self._communicator._exchanged_dtype(str(x.dtype)) for x in arrays]
        dtype = None
        if any(str(x.dtype) != other for x, other in zip_strict(arrays, exchanged)):
            if len(set(exchanged)) > 1:
                return False
            dtype = exchanged[0]
        if self._reducer is None:
            self._reducer = distributed.GradientReducer(
                arrays, self._communicator.exchange.group, dtype=dtype, delayed=self._delayed
            )
        self._reducer.params = arrays
        self._reducer.backward(loss._data[0], loss_scale=loss_scale)
        return True


def _loss_of(optimizer: Any, lossfun: Any, args: Any, kwds: Any) -> Any:
    loss = lossfun(*args, **kwds)
    if getattr(optimizer, "_use_cleargrads", True):
        optimizer.target.cleargrads()
    else:
        optimizer.target.zerograds()
    return loss


def _classes(optimizers: Any) -> tuple[type, type]:
    """ChainerMN's, of its module, as they are on daemons."""

    class MultiNodeOptimizer(optimizers._MultiNodeOptimizer):
        def __init__(self, actual_optimizer: Any, communicator: Communicator, zero_fill: bool):
            super().__init__(actual_optimizer, communicator, zero_fill)
            object.__setattr__(self, "_overlap", _Overlap(communicator, delayed=False))

        def update(self, lossfun: Any = None, *args: Any, **kwds: Any) -> None:
            if lossfun is None or not self.zero_fill:
                return super().update(lossfun, *args, **kwds)
            loss = _loss_of(self, lossfun, args, kwds)
            loss_scale = self.actual_optimizer._loss_scale
            if self.is_changed(self.target):
                loss.backward(loss_scale=loss_scale)
                self.communicator.bcast_data(self.target)
                return None
            if not self._overlap.backward(loss, self.target, loss_scale):
                loss.backward(loss_scale=loss_scale)
                self.communicator.multi_node_mean_grad(self.target, self.zero_fill)
            del loss
            self.actual_optimizer.update(None, *args, **kwds)
            return None

    class DoubleBuffering(optimizers._DoubleBufferingOptimizer):
        """Updates with the mean of the gradients of the iteration before."""

        def __init__(self, actual_optimizer: Any, communicator: Communicator, zero_fill: bool):
            for name, value in (
                ("communicator", communicator),
                ("actual_optimizer", actual_optimizer),
                ("needs_update", False),
                ("communicated_target", None),
                ("target_params_list", [[], []]),
                ("allreduce_grad_stream", _NoStream()),
                ("zero_fill", zero_fill),
                ("_overlap", _Overlap(communicator, delayed=True)),
            ):
                object.__setattr__(self, name, value)

        def update(self, lossfun: Any = None, *args: Any, **kwds: Any) -> None:
            if lossfun is None or not self.zero_fill:
                return super().update(lossfun, *args, **kwds)
            loss = _loss_of(self, lossfun, args, kwds)
            loss_scale = self.actual_optimizer._loss_scale
            changed = self.is_changed(self.target, self.target_params_list[0])
            if changed:
                self._overlap.forget()
            if changed or not self._overlap.backward(loss, self.target, loss_scale):
                loss.backward(loss_scale=loss_scale)
                del loss
                return super().update(None, *args, **kwds)
            del loss
            if self.needs_update:
                self.actual_optimizer.update(None, *args, **kwds)
            object.__setattr__(self, "needs_update", True)
            return None

        def wait(self) -> None:
            pass  # commands run in order

    return MultiNodeOptimizer, DoubleBuffering


def create_multi_node_optimizer(optimizers: Any) -> Any:
    """ChainerMN's function for communicators of daemons; others' go to its own."""
    own = optimizers.create_multi_node_optimizer
    multi_node, double_buffered = _classes(optimizers)

    @functools.wraps(own)
    def create(
        actual_optimizer: Any,
        communicator: Any,
        double_buffering: bool = False,
        zero_fill: bool = True,
    ) -> Any:
        if not isinstance(communicator, Communicator):
            return own(actual_optimizer, communicator, double_buffering, zero_fill)
        if not double_buffering:
            return multi_node(actual_optimizer, communicator, zero_fill)
        if communicator.name != "pure_nccl":
            raise ValueError("This communicator does not support double buffering.")
        return double_buffered(actual_optimizer, communicator, zero_fill)

    return create
