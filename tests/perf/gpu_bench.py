"""Speed of one device, by chx and by PyTorch: tools/gpu_check.sh runs it on a GPU.

    python gpu_bench.py chx --device=cuda:0 --json=chx.json
    python gpu_bench.py torch --device=cuda:0 --json=torch.json
    python gpu_bench.py table chx.json torch.json

Each row is the median of a few rounds; a round queues many calls and waits once. The rate is for
comparison with the chip's own limits (memory bandwidth, arithmetic). `sessions` runs training steps
by several clients of one daemon at once.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import gpu_cases
from gpu_sides import SIDES

ROUNDS = 5
ROUND_SECONDS = 0.02
CLIENT_SECONDS = 3.0
# Precision and the choice of algorithms, for the cases that they matter for.
SETTINGS = {
    "": {},
    "tf32, autotune": {"tf32": True, "autotune": True},
}


def seconds_per_call(f, call):
    call()
    f.synchronize()
    start = time.perf_counter()
    call()
    f.synchronize()
    once = time.perf_counter() - start
    calls = max(1, min(200, int(ROUND_SECONDS / once)))
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        f.synchronize()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


def measure(f, scale, results):
    for settings, values in SETTINGS.items():
        f.configure(**values)
        groups = [gpu_cases.libraries, gpu_cases.steps]
        if not values:
            groups = [gpu_cases.kernels, gpu_cases.transfers, *groups]
        for group in groups:
            for name, call, work, unit in group(f, scale):
                label = f"{name} ({settings})" if settings else name
                try:
                    seconds = seconds_per_call(f, call)
                except Exception as error:  # the other rows are worth having
                    print(f"{label}: {type(error).__name__}: {str(error)[:300]}", flush=True)
                    continue
                results[label] = (seconds, work, unit)
                rate = f"{work / seconds / 1e9:10.1f} G{unit}/s" if unit else ""
                print(f"{label:46} {seconds * 1e6:12.1f} us {rate}", flush=True)


def client(address):
    """Steps within some seconds, after all clients are ready."""
    f = SIDES["chx"]("", address)
    step = gpu_cases.mlp(f, [784, 1000, 1000, 10], 100)
    for _ in range(20):
        step()
    f.synchronize()
    print("ready", flush=True)
    sys.stdin.readline()
    count, longest, begun = 0, 0.0, time.perf_counter()
    while time.perf_counter() - begun < CLIENT_SECONDS:
        start = time.perf_counter()
        for _ in range(10):
            step()
        f.synchronize()
        longest = max(longest, time.perf_counter() - start)
        count += 10
    print(json.dumps([count / (time.perf_counter() - begun), longest / 10]), flush=True)


@contextlib.contextmanager
def daemon(device):
    """Its address."""
    folder = tempfile.mkdtemp(prefix="chxd-")
    address = f"unix:{folder}/chxd.sock"
    command = [os.environ["CHX_CHXD"], f"--devices={device}", f"--listen={address}"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    for line in process.stdout:
        if line.startswith("chxd ready"):
            break
    try:
        yield address
    finally:
        process.terminate()
        process.wait(60)


def sessions(device, counts):
    with daemon(device) as address:
        for count in counts:
            clients = [
                subprocess.Popen(
                    [sys.executable, __file__, "client", f"--address={address}"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for _ in range(count)
            ]
            for each in clients:
                assert each.stdout.readline() == "ready\n"
            for each in clients:
                print("go", file=each.stdin, flush=True)
            rates, longest = zip(*(json.loads(c.stdout.readline()) for c in clients), strict=True)
            for each in clients:
                each.wait()
            print(
                f"{count:3} sessions: {sum(rates):9.0f} MLP steps/s in all, each {min(rates):.0f} to "
                f"{max(rates):.0f}; the longest ten steps {max(longest) * 1e4:.1f} ms",
                flush=True,
            )


def table(paths):
    results = []
    for path in paths:
        with open(path) as file:
            results.append(json.load(file))
    chx, peer = results
    print(f"{'case':46} {'chx us':>12} {'PyTorch us':>12} {'ratio':>7}")
    for name in [*chx, *(name for name in peer if name not in chx)]:
        seconds = [side[name][0] if name in side else None for side in results]
        micros = " ".join(" " * 12 if s is None else f"{s * 1e6:12.1f}" for s in seconds)
        ratio = "" if None in seconds else f"{seconds[0] / seconds[1]:7.2f}"
        _, work, unit = chx.get(name) or peer[name]
        rate = f"{work / (seconds[0] or seconds[1]) / 1e9:10.0f} G{unit}/s" if unit else ""
        print(f"{name:46} {micros} {ratio:>7} {rate}".rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=[*SIDES, "sessions", "client", "table"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--device", default="native:0")
    parser.add_argument("--scale", type=int, default=1, help="divides the sizes, for a trial")
    parser.add_argument("--json", help="a file for the results")
    parser.add_argument("--address")
    parser.add_argument("--counts", default="1,4,8,16", help="of sessions at once")
    arguments = parser.parse_args()
    if arguments.what == "table":
        return table(arguments.files)
    if arguments.what == "client":
        return client(arguments.address)
    if arguments.what == "sessions":
        return sessions(arguments.device, [int(n) for n in arguments.counts.split(",")])
    results = {}
    try:
        measure(SIDES[arguments.what](arguments.device), arguments.scale, results)
    finally:
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(results, file)


if __name__ == "__main__":
    main()
