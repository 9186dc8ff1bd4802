"""What administrators ask a daemon for: `chxctl` in Python.

    from chx import admin

    with admin.connect("unix:/run/chxd/chxd.sock") as node:
        for session in node.sessions():
            print(session.number, session.client_name, session.memory_bytes)
        node.limit(7, 2 << 30)

Whoever may open sessions of the daemon may do this: it is for the daemon's own user and for those
who have its token.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
from typing import TYPE_CHECKING, Any, TypeVar

from chx import _core
from chx._compat import Self
from chx._runtime.certificates import read_roots

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

__all__ = [
    "Admin",
    "Daemon",
    "Device",
    "Run",
    "Session",
    "Tenant",
    "connect",
    "export_trace",
    "merge_trace",
]


@dataclasses.dataclass(frozen=True)
class Daemon:
    """A daemon as a whole. Sizes are bytes."""

    version: str
    uptime_seconds: float
    draining: bool  # it opens no more sessions
    tracing: bool
    sessions: int
    attached: int  # of the sessions: those with a connected client
    max_sessions: int
    memory_bytes: int  # of the host's, by all sessions and the daemon itself
    memory_limit_bytes: int
    lease_seconds: float  # how long a session lives without its client


@dataclasses.dataclass(frozen=True)
class Device:
    """A device that a daemon serves. Sizes are bytes."""

    name: str
    kind: str
    memory_bytes: int
    used_bytes: int  # what sessions have taken of it, with what they keep for later
    lost: str  # why it does not work any more; "": it does


@dataclasses.dataclass(frozen=True)
class Session:
    """Somebody's session. Sizes are bytes."""

    number: int
    client_name: str
    tenant: str
    peer: str
    state: str  # busy, attached or detached
    age_seconds: float
    idle_seconds: float
    memory_bytes: int
    memory_limit_bytes: int
    host_array_bytes: int
    device_array_bytes: int
    record_bytes: int  # handles, graphs, errors
    transfer_bytes: int
    handles: int
    commands: int
    errors: int
    compute_seconds: float  # how long its commands and transfers have run
    device_seconds: float  # how long GPUs have worked for it
    last_operator: str


@dataclasses.dataclass(frozen=True)
class Tenant:
    """A tenant and what its sessions take. Sizes are bytes; limits of 0 are the daemon's."""

    name: str
    weight: float
    priority: str
    sessions: int
    max_sessions: int
    memory_bytes: int
    memory_limit_bytes: int
    session_memory_limit_bytes: int
    commands: int
    compute_seconds: float


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of somebody's session (chx.runs)."""

    session: int  # its number
    session_name: str  # "": it has none
    tenant: str
    name: str
    state: str  # running, paused, suspended or ended
    step: int  # that are done
    steps: int
    epoch: float
    age_seconds: float  # from its start to its end, or until now
    left_seconds: float  # of its time limit; 0: it has none, or has ended
    metrics: dict[str, float]  # means of the last log event; NaN also for an infinite one
    evaluation_metrics: dict[str, float]
    reason: str  # of its end, as in chx.runs.Event
    message: str


_Status = TypeVar("_Status", Daemon, Device, Run, Session, Tenant)


def _make(kind: type[_Status], values: dict[str, Any]) -> _Status:
    return kind(**values)


