"""Converters that know no device of a daemon: called as for NumPy, their results sent."""

import copy

import chainer
from chainer import variable
from chainer.dataset import convert

_call_converter = convert._call_converter
_concat = convert.ConcatWithAsyncTransfer.__call__
_UNSENT = "OSUV"  # kinds of dtypes of which a device has no arrays


def _is_remote(device):
    return isinstance(device, chainer.backend.ChainerxDevice)


def call_converter(converter, batch, device):
    """A converter's result on a device; functions without a decorator are told the CPU, -1."""
    if not _is_remote(device) or isinstance(converter, convert.Converter):
        return _call_converter(converter, batch, device)
    if isinstance(converter, convert.ConcatWithAsyncTransfer):
        return converter(batch, device)
    return _sent(converter(batch, -1), device)


def _sent(batch, device):
    """What a converter made of arrays, with these on a device; anything else as it is."""
    if isinstance(batch, dict):
        sent = copy.copy(batch)  # which may be of another class
        sent.update((key, _sent(value, device)) for key, value in batch.items())
        return sent
    if isinstance(batch, (list, tuple)):
        items = [_sent(item, device) for item in batch]
        return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)
    if isinstance(batch, variable.Variable):
        batch.to_device(device)
    elif isinstance(batch, chainer.get_array_types()) and batch.dtype.kind not in _UNSENT:
        return device.send(batch)
    return batch


def concat_with_async_transfer(self, batch, device=None, padding=None):
    """Examples concatenated, and sent: to a daemon's device, which does not wait for it either."""
    if device is not None and not isinstance(device, int):
        device = chainer.get_device(device)
        if _is_remote(device):
            return convert.concat_examples(batch, device, padding)
    return _concat(self, batch, device, padding)


def adapt(chainer):
    convert._call_converter = call_converter
    convert.ConcatWithAsyncTransfer.__call__ = concat_with_async_transfer
