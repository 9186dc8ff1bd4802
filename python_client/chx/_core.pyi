"""The compiled part of chx: the array type, operators, sessions. Users import from chx."""

import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from types import ModuleType
from typing import Any, SupportsIndex, overload

import numpy as np
from typing_extensions import Self, TypeAlias

from ._autograd.modes import AnyGraph
from ._numpy.methods import flagsobj, flatiter
from ._ops import *  # noqa: F403
from ._ops import ndarray_ops
from ._runtime import session as _session, sharing as _sharing
from ._runtime.context import BackpropId, Context
from ._runtime.devices import Backend
from ._types import DeviceLike, DtypeLike, Other, Scalar

if sys.version_info >= (3, 10):
    from types import EllipsisType
else:
    from builtins import ellipsis as EllipsisType

_Index: TypeAlias = "SupportsIndex | slice | EllipsisType | ndarray | None"
_Operand: TypeAlias = "ndarray | Other"

class ChainerxError(Exception):
    """What has no exception of its own; the base of some that do."""

class ContextError(Exception):
    """Arrays of different sessions meet, or there is no such context."""

class BackendError(Exception):
    """There is no such backend, or it failed."""

class DeviceError(Exception):
    """There is no such device, or arrays of different devices meet."""

class DimensionError(ValueError):
    """A shape, an axis or a number of dimensions does not fit; a ValueError."""

class DtypeError(TypeError):
    """A dtype does not fit; a TypeError."""

class NotImplementedError(Exception):
    """The operator cannot do this, or its gradient cannot."""

class GradientError(Exception):
    """A gradient does not fit its array, or there is none."""

class GradientCheckError(Exception):
    """A gradient differs from the numerical one: check_backward() and its like."""

class CancelledError(Exception):
    """The value was never computed, because its work was cancelled."""

class AuthenticationError(ChainerxError, PermissionError):
    """The daemon expects another token; a PermissionError."""

class OutOfMemoryError(ChainerxError, MemoryError):
    """A limit of memory: the text says which, what holds it and how to raise it; a MemoryError."""

class Device:
    """A device of a session; there is one object for each."""

    @property
    def name(self) -> str:
        """For example 'native:0'."""
    @property
    def index(self) -> int:
        """Number within the backend."""
    @property
    def backend(self) -> Backend:
        """The backend: its name is 'native' or 'cuda'."""
    @property
    def context(self) -> Context:
        """The Context that the device is of."""
    def synchronize(self) -> None:
        """Waits until all that was called is done."""

class Session:
    """A session with a daemon; made by chx.connect()."""

    def __new__(
        cls,
        address: str,
        client_name: str,
        token: str,
        tls_roots: str,
        reconnect: float = -1,
        tls_cert: str = "",
        tls_key: str = "",
        token_file: str = "",
        session: str = "",
    ) -> Self: ...
    @property
    def address(self) -> str:
        """Where the daemon listens."""
    @property
    def devices(self) -> tuple[Device, ...]:
        """The daemon's devices."""
    cancel_on_interrupt: bool
    @property
    def draining(self) -> bool:
        """Whether the daemon has said that it is about to end: it opens no more sessions, and those there are should finish. Known within some seconds, or at the next read."""
    def close(self) -> None:
        """Ends the session and frees all that it holds in the daemon."""
    def synchronize(self) -> None:
        """Waits until all that was called is done."""
    def cancel(self) -> None:
        """Gives up what was called and has not run: reads of its results raise CancelledError.

        The command that runs is stopped. Results that were there before stay, and the session goes on.
        """
    def flush(self) -> None:
        """Sends what is pending; does not wait."""
    def seed(self, seed: int, /) -> None:
        """Seeds the session's random numbers."""
    def stats(self) -> dict[str, int]:
        """Commands sent since the session began, and how often something waited: a dict."""
    def take_errors(self) -> list[str]:
        """Texts of errors reported since the last call, read or not."""
    def _save(self, name: str, tree: bytes, arrays: Sequence[ndarray], /) -> int: ...
    def _load(self, name: str, /) -> tuple[bytes, list[ndarray]]: ...
    def _saved(self) -> list[str]: ...
    def _forget(self, name: str, /) -> None: ...
    def _note_generator(self, state: str, /) -> None: ...
    def _upload_ahead(self, bytes: int, /) -> None: ...
    def _former_generator(self) -> str | None: ...
    def _discard(self) -> None: ...
    def _configure(self, name: str, value: bool | int, /) -> None: ...
    def _settings(self) -> dict[str, bool | int]: ...

