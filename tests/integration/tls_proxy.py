"""TLS over TCP in front of a daemon's socket, whose connections can be cut."""

import asyncio
import contextlib
import os
import ssl
import subprocess
import tempfile
import threading


class Authority:
    """A certificate authority of a test's own."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="chxd-ca-")
        self.roots = self._path("ca.pem")
        self._openssl(
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test"
            f" -keyout {self._path('ca.key')} -out {self.roots}"
        )

    def issue(self, names, days=2, subject="/CN=chxd"):
        """Paths of a certificate and its key for "DNS:localhost,IP:127.0.0.1" and the like.

        Valid for so many days from now on; a negative number makes one that has expired. The next
        one for the same subject takes its place.
        """
        stem = subject.strip("/").replace("/", ",")
        files = [f"{stem}-{name}.pem" for name in ("key", "request", "cert")]
        key, request, certificate = map(self._path, files)
        with open(self._path("extensions"), "w") as file:
            file.write(f"subjectAltName={names}\n")
        self._openssl(f"req -newkey rsa:2048 -nodes -subj {subject} -keyout {key} -out {request}")
        self._openssl(
            f"x509 -req -in {request} -CA {self.roots} -CAkey {self._path('ca.key')} -days {days}"
            f" -CAcreateserial -extfile {self._path('extensions')} -out {certificate}"
        )
        return certificate, key

    def _path(self, name):
        return os.path.join(self.directory, name)

    @staticmethod
    def _openssl(arguments):
        subprocess.run(["openssl", *arguments.split()], check=True, capture_output=True)


class TlsProxy:
    """`port` on 127.0.0.1 leads to the Unix socket `target`."""

    def __init__(self, target, certificate, key):
        self.target = target
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        self.writers = set()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.ready = threading.Event()
        self.thread.start()
        self.ready.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def cut(self):
        """Cuts every connection there is, without a TLS farewell; new ones are let through."""

        def abort():
            for writer in self.writers:
                writer.transport.abort()

        self.loop.call_soon_threadsafe(abort)

    def _run(self):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.context)
        )
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        self.loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        for writer in self.writers:
            writer.transport.abort()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    async def _serve(self, reader, writer):
        with contextlib.suppress(OSError):
            beyond = await asyncio.open_unix_connection(self.target)
            self.writers |= {writer, beyond[1]}
            await asyncio.gather(
                self._pump(reader, beyond[1]), self._pump(beyond[0], writer), return_exceptions=True
            )
            self.writers -= {writer, beyond[1]}

    @staticmethod
    async def _pump(reader, writer):
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()
