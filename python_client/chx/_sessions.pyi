from collections.abc import Coroutine, Mapping
from os import PathLike
from typing import Any, Self

from . import _core

class Session(_core.Session):
    def seed(self, seed: int | None = None) -> None: ...
    def configure(
        self,
        *,
        use_cudnn: bool = ...,
        cudnn_deterministic: bool = ...,
        autotune: bool = ...,
        max_workspace_size: int = ...,
    ) -> None: ...
    @property
    def settings(self) -> dict[str, bool | int]: ...
    def synchronize_async(self) -> Coroutine[Any, Any, None]: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...

def connect(
    address: str | None = None,
    *,
    token: str | None = None,
    tls_roots: str | None = None,
    devices: str | None = None,
    client_name: str | None = None,
    plugins: Mapping[str, str | PathLike[str]] | None = None,
    reconnect: float | None = None,
    cancel_on_interrupt: bool = True,
) -> Session: ...
def cancel() -> None: ...
def connect_default() -> Session: ...
