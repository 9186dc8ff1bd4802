"""One client of fairness_bench.py, in a process of its own.

    fairness_client.py ADDRESS steps EVERY | hog | nothing

Prints a line once it is ready, then reads lines and answers each with JSON:

    run SECONDS PAUSE   takes steps for so long, with so many seconds between any two; answers how
                        many, and the median and the 99th percentile of a step's seconds
    hog                 from now on it queues products of 2048x2048 matrices without end; no answer
"""

import json
import sys
import time

import chx
import numpy as np
import training_sides
from training_step import SIZES

HOG_SIZE = 2048
WARM_UP = 50


def take_steps(step, every, seconds, pause):
    """Steps for a fixed time, not a fixed number of them: all clients stop at the same time."""
    taken = []
    clock = time.perf_counter
    before = clock()
    end = before + seconds
    while before < end:
        step(every, every)
        now = clock()
        taken.append(now - before)
        before = now
        if pause > 0:
            time.sleep(pause)
            before = clock()
    p50, p99 = np.percentile(taken, [50, 99])
    return {"steps": len(taken) * every, "p50": p50 / every, "p99": p99 / every}


def be_a_hog(session):
    x = chx.ones((HOG_SIZE, HOG_SIZE), device=session.devices[0])
    while True:
        chx.matmul(x, x)
        session.flush()


def main(address, kind, every="1"):
    session = chx.connect(address)
    if kind == "steps":
        step, _ = training_sides.chx_step(session, *SIZES["small"])
        step(WARM_UP, 1)
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "hog":
            be_a_hog(session)
        answer = take_steps(step, int(every), float(words[1]), float(words[2]))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
