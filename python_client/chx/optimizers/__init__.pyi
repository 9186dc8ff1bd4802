from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._core import ndarray
from .._optimizers_ops import (
    ada_delta_update as ada_delta_update,
    ada_grad_update as ada_grad_update,
    all_finite as all_finite,
    amsgrad_update as amsgrad_update,
    corrected_momentum_sgd_update as corrected_momentum_sgd_update,
    gradient_clipping as gradient_clipping,
    gradient_hard_clipping as gradient_hard_clipping,
    lasso as lasso,
    momentum_sgd_update as momentum_sgd_update,
    msvag_update as msvag_update,
    nesterov_ag_update as nesterov_ag_update,
    rmsprop_graves_update as rmsprop_graves_update,
    rmsprop_update as rmsprop_update,
    sgd_update as sgd_update,
    smorms3_update as smorms3_update,
    weight_decay as weight_decay,
)

class Optimizer:
    rule: str
    t: int
    params: dict[str, ndarray]
    state: dict[str, dict[str, ndarray]]

    def setup(self, params: Mapping[str, ndarray] | Sequence[ndarray]) -> Optimizer: ...
    def cleargrads(self) -> None: ...
    def add_hook(
        self, hook: Callable[[list[ndarray], list[ndarray]], None], name: str | None = None
    ) -> None: ...
    def remove_hook(self, name: str) -> None: ...
    def update(self) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, values: Mapping[str, Any]) -> None: ...

class SGD(Optimizer):
    lr: float
    def __init__(self, *, lr: float = 0.01) -> None: ...

class _Momentum(Optimizer):
    lr: float
    momentum: float
    def __init__(self, *, lr: float = 0.01, momentum: float = 0.9) -> None: ...

class MomentumSGD(_Momentum): ...
class CorrectedMomentumSGD(_Momentum): ...
class NesterovAG(_Momentum): ...

class AdaGrad(Optimizer):
    lr: float
    eps: float
    def __init__(self, *, lr: float = 0.001, eps: float = 1e-8) -> None: ...

class AdaDelta(Optimizer):
    rho: float
    eps: float
    def __init__(self, *, rho: float = 0.95, eps: float = 1e-6) -> None: ...

class _Adam(Optimizer):
    alpha: float
    beta1: float
    beta2: float
    eps: float
    eta: float
    weight_decay_rate: float

class Adam(_Adam):
    def __init__(
        self,
        *,
        alpha: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        eta: float = 1.0,
        weight_decay_rate: float = 0.0,
    ) -> None: ...

class AdamW(Adam): ...
class AMSGrad(Adam): ...

class AdaBound(_Adam):
    final_lr: float
    gamma: float
    def __init__(
        self,
        *,
        alpha: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        eta: float = 1.0,
        weight_decay_rate: float = 0.0,
        final_lr: float = 0.1,
        gamma: float = 1e-3,
    ) -> None: ...

class AMSBound(AdaBound): ...

class RMSprop(Optimizer):
    lr: float
    alpha: float
    eps: float
    eps_inside_sqrt: bool
    def __init__(
        self,
        *,
        lr: float = 0.01,
        alpha: float = 0.99,
        eps: float = 1e-8,
        eps_inside_sqrt: bool = False,
    ) -> None: ...

class RMSpropGraves(Optimizer):
    lr: float
    alpha: float
    momentum: float
    eps: float
    def __init__(
        self, *, lr: float = 1e-4, alpha: float = 0.95, momentum: float = 0.9, eps: float = 1e-4
    ) -> None: ...

class SMORMS3(Optimizer):
    lr: float
    eps: float
    def __init__(self, *, lr: float = 0.001, eps: float = 1e-16) -> None: ...

class MSVAG(Optimizer):
    lr: float
    beta: float
    eta: float
    weight_decay_rate: float
    def __init__(
        self,
        *,
        lr: float = 0.1,
        beta: float = 0.9,
        eta: float = 1.0,
        weight_decay_rate: float = 0.0,
    ) -> None: ...

class _Hook:
    name: str
    def __call__(self, params: list[ndarray], grads: list[ndarray]) -> None: ...

class WeightDecay(_Hook):
    rate: float
    def __init__(self, rate: float) -> None: ...

class Lasso(_Hook):
    rate: float
    def __init__(self, rate: float) -> None: ...

class GradientClipping(_Hook):
    threshold: float
    def __init__(self, threshold: float) -> None: ...

class GradientHardClipping(_Hook):
    lower_bound: float
    upper_bound: float
    def __init__(self, lower_bound: float, upper_bound: float) -> None: ...

class GradientNoise(_Hook):
    eta: float
    t: int
    def __init__(self, eta: float) -> None: ...

class GradientLARS(_Hook):
    threshold: float
    weight_decay: float
    eps: float
    def __init__(
        self,
        threshold: float = 1e-2,
        weight_decay: float = 0.0,  # noqa: F811
        eps: float = 1e-9,
    ) -> None: ...
