"""What is done to a daemon, one function each: scenario(seed, seconds) raises where promises break.

Those that cut connections return how many.
"""

import os
import random
import resource
import socket
import subprocess
import sys
import textwrap
import threading
import time

from . import history
from .proxy import CLEAR, Weather
from .takers import NAME as TAKERS
from .world import TOKEN, World, wait_until

# No wait of an innocent client may be as long, on a machine that does a lot else.
INNOCENTS_WAIT = 20
# The front process is not in the daemon's --memory.
_FRONT_MEBIBYTES = 48
LEAST_CUTS = 200
# A client whose daemon is gone for good says so within its reconnecting and some.
GRACE = 60


def _storm(transport, seed, seconds):
    """Connections fail at any byte, in all ways; delays; single bytes."""
    with World(transport, seed) as world:
        world.warm_up()
        draw = random.Random(seed)
        for _ in range(2):
            weather = Weather(
                most_bytes=10 ** draw.uniform(3, 6.5), lifetime=10 ** draw.uniform(-1.3, 0.5)
            )
            world.add_clients(world.proxy(weather).address, seconds, ["python"])
        world.add_clients(world.proxy(Weather(lifetime=1.0)).address, seconds, ["c++"])
        world.add_innocents(seconds)
        world.finish(seconds + GRACE)
        _check_world(world)
        world.report(f"connections over {transport}")
        return world.cuts()


def connections_unix(seed, seconds):
    return _storm("unix", seed, seconds)


def connections_tcp(seed, seconds):
    return _storm("tcp", seed, seconds)


def connections_tls(seed, seconds):
    return _storm("tls", seed, seconds)


def cuts(seed, seconds):
    """Connections that live for a twentieth of a second; at least LEAST_CUTS in all."""
    draw = random.Random(seed)
    weather = Weather(most_bytes=1e5, lifetime=0.05, dribble=0, delay=0, most_silence=0.05)
    made = 0
    for attempt in range(10):
        transport = draw.choice(("unix", "tcp", "tls"))
        with World(transport, seed + attempt) as world:
            world.warm_up()
            address = world.proxy(weather).address
            world.add_clients(address, seconds, ["python", "python", "c++"])
            world.add_innocents(seconds)
            world.finish(seconds + GRACE)
            _check_world(world)
            world.report(f"connections cut soon, over {transport}")
            made += world.cuts()
        if made >= LEAST_CUTS:
            return made
    raise AssertionError(f"seed {seed}: expects {LEAST_CUTS} cuts, got {made}")


def idle(seed, seconds):
    """Clients that say nothing for longer than their lease, while their connections fail."""
    transport = random.Random(seed).choice(("unix", "tcp", "tls"))
    with World(transport, seed, lease=2) as world:
        world.warm_up()
        seconds = max(seconds, 6)
        weather = Weather(lifetime=1.5, dribble=0, most_silence=0.7)
        for _ in range(3):
            world.add_clients(world.proxy(weather).address, seconds, ["python"], idle=3)
        world.add_innocents(seconds)
        world.finish(seconds + GRACE)
        _check_world(world)
        world.report(f"idle clients over {transport}")


def lease_expiry(seed, seconds):
    """Away for longer than the lease: a network that is gone, a process that is stopped when its
    connections are cut. A session ends and its client says so; clients beside them lose nothing."""
    transport = random.Random(seed).choice(("unix", "tcp", "tls"))
    with World(transport, seed, lease=1) as world:
        world.warm_up()
        seconds = max(seconds, 8)
        network, stopping = world.proxy(CLEAR), world.proxy(CLEAR)
        world.add_clients(network.address, seconds, ["python", "c++"])
        world.add_clients(stopping.address, seconds, ["python"])
        world.add_innocents(seconds)
        world.stopped.append(world.clients[-1])
        # As long as any runs, however late it has begun.
        end = time.monotonic() + seconds + GRACE
        while time.monotonic() < end and any(each.process.poll() is None for each in world.clients):
            time.sleep(world.draw.uniform(0.7, 1.7))
            away = world.lease * world.draw.uniform(1.5, 3)
            network.cut_for(away)
            world.counts["absences"] += 1
            cut = threading.Timer(0.1, stopping.cut_all)  # as soon as it stands
            cut.start()
            world.stop_for([each.process.pid for each in world.stopped], away)
            cut.join()
        world.finish(seconds + GRACE)
        _check_world(world)
        expired = world.daemon.log().count("its lease has run out")
        world.counts["leases that ran out"] = expired
        if not world.counts["lost"]:
            world.wrong.append("no client has lost its session, away for longer than its lease")
        if not expired:
            world.wrong.append(f"no lease ran out, says the log: {world.daemon.log()[-2000:]}")
        world.report(f"away for longer than the lease, over {transport}")


