"""Runs for people to look at: a bar while they go on, and a picture of their metrics."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chx._run_calls import EVALUATION

if TYPE_CHECKING:
    from chx.runs import Event, Run


def _missing(library: str) -> ImportError:
    return ImportError(f"[runs] expects {library} to show runs: `pip install chx[runs]`")


def show_progress(run: Run) -> Event:
    """Run.show_progress, with tqdm."""
    try:
        from tqdm import auto  # type: ignore[import-untyped]
    except ImportError as error:
        raise _missing("tqdm") from error

    with auto.tqdm(total=run.steps, desc=run.name, unit="step") as bar:
        for step, event in run._watched():
            bar.update(step - bar.n)
            if event is not None and event.metrics:
                prefix = EVALUATION if event.kind == "evaluation" else ""
                shown = {prefix + name: f"{value:.4g}" for name, value in event.metrics.items()}
                bar.set_postfix(shown, refresh=False)
    return run.wait()


def plot(run: Run, file: str | os.PathLike[str], names: Sequence[str] | None) -> None:
    """Run.plot, with Matplotlib."""
    try:
        from matplotlib import figure
    except ImportError as error:
        raise _missing("Matplotlib") from error

    metrics = run.metrics()
    known = [n for n in metrics if n.removeprefix(EVALUATION) not in ("step", "epoch")]
    for name in names or ():
        if name not in known:
            raise ValueError(f"[plot] expects metrics among {known}, got {name!r}")
    picture = figure.Figure(figsize=(7, 4.5), layout="constrained")
    axes: Any = picture.subplots()
    for name in names or known:
        of_evaluation = name.startswith(EVALUATION)
        epochs = metrics[EVALUATION + "epoch" if of_evaluation else "epoch"]
        axes.plot(epochs, metrics[name], label=name, marker="o" if of_evaluation else None)
    axes.set_xlabel("epoch")
    axes.set_title(run.name)
    axes.grid(True, alpha=0.3)
    axes.legend()
    picture.savefig(file, dpi=120)
