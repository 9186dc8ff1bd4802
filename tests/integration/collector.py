"""A collector of OpenTelemetry's for tests: it takes spans by OTLP over HTTP."""

import gzip
import http.server
import threading

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Collector:
    """Listens at `endpoint`; keeps the `bodies` and `headers` of what it was sent."""

    def __init__(self, status=200):
        self.bodies, self.headers = [], []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                if self.path == "/v1/traces":
                    collector.bodies.append(body)
                    collector.headers.append(self.headers)
                self.send_response(status if self.path == "/v1/traces" else 404)
                self.send_header("Content-Type", "application/x-protobuf")
                self.end_headers()
                self.wfile.write(ExportTraceServiceResponse().SerializeToString())

            def log_message(self, *_):
                pass

        self._server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def spans(self):
        """Pairs of a span and the attributes of its resource."""
        for body in self.bodies:
            for part in ExportTraceServiceRequest.FromString(body).resource_spans:
                resource = attributes(part.resource)
                for scope in part.scope_spans:
                    for span in scope.spans:
                        yield span, resource


def attributes(message):
    """Those of a span or a resource, as a dict."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in message.attributes
    }
