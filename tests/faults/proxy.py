"""A proxy that does to connections what networks do: delays, cuts at any byte, silence.

It knows no protocol: it passes bytes between stream sockets, Unix to Unix or TCP to TCP, so that
TLS passes, too. What becomes of a connection is drawn from the proxy's seed when it is accepted.
"""

import contextlib
import dataclasses
import math
import os
import random
import selectors
import socket
import struct
import threading
import time

_READ_BYTES = 65536
_MOST_BUFFERED = 4 * _READ_BYTES  # beyond that a sender has to wait


@dataclasses.dataclass
class Weather:
    """How bad connections are; the faults of each are drawn independently."""

    cut_by_bytes: float = 0.5  # the part of connections that fail at a byte of one direction
    most_bytes: float = 1e6  # that byte is log-uniform in 1 to this
    lifetime: float = 2.0  # mean seconds until one fails in any case; infinite: never
    dribble: float = 0.15  # the part of connections that pass single bytes for a while
    delay: float = 0.2  # the part of directions with a delay for each piece
    most_delay: float = 0.02  # seconds
    # How one fails: closed, reset, closed in one direction, silent for a while and then closed or
    # going on as if nothing had been.
    ways: tuple = ("close", "reset", "half close", "silence, close", "silence, go on")
    most_silence: float = 1.0  # seconds


CUTS = Weather.ways[:-1]  # those that end a connection
CLEAR = Weather(cut_by_bytes=0, lifetime=math.inf, dribble=0, delay=0)


class _Direction:
    """From one socket to the other."""

    def __init__(self, source, sink, weather, draw):
        self.source, self.sink = source, sink
        self.pieces = []  # (when it may leave, bytes)
        self.buffered = 0
        self.ended = False  # the source has no more
        self.closed = False  # the sink has been told
        self.swallow = False  # the sink was told too early: the rest is thrown away
        self.delay = weather.most_delay if draw.random() < weather.delay else 0
        self.dribble = draw.randrange(1, 400) if draw.random() < weather.dribble else 0
        self.left = math.inf  # bytes until it fails


class _Connection:
    def __init__(self, client, server, weather, draw):
        self.ends = client, server
        self.draw = draw
        self.weather = weather
        self.up = _Direction(client, server, weather, draw)
        self.down = _Direction(server, client, weather, draw)
        self.directions = self.up, self.down
        self.silent_until = 0.0
        self.after_silence = None
        self.is_cut = False
        self.draw_end(time.monotonic())
        if draw.random() < weather.cut_by_bytes:
            draw.choice(self.directions).left = int(
                math.exp(draw.uniform(0, math.log(weather.most_bytes)))
            )

    def draw_end(self, now):
        """When it fails if not before, and how."""
        self.way = self.draw.choice(self.weather.ways)
        self.fails_at = math.inf
        if math.isfinite(self.weather.lifetime):
            self.fails_at = now + self.draw.expovariate(1 / self.weather.lifetime)


