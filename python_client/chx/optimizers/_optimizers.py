"""The optimizers: a class for each, whose rule and hyperparameters are in the table RULES.

For type checkers the hyperparameters are written out; stubs_test.py compares them with the table.
"""

from typing import TYPE_CHECKING

from chx.optimizers._optimizer import Optimizer


class SGD(Optimizer, rule="SGD"):
    """Stochastic gradient descent."""

    lr: float

    if TYPE_CHECKING:

        def __init__(self, *, lr: float = 0.01) -> None: ...


class MomentumSGD(Optimizer, rule="MomentumSGD"):
    """Gradient descent with momentum."""

    lr: float
    momentum: float

    if TYPE_CHECKING:

        def __init__(self, *, lr: float = 0.01, momentum: float = 0.9) -> None: ...


class CorrectedMomentumSGD(Optimizer, rule="CorrectedMomentumSGD"):
    """Momentum whose velocity does not depend on the learning rate."""

    lr: float
    momentum: float

    if TYPE_CHECKING:

        def __init__(self, *, lr: float = 0.01, momentum: float = 0.9) -> None: ...


class NesterovAG(Optimizer, rule="NesterovAG"):
    """Nesterov's accelerated gradient."""

    lr: float
    momentum: float

    if TYPE_CHECKING:

        def __init__(self, *, lr: float = 0.01, momentum: float = 0.9) -> None: ...


class AdaGrad(Optimizer, rule="AdaGrad"):
    """AdaGrad (Duchi et al., 2011)."""

    lr: float
    eps: float

    if TYPE_CHECKING:

        def __init__(self, *, lr: float = 0.001, eps: float = 1e-8) -> None: ...


class AdaDelta(Optimizer, rule="AdaDelta"):
    """AdaDelta (Zeiler, 2012)."""

    rho: float
    eps: float

    if TYPE_CHECKING:

        def __init__(self, *, rho: float = 0.95, eps: float = 1e-6) -> None: ...


# What has no bounds for the rate of an element.
_NO_BOUND = {"adabound": False, "final_lr": 0.1, "gamma": 1e-3}


class Adam(Optimizer, rule="Adam", amsgrad=False, **_NO_BOUND):
    """Adam (Kingma and Ba, 2015)."""

    alpha: float
    beta1: float
    beta2: float
    eps: float
    eta: float
    weight_decay_rate: float

    if TYPE_CHECKING:

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


class AdamW(Optimizer, rule="Adam", amsgrad=False, **_NO_BOUND):
    """Adam with decoupled weight decay, by the rule of Chainer and of the paper:

    p -= eta * (alpha_t * m / (sqrt(v) + eps) + weight_decay_rate * p)

    The decay is not scaled by the step size. PyTorch's is: its AdamW(lr, weight_decay=d) is
    AdamW(alpha=lr, weight_decay_rate=lr * d) here, to be set again whenever alpha changes.
    (Loshchilov and Hutter, 2019; algorithm 2, with eta as the schedule's multiplier.)
    """

    alpha: float
    beta1: float
    beta2: float
    eps: float
    eta: float
    weight_decay_rate: float

    if TYPE_CHECKING:

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


class AMSGrad(Optimizer, rule="AMSGrad", amsgrad=True, **_NO_BOUND):
    """AMSGrad (Reddi et al., 2018)."""

    alpha: float
    beta1: float
    beta2: float
    eps: float
    eta: float
    weight_decay_rate: float

    if TYPE_CHECKING:

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


class AdaBound(Optimizer, rule="Adam", amsgrad=False, adabound=True):
    """AdaBound (Luo et al., 2019)."""

    alpha: float
    beta1: float
    beta2: float
    eps: float
    eta: float
    weight_decay_rate: float
    final_lr: float
    gamma: float

    if TYPE_CHECKING:

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


class AMSBound(Optimizer, rule="AMSGrad", amsgrad=True, adabound=True):
    """AdaBound over AMSGrad."""

    alpha: float
    beta1: float
    beta2: float
    eps: float
    eta: float
    weight_decay_rate: float
    final_lr: float
    gamma: float

    if TYPE_CHECKING:

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


class RMSprop(Optimizer, rule="RMSprop"):
    """RMSprop (Tieleman and Hinton, 2012)."""

    lr: float
    alpha: float
    eps: float
    eps_inside_sqrt: bool

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            lr: float = 0.01,
            alpha: float = 0.99,
            eps: float = 1e-8,
            eps_inside_sqrt: bool = False,
        ) -> None: ...


class RMSpropGraves(Optimizer, rule="RMSpropGraves"):
    """RMSprop of Graves (2013)."""

    lr: float
    alpha: float
    momentum: float
    eps: float

    if TYPE_CHECKING:

        def __init__(
            self, *, lr: float = 1e-4, alpha: float = 0.95, momentum: float = 0.9, eps: float = 1e-4
        ) -> None: ...


class SMORMS3(Optimizer, rule="SMORMS3"):
    """Simon Funk's SMORMS3."""

    lr: float
    eps: float

    if TYPE_CHECKING:

        def __init__(self, *, lr: float = 0.001, eps: float = 1e-16) -> None: ...


class MSVAG(Optimizer, rule="MSVAG"):
    """M-SVAG (Balles and Hennig, 2018)."""

    lr: float
    beta: float
    eta: float
    weight_decay_rate: float

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            lr: float = 0.1,
            beta: float = 0.9,
            eta: float = 1.0,
            weight_decay_rate: float = 0.0,
        ) -> None: ...