class ndarray(ndarray_ops):
    """An n-dimensional array in a chxd daemon."""

    __array_priority__: float
    __hash__: None  # type: ignore[assignment]
    def __new__(
        cls, shape: int | tuple[int, ...], dtype: DtypeLike, device: DeviceLike = None
    ) -> Self: ...
    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions, as a tuple of ints."""
    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes to the next element of each dimension."""
    @property
    def dtype(self) -> np.dtype[Any]:
        """The elements' type, a numpy.dtype."""
    @property
    def device(self) -> Device:
        """Where the array is; always the same object."""
    @property
    def ndim(self) -> int:
        """Number of dimensions."""
    @property
    def size(self) -> int:
        """Number of elements."""
    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
    @property
    def offset(self) -> int:
        """Bytes from the storage's start to the first element."""
    @property
    def data_ptr(self) -> int:
        """A number of the memory within the session, the same for views of one another. No address: the memory is the daemon's."""
    @property
    def data_size(self) -> int:
        """Bytes from the first element to the last."""
    @property
    def is_contiguous(self) -> bool:
        """Whether elements are in C order."""
    # Of _array_attributes.py.
    @property
    def real(self) -> ndarray:
        """The array itself: there are no complex dtypes."""
    @property
    def imag(self) -> ndarray:
        """Zeros: there are no complex dtypes."""
    @property
    def flags(self) -> flagsobj:
        """How the array lies in the daemon's memory."""
    @property
    def flat(self) -> flatiter:
        """The elements in C order."""
    @flat.setter
    def flat(self, value: Any) -> None: ...
    def sort(self, axis: int = -1, kind: str | None = None) -> None:
        """Sorts along an axis, in place. Refused on arrays in a graph."""
    def argsort(self, axis: int | None = -1, kind: str | None = None) -> ndarray:
        """The indices (int64) that sort along an axis. Every `kind` is stable here."""
    def var(
        self,
        axis: Any = None,
        keepdims: bool = False,
        ddof: float = 0,
        dtype: DtypeLike | None = None,
    ) -> ndarray:
        """The variance along axes: squared differences from the mean over the number less `ddof`.

        `ddof` may be a fraction. As NumPy's, it is infinite, or NaN where nothing differs, if that leaves
        nothing.
        """
    def std(
        self,
        axis: Any = None,
        keepdims: bool = False,
        ddof: float = 0,
        dtype: DtypeLike | None = None,
    ) -> ndarray:
        """The square root of var()."""
    def partition(self, kth: int | Sequence[int], axis: int = -1) -> None:
        """partition(), in place. Refused on arrays in a graph."""
    def argpartition(self, kth: int | Sequence[int], axis: int | None = -1) -> ndarray:
        """The indices (int64) of a partition(), which here are those of sorting."""
    def nonzero(self) -> tuple[ndarray, ...]:
        """Indices (int64) of the elements that are not zero: an array for each axis. Waits for a count.

        Raises:
          DimensionError: the array has no dimensions.
        """
    def round(self, decimals: int = 0) -> ndarray:
        """x rounded to a number of decimals; halves go to the even one. Integers are rounded to tens, hundreds, ... by negative decimals, and copied by others."""
    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> ndarray:
        """Where the elements of v go into the sorted a (1-d), as int64: before or after equal ones.

        `sorter` are indices that sort an a which is not sorted.
        """
    def choose(self, choices: Any, mode: str = "raise") -> ndarray:
        """The element of choices[a[i]] at i, for each i; a and the choices broadcast.

        `mode` says what an index out of range does: 'raise' (ValueError; waits), 'wrap' or 'clip'.
        """
    def compress(self, condition: Any, axis: int | None = None) -> ndarray:
        """The parts along an axis (flattened by default) for which a condition holds."""
    def put(self, ind: Any, v: Any, mode: str = "raise") -> None:
        """a.flat[ind] = v, in place; values that are too few are repeated.

        `mode`: 'raise' (IndexError; an index on a device is waited for), 'wrap' or 'clip'.
        """
    def conj(self) -> ndarray:
        """A copy: there are no complex dtypes."""
    def conjugate(self) -> ndarray:
        """A copy: there are no complex dtypes."""
    def tobytes(self) -> bytes:
        """The elements' bytes in C order; waits."""
    def tostring(self) -> bytes:
        """The elements' bytes in C order; waits."""
    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        """Writes the elements to a file, as numpy.ndarray.tofile does; waits."""
    def dumps(self) -> bytes:
        """The array pickled; waits."""
    def dump(self, file: Any) -> None:
        """Pickles the array to a file, which is a path or open for writing; waits."""
    def itemset(self, *args: Any) -> None:
        """a.itemset(value) of one element, a.itemset(index, value): writes an element in place."""
    def __contains__(self, value: object, /) -> bool: ...
    @property
    def T(self) -> ndarray:
        """The array with its axes reversed, a view."""
    @property
    def grad(self) -> ndarray | None:
        """The gradient in the default graph, or None."""
    @grad.setter
    def grad(self, grad: ndarray | None) -> None: ...
    def item(self) -> bool | int | float:
        """The only element as a Python number; waits for it."""
    def tolist(self) -> Any:
        """Nested lists of Python numbers; waits."""
    share = _sharing.share
    def to_numpy_async(self, copy: bool = True) -> Coroutine[Any, Any, np.ndarray[Any, Any]]:
        """As chx.to_numpy(), to be awaited: the values that the array has when this is called.

            values = await array.to_numpy_async()

        May be called in any thread, and awaited in any event loop, once. Until it is answered the daemon
        keeps a copy of the array, unless `copy` is False. Cancelling the task that awaits it ends the
        wait, and nothing else.

        Raises, when it is awaited, what to_numpy() raises.
        """
    def item_async(self) -> Coroutine[Any, Any, bool | int | float]:
        """As item(), to be awaited: the only element as a Python number, as it is at the call."""
    def tolist_async(self) -> Coroutine[Any, Any, Any]:
        """As tolist(), to be awaited: nested lists of what the elements are at the call."""
    def astype(self, dtype: DtypeLike, copy: bool = True) -> ndarray:
        """The array cast to a dtype; itself if it has it and copy is False."""
    def flatten(self) -> ndarray:
        """A copy in one dimension."""
    @overload  # type: ignore[override]
    def reshape(self, newshape: int | tuple[int, ...] | list[int]) -> ndarray: ...
    @overload
    def reshape(self, *newshape: int) -> ndarray:
        """a in another shape; one dimension may be -1 (any negative number): what is left. A view if the strides allow it."""
    @overload  # type: ignore[override]
    def transpose(self, axes: tuple[int, ...] | list[int] | None = None) -> ndarray: ...
    @overload
    def transpose(self, *axes: int) -> ndarray:
        """Axes permuted; reversed by default. A view."""
    @property
    def mT(self) -> ndarray:
        """Matrices in the last two axes transposed, a view."""
    @overload
    def to_device(self, device: Device | str, /, *, stream: None = None) -> ndarray: ...
    @overload
    def to_device(self, backend_name: str, index: int, /, *, stream: None = None) -> ndarray:
        """The array on another device of its session, which is a Device, a name, or a backend's name and an index."""
    def clip(self, a_min: _Operand | None, a_max: _Operand | None) -> ndarray:
        """The elements limited to [a_min, a_max]: numbers or arrays, one of which may be None."""
    def fill(self, value: Scalar) -> None:
        """Sets every element of a, in place. Refused on arrays in a graph."""
    def require_grad(self, backprop_id: BackpropId | None = None) -> Self:
        """Makes the array a leaf whose gradient backward computes; returns itself. DtypeError unless it is a float array."""
    def is_grad_required(self, backprop_id: BackpropId | None = None) -> bool:
        """Whether require_grad was called."""
    def is_backprop_required(self, backprop_id: BackpropId | AnyGraph | None = None) -> bool:
        """Whether operators on the array are recorded, in the current mode: in one graph, or, with anygraph, in any."""
    def unchain(self, backprop_id: BackpropId | None = None) -> None:
        """Forgets how the array was made: it becomes a leaf of the graph, and what only it kept of the graph is freed."""
    def _is_chained(self, backprop_id: BackpropId | None = None) -> bool: ...
    def _debug_dump_computational_graph(self, backprop_id: BackpropId | None = None) -> None: ...
    def get_grad(self, backprop_id: BackpropId | None = None) -> ndarray | None:
        """The gradient, or None. ChainerxError unless the array requires it."""
    def set_grad(self, grad: ndarray | None, backprop_id: BackpropId | None = None) -> None:
        """Sets the gradient: shape, dtype and device must be the array's (GradientError). The array requires a gradient from then on."""
    def cleargrad(self, backprop_id: BackpropId | None = None) -> None:
        """Removes the gradient."""
    def as_grad_stopped(
        self, backprop_ids: list[BackpropId] | BackpropId | None = None, copy: bool = False
    ) -> ndarray:
        """The same memory, or a copy, outside of the graphs."""
    def backward(
        self,
        backprop_id: BackpropId | None = None,
        enable_double_backprop: bool = False,
        loss_scale: float | None = None,
    ) -> None:
        """Adds gradients to all leaves that this array depends on."""
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[ndarray]: ...
    def __bool__(self) -> bool: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __complex__(self) -> complex: ...
    def __index__(self) -> int: ...
    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType: ...
    def __getitem__(self, index: _Index | tuple[_Index, ...], /) -> ndarray: ...
    def __setitem__(self, index: Any, value: Any, /) -> None: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]: ...
    def __neg__(self) -> ndarray: ...
    def __pos__(self) -> ndarray: ...
    def __invert__(self) -> ndarray: ...
    def __abs__(self) -> ndarray: ...
    def __matmul__(self, other: _Operand, /) -> ndarray: ...
    def __rmatmul__(self, other: Other, /) -> ndarray: ...
    def __imatmul__(self, other: _Operand, /) -> Self: ...
    def __add__(self, other: _Operand, /) -> ndarray: ...
    def __radd__(self, other: Other, /) -> ndarray: ...
    def __iadd__(self, other: _Operand, /) -> Self: ...
    def __sub__(self, other: _Operand, /) -> ndarray: ...
    def __rsub__(self, other: Other, /) -> ndarray: ...
    def __isub__(self, other: _Operand, /) -> Self: ...
    def __mul__(self, other: _Operand, /) -> ndarray: ...
    def __rmul__(self, other: Other, /) -> ndarray: ...
    def __imul__(self, other: _Operand, /) -> Self: ...
    def __truediv__(self, other: _Operand, /) -> ndarray: ...
    def __rtruediv__(self, other: Other, /) -> ndarray: ...
    def __itruediv__(self, other: _Operand, /) -> Self: ...
    def __floordiv__(self, other: _Operand, /) -> ndarray: ...
    def __rfloordiv__(self, other: Other, /) -> ndarray: ...
    def __ifloordiv__(self, other: _Operand, /) -> Self: ...
    def __mod__(self, other: _Operand, /) -> ndarray: ...
    def __rmod__(self, other: Other, /) -> ndarray: ...
    def __imod__(self, other: _Operand, /) -> Self: ...
    def __remainder__(self, other: _Operand, /) -> ndarray: ...
    def __rremainder__(self, other: Other, /) -> ndarray: ...
    def __iremainder__(self, other: _Operand, /) -> Self: ...
    def __pow__(self, other: _Operand, /) -> ndarray: ...
    def __rpow__(self, other: Other, /) -> ndarray: ...
    def __ipow__(self, other: _Operand, /) -> Self: ...
    def __divmod__(self, other: _Operand, /) -> tuple[ndarray, ndarray]: ...
    def __rdivmod__(self, other: Other, /) -> tuple[ndarray, ndarray]: ...
    def __and__(self, other: _Operand, /) -> ndarray: ...
    def __rand__(self, other: Other, /) -> ndarray: ...
    def __iand__(self, other: _Operand, /) -> Self: ...
    def __or__(self, other: _Operand, /) -> ndarray: ...
    def __ror__(self, other: Other, /) -> ndarray: ...
    def __ior__(self, other: _Operand, /) -> Self: ...
    def __xor__(self, other: _Operand, /) -> ndarray: ...
    def __rxor__(self, other: Other, /) -> ndarray: ...
    def __ixor__(self, other: _Operand, /) -> Self: ...
    def __lshift__(self, other: _Operand, /) -> ndarray: ...
    def __rlshift__(self, other: Other, /) -> ndarray: ...
    def __ilshift__(self, other: _Operand, /) -> Self: ...
    def __rshift__(self, other: _Operand, /) -> ndarray: ...
    def __rrshift__(self, other: Other, /) -> ndarray: ...
    def __irshift__(self, other: _Operand, /) -> Self: ...
    def __eq__(self, other: object, /) -> ndarray: ...  # type: ignore[override]
    def __ne__(self, other: object, /) -> ndarray: ...  # type: ignore[override]
    def __lt__(self, other: _Operand, /) -> ndarray: ...
    def __le__(self, other: _Operand, /) -> ndarray: ...
    def __gt__(self, other: _Operand, /) -> ndarray: ...
    def __ge__(self, other: _Operand, /) -> ndarray: ...

