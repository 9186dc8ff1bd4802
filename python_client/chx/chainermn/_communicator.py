"""ChainerMN's communicator over a process group of the daemon."""

from __future__ import annotations

import functools
import operator
import socket
from typing import Any

import numpy as np
from chainermn.communicators.communicator_base import CommunicatorBase

import chx
from chx import distributed
from chx._compat import zip_strict
from chx.chainermn._exchange import (
    Exchange,
    Graph,
    Spec,
    is_array,
    spec_of,
    specs_of,
)
from chx.distributed import ProcessGroup


class Communicator(CommunicatorBase):
    """Exchanges arrays of the daemon and of NumPy, and objects that pickle, between a group's ranks.

    Args:
      group: whose ranks these are.
      name: create_communicator()'s.
    """

    def __init__(self, group: ProcessGroup, name: str = "flat") -> None:
        super().__init__()
        self._configs = {}  # of this one; ChainerMN's are of the class
        self.name = name
        self.exchange = Exchange(group)
        self._splits = 0
        hosts = self.exchange.messages.all_gather(socket.gethostname())
        nodes = list(dict.fromkeys(hosts))
        self._intra_rank = hosts[: group.rank].count(hosts[group.rank])
        self._intra_size = hosts.count(hosts[group.rank])
        self._inter_rank = nodes.index(hosts[group.rank])
        self._inter_size = len(nodes)
        with self.config_scope():
            self.batched_copy = False
            if name == "pure_nccl":
                self.allreduce_grad_dtype = None

    def __repr__(self) -> str:
        return f"Communicator({self.name!r}, {self.exchange.group!r})"

    @property
    def rank(self) -> int:
        return self.exchange.group.rank

    @property
    def size(self) -> int:
        return self.exchange.group.size

    @property
    def intra_rank(self) -> int:
        """Among the ranks on this host."""
        return self._intra_rank

    @property
    def intra_size(self) -> int:
        return self._intra_size

    @property
    def inter_rank(self) -> int:
        """This host's number among the ranks' hosts."""
        return self._inter_rank

    @property
    def inter_size(self) -> int:
        return self._inter_size

    def set_config(self, name: str, value: Any = True, **kwargs: Any) -> None:
        """Sets `batched_copy`, or `allreduce_grad_dtype` where the name is `pure_nccl`."""
        if name not in self._configs:
            return super().set_config(name, **kwargs)
        if name == "allreduce_grad_dtype" and value is not None:
            value = np.dtype(value)
            if value not in ("float16", "float32"):
                raise ValueError(
                    f"allreduce_grad_dtype must be float16, float32 or None, got {value}"
                )
        with self.config_scope():
            setattr(self, name, value)
        return None

    def split(self, color: int, key: int) -> Communicator:
        """A communicator of the ranks with this color, in the order of keys."""
        given = self.exchange.messages.all_gather((color, key))
        ranks = [rank for rank in range(self.size) if given[rank][0] == color]
        ranks.sort(key=lambda rank: (given[rank][1], rank))
        self._splits += 1
        group = distributed.new_group(
            ranks, self.exchange.group, f"split {self._splits} by {color}"
        )
        assert group is not None
        return Communicator(group, self.name)

    def finalize(self) -> None:
        """Leaves the group."""
        super().finalize()
        distributed.destroy(self.exchange.group)

    # Arrays.

    def _array(self, x: Any) -> chx.ndarray:
        if isinstance(x, chx.ndarray):
            return x.as_grad_stopped()
        return chx.array(np.asarray(x, order="C"), device=self.exchange.device)

    @staticmethod
    def _like(y: chx.ndarray, spec: Spec) -> Any:
        return chx.to_numpy(y) if spec.is_host else y

    def _zeros(self, spec: Spec) -> chx.ndarray:
        return chx.zeros(spec.shape, spec.dtype, device=self.exchange.device)

    def alltoall(self, xs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arrays that each rank has given for this one; of any shapes, and one dtype."""
        if len(xs) != self.size:
            raise ValueError("The length of data must be same as communicator size.")
        specs = specs_of("alltoall", xs)
        return tuple(map(self._like, *self.exchange.all_to_all(list(map(self._array, xs)), specs)))

    def allgather(self, x: Any) -> tuple[Any, ...]:
        """Each rank's array, of any shapes and one dtype."""
        got = self.exchange.all_gather(self._array(x), spec_of("allgather", x))
        return tuple(map(self._like, *got))

    def gather(self, data: Any, root: int = 0) -> tuple[Any, ...] | None:
        """Each rank's array at the root, None at the others."""
        got = self.exchange.gather(self._array(data), spec_of("gather", data), root)
        return tuple(map(self._like, *got)) if self.rank == root else None

    def bcast(self, data: Any, root: int = 0) -> Any:
        """The root's array."""
        if self.rank != root:
            return self._like(*self.exchange.broadcast(None, None, root, self._zeros))
        if not is_array(data):
            raise TypeError("Tuple data cannot be broadcasted")
        self.exchange.broadcast(self._array(data), spec_of("bcast", data), root, self._zeros)
        return data

    def scatter(self, xs: Any, root: int = 0) -> Any:
        """The root's array for this rank: one of a tuple, or a row of an array."""
        arrays = specs = None
        if self.rank == root:
            if len(xs) != self.size:
                raise ValueError(
                    "the length of xs must be consistent with communicator size, "
                    f"{self.size}, got {len(xs)}"
                )
            arrays, specs = list(map(self._array, xs)), specs_of("scatter", xs)
        return self._like(*self.exchange.scatter(arrays, specs, root, self._zeros))

    def allreduce(self, data: Any) -> Any:
        """The sum of all ranks' arrays, of one shape."""
        if isinstance(data, (tuple, list)):
            raise TypeError("allreduce cannot handle tuple data")
        spec = spec_of("allreduce", data)
        return self._like(
            distributed.all_reduce(self._array(data), "sum", self.exchange.group), spec
        )

    def send(self, data: Any, dest: int, tag: int = 0) -> None:
        """An array, or a tuple of them, for recv() there."""
        is_tuple = not is_array(data)
        arrays = tuple(data) if is_tuple else (data,)
        specs = specs_of("send", arrays)
        message = (is_tuple, [spec.is_host for spec in specs])
        self.exchange.messages.send(message, dest, tag, tuple(self._array(x) for x in arrays))

    def recv(self, source: int, tag: int = 0) -> Any:
        """What send() has sent there."""
        message, arrays = self.exchange.messages.receive(source, tag)
        if not isinstance(message, Graph):
            return self.unpacked(message, arrays)
        # Of chainermn.functions.send().
        got = tuple(
            self.exchange.receive_graph(self._zeros(spec), source, its_tag)
            for spec, its_tag in zip_strict(message.specs, message.tags)
        )
        return got if len(got) > 1 else got[0]

    @staticmethod
    def unpacked(message: tuple[bool, list[bool]], arrays: list[chx.ndarray]) -> Any:
        """What send() was given, of what it has sent."""
        is_tuple, are_host = message
        got = tuple(chx.to_numpy(x) if host else x for x, host in zip_strict(arrays, are_host))
        return got if is_tuple else got[0]

    # Objects.

    def send_obj(self, obj: Any, dest: int, tag: int = 0) -> None:
        """An object that pickles, for recv_obj() there."""
        self.exchange.messages.send(obj, dest, tag)

    def recv_obj(self, source: int, status: Any = None, tag: int | None = None) -> Any:
        """The next object from a rank: of any tag if None, or -1, which is MPI.ANY_TAG."""
        return self.exchange.messages.receive(source, None if tag == -1 else tag)[0]

    def bcast_obj(self, obj: Any, max_buf_len: int | None = None, root: int = 0) -> Any:
        """The root's object."""
        return self.exchange.messages.broadcast(obj, root)

    def gather_obj(self, obj: Any, root: int = 0) -> list[Any] | None:
        """All ranks' objects at the root, None at the others."""
        objects = self.exchange.messages.all_gather(obj)
        return objects if self.rank == root else None

    def allreduce_obj(self, obj: Any) -> Any:
        """The sum of all ranks' objects, by their `+` in the order of ranks."""
        return functools.reduce(operator.add, self.exchange.messages.all_gather(obj))

    # Models.

    def bcast_data(self, model: Any) -> None:
        """Rank 0's parameters for all ranks' models."""
        for _, param in sorted(model.namedparams()):
            if param.data is not None:
                spec = spec_of("bcast_data", param.data)
                y = distributed.broadcast(self._array(param.data), 0, self.exchange.group)
                self._write(param.data, y, spec)

    @staticmethod
    def _write(target: Any, y: chx.ndarray, spec: Spec) -> None:
        if spec.is_host:
            target[...] = chx.to_numpy(y)
        else:
            chx.copyto(target.as_grad_stopped(), y)

    def multi_node_mean_grad(self, model: Any, zero_fill: bool = False) -> None:
        """The means of all ranks' gradients in the place of each one's, by one command.

        Args:
          zero_fill: makes zeros of the gradients that parameters with values lack; else these are left
            out, at all ranks alike.
        """
        params = [param for _, param in sorted(model.namedparams()) if param.data is not None]
        if zero_fill:
            for param in params:
                if param.grad is None:
                    param.grad = param.xp.zeros_like(param.data)
        params = [param for param in params if param.grad is not None]
        if self.name == "dummy" or not params:
            return
        specs = [spec_of("multi_node_mean_grad", param.grad) for param in params]
        dtypes = [self._exchanged_dtype(spec.dtype) for spec in specs]
        grads = [
            self._array(param.grad).astype(dtype, copy=False)
            for param, dtype in zip_strict(params, dtypes)
        ]
        means = distributed.all_reduce(grads, "mean", self.exchange.group)
        for param, mean, spec in zip_strict(params, means, specs):
            param.grad = self._like(mean.astype(spec.dtype, copy=False), spec)

    def _exchanged_dtype(self, dtype: str) -> str:
        """As ChainerMN: float16 is summed in float32, but by pure_nccl, which is told a dtype."""
        if self.name == "pure_nccl":
            return dtype if self.allreduce_grad_dtype is None else str(self.allreduce_grad_dtype)
        return "float32" if dtype == "float16" else dtype

    def _multi_node_mean(self, sendbuf: Any, recvbuf: Any) -> None:
        """The mean of all ranks' arrays into recvbuf; of recvbuf itself if sendbuf is None."""
        spec = spec_of("multi_node_mean", recvbuf)
        x = self._array(recvbuf if sendbuf is None else sendbuf)
        if spec.dtype == "float16":
            x = x.astype("float32")
        mean = distributed.all_reduce(x, "mean", self.exchange.group).astype(spec.dtype, copy=False)
        self._write(recvbuf, mean, spec)

    def _multi_node_mean_grad_async(self, model: Any, zero_fill: bool, stream: Any) -> None:
        self.multi_node_mean_grad(model, zero_fill)