def processes(seed, seconds):
    """Clients, the front and the daemon are stopped; clients and the front are killed."""
    transport = random.Random(seed).choice(("unix", "tcp", "tls"))
    with World(transport, seed, lease=3) as world:
        world.warm_up()
        world.add_clients(world.address, seconds, ["python", "c++", "python"])
        world.add_innocents(seconds)
        kinds = ["stop client", "kill client", "stop daemon"]
        if world.daemon.children():
            kinds += ["stop front", "kill front"]
        world.torment(seconds, kinds)
        world.finish(seconds + GRACE)
        _check_world(world)
        world.report(f"processes over {transport}")


def daemon_killed(seed, seconds):
    """kill -9 of the daemon: every client says so and begins anew with the next one, none hangs."""
    transport = random.Random(seed).choice(("unix", "tcp", "tls"))
    with World(transport, seed, lease=2, keeps_sessions=False) as world:
        world.add_clients(world.address, seconds, ["python", "c++"])
        end = time.monotonic() + seconds
        while time.monotonic() < end - 1.5:
            time.sleep(world.draw.uniform(0.5, 1.5))
            world.daemon.process.kill()
            world.daemon.process.wait()
            world.counts["kill daemon"] += 1
            time.sleep(world.draw.uniform(0, 0.5))
            world.daemon.restart()
        world.finish(seconds + GRACE)
        if world.counts["kill daemon"] and not world.counts["lost"]:
            world.wrong.append("no client noticed that its daemon had been killed")
        world.rest = world.daemon.usage()
        world.check_rest(descriptors=64, threads=64, mebibytes=256)
        world.check_end()
        world.report(f"kill -9 of the daemon, over {transport}")


def restarts(seed, seconds):
    """SIGTERM with --state-dir, again and again: clients go on with the next daemon, exactly once."""
    transport = random.Random(seed).choice(("unix", "tcp", "tls"))
    with World(transport, seed, lease=20, keeps_state=True) as world:
        world.add_clients(world.address, seconds, ["python", "c++", "python"])
        world.restart_for(seconds, world.daemon.stop)
        world.finish(seconds + GRACE)
        if world.counts["lost"] or world.counts["raised"]:
            world.wrong.append("a session was lost by an orderly restart")
        _check_end_of_restarts(world)
        world.report(f"restarts with state, over {transport}")


def state_killed(seed, seconds):
    """kill -9 with snapshots: a client goes on where all that it was told is done, or says it is lost."""
    transport = random.Random(seed).choice(("unix", "tcp", "tls"))
    flags = ["--snapshot-interval=150ms"]
    with World(transport, seed, *flags, lease=20, keeps_sessions=False, keeps_state=True) as world:
        world.add_clients(world.address, seconds, ["python", "c++", "python"])
        world.restart_for(seconds, world.kill_daemon)
        world.finish(seconds + GRACE)
        _check_end_of_restarts(world)
        world.report(f"kill -9 with snapshots, over {transport}")


def _check_end_of_restarts(world):
    if not world.counts["restarts"]:
        world.wrong.append("there was no restart")
    world.check_end()


# Longer than takers pause, with a restart in between.
NAMED_LEASE = 8


