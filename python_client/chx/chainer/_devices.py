"""Chainer's devices: a daemon's device has no memory here, so its arrays fall back to NumPy."""

import contextlib
import threading

import chx


class _Target(threading.local):
    device = None


_target = _Target()


@contextlib.contextmanager
def results_on(device):
    """Within it, NumPy arrays that are sent nowhere in particular go to that device of the daemon.

    Chainer's fallback sends what a function keeps in its attributes that way.
    """
    before, _target.device = _target.device, device
    try:
        yield
    finally:
        _target.device = before


def adapt(chainer):
    from chainer.backends import _chainerx, _cpu

    send = _chainerx._array_to_chainerx

    def array_to_chainerx(array, device=None):
        return send(array, device or _target.device)

    def array_from_chainerx(array):
        if array is None or (
            isinstance(array, chainer.get_array_types()) and not isinstance(array, chx.ndarray)
        ):
            return array
        if not isinstance(array, chx.ndarray):
            raise TypeError(f"[from_chx] expects an array, got {type(array).__name__}")
        return chx.to_numpy(array, copy=False)

    def fallback_device(self):
        """NumPy's device: the arrays of any backend are the daemon's."""
        return _cpu.CpuDevice()

    def parameter_from_chx(self):
        """Moves the parameter into this process, as a NumPy array."""
        self._initial_device = _cpu.CpuDevice()
        super(chainer.Parameter, self)._from_chx(allow_unchaining=True)

    _chainerx._array_to_chainerx = array_to_chainerx
    _chainerx._array_from_chainerx = array_from_chainerx
    _chainerx.ChainerxDevice.fallback_device = property(fallback_device)
    chainer.Parameter.from_chx = parameter_from_chx
