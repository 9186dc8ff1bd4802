"""What the client logs goes to the logger "chx" of Python's logging."""

import atexit
import logging

from chx import _core

# In the order of LogLevel in client/log.h.
_LEVELS = [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR]
_INFO = 1

logger = logging.getLogger("chx")
# Silent unless the program sets logging up, as is usual for libraries.
logger.addHandler(logging.NullHandler())


def _receive(level: int, text: str) -> None:
    logger.log(_LEVELS[level], "%s", text)


def start() -> None:
    """From now on, until the end of the process."""
    _core._set_log(_receive, _INFO)


atexit.register(_core._set_log, None, _INFO)
