"""chx.admin.export_trace."""

import collections
import json
import os
import socket
import subprocess
import sys
import threading

import chx
import numpy as np
import pytest
from chx import admin
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from tests.integration.collector import Collector, attributes
from tests.integration.daemon import Daemon, wait_until

TOKEN = "correct horse battery staple"
SECRET = 271828.25
ELEMENTS = 1 << 18  # too many to travel within a batch


def work():
    """Some operators, an upload and a download."""
    x = chx.asarray(np.full((512, ELEMENTS // 512), SECRET))
    for _ in range(3):
        chx.tanh(x[:, :16].T @ x[:, :16]).sum().item()
    chx.to_numpy(x + 1)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Traces of a daemon and of a client, of the same time."""
    folder = tmp_path_factory.mktemp("trace")
    (folder / "token").write_text(TOKEN)
    flags = ["--memory=1GiB", f"--token-file={folder}/token"]
    with Daemon(*flags, listen="127.0.0.1:0") as daemon:
        node = admin.connect(daemon.address, token=TOKEN)
        with chx.connect(daemon.address, token=TOKEN, client_name="trainer"):
            rounds, stop = [], threading.Event()

            def go_on():
                with chx.tracing(folder / "client.json"):
                    while not stop.is_set():
                        work()
                        rounds.append(1)

            thread = threading.Thread(target=go_on)
            thread.start()
            try:
                assert wait_until(lambda: rounds)
                trace = node.trace(0.2)
            finally:
                stop.set()
                thread.join()
    return trace, json.loads((folder / "client.json").read_text())


@pytest.fixture(scope="module")
def merged(recorded):
    return admin.merge_trace(*recorded)


def exported(trace):
    exporter = InMemorySpanExporter()
    assert admin.export_trace(trace, exporter) == len(exporter.get_finished_spans())
    return exporter.get_finished_spans()


def interval(trace, event):
    begin = trace["otherData"]["start_unix_ns"] + round(event["ts"] * 1000)
    return begin, begin + round(event["dur"] * 1000)


def test_spans_are_the_events(merged):
    events = [e for e in merged["traceEvents"] if e["ph"] == "X" and e["cat"] != "device"]
    expected = collections.Counter(
        (e["pid"] == 1, e["name"], e["cat"], *interval(merged, e)) for e in events
    )
    spans = exported(merged)
    found = collections.Counter(
        (
            s.resource.attributes["service.name"] == "chxd",
            s.name,
            s.attributes["chxd.kind"],
            s.start_time,
            s.end_time,
        )
        for s in spans
    )
    assert found == expected
    kinds = {kind for _, _, kind, *_ in expected}
    assert {"batch", "command", "transfer", "call", "flush", "wait"} <= kinds
    assert len({s.context.span_id for s in spans}) == len(spans)


def test_a_batch_is_a_trace(merged):
    spans = exported(merged)
    by_id = {(s.context.trace_id, s.context.span_id): s for s in spans}
    traces = collections.defaultdict(set)
    flushes = {}
    for span in spans:
        if "chxd.batch" in span.attributes:
            batch = (span.attributes["session.id"], span.attributes["chxd.batch"])
            traces[batch].add(span.context.trace_id)
            if span.attributes["chxd.kind"] == "flush":
                flushes[batch] = span
    assert all(len(ids) == 1 for ids in traces.values())
    assert len(set.union(*traces.values())) == len(traces)
    joined, cut = 0, set()
    for span in spans:
        kind = span.attributes["chxd.kind"]
        parent = span.parent and by_id[span.parent.trace_id, span.parent.span_id]
        if kind == "batch":
            flush = flushes.get((span.attributes["session.id"], span.attributes["chxd.batch"]))
            assert parent is flush
            assert span.kind is SpanKind.CONSUMER
            if flush is not None:
                joined += 1
                assert span.parent.is_remote and flush.kind is SpanKind.PRODUCER
                assert flush.start_time <= span.end_time
                assert flush.resource.attributes["service.name"] == "chx"
        elif kind == "command":
            if parent is None or parent.name != "batch":
                cut.add(span.context.trace_id)  # the recording has ended in it
                continue
            assert parent.attributes["chxd.batch"] == span.attributes["chxd.batch"]
            assert parent.start_time <= span.start_time and span.end_time <= parent.end_time
            assert not span.parent.is_remote
        if parent is not None:
            assert span.parent.trace_id == span.context.trace_id
    assert joined >= 3
    assert len(cut) <= 1


def test_without_a_client(recorded):
    spans = exported(recorded[0])
    roots = [s for s in spans if s.parent is None]
    assert {"batch", "transfer"} <= {s.attributes["chxd.kind"] for s in roots}
    inside = {s.context.trace_id for s in roots if s.attributes["chxd.kind"] == "command"}
    assert len(inside) <= 1  # the batch in which the recording has ended
    with_client = {s.context.span_id for s in exported(admin.merge_trace(*recorded))}
    assert {s.context.span_id for s in spans} < with_client


def test_attributes(merged, monkeypatch):
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=lab")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "other")
    spans = exported(merged)
    daemon = next(s.resource for s in spans if s.name == "batch").attributes
    clients = next(s.resource for s in spans if s.name == "flush").attributes
    assert daemon["service.name"] == "chxd"
    assert daemon["service.version"] == chx.__version__
    assert daemon["host.name"] == socket.gethostname()
    assert len(daemon["service.instance.id"]) == 16
    assert daemon["deployment.environment"] == "lab"
    assert len(daemon) == 5
    assert dict(clients) == {
        "service.name": "chx",
        "process.pid": os.getpid(),
        "deployment.environment": "lab",
    }
    matmul = next(
        s for s in spans if s.name in ("matmul", "dot") and s.resource.attributes == daemon
    )
    (number,) = (each["number"] for each in merged["otherData"]["sessions"])
    assert matmul.attributes["session.id"] == str(number)
    assert matmul.attributes["chxd.tenant"] == "default"
    assert matmul.attributes["chxd.client_name"] == "trainer"
    assert matmul.attributes["chxd.device"] == "native:0"
    assert matmul.attributes["chxd.operator"] == matmul.name
    sizes = collections.defaultdict(set)
    for span in spans:
        if span.attributes["chxd.kind"] == "transfer":
            sizes[span.resource.attributes["service.name"], span.name].add(
                span.attributes["chxd.bytes"]
            )
    assert sizes["chx", "upload"] == sizes["chx", "download"] == {ELEMENTS * 8}
    assert sizes["chxd", "download"] == {ELEMENTS * 8}
    assert sizes["chxd", "upload"]
    flush = next(s for s in spans if s.name == "flush" and "chxd.batch" in s.attributes)
    assert flush.attributes["chxd.bytes"] > 0
    assert flush.attributes["thread.id"] > 0


def test_ids_are_the_same_each_time(merged):
    first, second = exported(merged), exported(json.loads(json.dumps(merged)))
    assert [s.context for s in first] == [s.context for s in second]
    elsewhere = json.loads(json.dumps(merged))
    elsewhere["otherData"]["instance"] = "0" * 16
    ids = {s.context.trace_id for s in first}
    assert ids.isdisjoint(s.context.trace_id for s in exported(elsewhere))


def event(pid, name, category, begin, end, tid=7, **args):
    return {
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "name": name,
        "cat": category,
        "ts": begin,
        "dur": end - begin,
        "args": args,
    }


def test_nesting():
    """A call that sends two batches is in the trace of the first, and the second leads to it."""
    trace = {
        "otherData": {"start_unix_ns": 1000},
        "traceEvents": [
            event(1, "batch", "batch", 5, 9, batch=1),
            event(1, "add", "command", 5, 6.5, batch=1),
            event(1, "add", "command", 6.5, 8, batch=1),
            event(1, "batch", "batch", 9, 10, batch=2),
            event(1, "add", "device", 5, 6, tid=1 << 40, session=7),
            event(2, "call", "call", 0, 6),
            event(2, "inner", "call", 1, 5),
            event(2, "flush", "flush", 2, 3, session=7, batch=1, bytes=3),
            event(2, "flush", "flush", 3, 4, session=7, batch=2),
            event(2, "wait", "wait", 6, 9, session=7, batch=2),
            event(2, "alone", "call", 9, 10),
            event(2, "deep", "call", 9.2, 9.8),
        ],
    }
    spans = exported(trace)
    assert len(spans) == 11
    names = {s.context.span_id: s for s in spans}

    def line(span):
        parent = names[span.parent.span_id] if span.parent else None
        batch = span.attributes.get("chxd.batch", 0)
        return (span.name, batch, parent and (parent.name, parent.attributes.get("chxd.batch", 0)))

    assert sorted(map(line, spans), key=str) == sorted(
        [
            ("batch", 1, ("flush", 1)),
            ("add", 1, ("batch", 1)),
            ("add", 1, ("batch", 1)),
            ("batch", 2, ("flush", 2)),
            ("call", 0, None),
            ("inner", 0, ("call", 0)),
            ("flush", 1, ("inner", 0)),
            ("flush", 2, None),
            ("wait", 2, ("flush", 2)),
            ("alone", 0, None),
            ("deep", 0, ("alone", 0)),
        ],
        key=str,
    )
    assert len({s.context.trace_id for s in spans}) == 3
    assert all(s.parent.trace_id == s.context.trace_id for s in spans if s.parent)
    (second,) = (s for s in spans if s.name == "flush" and s.parent is None)
    (link,) = second.links
    assert names[link.context.span_id].name == "inner"
    assert names[link.context.span_id].context.trace_id != second.context.trace_id
    (call,) = (s for s in spans if s.name == "call")
    assert (call.start_time, call.end_time) == (1000, 7000)


class Refusing(SpanExporter):
    def __init__(self, taken):
        self.taken = taken

    def export(self, spans):
        self.taken -= 1
        return SpanExportResult.SUCCESS if self.taken >= 0 else SpanExportResult.FAILURE


def test_an_exporter_that_fails(merged):
    many = json.loads(json.dumps(merged))
    many["traceEvents"] += [event(3, "call", "call", i, i + 0.5) for i in range(2000)]
    with pytest.raises(ConnectionError, match=r"takes all spans, got a failure after 1024$"):
        admin.export_trace(many, Refusing(taken=2))


@pytest.mark.parametrize(
    "trace",
    [
        {},
        [],
        {"traceEvents": []},
        {"traceEvents": 3, "otherData": {"start_unix_ns": 1}},
        {"traceEvents": [{"ph": "X"}], "otherData": {"start_unix_ns": 1}},
        {"traceEvents": [event(1, "x", "call", 0, -1)], "otherData": {"start_unix_ns": 1}},
        {"traceEvents": [event(1, "x", "call", -1, 1)], "otherData": {"start_unix_ns": 1}},
        {
            "traceEvents": [event(1, "x", "call", float("inf"), 1)],
            "otherData": {"start_unix_ns": 1},
        },
        {"traceEvents": [event(2, "x", "flush", 0, 1, batch=1)], "otherData": {"start_unix_ns": 1}},
    ],
)
def test_what_is_no_trace(trace):
    with pytest.raises(ValueError, match="expects a trace"):
        admin.export_trace(trace, InMemorySpanExporter())


def test_over_http(merged, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-who=tests")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        count = admin.export_trace(merged)
    received = list(collector.spans())
    expected = exported(merged)
    assert count == len(received) == len(expected)
    assert {headers["x-who"] for headers in collector.headers} == {"tests"}

    def key(span):
        return span.context.trace_id, span.context.span_id

    expected = {key(span): span for span in expected}
    for span, resource in received:
        ids = [int.from_bytes(each, "big") for each in (span.trace_id, span.span_id)]
        same = expected[tuple(ids)]
        assert span.name == same.name
        assert span.start_time_unix_nano == same.start_time
        assert span.end_time_unix_nano == same.end_time
        assert int.from_bytes(span.parent_span_id, "big") == (
            same.parent.span_id if same.parent else 0
        )
        assert attributes(span) == dict(same.attributes)
        assert resource["service.name"] == same.resource.attributes["service.name"]
    # Neither values nor tokens.
    for body in collector.bodies:
        assert TOKEN.encode() not in body
        assert str(SECRET).encode() not in body
        assert np.float64(SECRET).tobytes() not in body


def test_no_collector(merged, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")  # until it gives up
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with Collector(status=400) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        with pytest.raises(ConnectionError, match="export_trace"):
            admin.export_trace(merged)
    with pytest.raises(ConnectionError, match="export_trace"):
        admin.export_trace(merged)


def test_missing_packages():
    program = """
import sys
sys.modules["opentelemetry"] = None
from chx import admin
try:
    admin.export_trace({})
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "`pip install chx[opentelemetry]`" in done.stdout, done.stderr
