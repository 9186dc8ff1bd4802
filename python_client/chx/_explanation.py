"""What the daemon says about recorded steps, as text and as a picture."""

from __future__ import annotations

import collections
import html
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_ROW = 18  # pixels
_WIDTH = 900


class Call(NamedTuple):
    """An operator's kernel, with its operands as text."""

    op: str
    inputs: str
    outputs: str


class Step(NamedTuple):
    """Calls that run as one."""

    calls: tuple[Call, ...]
    block: int
    """Elements that go through all calls together; 0: there is one call."""
    nanoseconds: int
    """Of all runs that were measured."""


class Plan(NamedTuple):
    """How the daemon runs a recording for arguments of one kind."""

    steps: tuple[Step, ...]
    omitted: int
    """Steps that there are besides these."""
    measured: int
    """Runs."""
    arena: tuple[tuple[int, int], ...]
    """Numbers of devices, and bytes of temporaries there."""
    results: int
    """Bytes."""
    shared: tuple[str, ...]
    dropped: tuple[str, ...]

    @property
    def nanoseconds(self) -> int:
        """Of all steps in all runs that were measured."""
        return sum(step.nanoseconds for step in self.steps)


class Explanation(NamedTuple):
    """Of one recording."""

    title: str
    declined: str
    """Why there is no plan."""
    plans: tuple[Plan, ...]


def parse(title: str, text: str) -> Explanation:
    """The daemon's lines (docs/protocol.md) as an Explanation."""
    declined = ""
    plans: list[list[list[str]]] = []
    for line in text.splitlines():
        kind, *fields = line.split("\t")
        if kind == "program":
            declined = fields[0]
        elif kind == "plan":
            plans.append([[kind, *fields]])
        elif plans:
            plans[-1].append([kind, *fields])
    return Explanation(title, declined, tuple(_parse_plan(lines) for lines in plans))


def _parse_plan(lines: Sequence[Sequence[str]]) -> Plan:
    steps: list[Step] = []
    found: dict[str, list[Sequence[str]]] = collections.defaultdict(list)
    for kind, *fields in lines:
        if kind == "step":
            steps.append(Step((), int(fields[1]), int(fields[0])))
        elif kind == "call":
            calls = (*steps[-1].calls, Call(fields[0], fields[1], fields[2]))
            steps[-1] = steps[-1]._replace(calls=calls)
        else:
            found[kind].append(fields)
    return Plan(
        tuple(steps),
        sum(int(fields[0]) for fields in found["more"]),
        int(found["plan"][0][1]),
        tuple((int(device), int(size)) for device, size in found["arena"]),
        sum(int(fields[0]) for fields in found["results"]),
        tuple(fields[0] for fields in found["shared"]),
        tuple(fields[0] for fields in found["dropped"]),
    )


def _size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} GiB"


def _time(nanoseconds: float) -> str:
    if nanoseconds < 1e6:
        return f"{nanoseconds / 1e3:.1f} µs"
    return f"{nanoseconds / 1e6:.2f} ms"


def _names(ops: Iterable[str]) -> str:
    counts = collections.Counter(ops)
    return ", ".join(name if n == 1 else f"{name} ×{n}" for name, n in counts.items())


def _facts(plan: Plan) -> list[str]:
    arena = ", ".join(f"{_size(size)} on device {device}" for device, size in plan.arena)
    lines = [f"temporaries: {arena or 'none'}; results: {_size(plan.results)}"]
    if plan.shared:
        lines.append(f"computed once, used again: {_names(plan.shared)}")
    if plan.dropped:
        lines.append(f"left out, as nothing depends on it: {_names(plan.dropped)}")
    if plan.measured:
        each = _time(plan.nanoseconds / plan.measured)
        lines.append(f"measured: {plan.measured} runs of {each} each")
    return lines


def _how(explanation: Explanation) -> str:
    if explanation.plans:
        return "runs by a plan"
    return f"runs by its commands: {explanation.declined}"


def _share(plan: Plan, step: Step) -> str:
    if not plan.nanoseconds:
        return ""
    each = _time(step.nanoseconds / plan.measured)
    return f"{each:>10} {100 * step.nanoseconds / plan.nanoseconds:3.0f}%  "


def to_text(explanations: Sequence[Explanation]) -> str:
    """Of all recordings, one after the other."""
    lines: list[str] = []
    for explanation in explanations:
        lines.append(f"{explanation.title}: {_how(explanation)}")
        for number, plan in enumerate(explanation.plans, 1):
            if len(explanation.plans) > 1:
                lines.append(f" plan {number} of {len(explanation.plans)}")
            lines += [f"  {fact}" for fact in _facts(plan)]
            for step in plan.steps:
                share = _share(plan, step)
                calls = [f"{c.op}({c.inputs}) -> {c.outputs}" for c in step.calls]
                if len(calls) > 1:
                    lines.append(f"  {share}fused, in blocks of {step.block} elements:")
                    lines += [f"  {' ' * len(share)}  {call}" for call in calls]
                else:
                    lines += [f"  {share}{call}" for call in calls]
            if plan.omitted:
                lines.append(f"  and {plan.omitted} more")
    return "\n".join(lines) or "nothing has been recorded"


def to_svg(explanations: Sequence[Explanation]) -> str:
    """A picture of all recordings: a box for each step, and a bar for its part of the time."""
    parts: list[str] = []
    y = 8

    def write(text: str, x: int, style: str = "") -> None:
        escaped = html.escape(text)
        parts.append(f'<text x="{x}" y="{y + 13}" {style}>{escaped}</text>')

    for explanation in explanations:
        write(f"{explanation.title}: {_how(explanation)}", 8, 'font-weight="bold"')
        y += _ROW + 4
        for plan in explanation.plans:
            for fact in _facts(plan):
                write(fact, 8, 'fill="#555"')
                y += _ROW
            for step in plan.steps:
                fused = len(step.calls) > 1
                height = _ROW * (len(step.calls) + (1 if fused else 0)) + 4
                fill = "#fff1d6" if fused else "#eef3fb"
                parts.append(
                    f'<rect x="8" y="{y}" width="{_WIDTH - 16}" height="{height}" rx="4" '
                    f'fill="{fill}" stroke="#99a"/>'
                )
                if plan.nanoseconds:
                    bar = 200 * step.nanoseconds / plan.nanoseconds
                    parts.append(
                        f'<rect x="{_WIDTH - 216}" y="{y + 3}" width="{bar:.1f}" height="12" '
                        'fill="#e07a5f"/>'
                    )
                    share = _share(plan, step).strip()
                    write(share, _WIDTH - 224, 'text-anchor="end" fill="#555"')
                if fused:
                    write(f"fused, in blocks of {step.block} elements", 16, 'fill="#a60"')
                    y += _ROW
                for call in step.calls:
                    write(f"{call.op}({call.inputs}) → {call.outputs}", 24 if fused else 16)
                    y += _ROW
                y += 8
            if plan.omitted:
                write(f"and {plan.omitted} more", 16)
                y += _ROW
            y += 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y + 8}" '
        'font-family="monospace" font-size="12">\n'
        '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
