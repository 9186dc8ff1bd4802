"""What of Chainer is replaced, in memory, when it has been imported."""

import warnings

VERSION = "7.8.1"


def adapt(chainer):
    """Replaces the parts of Chainer that expect arrays in this process."""
    if chainer.__version__ != VERSION:
        warnings.warn(
            f"chx.chainer adapts Chainer {VERSION}; this is {chainer.__version__}",
            RuntimeWarning,
            stacklevel=2,
        )
    # They import Chainer.
    from chx.chainer import (
        _assignment,
        _converters,
        _copies,
        _devices,
        _exporting,
        _functions,
        _gpu_ids,
        _gradients,
        _hooks,
        _jit_updaters,
        _kernels,
        _optimizer_hooks,
        _optimizers,
        _own_gradients,
        _reports,
        _routes,
        _saving,
        _static_graph,
        _summaries,
        _variables,
        _wrappers,
    )

    for module in (
        _converters,
        _devices,
        _exporting,
        _functions,
        _gpu_ids,
        _gradients,
        _hooks,
        _kernels,
        _own_gradients,
        _variables,
        _copies,
        _assignment,
        _wrappers,
        _routes,
        _optimizer_hooks,
        _optimizers,
        _reports,
        _jit_updaters,
        _saving,
        _static_graph,
        _summaries,
    ):
        module.adapt(chainer)
