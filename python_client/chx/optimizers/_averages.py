"""Averages of parameters over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chx._core import ndarray
from chx.optimizers._devices import by_device
from chx.optimizers._rules import operators


class MovingAverage:
    """Exponential moving averages of parameters: averages = decay * averages + (1 - decay) * params.

    They begin as copies of the parameters. An update is one command for all parameters of a device.

    Attributes:
      decay: may be changed between updates.
      averages: {name: array}, of the parameters' shapes and dtypes, updated in place.
    """

    def __init__(self, params: Mapping[str, ndarray] | Sequence[ndarray], decay: float) -> None:
        """A dict of float arrays by name, or a sequence, whose names are '0', '1', ..."""
        if not isinstance(params, Mapping):
            params = {str(i): p for i, p in enumerate(params)}
        self.decay = decay
        self._params = {name: p.as_grad_stopped() for name, p in params.items()}
        self.averages = {name: p.copy() for name, p in self._params.items()}

    def update(self) -> None:
        """Takes in the parameters as they are now."""
        names = list(self._params)
        for group in by_device(names, [self._params[n] for n in names]):
            averages = [self.averages[name] for name in group]
            params = [self._params[name] for name in group]
            operators["moving_average"](averages, params, self.decay)

    def copy_to(self, params: Mapping[str, ndarray] | Sequence[ndarray]) -> None:
        """Writes the averages to arrays, in place: parameters of the same names, or in that order."""
        if not isinstance(params, Mapping):
            params = {str(i): p for i, p in enumerate(params)}
        if set(params) != set(self.averages):
            raise KeyError(f"copy_to() expects {', '.join(self.averages)}, got {', '.join(params)}")
        for name, p in params.items():
            p.as_grad_stopped()[...] = self.averages[name]
