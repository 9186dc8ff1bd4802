"""What changes gradients before an optimizer's step; each is one command for all parameters."""

from chx import random
from chx._core import ndarray
from chx.optimizers._rules import operators


class WeightDecay:
    """grads += rate * params."""

    name = "WeightDecay"

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, params: list[ndarray], grads: list[ndarray]) -> None:
        operators["weight_decay"](grads, params, self.rate)


class Lasso:
    """grads += rate * sign(params)."""

    name = "Lasso"

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, params: list[ndarray], grads: list[ndarray]) -> None:
        operators["lasso"](grads, params, self.rate)


class GradientClipping:
    """Scales all gradients of a device so that their common L2 norm is at most threshold."""

    name = "GradientClipping"

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def __call__(self, params: list[ndarray], grads: list[ndarray]) -> None:
        operators["gradient_clipping"](grads, self.threshold)


class GradientHardClipping:
    """Clips every element of the gradients to [lower_bound, upper_bound]."""

    name = "GradientHardClipping"

    def __init__(self, lower_bound: float, upper_bound: float) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def __call__(self, params: list[ndarray], grads: list[ndarray]) -> None:
        operators["gradient_hard_clipping"](grads, self.lower_bound, self.upper_bound)


class GradientNoise:
    """Adds normal noise of variance eta / (1 + t) ** 0.55 in step t (from 0), made on the device.

    A command for each parameter.
    """

    name = "GradientNoise"

    def __init__(self, eta: float) -> None:
        self.eta = eta
        self.t = 0

    def __call__(self, params: list[ndarray], grads: list[ndarray]) -> None:
        scale = (self.eta / (1 + self.t) ** 0.55) ** 0.5
        for grad in grads:
            grad += random.normal(0.0, scale, grad.shape, dtype=grad.dtype, device=grad.device)
        self.t += 1


class GradientLARS:
    """Layer-wise adaptive rate scaling (You et al., 2017), with weight decay."""

    name = "GradientLARS"

    def __init__(
        self, threshold: float = 1e-2, weight_decay: float = 0.0, eps: float = 1e-9
    ) -> None:
        self.threshold = threshold
        self.weight_decay = weight_decay
        self.eps = eps

    def __call__(self, params: list[ndarray], grads: list[ndarray]) -> None:
        operators["gradient_lars"](grads, params, self.threshold, self.weight_decay, self.eps)
