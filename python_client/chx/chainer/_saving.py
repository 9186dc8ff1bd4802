"""Serializers on a daemon's arrays: they wait a few times for a whole model, not for each array.

What they are given is copied in the daemon, and read when much has come together or at the end of save().
"""

from __future__ import annotations

import threading

from chainer.serializers import hdf5, npz

import chx
from chx._compat import zip_strict
from chx.chainer import _reading

DictionarySerializer = npz.DictionarySerializer
HDF5Serializer = hdf5.HDF5Serializer

#: Arrays of more bytes are read at once: a wait is little beside them.
LARGE = 1 << 20
#: So many bytes are copied before they are read.
ROOM = 1 << 24

_serialize = npz.DictionarySerializer.__call__
_serialize_hdf5 = hdf5.HDF5Serializer.__call__


class _Save:
    """One call of save(): what has been copied for a file, and how to write it there."""

    def __init__(self, target):
        self.target = target
        self.originals = []
        self.copies = []
        self.writes = []
        self.bytes = 0

    def add(self, array, write):
        self.originals.append(array)
        self.copies.append(array.as_grad_stopped(copy=True))
        self.writes.append(write)
        self.bytes += array.nbytes
        if self.bytes >= ROOM:
            self.finish()

    def finish(self):
        try:
            values = _reading.read(self.copies)
        except MemoryError:  # Copies have no room in the daemon.
            values = [chx.to_numpy(array) for array in self.originals]
        for write, value in zip_strict(self.writes, values):
            write(value)
        self.__init__(self.target)


class _Current(threading.local):
    save = None


_current = _Current()


def _write(target, array, write):
    """Calls write() with an array's values of now: at once, or before the end of save()."""
    save = _current.save
    if save is None or save.target != target or array.nbytes > LARGE:
        write(chx.to_numpy(array))
        return
    save.add(array, write)


def _adapt_save(cls, target_of):
    def save(self, obj):
        """Serializes an object; arrays of a daemon's are read together."""
        # Subclasses may look at what has been written before the end.
        before, _current.save = _current.save, None
        if type(self) is cls:
            _current.save = _Save(target_of(self))
        try:
            obj.serialize(self)
            if _current.save is not None:
                _current.save.finish()
        finally:
            _current.save = before

    cls.save = save


def serialize(self, key, value):
    """Puts a value under a key into the dictionary, and returns it.

    A daemon's array goes there as a copy of what it is now: a snapshot's writer may be a thread or
    another process, which comes to it when the array has changed.
    """
    if not isinstance(value, chx.ndarray):
        return _serialize(self, key, value)
    _serialize(self, key, None)  # keys keep their order
    _write(id(self.target), value, lambda values: _serialize(self, key, values))
    return value


def serialize_hdf5(self, key, value):
    """Writes a value to the file under a key, and returns it."""
    if not isinstance(value, chx.ndarray):
        return _serialize_hdf5(self, key, value)
    _write(self.group.file, value, lambda values: _serialize_hdf5(self, key, values))
    return value


def adapt(chainer):
    DictionarySerializer.__call__ = serialize
    HDF5Serializer.__call__ = serialize_hdf5
    _adapt_save(DictionarySerializer, lambda serializer: id(serializer.target))
    _adapt_save(HDF5Serializer, lambda serializer: serializer.group.file)
