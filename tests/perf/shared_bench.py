"""Arrays that processes share: what it takes to open one of 256 MiB, and many processes that serve one
published model beside one that does, each step on one thread: with its arrays, and by its program.
`tools/bench.sh shared [PROCESSES]`; writes nothing."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import chx
import numpy as np

WIDTHS, LAYERS, BATCH = (1024, 64), 12, 8
MIB = 1 << 20


def resident(pid):
    """Bytes that a process holds, of which others may hold some too."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return int(re.search(r"^Rss:\s+(\d+) kB", file.read(), re.MULTILINE)[1]) * 1024


OPENER = """
import json, sys, time
import chx
address, capability = sys.argv[1:]
chx.connect(address)
float(chx.ones(1)[0])
def timed(call):
    start = time.perf_counter()
    kept = call()
    return kept, 1e3 * (time.perf_counter() - start)
opened, viewed = [], []
for _ in range(50):
    array, taken = timed(lambda: chx.open(capability))
    opened.append(taken)
    view, taken = timed(lambda: chx.to_numpy(array, copy=False))
    viewed.append(taken)
    assert view[-1] == 1 and not view.flags.writeable
    del array, view
print(json.dumps([opened, viewed]))
"""


def measure_open(address, daemon):
    a = chx.ones((64 * MIB,), "float32")  # 256 MiB
    capability = a.share()
    before = resident(daemon)
    done = subprocess.run(
        [sys.executable, "-c", OPENER, address, capability],
        capture_output=True,
        text=True,
        check=True,
    )
    opened, viewed = json.loads(done.stdout)
    for what, taken in (("open of 256 MiB", opened), ("its memory as a NumPy array", viewed)):
        print(
            f"{what}: first {taken[0]:.3f} ms, median {np.median(taken):.3f} ms, max {max(taken):.3f}"
        )
    print(f"the daemon has grown by {(resident(daemon) - before) / MIB:.1f} MiB")


SERVER = """
import sys, time
import chx
address, name, batch, width, seconds = *sys.argv[1:3], *map(int, sys.argv[3:6])
chx.connect(address)
model = chx.lookup(name)
x = chx.ones((batch, width), "float32")
def step():
    if name == "bench/predict":
        return float(model(x)[0, 0])
    y = x
    for layer in model:
        y = chx.relu(y @ layer["W"] + layer["b"])
    return float(y[0, 0])
step()
print("ready", flush=True)
sys.stdin.readline()
count, end = 0, time.perf_counter() + seconds
while time.perf_counter() < end:
    step()
    count += 1
print(count, flush=True)
"""


def throughput(address, name, processes, seconds, width):
    arguments = [sys.executable, "-c", SERVER, address, name]
    arguments += [str(each) for each in (BATCH, width, seconds)]
    servers = [
        subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    for server in servers:
        assert server.stdout.readline() == "ready\n"
    for server in servers:
        server.stdin.write("\n")
        server.stdin.flush()
    counts = [int(server.communicate()[0]) for server in servers]
    return sum(counts) / seconds


def publish_model(session, width):
    """Weights as bench/model, and what the servers compute from them as bench/predict."""
    rng = np.random.default_rng(0)
    scale = 1 / np.sqrt(width)
    model = [
        {
            "W": chx.array(rng.normal(0, scale, (width, width)).astype("float32")),
            "b": chx.zeros((width,), "float32"),
        }
        for _ in range(LAYERS)
    ]

    @chx.jit
    def predict(x):
        for layer in model:
            x = chx.relu(x @ layer["W"] + layer["b"])
        return x

    session.publish("bench/model", model)
    session.publish("bench/predict", predict, chx.ones((BATCH, width), "float32"))
    session.synchronize()


def measure_serving(address, daemon, session, processes, seconds, width):
    publish_model(session, width)
    bytes_of_model = LAYERS * (width + 1) * width * 4
    cores = len(os.sched_getaffinity(0))
    print(f"model of {LAYERS} layers, {width} wide: {bytes_of_model / MIB:.1f} MiB; {cores} cores")
    for name, what in (("bench/model", "arrays"), ("bench/predict", "program")):
        rates, sizes = {}, {}
        for count in (1, processes, 1, processes):
            rates.setdefault(count, []).append(throughput(address, name, count, seconds, width))
            sizes[count] = peak(daemon)
        one, many = max(rates[1]), max(rates[processes])
        print(
            f"published {what}: 1 process {one:.0f} steps/s; {processes} processes {many:.0f}, "
            f"{many / one:.2f} times one; daemon {sizes[processes] / MIB:.0f} MiB, "
            f"{sizes[processes] / sizes[1]:.2f} times that with one"
        )


def peak(pid):
    """The most that the process has held since the last call."""
    with open(f"/proc/{pid}/status") as file:
        most = int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) * 1024
    with open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")
    return most


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("processes", nargs="?", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--chxd", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/s"
        daemon = subprocess.Popen(
            [
                args.chxd,
                f"--listen={address}",
                "--session-memory=2GiB",
                "--threads=1",
                "--log-level=warning",
            ],
            stdout=subprocess.PIPE,
        )
        try:
            assert daemon.stdout.readline().startswith(b"chxd ready")
            with chx.connect(address):
                measure_open(address, daemon.pid)
            for width in WIDTHS:  # the smaller one is about what calls cost
                with chx.connect(address) as session:
                    peak(daemon.pid)
                    measure_serving(
                        address, daemon.pid, session, args.processes, args.seconds, width
                    )
        finally:
            daemon.terminate()
            daemon.wait()


if __name__ == "__main__":
    main()
