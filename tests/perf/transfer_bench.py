"""Bulk transfers over a Unix socket against memcpy: interleaved rounds, medians.

    PYTHONPATH=stage python tests/perf/transfer_bench.py --chxd=PATH [--rounds 9] [SIZE...]

Peers are NumPy's copies: into memory that is there ("warm") and into memory that the system has to
make first ("fresh"), as the result of a download is.
"""

import argparse
import os
import re
import statistics
import subprocess
import tempfile
import time

import chx
import numpy as np

SIZES = ["256K", "1M", "4M", "64M", "256M"]


def timed(f, n, before=None):
    """Seconds of one call; with `before`, that is called first, outside of the time."""
    seconds = 0.0
    for _ in range(n):
        if before is not None:
            before()
        start = time.perf_counter()
        f()
        seconds += time.perf_counter() - start
    return seconds / n


def cases(size, session):
    values = np.random.default_rng(0).integers(0, 255, size, np.uint8).view(np.float32)
    out = np.empty_like(values)
    shared = chx.array(values)
    view = chx.to_numpy(shared, copy=False)
    private = chx.negative(shared)
    session.synchronize()
    assert (chx.to_numpy(private) == -values).all() or np.isnan(values).any()
    del view
    return {
        "memcpy warm": lambda: np.copyto(out, values),
        "memcpy fresh": lambda: values.copy(),
        "upload alone": lambda: chx.array(values),
        "uploads": lambda: chx.array(values),
        "download private": lambda: chx.to_numpy(private),
        "download shared": lambda: chx.to_numpy(shared),
        "upload, done": lambda: (chx.array(values), session.synchronize()),
        "computed": lambda: chx.to_numpy(chx.negative(shared)),
        "negative": lambda: (chx.negative(shared), session.synchronize()),
    }


def bytes_of(text):
    return int(text[:-1]) << {"K": 10, "M": 20}[text[-1]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chxd", required=True)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="")
    parser.add_argument("sizes", nargs="*")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/s"
        daemon = subprocess.Popen(
            [args.chxd, f"--listen={address}", "--allow-unauthenticated-loopback"],
            stdout=subprocess.PIPE,
        )
        daemon.stdout.readline()
        try:
            for text in args.sizes or SIZES:
                size = bytes_of(text)
                with chx.connect(address) as session:
                    all_cases = {
                        name: case
                        for name, case in cases(size, session).items()
                        if name.startswith("memcpy") or re.search(args.only, name)
                    }
                    n = max(1, min(20, (16 << 20) // size))
                    times = {name: [] for name in all_cases}
                    for round in range(args.rounds + 1):
                        for name, case in all_cases.items():
                            alone = name == "upload alone"
                            seconds = timed(case, n, session.synchronize if alone else None)
                            if round:
                                times[name].append(seconds)
                            time.sleep(0.002)
                    med = {k: statistics.median(v) for k, v in times.items()}
                    low = {k: min(v) for k, v in times.items()}
                    for name in all_cases:
                        print(
                            f"{text:>5} {name:18} median {med[name] * 1e6:9.1f} us "
                            f"{size / med[name] / 1e9:6.2f} GB/s  "
                            f"x warm {med[name] / med['memcpy warm']:5.2f} "
                            f"x fresh {med[name] / med['memcpy fresh']:5.2f}"
                            f"   min {low[name] * 1e6:9.1f}"
                            f" x warm {low[name] / low['memcpy warm']:5.2f}"
                            f" x fresh {low[name] / low['memcpy fresh']:5.2f}",
                            flush=True,
                        )
                    del all_cases
        finally:
            daemon.terminate()
            daemon.wait()
            print("load", os.getloadavg())


if __name__ == "__main__":
    main()
