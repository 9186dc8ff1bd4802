from collections.abc import Sequence

from chx import ndarray

class ElementwiseKernel:
    name: str
    def __init__(
        self, in_params: str, out_params: str, operation: str, name: str = "kernel"
    ) -> None: ...
    def __call__(self, *args: ndarray | float) -> ndarray | tuple[ndarray, ...]: ...

class ReductionKernel:
    name: str
    def __init__(
        self,
        in_params: str,
        out_params: str,
        map_expr: str,
        reduce_expr: str,
        post_map_expr: str,
        identity: float | str | None,
        name: str = "kernel",
        reduce_type: str | None = None,
    ) -> None: ...
    def __call__(
        self,
        *args: ndarray | float,
        axis: int | tuple[int, ...] | None = None,
        keepdims: bool = False,
    ) -> ndarray: ...

def elementwise(
    in_params: str, out_params: str, operation: str, name: str = "kernel"
) -> ElementwiseKernel: ...
def reduce(
    in_params: str,
    out_params: str,
    map_expr: str,
    reduce_expr: str,
    post_map_expr: str,
    identity: float | str | None,
    name: str = "kernel",
    reduce_type: str | None = None,
) -> ReductionKernel: ...

__all__: Sequence[str]
