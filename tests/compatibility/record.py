"""Records a session of today's client with today's daemon: python -m tests.compatibility.record FILE.

tools/record_session.sh runs it. The results of the program go into FILE with .npz for its ending.
"""

import os
import sys

import numpy as np

from tests.compatibility import program, recording
from tests.integration.daemon import Daemon


def record():
    """(frames, results)"""
    frames = []

    def note(frame):
        frames.append(frame)
        return frame.payload

    with (
        Daemon(listen="127.0.0.1:0") as daemon,
        recording.FrameProxy(daemon.address, note) as proxy,
    ):
        results = program.run(proxy.address)
    return frames, results


if __name__ == "__main__":
    path = sys.argv[1]
    recorded, values = record()
    recording.save(path, recorded)
    np.savez_compressed(os.path.splitext(path)[0] + ".npz", *values)
    print(f"{path}: {len(recorded)} frames, {os.path.getsize(path)} bytes")
