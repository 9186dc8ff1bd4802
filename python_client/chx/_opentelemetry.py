"""Recorded traces as spans of OpenTelemetry, for chx.admin.export_trace."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags

_DAEMON = 1  # as a process of the trace; clients are further ones
_SPANS_AT_A_TIME = 512  # as OpenTelemetry's own processor: collectors limit a request to some MB
_KINDS = {"flush": SpanKind.PRODUCER, "batch": SpanKind.CONSUMER}
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class _Event:
    """A complete event of the trace and its place among the others."""

    __slots__ = (
        *("name", "category", "pid", "tid", "begin", "end", "args"),
        *("key", "parent", "link", "place"),
    )

    def __init__(self, event: Mapping[str, Any], start: int) -> None:
        self.name: str = event["name"]
        self.category: str = event.get("cat", "")
        self.pid: int = event["pid"]
        self.tid: int = event["tid"]
        self.begin = start + round(event["ts"] * 1000)
        self.end = self.begin + round(event["dur"] * 1000)
        self.args: dict[str, Any] = event.get("args", {})
        # What is hashed to the trace's id: the batch, or something of the outermost span's own.
        self.key = ""
        if self.args.get("batch"):
            session = self.tid if self.pid == _DAEMON else self.args["session"]
            self.key = f"session {session} batch {self.args['batch']}"
        self.parent: _Event | None = None
        self.link: _Event | None = None  # around it, but in another trace
        self.place = 0  # in its row
        if self.begin < 0 or self.end < self.begin:
            raise ValueError("times are not negative")


class _Trace:
    """A trace that was recorded, and what there is about it as a whole."""

    def __init__(self, trace: Mapping[str, Any]) -> None:
        other = trace["otherData"]
        self.instance: str = other.get("instance", "")
        self.host: str = other.get("host", "")
        self.version: str = other.get("version", "")
        self.sessions = {each["number"]: each for each in other.get("sessions", ())}
        self.processes: dict[int, str] = {}
        self.rows: dict[tuple[int, int], list[_Event]] = {}
        for event in trace["traceEvents"]:
            if event["ph"] == "M" and event["name"] == "process_name":
                self.processes[event["pid"]] = event["args"]["name"]
            # What is in the row of a device is in that of its session, too.
            if event["ph"] == "X" and event.get("cat") != "device":
                made = _Event(event, other["start_unix_ns"])
                self.rows.setdefault((made.pid, made.tid), []).append(made)

    def join(self) -> None:
        """Finds each span's parent and trace."""
        for row in self.rows.values():
            row.sort(key=lambda event: (event.begin, -event.end))
            self._nest(row)
        flushes: dict[str, _Event] = {}
        for event in self.events():
            if event.pid != _DAEMON and event.category == "flush" and event.args.get("batch"):
                flushes.setdefault(event.key, event)
        for event in self.events():
            flush = flushes.get(event.key)
            if event.parent is None and flush is not None and not _is_within(flush, event):
                event.parent = flush

    def _nest(self, row: list[_Event]) -> None:
        around: list[_Event] = []
        for place, event in enumerate(row):
            event.place = place
            while around and (around[-1].end <= event.begin or around[-1].end < event.end):
                around.pop()
            event.parent = around[-1] if around else None
            around.append(event)
        # What has sent a batch is in the batch's trace: of several in that of the first.
        for event in reversed(row):
            if event.parent is not None and event.key and not event.parent.args.get("batch"):
                event.parent.key = event.key
        for event in row:
            if event.parent is None:
                event.key = event.key or f"{self._row_of(event)} {event.begin} {event.place}"
            elif not event.args.get("batch"):
                event.key = event.parent.key
            elif event.key != event.parent.key:
                event.parent, event.link = None, event.parent

    def _row_of(self, event: _Event) -> str:
        return f"{self.processes.get(event.pid, event.pid)} {event.tid}"

    def events(self) -> Iterator[_Event]:
        return itertools.chain.from_iterable(self.rows.values())

    def context_of(self, event: _Event, seen_from: _Event) -> SpanContext:
        """The same ids whenever it is exported."""
        span = f"{self._row_of(event)} {event.begin} {event.place}"
        return SpanContext(
            trace_id=_hash(16, f"{self.instance} {event.key}"),
            span_id=_hash(8, f"{self.instance} {event.key} {span}"),
            is_remote=event.pid != seen_from.pid,
            trace_flags=_SAMPLED,
        )

    def resource_of(self, pid: int) -> Resource:
        about: dict[str, str | int] = {"service.name": "chxd" if pid == _DAEMON else "chx"}
        process = self.processes.get(pid, "").rpartition(" ")[2]
        if pid == _DAEMON:
            about["service.version"] = self.version
            about["service.instance.id"] = self.instance
            about["host.name"] = self.host
        elif process.isdecimal():
            about["process.pid"] = int(process)
        ours = Resource({name: value for name, value in about.items() if value != ""})
        # With $OTEL_RESOURCE_ATTRIBUTES, and not with what is this process's own.
        return OTELResourceDetector().detect().merge(ours)

    def attributes_of(self, event: _Event) -> dict[str, str | int]:
        found: dict[str, str | int] = {"chxd.kind": event.category}
        session = event.tid if event.pid == _DAEMON else event.args.get("session")
        if session is not None:
            found["session.id"] = str(session)
            known = self.sessions.get(session, {})
            for name in ("tenant", "client_name"):
                if known.get(name):
                    found[f"chxd.{name}"] = known[name]
        if event.pid != _DAEMON:
            found["thread.id"] = event.tid
        if event.category in ("command", "call"):
            found["chxd.operator"] = event.name
        for name in ("batch", "device", "bytes"):
            if name in event.args:
                found[f"chxd.{name}"] = event.args[name]
        return found

    def spans(self) -> Iterator[ReadableSpan]:
        scope = InstrumentationScope("chxd", self.version or None)
        resources = {pid: self.resource_of(pid) for pid, _ in self.rows}
        for event in self.events():
            parent, link = event.parent, event.link
            yield ReadableSpan(
                event.name,
                context=self.context_of(event, event),
                parent=None if parent is None else self.context_of(parent, event),
                resource=resources[event.pid],
                attributes=self.attributes_of(event),
                links=() if link is None else (Link(self.context_of(link, event)),),
                kind=_KINDS.get(event.category, SpanKind.INTERNAL),
                start_time=event.begin,
                end_time=event.end,
                instrumentation_scope=scope,
            )


