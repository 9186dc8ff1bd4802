from collections.abc import Callable, Sequence
from typing import TypeAlias

from ._autograd import BackpropId
from ._core import ndarray

_Func: TypeAlias = Callable[[list[ndarray]], Sequence[ndarray]]

def check_backward(
    func: _Func,
    inputs: Sequence[ndarray],
    grad_outputs: Sequence[ndarray],
    eps: Sequence[ndarray],
    atol: float = 1e-5,
    rtol: float = 1e-4,
    backprop_id: BackpropId | None = None,
) -> None: ...
def check_double_backward(
    func: _Func,
    inputs: Sequence[ndarray],
    grad_outputs: Sequence[ndarray],
    grad_grad_inputs: Sequence[ndarray],
    eps: Sequence[ndarray],
    atol: float = 1e-5,
    rtol: float = 1e-4,
    backprop_id: BackpropId | None = None,
) -> None: ...