class Admin:
    """A connection to a daemon, without a session; made by connect(). Thread-safe.

    Methods raise AuthenticationError where the daemon expects another token, ConnectionError where
    nobody answers, and LookupError for a number that no session has.
    """

    def __init__(self, connection: object) -> None:
        self._connection: object | None = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._connection = None

    def _call(
        self, method: str, session: int = 0, size: int = 0, seconds: float = 0, run: str = ""
    ) -> Any:
        if self._connection is None:
            raise ConnectionError("the connection is closed")
        return json.loads(_core._admin_call(self._connection, method, session, size, seconds, run))

    def describe(self) -> Daemon:
        """The daemon: version, uptime, how many sessions, how much memory."""
        return _make(Daemon, self._call("describe"))

    def devices(self) -> list[Device]:
        """The daemon's devices and their memory."""
        return [_make(Device, each) for each in self._call("devices")]

    def sessions(self) -> list[Session]:
        """All sessions, by number."""
        return [_make(Session, each) for each in self._call("sessions")]

    def tenants(self) -> list[Tenant]:
        """Tenants, and what their sessions take together."""
        return [_make(Tenant, each) for each in self._call("tenants")]

    def runs(self) -> list[Run]:
        """Runs of all sessions: those that go on, then those that have ended; each by session."""
        return [_make(Run, _with_numbers(each)) for each in self._call("runs")]

    def stop_run(self, number: int, name: str) -> None:
        """Ends a run after the step that it makes; does not wait for that.

        Args:
          number: of the session.
          name: of the run.

        Raises:
          ValueError: the session has no such run, or it has ended.
        """
        self._call("stop_run", _number(number), run=name)

    def pause_run(self, number: int, name: str) -> None:
        """Has a run wait after the step that it makes, as stop_run() ends it."""
        self._call("pause_run", _number(number), run=name)

    def resume_run(self, number: int, name: str) -> None:
        """Has a run that was paused go on, whoever has paused it."""
        self._call("resume_run", _number(number), run=name)

    def kill(self, number: int) -> None:
        """Ends a session and frees what it holds."""
        self._call("kill", _number(number))

    def limit(self, number: int, memory: int) -> None:
        """Changes how much memory a session may hold, in bytes.

        What it holds already it keeps. Then what would need more fails, until enough was released.

        Raises:
          ValueError: the limit is not positive, or is more than the daemon's --memory.
        """
        if memory < 0 or memory >= 1 << 64:
            raise ValueError(f"[limit] expects a number of bytes, got {memory}")
        self._call("limit", _number(number), memory)

    def drain(self) -> None:
        """Lets no more sessions in, and tells the clients of those there are.

        The daemon itself goes on, until somebody ends it.
        """
        self._call("drain")

    def snapshot(self) -> None:
        """Has the state of all sessions written now.

        Raises:
          ChainerxError: the daemon keeps none, or has no room for it.
        """
        self._call("snapshot")

    def trace(self, seconds: float, session: int | None = None) -> dict[str, Any]:
        """Records what sessions do, and waits for it.

        Args:
          seconds: for how long; at most 60.
          session: of which session only; default: all.

        Returns:
          Chrome's trace format: json.dump() it into a file for Perfetto or chrome://tracing.
          export_trace() makes spans of OpenTelemetry of it.

        Raises:
          ValueError: the time is not in that range.
          ChainerxError: another trace is recorded.
        """
        self._call("start_trace", 0 if session is None else _number(session), 0, seconds)
        time.sleep(seconds)
        trace: dict[str, Any] = self._call("read_trace")
        return trace


def _with_numbers(run: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN."""
    for key in ("metrics", "evaluation_metrics"):
        run[key] = {name: math.nan if n is None else n for name, n in run[key].items()}
    return run


def _number(number: int) -> int:
    if number < 1 or number >= 1 << 64:
        raise LookupError(f"there is no session number {number}")
    return number


def connect(
    address: str | None = None,
    *,
    token: str | None = None,
    tls_roots: str | os.PathLike[str] | None = None,
) -> Admin:
    """A connection to a daemon for its administrator.

    Args:
      address: "unix:PATH" or "HOST:PORT"; default $CHX_SERVER.
      token: what the daemon's --token-file holds; default $CHX_TOKEN.
      tls_roots: PEM file with certificates to trust; plaintext without it.

    Raises:
      ConnectionError: nobody answers at the address.
      ValueError: there is no address.
    """
    server = address or os.environ.get("CHX_SERVER", "")
    if not server:
        raise ValueError("[connect] expects an address, or one in $CHX_SERVER")
    roots = "" if tls_roots is None else read_roots(tls_roots)
    return Admin(_core._admin_connect(server, token or os.environ.get("CHX_TOKEN") or "", roots))


def merge_trace(trace: dict[str, Any], client: dict[str, Any]) -> dict[str, Any]:
    """A daemon's trace with that of a client (chx.tracing), joined by the numbers of batches.

    Args:
      trace: what Admin.trace() has returned, or this function.
      client: what json.load() makes of the client's file.

    Raises:
      ValueError: one of them is no trace.
    """
    merged: dict[str, Any] = json.loads(_core._merge_traces(json.dumps(trace), json.dumps(client)))
    return merged


def export_trace(trace: dict[str, Any], exporter: SpanExporter | None = None) -> int:
    """Exports a trace as spans of OpenTelemetry; returns how many. Needs chx[opentelemetry].

    Each batch is a trace: what a client did to send it, if its file was merged, then what the
    daemon did. Ids depend on the daemon, the session and the batch, so that they are the same each
    time.

    Args:
      trace: what Admin.trace() or merge_trace() has returned, or json.load() makes of a file of
        `chxctl trace`.
      exporter: where spans go; default: by OTLP over HTTP, as the environment's
        OTEL_EXPORTER_OTLP_* variables say.

    Raises:
      ConnectionError: the collector does not answer, or the exporter reports a failure.
      ImportError: OpenTelemetry's packages are not installed.
      ValueError: it is no trace.
    """
    try:
        from chx import _opentelemetry
    except ImportError as error:
        raise ImportError(
            "[export_trace] expects OpenTelemetry's packages: `pip install chx[opentelemetry]`"
        ) from error
    return _opentelemetry.export(trace, exporter)
