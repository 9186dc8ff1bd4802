"""What chx does in Python: everything that is not called once per operator."""

import atexit
import contextlib
import inspect
import os
import shutil
import subprocess
import tempfile
import threading

import numpy as np

from chx import _context, _core, _streams
from chx._autograd import (  # noqa: F401
    AnyGraph,
    BackpropId,
    anygraph,
    as_grad_stopped,
    backprop_scope,
    backward,
    force_backprop_mode,
    grad,
    id_name,
    is_backprop_required,
    no_backprop_mode,
)
from chx._context import (  # noqa: F401  what the compiled part looks for here
    Backend,
    get_device,
    reduce_device,
)
from chx._gradient_check import check_backward, check_double_backward  # noqa: F401
from chx._indexing import getitem_by_arrays, setitem_by_arrays  # noqa: F401


def signature(text):
    """An inspect.Signature from a text like "(a, axis=None)"."""
    parameters = []
    for part in text.strip("()").split(", ") if text != "()" else []:
        name, _, default = part.partition("=")
        if not default:
            value = inspect.Parameter.empty
        elif default.startswith("'"):
            value = default.strip("'")
        else:
            value = {"None": None, "True": True, "False": False}.get(default, default)
            if isinstance(value, str):
                value = int(value) if value.lstrip("-").isdigit() else float(value)
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value)
        )
    # A required parameter may follow an optional one, as in random_uniform: keyword-only then.
    optional = False
    for i, parameter in enumerate(parameters):
        if parameter.default is inspect.Parameter.empty and optional:
            parameters[i:] = [
                p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters[i:]
            ]
            break
        optional = optional or parameter.default is not inspect.Parameter.empty
    return inspect.Signature(parameters)


# --- Daemons -------------------------------------------------------------------------------------


def _find_chxd():
    candidates = [os.environ.get("CHX_CHXD")]
    candidates.append(os.path.join(os.path.dirname(__file__), "bin", "chxd"))
    candidates.append(shutil.which("chxd"))
    for path in candidates:
        if path and os.access(path, os.X_OK):
            return os.path.abspath(path)
    raise FileNotFoundError(
        "there is no chxd to start: give connect() an address, or set $CHX_SERVER to one or "
        "$CHX_CHXD to the daemon's path"
    )


# What a private daemon serves if nobody says it; install_chainerx() makes it as many as ChainerX has.
default_devices = "native:0"


class _PrivateDaemon:
    """A chxd of this process alone. It ends with the process, however that ends."""

    def __init__(self, devices, plugins):
        self.directory = tempfile.mkdtemp(prefix="chx-")
        self.address = f"unix:{self.directory}/chxd.sock"
        self.pid = os.getpid()
        read_end, self.lifeline = os.pipe()  # neither is inherited by what is started
        os.register_at_fork(after_in_child=self._leave)
        command = [
            _find_chxd(),
            f"--devices={devices}",
            f"--listen={self.address}",
            f"--lifeline-fd={read_end}",
        ]
        if plugins:
            paths = (f"{name}={os.path.abspath(path)}" for name, path in plugins.items())
            command.append(f"--plugins={','.join(paths)}")
        self.process = subprocess.Popen(
            command, pass_fds=[read_end], stdout=subprocess.PIPE, start_new_session=True
        )
        os.close(read_end)
        line = self.process.stdout.readline().decode()
        if not line.startswith("chxd ready"):
            self.stop()
            raise ConnectionError(f"chxd did not start: {' '.join(command)}")
        atexit.register(self.stop)

    def _leave(self):
        # A forked child must not keep the daemon alive.
        if self.process is not None:
            os.close(self.lifeline)

    def stop(self):
        if os.getpid() != self.pid or self.process is None:
            return
        os.close(self.lifeline)
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process = None
        shutil.rmtree(self.directory, ignore_errors=True)


class Session(_core.Session):
    """A session with a daemon. Ends with close(), or as a context manager with its block."""

    _closed = False
    _stream = None  # of random numbers; chx/_streams.py

    def __enter__(self):
        return self

    def __exit__(self, exception_type, *_):
        try:
            self.close()
        except Exception:
            if exception_type is None:  # else that one says more
                raise

    def seed(self, seed=None):
        """Restarts the session's stream of random numbers: by the seed's lower 64 bits, or anyhow."""
        self._stream = _streams.Stream(seed)

    def configure(self, **settings):
        """Changes what the daemon's libraries may do for this session, from now on.

        The names are Chainer's. They count on GPUs, and where cuDNN is installed.

        Args:
          use_cudnn: whether cuDNN is used at all; True by default.
          cudnn_deterministic: only algorithms that give the same bits each time; False by default.
          autotune: whether algorithms are tried for each new shape, which takes time once, instead
            of believing cuDNN's estimates; False by default.
          max_workspace_size: bytes that one convolution may take beside its arrays, or a recurrent
            network beside what its gates amount to; by default
            $CHAINERX_CUDNN_MAX_WORKSPACE_SIZE, or 8 MiB. They count as the session's memory.

        Raises:
          ValueError, TypeError: there is no such setting, or not with such a value. Those before
            it in the call have been changed.
        """
        for name, value in settings.items():
            self._configure(name, value)

    @property
    def settings(self):
        """What configure() has set, and the defaults of what it has not; a new dict."""
        return self._settings()

    def close(self):
        """Ends the session; arrays of it are unusable afterwards."""
        if _core._get_global_session() is self:
            _core._set_default_session(None)
        if _core._get_thread_session() is self:
            _core._set_thread_session(None)
        self._closed = True
        daemon, self._daemon = getattr(self, "_daemon", None), None
        try:
            super().close()
        finally:
            if daemon is not None:
                daemon.stop()


