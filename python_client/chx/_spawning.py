"""Processes that multiprocessing starts afresh know chx before they import the main module.

`python -m chx run` adapts its own process. A child by "spawn" or "forkserver" is told of it in the
data that multiprocessing sends first, and reads before it imports the script again.
"""

import importlib
import multiprocessing.spawn
import os
from typing import Any

# The parent's chx, wherever a child would look for one. Its sys.path is replaced right after.
_ADAPT = """
import sys
sys.path.append({root!r})
import chx._spawning
chx._spawning.adapt()
"""


class _Adapted:
    """What runs a piece of code where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        return exec, (_ADAPT.format(root=root), {})


def _adapt_chainermn(_chainermn: object) -> None:
    importlib.import_module("chx.chainermn")


def adapt() -> None:
    """Makes `import chainerx` mean chx and adapts Chainer and ChainerMN, here and in processes started from here."""
    import chx.chainer

    chx.chainer._loading.on_import_of("chainermn", _adapt_chainermn)

    get_preparation_data = multiprocessing.spawn.get_preparation_data

    def with_chx(name: str) -> dict[str, Any]:
        return {"chx": _Adapted(), **get_preparation_data(name)}

    multiprocessing.spawn.get_preparation_data = with_chx
