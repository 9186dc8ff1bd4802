"""Backends and devices, and which device a thread uses by default."""

from __future__ import annotations

from typing import SupportsIndex, cast

from chx import _core
from chx._compat import Self
from chx._core import Device
from chx._runtime.context import Context, context_of, device_name, get_default_context
from chx._runtime.session import Session
from chx._types import DeviceLike


class Backend:
    """What the devices of one kind have in common; there is one object for each in a context."""

    __slots__ = ("name", "_open_session", "_context")

    def __init__(self, name: str, session: Session) -> None:
        self.name = name
        self._open_session: Session | None = session
        self._context: Context | None = None  # after the session was closed

    @property
    def _session(self) -> Session:
        session = self._open_session
        if session is None:
            raise ConnectionError("the session is closed")
        return session

    def __repr__(self) -> str:
        return self.name

    @property
    def context(self) -> Context:
        """The context that the backend is of."""
        return self._context or context_of(self._session)

    def get_device(self, index: SupportsIndex) -> Device:
        """The device `backend:index`; IndexError if the daemon does not serve it."""
        return _core._find_device(self._session, device_name(self.name, index))

    def get_device_count(self) -> int:
        """How many devices of this backend the daemon serves."""
        return sum(device.backend is self for device in self._session.devices)


def get_device(device: DeviceLike = None, index: SupportsIndex | None = None) -> Device:
    """A device by its name, by backend name and index, or the default one.

    Raises:
      BackendError, IndexError: the daemon does not serve it.
    """
    if index is not None:
        return _core._get_device(device_name(cast(str, device), index))
    return _core._get_device(device)


def get_backend(name: str) -> Backend:
    """The backend of that name in the default context.

    Raises:
      BackendError: the daemon does not serve it.
    """
    return get_default_context().get_backend(name)


class DeviceScope:
    """Makes a device the calling thread's default within a with-block."""

    def __init__(self, device: DeviceLike, index: SupportsIndex | None = None) -> None:
        self.device = get_device(device, index)
        self._previous: list[Device | None] = []

    def __enter__(self) -> Self:
        self._previous.append(_core._get_thread_device())
        _core.set_default_device(self.device)
        return self

    def __exit__(self, *_: object) -> None:
        _core.set_default_device(self._previous.pop())


def using_device(device: DeviceLike, index: SupportsIndex | None = None) -> DeviceScope:
    """A DeviceScope: the device is the calling thread's default within a with-block."""
    return DeviceScope(device, index)