def takeovers(seed, seconds):
    """One named session, which many processes take up from each other, through cuts and ends of
    daemons, orderly and not; when nobody takes it up for its lease it is gone."""
    seconds = max(seconds, 6)  # for an end of either kind
    transport = random.Random(seed).choice(("unix", "tcp", "tls"))
    flags = [f"--named-lease={NAMED_LEASE}s", "--snapshot-interval=150ms"]
    with World(transport, seed, *flags, lease=20, keeps_sessions=False, keeps_state=True) as world:
        address = (
            world.proxy(Weather(lifetime=1.0)).address if transport == "tcp" else world.address
        )
        takers = [world.add_taker(address, seconds) for _ in range(3)]
        world.restart_for(seconds, world.end_or_kill_daemon, most_pause=1.5)
        if not world.kills:
            world.restart_for(0, world.kill_daemon)
        turns = world.finish_takers(takers, seconds + GRACE)
        _check_named_lease(world, turns)
        _check_end_of_restarts(world)
        world.report(f"takeovers, over {transport}")


def _check_named_lease(world, turns):
    """What was saved is there within the lease, as the turns have left it; then it is gone."""

    def taken_up():
        code = f"""
            import time
            import chx
            with chx.connect({world.daemon.unix!r}, token={TOKEN!r}, session={TAKERS!r}) as session:
                state = session.load("state") if "state" in session.saved() else None
                print(session.taken_up, state and int(state["turn"]), state and int(state["value"]))
            print(time.time())
        """
        done = _run(code, 60)
        if done.returncode != 0:
            world.wrong.append(f"the named session cannot be taken up: {done.stderr[-500:]}")
            raise AssertionError("\n".join(world.wrong))
        *found, left = done.stdout.split()
        return found, float(left)

    began = time.time()
    found, left = taken_up()
    if not turns:
        world.wrong.append("nobody had a turn")
    elif found[0] != "True" or found[1] == "None":
        world.wrong.append(f"the named session is gone within its lease: {found}")
    else:
        turn, value = int(found[1]), int(found[2])
        at_end = history.Turn(turn + 1, value, value, value, began, left, left)
        world.wrong += history.check_turns(turns, world.kills, at_end)
    if not wait_until(lambda: not world.daemon.sessions(), NAMED_LEASE + 15):
        world.wrong.append(f"sessions stay: {world.daemon.sessions()}")
    lived = time.time() - left
    world.counts["named lease, ms"] = int(1000 * lived)
    if lived < NAMED_LEASE - 1:
        world.wrong.append(f"a named session was gone after {lived:.1f} s of {NAMED_LEASE}")
    # Nor does the next daemon have it.
    if status := world.daemon.stop():
        world.wrong.append(f"chxd exits with {status}: {world.daemon.log()[-2000:]}")
    world.daemon.restart()
    if (found := taken_up()[0]) != ["False", "None", "None"]:
        world.wrong.append(f"a session whose lease has run out is back: {found}")


def descriptors(seed, seconds):
    """Somebody opens connections until there are no descriptors left, and lets go again."""
    limit = 256
    with World("tcp", seed, limits={resource.RLIMIT_NOFILE: limit}) as world:
        world.warm_up()
        world.add_innocents(seconds + 2)
        time.sleep(0.5)
        paths = [world.daemon.unix[5:], world.daemon.tcp]
        paths += [p for p in (paths[0] + ".ops", paths[0] + ".shm") if os.path.exists(p)]
        held = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for path in paths:
                held += _connections(path, 2 * limit, world.draw)
            world.counts["connections of the greedy"] += len(held)
            time.sleep(world.draw.uniform(0.2, 1))
            for end_of_connection in held:
                end_of_connection.close()
            held.clear()
            # New sessions open again, soon.
            start = time.monotonic()
            for address in (world.daemon.unix, world.daemon.tcp):
                _connect(world, address)
            world.counts["waits for a session, ms"] += int(1000 * (time.monotonic() - start))
        world.finish(seconds + GRACE)
        _check_world(world)
        world.report("no descriptors left")


def _connections(path, count, draw):
    """Up to `count` connections, some with a few bytes sent."""
    held = []
    for _ in range(count):
        if path.startswith("/"):
            kind = socket.SOCK_SEQPACKET if path.endswith(".shm") else socket.SOCK_STREAM
            connection = socket.socket(socket.AF_UNIX, kind)
            place = path
        else:
            connection = socket.socket(socket.AF_INET)
            host, port = path.rsplit(":", 1)
            place = (host, int(port))
        connection.settimeout(0.2)
        try:
            connection.connect(place)
            if draw.random() < 0.5:
                connection.send(draw.randbytes(draw.randrange(1, 40)))
        except OSError:
            connection.close()
            break
        held.append(connection)
    return held


