"""Serializers on a daemon's arrays."""

from chainer.serializers import npz

import chx

_serialize = npz.DictionarySerializer.__call__


def serialize(self, key, value):
    """Puts a value under a key into the dictionary, and returns it.

    A daemon's array goes there as a copy of what it is now: a snapshot's writer may be a thread or
    another process, which comes to it when the array has changed.
    """
    _serialize(self, key, chx.to_numpy(value) if isinstance(value, chx.ndarray) else value)
    return value


def adapt(chainer):
    npz.DictionarySerializer.__call__ = serialize