class FaultProxy:
    """Listens beside the daemon and passes connections on to it.

    Args:
      target: the daemon's address, "unix:PATH" or "HOST:PORT".
      seed: decides on the faults.
      directory: where the proxy's own Unix socket is to be; a TCP one has a free port.
      weather: how connections fail, from now on; may be set later.

    `address` is what clients connect to. A Unix socket's companion for op streams (PATH.ops, if
    the daemon has one) is passed in the same way; that for descriptors is a link to the daemon's.
    """

    def __init__(self, target, seed, directory, weather=CLEAR):
        self.weather = weather
        self.counts = dict.fromkeys(("connections", "bytes", "refused", *Weather.ways), 0)
        self._draw = random.Random(seed)
        self._selector = selectors.DefaultSelector()
        self._connections = set()
        self._stop_read, self._stop_write = os.pipe()
        self._stopping = False
        self._orders = []  # from other threads: cut all until then
        self._selector.register(self._stop_read, selectors.EVENT_READ)
        if target.startswith("unix:"):
            path = target[len("unix:") :]
            own = os.path.join(directory, f"proxy-{seed}.sock")
            self.address = f"unix:{own}"
            for suffix in ("", ".ops"):
                if os.path.exists(path + suffix):
                    self._listen(socket.AF_UNIX, own + suffix, path + suffix)
            os.symlink(path + ".shm", own + ".shm")
        else:
            host, port = target.rsplit(":", 1)
            listener = self._listen(socket.AF_INET, ("127.0.0.1", 0), (host, int(port)))
            self.address = f"{host}:{listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def close(self):
        self._stopping = True
        os.write(self._stop_write, b"x")
        self._thread.join()

    def cut_all(self):
        """Ends all connections that there are now."""
        self.cut_for(0)

    def cut_for(self, seconds):
        """Ends all connections, and for so long nobody gets through: a network that is gone."""
        self._orders.append(time.monotonic() + seconds)
        os.write(self._stop_write, b"x")

    def _obey(self, order):
        for connection in list(self._connections):
            self._end(connection)
        while not self._stopping and (left := order - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))

    def _listen(self, family, place, target):
        listener = socket.socket(family)
        listener.bind(place)
        listener.listen(256)
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, (family, target))
        return listener

    def _loop(self):
        while not self._stopping:
            now = time.monotonic()
            wait = None
            for connection in list(self._connections):
                wait = self._least(wait, self._serve(connection, now))
            for key, _ in self._selector.select(wait):
                if key.fd == self._stop_read:
                    os.read(self._stop_read, 1)
                    while self._orders:
                        self._obey(self._orders.pop())
                elif isinstance(key.data, tuple):
                    self._accept(key.fileobj, *key.data)
        for connection in list(self._connections):
            self._end(connection)
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, tuple):
                key.fileobj.close()
        self._selector.close()
        os.close(self._stop_read)
        os.close(self._stop_write)

    @staticmethod
    def _least(wait, other):
        if other is None:
            return wait
        return max(0.0, other if wait is None else min(wait, other))

    def _accept(self, listener, family, target):
        with contextlib.suppress(BlockingIOError):
            client, _ = listener.accept()
            server = socket.socket(family)
            server.settimeout(2)  # a daemon that is stopped
            try:
                server.connect(target)
            except OSError:
                self.counts["refused"] += 1
                client.close()
                server.close()
                return
            for end in (client, server):
                end.setblocking(False)
                if family == socket.AF_INET:
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.counts["connections"] += 1
            draw = random.Random(self._draw.getrandbits(64))
            self._connections.add(_Connection(client, server, self.weather, draw))

    def _serve(self, connection, now):
        """Moves what may move; returns in how many seconds there is more to do, or None."""
        if connection.silent_until:
            if now < connection.silent_until:
                self._watch(connection, silent=True)
                return connection.silent_until - now
            connection.silent_until = 0.0
            if connection.after_silence == "close":
                self._end(connection)
                return None
        if now >= connection.fails_at:
            self._fail(connection, connection.draw.choice(connection.directions), now)
            return 0.0 if not connection.is_cut else None
        wait = None
        if math.isfinite(connection.fails_at):
            wait = connection.fails_at - now
        for direction in connection.directions:
            try:
                self._receive(direction, connection.draw, now)
                moved = self._send(connection, direction, now)
            except OSError:
                self._end(connection)
                return None
            if connection.is_cut:
                return None
            wait = self._least(wait, moved)
        if all(direction.closed for direction in connection.directions):
            self._end(connection)
            return None
        self._watch(connection)
        return wait

    @staticmethod
    def _receive(direction, draw, now):
        while not direction.ended and direction.buffered < _MOST_BUFFERED:
            try:
                data = direction.source.recv(_READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                direction.ended = True
                return
            if direction.swallow:
                continue
            ready = now + draw.uniform(0, direction.delay) if direction.delay else now
            if direction.pieces:
                ready = max(ready, direction.pieces[-1][0])
            direction.pieces.append((ready, data))
            direction.buffered += len(data)

    def _send(self, connection, direction, now):
        while direction.pieces and not direction.closed:
            ready, data = direction.pieces[0]
            if ready > now:
                return ready - now
            most = min(len(data), direction.left)
            if direction.dribble:
                most = min(most, 1)
            try:
                sent = direction.sink.send(data[: int(most)]) if most else 0
            except BlockingIOError:
                return None
            direction.left -= sent
            direction.buffered -= sent
            self.counts["bytes"] += sent
            if sent == len(data):
                direction.pieces.pop(0)
            else:
                direction.pieces[0] = (ready, data[sent:])
            if direction.left <= 0:
                direction.left = math.inf
                self._fail(connection, direction, now)
                return 0.0
            if direction.dribble:
                direction.dribble -= 1
                return 0.0005
        if direction.ended and not direction.pieces and not direction.closed:
            self._shut(direction)
        return None

    @staticmethod
    def _shut(direction):
        direction.closed = True
        with contextlib.suppress(OSError):
            direction.sink.shutdown(socket.SHUT_WR)

    def _fail(self, connection, direction, now):
        way = connection.way
        self.counts[way] += 1
        connection.fails_at = math.inf
        if way == "half close":
            direction.swallow = True
            direction.pieces.clear()
            direction.buffered = 0
            self._shut(direction)
            # One side does not know: it has to find out, or is cut in the end.
            connection.fails_at = now + connection.draw.uniform(0, 5)
            connection.way = "close"
        elif way.startswith("silence"):
            connection.silent_until = now + connection.draw.uniform(
                0, connection.weather.most_silence
            )
            connection.after_silence = "close" if way.endswith("close") else None
            if way.endswith("go on"):
                connection.draw_end(connection.silent_until)
        else:
            self._end(connection, reset=way == "reset")

    def _watch(self, connection, silent=False):
        """Tells the selector what the connection waits for."""
        wanted = dict.fromkeys(connection.ends, 0)
        for direction in connection.directions if not silent else ():
            if not direction.ended and direction.buffered < _MOST_BUFFERED:
                wanted[direction.source] |= selectors.EVENT_READ
            if (
                direction.pieces
                and not direction.closed
                and not direction.dribble
                and direction.pieces[0][0] <= time.monotonic()
            ):
                wanted[direction.sink] |= selectors.EVENT_WRITE
        for end, events in wanted.items():
            key = self._selector.get_map().get(end)
            if key is None:
                if events:
                    self._selector.register(end, events, connection)
            elif not events:
                self._selector.unregister(end)
            elif key.events != events:
                self._selector.modify(end, events, connection)

    def _end(self, connection, reset=False):
        connection.is_cut = True
        self._connections.discard(connection)
        for end in connection.ends:
            if self._selector.get_map().get(end) is not None:
                self._selector.unregister(end)
            with contextlib.suppress(OSError):
                if reset:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.close()
