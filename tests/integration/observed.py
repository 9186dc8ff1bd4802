"""A daemon that shows metrics and the status page, and plain requests to it."""

import http.client
import json
import pathlib
import ssl
import tempfile
import time

from prometheus_client.parser import text_string_to_metric_families

from .daemon import Daemon, wait_until


class Observed(Daemon):
    """`web` are the addresses of --metrics-listen and --status-listen, in this order."""

    def __init__(self, *flags, listen=None):
        self.log_path = pathlib.Path(tempfile.mkdtemp(prefix="chxd-log-"), "log")
        with self.log_path.open("wb") as log:
            super().__init__("--log-format=json", *flags, listen=listen, stderr=log)
        [started] = [line for line in self.log() if line["message"] == "started"]
        self.web = started["http"].split(",")

    def log(self, message=None):
        lines = [json.loads(line) for line in self.log_path.read_text().splitlines()]
        return [line for line in lines if message in (None, line["message"])]

    def soon(self, message):
        """The lines with that message, once there is one."""
        assert wait_until(lambda: self.log(message)), self.log_path.read_text()
        return self.log(message)

    def metrics(self, **headers):
        """{(name, label values, sorted by label): value}, and {name: type}."""
        time.sleep(0.12)  # answers are kept for a tenth of a second
        reply = request(self.web[0], "/metrics", headers=headers)
        assert reply.status == 200, reply.body
        families = list(text_string_to_metric_families(reply.body))
        samples = {}
        for family in families:
            for sample in family.samples:
                key = (sample.name, *(sample.labels[label] for label in sorted(sample.labels)))
                assert key not in samples, key
                samples[key] = sample.value
        types = {name_of(family): family.type for family in families}
        return samples, types


def name_of(family):
    """As in the text: the parser takes _total away."""
    return family.name + ("_total" if family.type == "counter" else "")


class Reply:
    """A response that has been read."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read().decode()


def connection(address, tls_roots=None):
    if tls_roots is None:
        return http.client.HTTPConnection(address, timeout=30)
    context = ssl.create_default_context(cafile=tls_roots)
    return http.client.HTTPSConnection(address, timeout=30, context=context)


def request(address, path, method="GET", headers=None, body=None, tls_roots=None):
    made = connection(address, tls_roots)
    try:
        made.request(method, path, body=body, headers=headers or {})
        return Reply(made.getresponse())
    finally:
        made.close()
