"""Turns bench.json into the tables of two pages, between the two markers of each; prints them too.

report.py bench.json docs/performance.md README.md
"""

import json
import sys

BEGIN, END = "<!-- begin bench -->", "<!-- end bench -->"

# Title, case, peer, wanted ratio. The table of training steps has more peers.
RATIOS = [
    (
        "host-bound step, loss read every iteration, against PyTorch {torch}",
        "step small, loss every 1: chx unix",
        "step small, loss every 1: torch",
        0.3,
    ),
    (
        "host-bound step, loss read every 100 iterations, against PyTorch {torch}",
        "step small, loss every 100: chx unix",
        "step small, loss every 100: torch",
        0.12,
    ),
    (
        "compute-bound step, against PyTorch {torch}",
        "step large, loss every 1: chx unix",
        "step large, loss every 1: torch",
        1.0,
    ),
    (
        "recorded host-bound step, 100 for each call, against PyTorch {torch}",
        "step small, loss every 100: chx jit",
        "step small, loss every 100: torch",
        0.06,
    ),
    (
        "the same against JAX",
        "step small, loss every 100: chx jit",
        "step small, loss every 100: jax",
        0.15,
    ),
    (
        "recorded host-bound step, loss read every iteration, against PyTorch {torch}",
        "step small, loss every 1: chx jit",
        "step small, loss every 1: torch",
        0.2,
    ),
    (
        "recorded compute-bound step, against PyTorch {torch}",
        "step large, loss every 1: chx jit",
        "step large, loss every 1: torch",
        0.8,
    ),
    (
        "eight elementwise operators on 10^7 floats, against JAX",
        "step elementwise: chx unix",
        "step elementwise: jax",
        1.0,
    ),
    (
        "the same, recorded",
        "step elementwise: chx jit",
        "step elementwise: jax",
        1.0,
    ),
    (
        "layer normalization, GELU and residual, recorded, against JAX",
        "step norm: chx jit",
        "step norm: jax",
        1.0,
    ),
    (
        "the same against a compiled PyTorch",
        "step norm: chx jit",
        "step norm: new compiled torch",
        1.0,
    ),
    (
        "causal attention of a small GPT block, recorded, against JAX",
        "step attention: chx jit",
        "step attention: jax",
        1.0,
    ),
    (
        "the same against a compiled PyTorch",
        "step attention: chx jit",
        "step attention: new compiled torch",
        1.0,
    ),
    (
        "a whole run, ten epochs of the mushroom demo, against PyTorch {torch}",
        "run mushrooms: chx jit",
        "run mushrooms: torch",
        0.3,
    ),
    (
        "Chainer on chxd against NumPy Chainer, host-bound, loss read every iteration",
        "step small, loss every 1: chainer on chx",
        "step small, loss every 1: chainer",
        0.2,
    ),
    (
        "Chainer on chxd against NumPy Chainer, host-bound, loss read every 100",
        "step small, loss every 100: chainer on chx",
        "step small, loss every 100: chainer",
        0.2,
    ),
    (
        "Chainer on chxd against NumPy Chainer, compute-bound",
        "step large, loss every 1: chainer on chx",
        "step large, loss every 1: chainer",
        None,
    ),
    (
        "1,000 additions of one element, one by one, against PyTorch {torch}",
        "step additions: chx unix",
        "step additions: torch",
        0.1,
    ),
    (
        "scalar read against a raw gRPC stream",
        "scalar read: chx unix, C++",
        "scalar read: raw gRPC stream",
        1.3,
    ),
    (
        "upload against raw gRPC, time per byte",
        "upload, per byte: chx unix, C++",
        "upload, per byte: raw gRPC",
        1 / 0.9,
    ),
    (
        "upload against memcpy, time per byte",
        "upload, per byte: chx unix",
        "copy, per byte: memcpy",
        None,
    ),
    (
        "download against memcpy, time per byte",
        "download, per byte: chx unix",
        "copy, per byte: memcpy",
        None,
    ),
]
ABSOLUTE = [
    ("enqueue, Python", 0.6),
    ("enqueue with graph, Python", 0.6),
    ("enqueue, C++", 0.25),
    ("enqueue with graph, C++", 0.25),
    ("operator through the daemon, C++", 0.5),
    ("operator through the daemon, Python", None),
]


def short(seconds):
    if seconds < 1e-8:
        return f"{1e-9 / seconds:.2f} GB/s"
    return f"{seconds * 1e6:.2f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def mark(value, target):
    return "" if target is None else ("met" if value <= target else "**missed**")


def ratio_lines(median, torch, suffix=""):
    lines = []
    for title, case, peer, target in RATIOS:
        case, peer = (name.replace(":", f"{suffix}:") for name in (case, peer))
        if case not in median or peer not in median:
            continue
        ratio = median[case] / median[peer]
        aim = "" if target is None else f"≤ {target:.2f}"
        lines.append(
            f"| {title.format(torch=torch)} | {short(median[case])} | {short(median[peer])} | {ratio:.2f} | {aim} "
            f"| {mark(ratio, target)} |"
        )
    return lines