def _hash(size: int, text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest(), "big")


def _is_within(event: _Event | None, other: _Event) -> bool:
    while event is not None and event is not other:
        event = event.parent
    return event is other


def export(trace: Mapping[str, Any], exporter: SpanExporter | None) -> int:
    """See chx.admin.export_trace()."""
    try:
        recorded = _Trace(trace)
        recorded.join()
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(
            f"[export_trace] expects a trace as Admin.trace() returns it, got one with {error!r}"
        ) from error
    if exporter is not None:
        return _send(recorded.spans(), exporter)
    over_http: SpanExporter = OTLPSpanExporter()
    try:
        return _send(recorded.spans(), over_http)
    except ConnectionError:
        raise
    except OSError as error:  # all of requests' are
        raise ConnectionError(
            f"[export_trace] expects a collector at $OTEL_EXPORTER_OTLP_ENDPOINT: {error}"
        ) from error
    finally:
        over_http.shutdown()


def _send(spans: Iterator[ReadableSpan], exporter: SpanExporter) -> int:
    count = 0
    while part := list(itertools.islice(spans, _SPANS_AT_A_TIME)):
        if exporter.export(part) is not SpanExportResult.SUCCESS:
            raise ConnectionError(
                f"[export_trace] expects an exporter that takes all spans, got a failure after {count}"
            )
        count += len(part)
    return count