def connect(
    address=None, *, token=None, tls_roots=None, devices=None, client_name=None, plugins=None
):
    """Opens a session with a chxd daemon and makes it the default one.

    Args:
      address: "unix:PATH" or "HOST:PORT". Without one $CHX_SERVER counts; without that a private
        daemon is started, which stops with this process.
      token: what the daemon's --token-file holds; default $CHX_TOKEN.
      tls_roots: PEM file with certificates to trust; plaintext without it.
      devices: what a private daemon serves, such as "cuda:0,native:0"; default $CHX_DEVICES, or
        "native:0" (after install_chainerx() four of them).
      client_name: how the daemon's lists call this client.
      plugins: backends that a private daemon loads, {name: path of the shared library}; their
        devices have to be named in `devices` too, as "name:0".

    Returns:
      The Session.

    Raises:
      ConnectionError: nobody answers at the address, or no daemon starts.
      ValueError: plug-ins for a daemon that runs already: only who starts it may name them.
    """
    address = address or os.environ.get("CHX_SERVER")
    if address and plugins:
        raise ValueError(f"[connect] expects plugins for a private daemon only, got {address}")
    devices = devices or os.environ.get("CHX_DEVICES") or default_devices
    daemon = None if address else _PrivateDaemon(devices, plugins)
    roots = ""
    if tls_roots is not None:
        with open(tls_roots) as file:
            roots = file.read()
    session = _open(
        address or daemon.address,
        client_name or f"python pid {os.getpid()}",
        token or os.environ.get("CHX_TOKEN", ""),
        roots,
    )
    session._daemon = daemon
    _context.use_globally(session)
    return session


def _open(*arguments):
    session = Session(*arguments)
    session._arguments = arguments
    if size := os.environ.get("CHAINERX_CUDNN_MAX_WORKSPACE_SIZE"):
        session.configure(max_workspace_size=int(size))
    # At exit the session goes before its daemon: handlers run in reverse order.
    atexit.register(_close_at_exit, session, os.getpid())
    return session


def connect_beside(session):
    """A further session with the daemon of another, which keeps the daemon."""
    return _open(*session._arguments)


def _close_at_exit(session, pid):
    if os.getpid() == pid:
        with contextlib.suppress(Exception):  # the process ends anyway
            session.close()


_connecting = threading.RLock()


def connect_default():
    """The session of functions without one: connects as connect() does.

    Raises:
      ContextError: the global default context was set to None.
    """
    with _connecting:  # one thread does
        return _core._get_default_session() or _context.global_session()


# --- Arrays --------------------------------------------------------------------------------------


def array(object, dtype=None, copy=True, device=None):
    """An array from nested sequences, numbers, NumPy arrays or another array.

    The values are copied at the call. Dtypes are NumPy's: integers int64, floats float64.
    Without `copy` a NumPy array that to_numpy(copy=False) gave, or a view of one, comes back as an
    array over the same memory; all others are copied all the same, with their strides if these
    don't spread the elements over much more memory.
    """
    if isinstance(object, _core.ndarray):
        if device is not None and get_device(device) is not object.device:
            object = object.to_device(device)
            copy = False
        if dtype is not None and np.dtype(dtype) != object.dtype:
            return object.astype(dtype)
        return object.copy() if copy else object
    values = np.asarray(object, dtype)
    if values.dtype.hasobject:
        raise _core.DtypeError(f"unsupported dtype: {values.dtype}")
    if not copy and values is object:
        shared = _same_memory(values, device)
        if shared is not None:
            return shared
        if (
            not values.flags.c_contiguous
            and (strided := upload_strided(values, device)) is not None
        ):
            return strided
    # In native byte order and C order, which is what is sent.
    flat = values.astype(values.dtype.newbyteorder("="), copy=False).ravel()
    odd = not copy and values is object and _odd_strides(values)
    shape = flat.shape if odd else values.shape
    result = _core._upload(flat.view(np.uint8), flat.dtype, shape, device)
    return _core._as_strided(result, values.shape, values.strides, 0) if odd else result


