"""Steps of a small GPT by chx and by the newest PyTorch, eager: time and peak memory.

    CHX_CHXD=chxd PYTHONPATH=stage python tests/perf/gpt_bench.py --new-python=PYTHON [--rounds 9]

The model is python_client/examples/gpt.py's; PyTorch's is of the same parameters and gets the same
minibatches. A step is forward, backward, clipping of the gradients' norm, and AdamW. Each side has
processes of its own, with as many threads as there are cores; rounds go through the sides in turn.

The peak of memory is that of the resident sets of a side's processes, the daemon's too, from the making
of the model on: in all, and without what they had before, which is libraries for the most part. Pages
that the daemon and its client share count twice.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python_client")
SIZE = {"context": 256, "width": 256, "heads": 8, "layers": 4}
BATCH = 8
RATE, BETAS, DECAY, MAX_NORM = 3e-4, (0.9, 0.95), 0.1, 1.0
WARM_UP = 5
SIDES = ("chx", "chx.jit", "torch")


def batches(gpt, config):
    random = np.random.RandomState(0)
    text = random.randint(0, 256, 1 << 16).astype(np.uint8)
    return list(gpt.minibatches(text, config.context, BATCH, WARM_UP, 1))


def chx_side(jit):
    """Functions that prepare, and that take steps and return the last loss; and its processes."""
    import chx
    import gpt

    session = chx.connect()

    def prepare():
        config = gpt.Config(**SIZE)
        params = {
            name: chx.array(value).require_grad() for name, value in gpt.initial(config, 1).items()
        }
        optimizer, set_rate = gpt.optimizer_of(params, chx.schedules.constant(RATE), DECAY)
        set_rate(0)
        step = gpt.step_of(params, config, optimizer, MAX_NORM)
        step = chx.jit(step) if jit else step
        given = [[chx.array(values) for values in batch] for batch in batches(gpt, config)]

        def steps(count):
            for i in range(count):
                loss = step(*given[i % len(given)])
            return float(loss)

        return steps

    return prepare, [os.getpid(), session._daemon.process.pid], {}


def torch_side():
    import gpt
    import torch
    import torch.nn.functional as F
    import torch_models

    torch.set_num_threads(len(os.sched_getaffinity(0)))

    def prepare():
        config = gpt.Config(**SIZE)
        model = torch_models.GPT(config)
        values = gpt.initial(config, 1)
        model.load_state_dict({name: torch.from_numpy(value) for name, value in values.items()})
        params = list(model.parameters())
        optimizer = torch.optim.AdamW(params, lr=RATE, betas=BETAS, weight_decay=DECAY)
        given = [
            [torch.from_numpy(values).long() for values in batch] for batch in batches(gpt, config)
        ]

        def steps(count):
            for i in range(count):
                ids, targets = given[i % len(given)]
                loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(params, MAX_NORM)
                optimizer.step()
            return loss.item()

        return steps

    return prepare, [os.getpid()], {"torch": torch.__version__}


def memory(pid, what):
    """Bytes of a process: VmRSS, its resident set, or VmHWM, the greatest that was."""
    with open(f"/proc/{pid}/status") as file:
        (line,) = (line for line in file if line.startswith(f"{what}:"))
    return int(line.split()[1]) << 10


def serve(side):
    """Answers lines with JSON: "COUNT": the seconds of so many steps, and the last one's loss."""
    prepare, pids, versions = torch_side() if side == "torch" else chx_side(side == "chx.jit")
    before = sum(memory(pid, "VmRSS") for pid in pids)
    for pid in pids:
        with open(f"/proc/{pid}/clear_refs", "w") as file:
            file.write("5")  # the greatest resident set is to be that from now on
    steps = prepare()
    print(json.dumps(versions | {"loss": steps(WARM_UP)}), flush=True)
    for line in sys.stdin:
        count = int(line)
        start = time.perf_counter()
        loss = steps(count)
        seconds = (time.perf_counter() - start) / count
        peak = sum(memory(pid, "VmHWM") for pid in pids)
        answer = {"seconds": seconds, "loss": loss, "peak": peak, "more": peak - before}
        print(json.dumps(answer), flush=True)


class Side:
    """A process that takes steps when it is asked to."""

    def __init__(self, python, side):
        paths = [os.path.join(ROOT, "examples"), os.path.join(ROOT, "tests_models")]
        env = os.environ | {"PYTHONPATH": ":".join([*paths, os.environ.get("PYTHONPATH", "")])}
        self._process = subprocess.Popen(
            [python, os.path.abspath(__file__), "--side", side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        self.first = json.loads(self._process.stdout.readline())

    def take(self, count):
        print(count, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--new-python", help="Python with a newer PyTorch")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=5, help="of a round")
    parser.add_argument("--side", choices=SIDES, help="for the benchmark itself")
    args = parser.parse_args()
    if args.side:
        return serve(args.side)
    pythons = dict.fromkeys(SIDES, sys.executable) | {"torch": args.new_python}
    sides = {name: Side(pythons[name], name) for name in SIDES}
    losses = [side.first["loss"] for side in sides.values()]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-4)
    rounds = [
        {name: side.take(args.steps) for name, side in sides.items()} for _ in range(args.rounds)
    ]
    tokens = BATCH * SIZE["context"]
    print(
        f"PyTorch {sides['torch'].first['torch']}; {SIZE}, {tokens} tokens; medians of {args.rounds}"
    )
    base = [
        statistics.median(r["torch"][key] for r in rounds) for key in ("seconds", "peak", "more")
    ]
    for name in SIDES:
        values = [
            statistics.median(r[name][key] for r in rounds) for key in ("seconds", "peak", "more")
        ]
        ratios = [value / peer for value, peer in zip(values, base, strict=True)]
        print(
            f"{name:8} step {values[0] * 1e3:7.1f} ms ({ratios[0]:.2f})   "
            f"peak {values[1] / 2**20:6.0f} MiB ({ratios[1]:.2f})   "
            f"without libraries {values[2] / 2**20:6.0f} MiB ({ratios[2]:.2f})"
        )


if __name__ == "__main__":
    main()