def table(result):
    median, torch = result["median_seconds"], version_of(result, "torch")
    lines = [
        f"Measured {result['date']} on {result['machine']}; medians of {result['rounds']} interleaved "
        "rounds.",
        "",
        "| what | chxd | peer | ratio | aim | |",
        "|---|---|---|---|---|---|",
    ]
    lines += ratio_lines(median, torch)
    if one_thread := ratio_lines(median, torch, ", 1 thread"):
        lines += [
            "",
            "| with one thread | chxd | peer | ratio | aim | |",
            "|---|---|---|---|---|---|",
        ]
        lines += one_thread
    lines += ["", *step_table(result)]
    lines += ["", "| per operator | measured | aim | |", "|---|---|---|---|"]
    for case, target in ABSOLUTE:
        if case in median:
            micros = median[case] * 1e6
            aim = "" if target is None else f"≤ {target} µs"
            lines.append(f"| {case} | {micros:.2f} µs | {aim} | {mark(micros, target)} |")
    return "\n".join(lines)


STEPS = [
    ("host-bound, loss read every iteration", "small, loss every 1"),
    ("host-bound, loss read every 100", "small, loss every 100"),
    ("compute-bound", "large, loss every 1"),
]


def version_of(result, peer):
    """Without the build that may follow, as in 2.2.2+cu121."""
    (version,) = result["versions"][peer].values()
    return version.partition("+")[0]


def peers(result):
    """The sides of a training step by their names in the tables, the peers with their versions."""
    names = {
        "chx unix": "chx, Unix socket",
        "chx tcp": "chx, TCP",
        "chx jit": "chx.jit, Unix socket; 100 steps are one command",
        "torch": "PyTorch {}, eager",
        "new torch": "PyTorch {}, eager",
        "new compiled torch": "PyTorch {}, compiled",
        "jax": "JAX {}, jit",
        "chainer": "Chainer {} on NumPy",
        "chainer on chx": "Chainer {} on chxd",
    }
    return {
        peer: name.format(version_of(result, peer)) if "{}" in name else name
        for peer, name in names.items()
    }


def step_table(result):
    """A training step by every side, with the ratio of chx over a Unix socket to it."""
    median, counts = result["median_seconds"], result["chainer_counts"]
    lines = [
        "In parentheses: the time of chx over a Unix socket, divided by the time before it.",
        "",
        f"| a training step | {' | '.join(title for title, _ in STEPS)} |",
        "|---" * (1 + len(STEPS)) + "|",
    ]
    for peer, title in peers(result).items():
        cells = []
        for _, step in STEPS:
            time, ours = median[f"step {step}: {peer}"], median[f"step {step}: chx unix"]
            cells.append(short(time) + ("" if peer == "chx unix" else f" ({ours / time:.2f})"))
        lines.append(f"| {title} | {' | '.join(cells)} |")
    for title, key, digits in (("commands", "commands", 1), ("round trips", "round_trips", 2)):
        cells = [f"{counts[step][key]:.{digits}f}" for _, step in STEPS]
        lines.append(f"| {title} of a step, Chainer on chxd | {' | '.join(cells)} |")
    return lines


def readme_table(result):
    """README.md's: chxd beside each peer, with the ratio to it."""
    median, names = result["median_seconds"], peers(result)
    shown = ["torch", "new torch", "new compiled torch", "jax"]
    lines = [
        f"Measured on {result['date']}: {result['machine']}.",
        "",
        "| a training step of a multi-layer perceptron | chxd | "
        + " | ".join(names[peer] for peer in shown)
        + " |",
        "|---" * (2 + len(shown)) + "|",
    ]
    for title, step, side in (
        ("small network, loss read every iteration", "small, loss every 1", "chx unix"),
        ("small network, loss read every 100 iterations", "small, loss every 100", "chx unix"),
        ("the same, chx.jit, 100 for each call", "small, loss every 100", "chx jit"),
        ("small network, loss read every iteration, TCP", "small, loss every 1", "chx tcp"),
        ("784-1000-1000-10, batch of 100", "large, loss every 1", "chx unix"),
        ("784-1000-1000-10, batch of 100, TCP", "large, loss every 1", "chx tcp"),
    ):
        ours = median[f"step {step}: {side}"]
        times = [median[f"step {step}: {peer}"] for peer in shown]
        cells = [f"{rounded(time)} ({ours / time:.2f})" for time in times]
        lines.append(f"| {title} | {rounded(ours)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def rounded(seconds):
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def replace(page, text):
    with open(page) as file:
        before, _, rest = file.read().partition(BEGIN)
        _, _, after = rest.partition(END)
    with open(page, "w") as file:
        file.write(f"{before}{BEGIN}\n{text}\n{END}{after}")


def main():
    bench, page, readme = sys.argv[1:]
    with open(bench) as file:
        result = json.load(file)
    for name, text in ((page, table(result)), (readme, readme_table(result))):
        print(f"{name}:\n\n{text}\n")
        replace(name, text)


if __name__ == "__main__":
    main()
