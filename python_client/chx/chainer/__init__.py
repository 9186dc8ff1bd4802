"""Chainer 7.8.1 on chx: real Chainer in this process, its arrays and graphs in the daemon.

    import chx.chainer  # before chainer
    import chainer

    device = chainer.get_device("native:0")

Importing this module makes `import chainerx` mean chx, supplies the names that Chainer uses of NumPy
and that NumPy has dropped, and adapts Chainer, in memory, as soon as it is imported. `python -m chx
run` does the same for a script that says nothing of chx.

A function that has no route to the daemon is computed with NumPy here, which chx.config.fallback
allows, warns of or refuses; fallbacks() lists what was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chx import _install
from chx.chainer import _adapter, _loading, _numpy_names
from chx.chainer._fallbacks import FallbackError, FallbackWarning, clear_fallbacks, fallbacks
from chx.chainer._loading import on_import

if TYPE_CHECKING:
    from chx import runs

__all__ = [
    "FallbackError",
    "FallbackWarning",
    "clear_fallbacks",
    "fallbacks",
    "on_import",
    "remote_trainer",
    "supported_version",
]

#: The version of Chainer that is adapted. With another one, importing it warns.
supported_version = _adapter.VERSION


def remote_trainer(
    trainer: Any, name: str = "trainer", *, show_loop_exception_msg: bool = True
) -> runs.Run | None:
    """Runs a Trainer to its end, with iterations that the daemon makes by itself (chx.runs).

    The daemon gets the data, and repeats the first iteration with the rows that the trainer's iterator
    would have taken. Extensions are called as by Trainer.run, in this process; logs are the same. Instead
    of an Evaluator over arrays the daemon evaluates; the schedules of Chainer are followed by the daemon.
    Extensions that may do anything are called while the run is paused, after their iteration.

    Args:
      trainer: over a StandardUpdater with one SerialIterator, whose dataset is of arrays, and one
        optimizer; the model is on a device of the daemon. Its triggers are Chainer's own.
      name: of the run, in its session; chx.runs.attach(name) shows it to others.
      show_loop_exception_msg: as Trainer.run's.

    Returns:
      The run, which has ended; None: there were no iterations to make.

    Raises:
      ValueError: the trainer has something for which there must be a loop in this process.
      NotImplementedError: an iteration cannot be recorded. Nothing has been done in both cases, but that
        extensions may have been initialized: Trainer.run() may be called.
      RuntimeError: an extension has changed what the run cannot see, or has failed.
    """
    from chx.chainer import _remote_trainer

    return _remote_trainer.run(trainer, name, show_loop_exception_msg)


_numpy_names.supply()
_install.install_chainerx()
_loading.watch()
on_import(_adapter.adapt)
