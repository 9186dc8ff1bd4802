"""Turns bench.json into the table of docs/performance.md, between its two markers."""

import json
import sys

BEGIN, END = "<!-- begin bench -->", "<!-- end bench -->"

# Title, case, peer, wanted ratio or absolute value, unit.
RATIOS = [
    (
        "host-bound step, loss read every iteration, Unix socket",
        "step small, loss every 1: chx unix",
        "step small, loss every 1: torch",
        0.6,
    ),
    (
        "host-bound step, loss read every 100 iterations, Unix socket",
        "step small, loss every 100: chx unix",
        "step small, loss every 100: torch",
        0.35,
    ),
    (
        "host-bound step, loss read every iteration, TCP",
        "step small, loss every 1: chx tcp",
        "step small, loss every 1: torch",
        None,
    ),
    (
        "host-bound step, loss read every 100 iterations, TCP",
        "step small, loss every 100: chx tcp",
        "step small, loss every 100: torch",
        None,
    ),
    (
        "host-bound step against NumPy Chainer",
        "step small, loss every 1: chx unix",
        "step small, loss every 1: chainer",
        None,
    ),
    (
        "Chainer on chxd against NumPy Chainer, host-bound, loss read every iteration",
        "step small, loss every 1: chainer on chx",
        "step small, loss every 1: chainer",
        0.5,
    ),
    (
        "Chainer on chxd against NumPy Chainer, host-bound, loss read every 100",
        "step small, loss every 100: chainer on chx",
        "step small, loss every 100: chainer",
        0.5,
    ),
    (
        "Chainer on chxd against NumPy Chainer, compute-bound",
        "step large, loss every 1: chainer on chx",
        "step large, loss every 1: chainer",
        None,
    ),
    (
        "compute-bound step, Unix socket",
        "step large, loss every 1: chx unix",
        "step large, loss every 1: torch",
        1.0,
    ),
    (
        "compute-bound step, TCP",
        "step large, loss every 1: chx tcp",
        "step large, loss every 1: torch",
        None,
    ),
    (
        "compute-bound step against NumPy Chainer",
        "step large, loss every 1: chx unix",
        "step large, loss every 1: chainer",
        None,
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


def table(result):
    median = result["median_seconds"]
    lines = [
        f"Measured {result['date']} on {result['machine']}; medians of {result['rounds']} interleaved "
        "rounds.",
        "",
        "| what | chxd | peer | ratio | aim | |",
        "|---|---|---|---|---|---|",
    ]
    for title, case, peer, target in RATIOS:
        if case not in median or peer not in median:
            continue
        ratio = median[case] / median[peer]
        aim = "" if target is None else f"≤ {target:.2f}"
        lines.append(
            f"| {title} | {short(median[case])} | {short(median[peer])} | {ratio:.2f} | {aim} "
            f"| {mark(ratio, target)} |"
        )
    lines += ["", *step_table(result)]
    lines += ["", "| per operator | measured | aim | |", "|---|---|---|---|"]
    for case, target in ABSOLUTE:
        if case in median:
            micros = median[case] * 1e6
            aim = "" if target is None else f"≤ {target} µs"
            lines.append(f"| {case} | {micros:.2f} µs | {aim} | {mark(micros, target)} |")
    return "\n".join(lines)


PEERS = {"chainer": "Chainer on NumPy", "chainer on chx": "Chainer on chxd"}
PEERS |= {"chx unix": "chx", "torch": "PyTorch eager"}


def step_table(result):
    """One training step by everybody who takes it, and what Chainer on chxd sends for it."""
    median, counts = result["median_seconds"], result.get("chainer_counts", {})
    lines = [
        f"| a training step | {' | '.join(PEERS.values())} | commands | round trips |",
        "|---|---|---|---|---|---|---|",
    ]
    for title, step in (
        ("host-bound, loss read every iteration", "small, loss every 1"),
        ("host-bound, loss read every 100 iterations", "small, loss every 100"),
        ("compute-bound", "large, loss every 1"),
    ):
        times = [median.get(f"step {step}: {peer}") for peer in PEERS]
        if None in times or step not in counts:
            continue
        count = counts[step]
        sent = f"{count['commands']:.1f} | {count['round_trips']:.2f}"
        lines.append(f"| {title} | {' | '.join(map(short, times))} | {sent} |")
    return lines


def main():
    bench, page = sys.argv[1:]
    with open(bench) as file:
        text = table(json.load(file))
    print(text)
    with open(page) as file:
        before, _, rest = file.read().partition(BEGIN)
        _, _, after = rest.partition(END)
    with open(page, "w") as file:
        file.write(f"{before}{BEGIN}\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
