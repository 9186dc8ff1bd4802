from collections.abc import Coroutine
from typing import Any

def synchronize_async() -> Coroutine[Any, Any, None]: ...