def _odd_strides(values):
    """Whether a NumPy array in C order has strides of its own, for axes that are never stepped."""
    stride, odd = values.itemsize, False
    if not values.flags.c_contiguous or any(s % stride for s in values.strides):
        return False
    for n, s in zip(reversed(values.shape), reversed(values.strides), strict=True):
        odd = odd or s != (stride if values.size else 0)
        stride *= n
    return odd


def _same_memory(values, device):
    """The array over the memory of a NumPy array, if that is one that the daemon knows."""
    if not values.flags.writeable or not values.dtype.isnative or values.dtype.kind not in "bifu":
        return None
    address = values.__array_interface__["data"][0]
    try:
        return _core._import(address, values.dtype, values.shape, values.strides, device)
    except _core.DtypeError:
        return None  # which the copy says better


def upload_strided(values, device=None, limit=None):
    """A copy of a NumPy array that has its strides; zeros lie between its elements.

    None if kernels could not work with such strides, or if it takes more than `limit` bytes, by
    default 64 KiB or four times the elements'.
    """
    itemsize = values.itemsize
    before = size = 0
    if values.size:
        steps = [s * (n - 1) for n, s in zip(values.shape, values.strides, strict=True)]
        before = -sum(step for step in steps if step < 0)
        size = before + sum(step for step in steps if step > 0) + itemsize
    if limit is None:
        limit = max(65536, 4 * values.nbytes)
    if size > limit or not values.dtype.isnative or any(s % itemsize for s in values.strides):
        return None
    memory = np.zeros(size, np.uint8)
    if values.size:
        np.ndarray(values.shape, values.dtype, memory, before, values.strides)[...] = values
    base = _core._upload(memory, values.dtype, (size // itemsize,), device)
    return _core._as_strided(base, values.shape, values.strides, before)


def asarray(object, dtype=None, device=None):
    """As array(), without a copy of what is an array already."""
    return array(object, dtype, False, device)


def as_array_like(value, like):
    return array(np.asarray(value), dtype=like.dtype, device=like.device)


def as_indices(value, like):
    """take's indices, from what NumPy makes an array of; on the device of the array indexed."""
    return array(np.asarray(value), device=like.device)


def split(ary, indices_or_sections, axis=0):
    """Parts along an axis, as a list: equal ones if given a number, or cut at indices. Views."""
    if np.ndim(indices_or_sections) == 0:
        number = np.asarray(indices_or_sections)
        if number.dtype.kind == "f" and float(number).is_integer():  # as NumPy takes it
            indices_or_sections = int(number)
        return _core.split(ary, indices_or_sections, None, axis)
    return _core.split(ary, None, indices_or_sections, axis)


def new_ndarray(shape, dtype, device=None):
    return _core.empty(shape, dtype, device)


# From here on the system's allocator gives memory back and makes it anew, small page by small page.
_LARGE_RESULT = 4 << 20


def to_numpy(array, copy=True):
    """The array's values as a new NumPy array; waits for them.

    Without `copy` and for an array on "native" of a daemon reached over a Unix socket, the NumPy
    array is the array's memory itself, with its strides: what either side writes, the other sees.
    All that was called before has run by then, and as long as the NumPy array lives, operators on
    that memory have run when their calls return. It is a read-only copy when the daemon is on another
    host or the session has no memory left to share. Of an array on another backend, such as a GPU's,
    it is always a copy, which may be written.

    Copies of 4 MiB and more lie in memory that the library uses again when nobody has them (at most
    256 MiB idle, which the system may take back): their `base` is not None.
    """
    if not isinstance(array, _core.ndarray):
        raise TypeError(f"expected an ndarray, got {type(array).__name__}")
    shared = None if copy else _core._export(array)
    if shared is not None:
        memory, offset, strides = shared
        return np.ndarray(array.shape, array.dtype, memory, offset, strides)
    if array.nbytes < _LARGE_RESULT:
        out = np.empty(array.shape, array.dtype)
    else:
        out = np.ndarray(array.shape, array.dtype, _core._result_memory(array.nbytes))
    _core._fetch(array, out.reshape(-1).view(np.uint8))
    # Writes that the array was expected to see fail rather than get lost.
    out.flags.writeable = bool(copy) or array.device.backend.name != "native"
    return out


def repr_array(array):
    values = np.array2string(to_numpy(array), separator=", ", prefix="array(")
    text = f"array({values}, shape={array.shape}, dtype={array.dtype}, device='{array.device}'"
    ids = _core._backprop_ids(array)
    if ids:
        text += f", backprop_ids={[id_name(i) for i in ids]}"
    return text + ")"
