"""What all_reduce between daemons costs, on paper: a model that is fitted to measurements of 2 and 4
daemons, what it says of 8 to 1,000 GPUs, and a simulation of up to 1,000 daemons.

    python tests/perf/scale_model.py [--simulate] [--compute-ms 13]  # needs NumPy only

docs/scaling.md explains the tables. Seconds and bytes, unless a name says otherwise. An address
beside a figure is its source.
"""

import argparse
import collections
import math

import numpy as np

MIB = 1 << 20
SIZES = (1 << 10, 32 << 10, MIB, 8 * MIB, 64 * MIB)
CORES = 2  # of the machine of 2026-11-27
MEASURED = {  # seconds of collectives_bench.py, by daemons and SIZES
    2: (186.2e-6, 434.2e-6, 2558.1e-6, 9014.8e-6, 57559.1e-6),
    4: (1167.1e-6, 1285.1e-6, 5234.8e-6, 21163.6e-6, 151267.2e-6),
}
PARAMETERS = 25.6e6  # of ResNet-50
MAX_RANKS = 1024  # of a group: kMaxGroupSize
# Of ImageNet: chainer.org/general/2017/02/08/Performance-of-Distributed-Deep-Learning-Using-ChainerMN.html
IMAGES = 1281158
# Of a step's computation; chxd's copies to the host's memory, and what is read and written there.
BACKWARD, PCIE_COPY, HOST_MEMORY = 2 / 3, 25e9, 20e9  # assumed
# Of a step of NCCL's rings (NVLink, PCIe, network; "Simple"), and of its trees between nodes:
# github.com/NVIDIA/nccl, src/graph/tuning.cc of commit 01afd20.
NVLINK, PCIE, NETWORK, TREE = 3.4e-6, 5.7e-6, 9.6e-6, 50e-6
FDR = 54e9 / 8  # advancedclustering.com/act_kb/infiniband-types-speeds
# inner: nccl-tests' "busbw" in a node; images: a second and GPU, in training.
Cluster = collections.namedtuple("Cluster", "gpus inner inner_latency nics nic images")
CLUSTERS = {
    # inner: tuning.cc. nic: github.com/NVIDIA/nccl-tests/issues/119, 200 Gbit/s; 8 of them: assumed.
    # images: github.com/NVIDIA/DeepLearningExamples, PyTorch/Classification/ConvNets/resnet50v1.5.
    "A100": Cluster(8, 235e9, NVLINK, 8, 24e9, 2470),
    # inner: nccl-tests/issues/212. nic: nccl-tests/issues/290, 400 Gbit/s. images: assumed, 2 A100.
    "H100": Cluster(8, 370e9, NVLINK, 8, 47e9, 2 * 2470),
    # gpus, nics: chainer.org, as above. inner: assumed. images: MXNet's at batch 30,
    # github.com/knjcode/mxnet-finetuner, docs/benchmark.md.
    "TITAN X": Cluster(4, 10e9, PCIE, 1, FDR, 110),
    # gpus, nics: tech.preferred.jp/en/blog/mn-1-a-gpu-cluster-behind-15-min-imagenet. inner: assumed.
    # images: 29 h on 8, developer.nvidia.com/facebook-trains-imagenet-1-hour; 90 epochs: assumed.
    "P100": Cluster(8, 10e9, PCIE, 2, FDR, 90 * IMAGES / (29 * 3600 * 8)),
}
OPTIONS = {  # assumed; but batch is that of ChainerMN's runs
    "batch": (32, "images that a GPU has in a step"),
    "compute-ms": (0, "a step's computation; 0: what the batch takes"),
    "latency-us": (30, "until a TCP message has come, between machines"),
    "message-us": (10, "a message's work where no core has to be woken for it"),
    "handshake-ms": (1, "of two daemons that connect"),
    "handle-us": (20, "a message's work at the meeting place"),
    "late-s": (2, "how much later than the others one daemon hears that the group has formed"),
    "jitter": (0.5, "sigma of the lognormal times of messages and handshakes"),
    "straggle": (0.05, "sigma of the lognormal times of computation"),
}


