"""Snapshot and restore of a session against writing and reading a file: interleaved rounds, medians.

    PYTHONPATH=stage python tests/perf/snapshot_bench.py --chxd=PATH [--rounds 5] [--mebibytes 1024]

A round ends a daemon with --state-dir by SIGTERM and starts the next, with a session of that size
and with an empty one: the difference is what the size costs. Beside it, as many bytes are written
to a file in the same folder and synced, and read into new memory. The page cache is the system's,
for both.
"""

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

import chx
import numpy as np

PIECE = 4 << 20


def start(chxd, folder):
    command = [chxd, f"--listen=unix:{folder}/sock", f"--state-dir={folder}/state"]
    command += ["--session-memory=16GiB", "--lease=1h", "--log-level=error"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout.readline().startswith(b"chxd ready")
    return process


def seconds_of(function):
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


def cycle(chxd, mebibytes):
    """Seconds to write a session of so many MiB at the daemon's end, and to start the next daemon."""
    folder = tempfile.mkdtemp(prefix="chx-snapshot-")
    try:
        process = start(chxd, folder)
        session = chx.connect(f"unix:{folder}/sock", session="bench")
        arrays = [chx.full((1 << 20,), i, "uint8") for i in range(mebibytes % 16)]
        arrays += [chx.full((16 << 20,), i, "uint8") for i in range(mebibytes // 16)]
        arrays.append(chx.ones((1,)))
        session.save("arrays", arrays)
        session.synchronize()

        def end():
            process.send_signal(signal.SIGTERM)
            assert process.wait(600) == 0

        write, _ = seconds_of(end)
        read, process = seconds_of(lambda: start(chxd, folder))
        assert float(arrays[-1][0]) == 1
        session.discard()
        process.send_signal(signal.SIGTERM)
        process.wait(600)
        return write, read
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def plain(mebibytes):
    """Seconds to write and sync a file, and to read it into new memory."""
    folder = tempfile.mkdtemp(prefix="chx-snapshot-")
    piece = np.random.default_rng(0).integers(0, 255, PIECE, np.uint8)
    path = os.path.join(folder, "file")

    def write():
        with open(path, "wb", buffering=0) as file:
            for _ in range(mebibytes * (1 << 20) // PIECE):
                file.write(piece)
            os.fsync(file.fileno())

    def read():
        memory = memoryview(np.empty(mebibytes << 20, np.uint8))
        with open(path, "rb", buffering=0) as file:
            done = 0
            while got := file.readinto(memory[done : done + PIECE]):
                done += got
        assert done == mebibytes << 20

    try:
        return seconds_of(write)[0], seconds_of(read)[0]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--chxd", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mebibytes", type=int, default=1024)
    options = parser.parse_args()
    rows = []
    for _ in range(options.rounds):
        full = cycle(options.chxd, options.mebibytes)
        empty = cycle(options.chxd, 0)
        rows.append([*(a - b for a, b in zip(full, empty)), *plain(options.mebibytes)])
    write, read, file_write, file_read = (statistics.median(column) for column in zip(*rows))
    print(f"{options.mebibytes} MiB, medians of {options.rounds} rounds, in seconds")
    print(f"  snapshot {write:.2f}, a file written {file_write:.2f}: {write / file_write:.2f}")
    print(f"  restore  {read:.2f}, a file read    {file_read:.2f}: {read / file_read:.2f}")
    print(f"  both: {(write + read) / (file_write + file_read):.2f} (aim: 1.3)")


if __name__ == "__main__":
    main()
