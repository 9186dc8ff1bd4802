"""Optimizers that run in the daemon: a step is one command for all parameters of a device.

    optimizer = chx.optimizers.Adam(alpha=1e-3).setup([w, b])
    loss.backward()
    optimizer.update()
    optimizer.cleargrads()

The rules and the names of hyperparameters are Chainer's. The operators behind them, which take
lists of arrays, are here too: adam_update and so on.
"""

import typing as _typing

from chx.optimizers._averages import MovingAverage as MovingAverage
from chx.optimizers._clipping import (
    clip_grad_norm as clip_grad_norm,
    clip_grad_value as clip_grad_value,
)
from chx.optimizers._grad_scaler import GradScaler as GradScaler
from chx.optimizers._hooks import (
    GradientClipping as GradientClipping,
    GradientHardClipping as GradientHardClipping,
    GradientLARS as GradientLARS,
    GradientNoise as GradientNoise,
    Lasso as Lasso,
    WeightDecay as WeightDecay,
)
from chx.optimizers._optimizer import Optimizer as Optimizer
from chx.optimizers._optimizers import (
    MSVAG as MSVAG,
    SGD as SGD,
    SMORMS3 as SMORMS3,
    AdaBound as AdaBound,
    AdaDelta as AdaDelta,
    AdaGrad as AdaGrad,
    Adam as Adam,
    AdamW as AdamW,
    AMSBound as AMSBound,
    AMSGrad as AMSGrad,
    CorrectedMomentumSGD as CorrectedMomentumSGD,
    MomentumSGD as MomentumSGD,
    NesterovAG as NesterovAG,
    RMSprop as RMSprop,
    RMSpropGraves as RMSpropGraves,
)

if _typing.TYPE_CHECKING:
    from chx._optimizers_ops import *  # noqa: F403
else:
    from chx.optimizers._rules import operators as _operators

    globals().update(_operators)

    __all__ = [
        "MSVAG",
        "SGD",
        "SMORMS3",
        "AMSBound",
        "AMSGrad",
        "AdaBound",
        "AdaDelta",
        "AdaGrad",
        "Adam",
        "AdamW",
        "CorrectedMomentumSGD",
        "GradScaler",
        "GradientClipping",
        "GradientHardClipping",
        "GradientLARS",
        "GradientNoise",
        "Lasso",
        "MomentumSGD",
        "MovingAverage",
        "NesterovAG",
        "Optimizer",
        "RMSprop",
        "RMSpropGraves",
        "WeightDecay",
        "clip_grad_norm",
        "clip_grad_value",
        *_operators,
    ]