def print_table(head, rows):
    print("\n| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


def room(daemons):
    """For elements in a call's first message: call_boxes.cc."""
    return min(64 << 10, (256 << 10) // daemons)


def terms(daemons, size, cores=math.inf):
    """What the times of a message, a byte, a segment and a ring's beginning are multiplied with."""
    others, share = daemons - 1, max(1, daemons / cores)
    if size <= room(daemons):
        return np.array([share * others, share * others * size, 0, 0])
    most = daemons * 4 * MIB  # goes around at once: ring_reduction.cc
    chunks = [min(most, size - begin) / daemons for begin in range(0, size, most)]
    segments = sum(2 * others * min(4, max(1, chunk // (512 << 10))) for chunk in chunks)
    return np.array([share * others, share * 2 * others / daemons * size, share * segments, 1])


def fit(counts, cores=CORES):
    """Least squares of relative errors; what would come out negative is 0."""
    rows = np.array([terms(p, n, cores) / t for p in counts for n, t in zip(SIZES, MEASURED[p])])
    used = np.full(4, True)
    while True:
        found = np.zeros(4)
        found[used] = np.linalg.lstsq(rows[:, used], np.ones(len(rows)), rcond=None)[0]
        if (found >= 0).all():
            return found
        used &= found >= 0


def validate(fitted):
    fits = {
        "all": (fitted, CORES),
        "2 daemons": (fit([2]), CORES),
        "2 daemons, cores not shared": (fit([2], math.inf), math.inf),
    }
    for name, (values, _) in fits.items():
        message, byte, segment, ring = 1e6 * values
        print(f"Fitted to {name}: a message {message:.0f} µs, a byte {1e3 * byte:.2f} ns, ", end="")
        print(f"a segment {segment:.0f} µs, a ring's beginning {ring:,.0f} µs")
    rows = []
    for count, times in MEASURED.items():
        for n, t in zip(SIZES, times):
            models = [terms(count, n, cores) @ values for values, cores in fits.values()]
            texts = f"{1e6 * t:,.1f}", f"{1e6 * models[0]:,.1f}", *(f"{m / t:.2f}" for m in models)
            rows.append((count, f"{n >> 10:,} KiB", *texts))
    print_table(("daemons", "bytes", "measured µs", "model µs", *fits), rows)


def phases(c, n, nodes):
    """Within nodes, and then between them in rings or trees, which share the NICs; and all in one
    ring of GPUs."""
    inner = 2 * (c.gpus - 1) * (c.inner_latency + n / c.gpus / c.inner)
    outer = n / (c.nics * c.nic)
    ring = 2 * (nodes - 1) * (NETWORK + outer / nodes)
    tree = 2 * (math.ceil(math.log2(nodes)) * TREE + (nodes > 1) * outer)
    steps, between = 2 * (c.gpus * nodes - 1), 2 * nodes * (nodes > 1)
    rate = min(c.inner, c.nics * c.nic) if nodes > 1 else c.inner
    flat = (steps - between) * c.inner_latency + between * NETWORK
    return inner, ring, tree, flat + steps / (c.gpus * nodes) * n / rate


def extrapolate(name, gpus, item, fitted, args):
    c, n = CLUSTERS[name], PARAMETERS * item
    nodes, compute = gpus // c.gpus, args.compute_ms / 1e3 or args.batch / c.images

    def nccl(n):
        inner, ring, tree, _ = phases(c, n, nodes)
        return inner + min(ring, tree)

    def today(n):  # copies, the node's ranks in memory, first messages and the ring
        inner = 2 * n / PCIE_COPY + 3 * c.gpus * n / HOST_MEMORY
        latency = 2 * (nodes - 1) * args.latency_us / 1e6
        return inner + (nodes > 1) * (terms(nodes, int(n)) @ fitted + latency)

    def efficiency(bucket, reduce):
        """Buckets are reduced one after the other, during the backward pass."""
        count, backward = math.ceil(n / bucket), BACKWARD * compute
        each = reduce(n / count)
        exposed = max(each, backward / count + count * each - backward)
        return 100 * compute / (compute + exposed)

    inner, ring, tree, flat = phases(c, n, nodes)
    best = max((MIB << k for k in range(7)), key=lambda bucket: efficiency(bucket, nccl))
    times = [f"{1e3 * t:,.2f}" for t in (flat, inner + ring, inner + tree)]
    steps = [f"{efficiency(bucket, nccl):.0f} %" for bucket in (n, MIB, best)]
    steps[-1] += f" ({best >> 20} MiB)"
    own = f"{1e3 * today(n):,.0f}", *(f"{efficiency(bucket, today):.1f} %" for bucket in (n, MIB))
    return (name, gpus, f"float{8 * item}", *times, *steps, *own)


def compare():
    """With what others have published."""
    old, mn1, new = CLUSTERS["TITAN X"], CLUSTERS["P100"], CLUSTERS["H100"]
    speed_up = 128 / (1 + sum(phases(old, 4 * PARAMETERS, 32)[:2]) * old.images / 32)
    published = 1e3 * 15 * 60 / (90 * IMAGES / 32768)  # 90 epochs, 32,768 images a step
    step = [1e3 * (32 / mn1.images + sum(phases(mn1, i * PARAMETERS, 128)[:2])) for i in (4, 2)]
    n = 16 << 30  # assumed to be where busbw was largest
    inner, ring = phases(new, n, 4)[:2]
    rate = [2 * 31 / 32 * n / t / 1e9 for t in (inner + ring, max(inner, ring))]
    rows = (
        ("128 TITAN X: speed-up (chainer.org)", 100, speed_up),
        ("128 TITAN X: speed-up (arxiv.org/abs/1710.11351)", 0.9 * 128, speed_up),
        ("1,024 P100: ms a step, if float32 (arxiv.org/abs/1711.04325)", published, step[0]),
        ("1,024 P100: ms a step, if float16 (arxiv.org/abs/1711.04325)", published, step[1]),
        ("32 H100: GB/s, phases in turn (nccl-tests/issues/309)", 365.84, rate[0]),
        ("32 H100: GB/s, phases at once (nccl-tests/issues/309)", 365.84, rate[1]),
    )
    rows = [(what, f"{p:.0f}", f"{model:.0f}", f"{model / p:.2f}") for what, p, model in rows]
    print_table(("run", "published", "model", "ratio"), rows)


def form(daemons, ranks, spread, late, args, rng):
    """Seconds until a group has formed; handshakes at once where it meets, and at the last daemon,
    which hears of it `late`. Daemons begin within `spread` seconds."""

    def handshakes(count):
        return args.handshake_ms / 1e3 * rng.lognormal(0, args.jitter, count)

    begin = np.sort(rng.uniform(0, spread, daemons))
    met = begin + handshakes(daemons)
    at_once = np.arange(1, daemons + 1) - np.searchsorted(np.sort(met), begin)
    # The meeting place handles one message after the other: joins, then what tells the daemons.
    told = met.max() + args.handle_us / 1e6 * (ranks * daemons + np.arange(1, daemons + 1))
    told[-1] += late
    now, at_last = told.copy(), 0
    for k in range(1, daemons):  # each connects to those behind it, in their order
        at_last += now[-1 - k] < told[-1]
        now[:-k] = np.maximum(now[:-k], told[k:]) + handshakes(daemons - k)
    # Gloo gets them one by one; linked_context.cc looks at all descriptors for each. Assumed.
    gloo = (daemons - 1) * (200e-6 + 0.5e-6 * 1.5 * daemons)
    return now.max() + gloo, at_once.max(), at_last


def exchange(ready, message, latency, rotated=False):
    """When each daemon has all first messages: half of `message` is to send, half to receive."""
    count, half = len(ready), message / 2
    i, j = np.indices((count, count))
    place = (j - i - 1) % count if rotated else j - (j > i)
    come = ready[:, None] + (place + 1) * half + latency
    come = np.sort(np.where(i == j, -np.inf, come), axis=0)[1:]
    done = (come + half * np.arange(count - 1, 0, -1)[:, None]).max(axis=0)
    return np.maximum(done, ready + (count - 1) * half)


def go_round(now, chunk, latency, jitter, rng):
    """A ring: when each daemon has all, where a step waits for the neighbour's last one."""
    for _ in range(2 * (len(now) - 1)):
        come = np.roll(now, 1) + latency * rng.lognormal(0, jitter, len(now))
        now = np.maximum(now, come) + chunk
    return now


def simulate(daemons, fitted, args, rng, trials=5):
    """What there is for so many daemons, by name."""
    message, byte, _, beginning = fitted
    latency, quick, others = args.latency_us / 1e6, args.message_us / 1e6, daemons - 1
    ranks = min(8, MAX_RANKS // daemons)  # of a daemon
    compute = args.compute_ms / 1e3 or args.batch / CLUSTERS["A100"].images
    times, idle = [], np.zeros(daemons)
    for _ in range(trials):
        ready = compute * rng.lognormal(-(args.straggle**2) / 2, args.straggle, (daemons, ranks))
        begin = exchange(ready.max(axis=1), message, latency) + beginning
        step = go_round(begin, byte * 4 * PARAMETERS / daemons, latency, args.jitter, rng)
        ways = (message, False), (quick, False), (quick, True)
        first = [exchange(idle, each, latency, rotated) for each, rotated in ways]
        empty = go_round(idle, 0, latency, args.jitter, rng)
        times.append([part.max() for part in (*first, empty, ready, step)])
    first, sooner, rotated, empty, slowest, step = 1e3 * np.mean(times, axis=0)
    quick_start, slow_start = (form(daemons, ranks, spread, 0, args, rng) for spread in (1e-3, 1))
    at_last = form(daemons, ranks, 1, args.late_s, args, rng)[2]
    return {
        "ranks: 8 of a daemon, at most 1,024": f"{ranks * daemons:,}",
        "connections of a daemon": f"{others:,}",
        "descriptors of a daemon for these": f"{2 * others:,}",
        "messages at the meeting place, in sequence": f"{(ranks + 1) * daemons:,}",
        "handshakes at once there, all begin within 1 ms": f"{quick_start[1]:,}",
        "handshakes at once at a late daemon": f"{at_last:,}",
        "s until the group has formed, all begin within 1 s": f"{slow_start[0]:.2f}",
        "first messages of a call, all daemons": f"{daemons * others:,}",
        "bytes of elements in one": f"{room(daemons):,}",
        "ms of first messages, as fitted": f"{first:,.2f}",
        "ms of first messages, cores awake": f"{sooner:,.2f}",
        "the same, each daemon begins with the next one": f"{rotated:,.2f}",
        "ms of a ring's latency, without jitter": f"{2e3 * others * latency:,.2f}",
        "ms of a ring's latency": f"{empty:,.2f}",
        "slowest rank's computation to the mean": f"{slowest / 1e3 / compute:.2f}",
        f"ms of a step of {1e3 * compute:.0f} ms, float32, between daemons": f"{step:,.0f}",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulate", action="store_true")
    for name, (default, text) in OPTIONS.items():
        parser.add_argument(f"--{name}", type=float, default=default, help=f"{text} (%(default)s)")
    args = parser.parse_args()
    fitted, rng = fit(MEASURED), np.random.default_rng(0)
    validate(fitted)
    cases = [(c, g, i) for c in ("A100", "H100") for g in (8, 128, 1000) for i in (4, 2)]
    head = "nodes", "GPUs", "gradients", "flat ring ms", "nodes, ring ms", "nodes, tree ms"
    ways = "step: after", "1 MiB", "best bucket", "chxd today ms", "step: after", "1 MiB"
    print_table((*head, *ways), [extrapolate(*case, fitted, args) for case in cases])
    compare()
    if args.simulate:
        counts = (2, 8, 32, 125, 1000)
        columns = [simulate(count, fitted, args, rng) for count in counts]
        rows = [(name, *(column[name] for column in columns)) for name in columns[0]]
        print_table(("daemons", *(f"{count:,}" for count in counts)), rows)


if __name__ == "__main__":
    main()