def _connect(world, address, seconds=10):
    """A session at the address, by a process of its own; again until it opens."""
    code = f"""
        import chx, sys
        with chx.connect({address!r}, token={TOKEN!r}):
            sys.exit(0 if int(chx.ones((3,), "int64").sum()) == 3 else 1)
    """
    end = time.monotonic() + seconds
    while True:
        done = _run(code, 30)
        if done.returncode == 0:
            return
        if time.monotonic() > end:
            world.wrong.append(f"no session at {address}: {done.stderr[-300:]}")
            return


def _run(code, seconds):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=seconds,
    )


def memory(seed, seconds):
    """Clients that take what they can get, by arrays, large and tiny, and are killed."""
    # Every second time less than their limits add up to: then nobody is innocent.
    limit = (512, 256)[seed % 2]
    with World("tcp", seed, "--session-memory=64MiB", f"--memory={limit}MiB") as world:
        world.warm_up()
        if limit == 512:
            world.add_innocents(seconds + 4)
        greedy = []
        for n in range(6):
            size = (1 << 20, 1 << 12, 1)[n % 3]
            code = f"""
                import chx, time
                address = {(world.daemon.unix, world.daemon.tcp)[n % 2]!r}
                session = None
                while session is None:
                    try:
                        session = chx.connect(address, token={TOKEN!r})
                    except chx.OutOfMemoryError:  # the others were faster
                        time.sleep(0.1)
                held, refused = [], 0
                while True:
                    try:
                        for _ in range(100):
                            held.append(chx.ones(({size},), "uint8") + 1)
                        session.synchronize()
                        if session.take_errors() and len(held) > 100:
                            refused += 1
                            del held[len(held) // 2:]
                    except chx.OutOfMemoryError:
                        del held[len(held) // 2:]
            """
            greedy.append(
                subprocess.Popen(
                    [sys.executable, "-c", textwrap.dedent(code)],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                )
            )
        if not wait_until(
            lambda: world.daemon.usage()["resident"] > world.rest["resident"] + 96, 30
        ):
            world.wrong.append("the greedy get nothing")
        end = time.monotonic() + seconds
        most = 0
        while time.monotonic() < end:
            time.sleep(0.05)
            most = max(most, world.daemon.usage()["resident"])
        world.counts["resident MiB with the greedy"] = most
        if most > limit + _FRONT_MEBIBYTES:
            world.wrong.append(f"{most} MiB with a limit of {limit} MiB")
        for process in greedy:
            world.counts["greedy clients alive"] += process.poll() is None
            process.kill()
            error = process.communicate()[1].decode()
            if error and "ConnectionError" not in error:
                world.wrong.append(f"a greedy client: {error[-500:]}")
        world.finish(seconds + GRACE)
        _check_world(world, mebibytes=48)
        world.report("no memory left")


def full_disk(seed, seconds):
    """Its log goes to a full disk, its reader of stdout is gone, and no file may grow."""
    with World("tcp", seed, log="/dev/full", limits={resource.RLIMIT_FSIZE: 0}) as world:
        world.daemon.process.stdout.close()
        world.warm_up()
        world.add_clients(world.address, seconds, ["python"])
        world.add_innocents(seconds)
        for connection in _connections(world.daemon.tcp, 50, world.draw):
            connection.close()
        world.finish(seconds + GRACE)
        _check_world(world)
        world.report("a full disk")


def _check_world(world, **rest):
    world.check_rest(**rest)
    world.check_end()
    if world.innocents and world.longest["innocent"] > INNOCENTS_WAIT:
        world.wrong.append(f"an innocent client waited {world.longest['innocent']} s")


SCENARIOS = {
    function.__name__: function
    for function in (
        connections_unix,
        connections_tcp,
        connections_tls,
        cuts,
        idle,
        lease_expiry,
        processes,
        daemon_killed,
        restarts,
        state_killed,
        takeovers,
        descriptors,
        memory,
        full_disk,
    )
}
