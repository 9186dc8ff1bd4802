"""Optimizers that run in the daemon: a step is one command for all parameters of a device.

    optimizer = chx.optimizers.Adam(alpha=1e-3).setup([w, b])
    loss.backward()
    optimizer.update()
    optimizer.cleargrads()

The rules and the names of hyperparameters are Chainer's. The operators behind them, which take
lists of arrays, are here too: adam_update and so on.
"""

from chx.optimizers._hooks import (
    GradientClipping,
    GradientHardClipping,
    GradientLARS,
    GradientNoise,
    Lasso,
    WeightDecay,
)
from chx.optimizers._optimizer import (
    MSVAG,
    SGD,
    SMORMS3,
    AdaBound,
    AdaDelta,
    AdaGrad,
    Adam,
    AdamW,
    AMSBound,
    AMSGrad,
    CorrectedMomentumSGD,
    MomentumSGD,
    NesterovAG,
    Optimizer,
    RMSprop,
    RMSpropGraves,
)
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
    "GradientClipping",
    "GradientHardClipping",
    "GradientLARS",
    "GradientNoise",
    "Lasso",
    "MomentumSGD",
    "NesterovAG",
    "Optimizer",
    "RMSprop",
    "RMSpropGraves",
    "WeightDecay",
    *_operators,
]