def get_default_device() -> Device:
    """Where the calling thread's new arrays are made."""

def set_default_device(device: DeviceLike, /) -> None:
    """Sets where the calling thread's new arrays are made."""

# What the package calls. Positional arguments, but for those of _register.
_operators: list[str]
_submodules: dict[str, dict[str, Callable[..., Any]]]

def _admin_connect(address: str, token: str, tls_roots: str, /) -> object: ...
def _admin_call(
    admin: object, method: str, session: int, size: int, seconds: float, run: str, /
) -> str: ...
def _merge_traces(trace: str, client: str, /) -> str: ...
def _start_trace() -> None: ...
def _stop_trace() -> str: ...
def _register(**callbacks: Callable[..., Any]) -> None: ...
def _add_array_attribute(name: str, value: Any, /) -> None: ...
def _get_default_session() -> _session.Session | None: ...
def _set_default_session(session: Session | None, /) -> None: ...
def _get_global_session() -> _session.Session | None: ...
def _get_thread_session() -> _session.Session | None: ...
def _set_thread_session(session: Session | None, /) -> None: ...
def _get_thread_device() -> Device | None: ...
def _find_device(session: Session, name: str, /) -> Device: ...
def _get_device(device: DeviceLike, /) -> Device: ...
def _new_backprop_id(session: Session, name: str, /) -> int: ...
def _release_backprop_id(session: Session, number: int, /) -> None: ...
def _check_backprop_id(session: Session, number: int, /) -> None: ...
def _backprop_ids(array: ndarray, /) -> list[int]: ...
def _push_mode(
    record: bool, backprop_ids: Sequence[BackpropId] | None, session: Session | None, /
) -> None: ...
def _pop_mode() -> None: ...
def _push_autocast(dtype: DtypeLike | None, /) -> None: ...
def _pop_autocast() -> None: ...
def _autocast() -> str | None: ...
def _records(backprop_id: BackpropId | None, session: Session | None, /) -> bool: ...
def _backward(
    outputs: Sequence[ndarray],
    backprop_id: BackpropId | None,
    enable_double_backprop: bool,
    loss_scale: float,
    /,
) -> None: ...
def _grad(
    outputs: Sequence[ndarray],
    inputs: Sequence[ndarray],
    grad_outputs: Sequence[ndarray | None],
    backprop_id: BackpropId | None,
    enable_double_backprop: bool,
    loss_scale: float,
    retain_grad: bool,
    /,
) -> list[ndarray | None]: ...
def _record_function(
    backward: Callable[..., Any],
    inputs: Sequence[ndarray | None],
    outputs: Sequence[ndarray | None],
    retained_inputs: Sequence[int],
    retained_outputs: Sequence[int],
    /,
) -> None: ...
def _set_log(receiver: Callable[[int, str], None] | None, least: int, /) -> None: ...
def _optimizer_rules() -> dict[str, tuple[str, dict[str, float], dict[str, float]]]: ...
def _optimizers() -> dict[str, tuple[str, str, dict[str, float]]]: ...
def _optimizer_attributes(
    rule: str, hyperparameters: tuple[float, ...], t: int, initial_alpha: float | None, /
) -> tuple[float | None, ...]: ...
def _call_log_begin() -> None: ...
def _call_log_end() -> (
    tuple[list[tuple[str, bool, list[Any], dict[str, Any], list[ndarray]]], bool]
): ...
def _program_begin(session: Session, arguments: Sequence[ndarray], /) -> None: ...
def _program_operations(session: Session, /) -> int: ...
def _program_hold(array: ndarray, /) -> None: ...
def _program_end(
    session: Session, results: Sequence[ndarray], slots: Sequence[int], /
) -> tuple[Any, str]: ...
def _program_abandon(session: Session, /) -> None: ...
def _program_explain(program: object, measure: bool, /) -> str: ...
def _explanations(recordings: list[tuple[str, str]], as_svg: bool, /) -> str: ...
def _program_keeps_graph(program: Any, /) -> bool: ...
def _program_run(
    program: Any, arguments: Sequence[ndarray], times: int, values: Sequence[int], /
) -> list[ndarray]: ...
def _data_describe(
    session: Session, path: str, /
) -> list[tuple[str, np.dtype[Any], tuple[int, ...]]]: ...
def _data_read(
    device: Device,
    path: str,
    name: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    rows: bytes,
    /,
) -> ndarray: ...
def _run_start(
    session: Session,
    name: str,
    step: tuple[Any, ...],
    steps: int,
    shuffle: int | None,
    rows: Sequence[ndarray],
    done: int,
    first: Sequence[ndarray],
    values: Sequence[ndarray],
    log_every: int,
    evaluation: tuple[Any, ...] | None,
    evaluate_every: int,
    equal_weights: bool,
    marks: Sequence[ndarray],
    rules: list[tuple[int, bool, int, float, int]],
    time_limit: float,
    snapshot_every: int,
    snapshot_seconds: float,
    /,
) -> None: ...
def _run_watch(
    session: Session, name: str, after: int, seconds: float, /
) -> tuple[tuple[Any, ...], int, int, list[tuple[Any, ...]]]: ...
def _run_control(session: Session, name: str, order: int, /) -> None: ...
def _run_list(session: Session, /) -> list[tuple[Any, ...]]: ...
def _run_order(seed: int, epoch: int, rows: int, /) -> bytes: ...
def _attribute_index(operator: str, attribute: str, /) -> int: ...
def _upload(
    values: Any, dtype: DtypeLike, shape: tuple[int, ...], device: DeviceLike, /
) -> ndarray: ...
def _fetch(array: ndarray, values: Any, /) -> None: ...
def _export(array: ndarray, /) -> tuple[Any, int, tuple[int, ...]] | None: ...
def _import(
    address: int,
    dtype: DtypeLike,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    device: DeviceLike,
    /,
) -> ndarray | None: ...
def _dlpack_export(
    buffer: Any, versioned: bool, copied: bool, bfloat16: bool = False, /
) -> Any: ...
def _dlpack_import(capsule: Any, /) -> Any: ...
def _dlpack_is_bfloat16(memory: Any, /) -> bool: ...
def _join_group(
    session: Session, name: str, secret: str, address: str, rank: int, size: int, /
) -> int: ...
def _leave_group(session: Session, number: int, /) -> None: ...
def _new_reducer() -> int: ...
def _reduce_backward(
    outputs: Sequence[ndarray],
    parameters: Sequence[ndarray],
    group: Sequence[int],
    reducer: int,
    reduction: int,
    dtype: DtypeLike | None,
    bucket_bytes: int,
    delayed: bool,
    backprop_id: BackpropId | None,
    loss_scale: float,
    /,
) -> None: ...
def _group_from_environment() -> tuple[str, str, str, int, int]: ...
def _is_group_in_environment() -> bool: ...
def _share(array: ndarray, write: bool, keep: bool, expires_ms: int, tenant: str, /) -> str: ...
def _open_shared(session: Session, capability: str, copy: bool, /) -> ndarray: ...
def _revoke(session: Session, capability: str, /) -> None: ...
def _publish(session: Session, name: str, /, *tree: Sequence[Any] | bool | str) -> int: ...
def _publish_programs(
    session: Session,
    name: str,
    programs: list[Any],
    readers: Sequence[str],
    keep: bool,
    structure: str,
    /,
) -> int: ...
def _lookup(session: Session, tenant: str, name: str, version: int, copy: bool, /) -> Any: ...
def _unpublish(session: Session, name: str, version: int, /) -> None: ...
def _names(session: Session, prefix: str, /) -> list[tuple[str, str, int, int, int]]: ...
def _as_strided(
    array: ndarray, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, /
) -> ndarray: ...
def _result_memory(size: int, /) -> Any: ...
def _random(
    operator: str,
    shape: int | tuple[int, ...],
    a: Any,
    b: Any,
    dtype: DtypeLike,
    device: DeviceLike,
    /,
) -> ndarray: ...
def _random_of(operator: str, /, *parameters: ndarray) -> ndarray: ...
