"""Scaled losses, for gradients that float16 would round to zero."""

from __future__ import annotations

import math
from typing import Any

from chx import _core
from chx._core import ndarray
from chx.optimizers._clipping import gradients
from chx.optimizers._devices import by_device
from chx.optimizers._optimizer import Optimizer


class GradScaler:
    """Scales losses up and gradients down again, by a factor that it finds.

        scaler = chx.optimizers.GradScaler()
        with chx.autocast("float16"):
            loss = chx.cross_entropy(model(x), t)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    A step with gradients that are infinite or NaN is left out, and the scale becomes smaller; after
    `growth_interval` steps without such, it becomes larger. `step` reads one value, so it waits for
    the gradients, and cannot be recorded. bfloat16 has the range of float32 and needs no scale.

    Args:
      init_scale: the scale to begin with.
      growth_factor, backoff_factor: what the scale is multiplied by to become larger or smaller.
      growth_interval: steps without infinite gradients after which it becomes larger.
      enabled: if not, losses and gradients stay as they are, and every step is made.

    Raises:
      ValueError: a scale or interval is not positive, or a factor on the wrong side of 1.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if not (0 < init_scale < math.inf and growth_interval >= 1):
            raise ValueError(
                "GradScaler expects a positive scale and interval, "
                f"got {init_scale} and {growth_interval}"
            )
        if not (growth_factor > 1 and 0 < backoff_factor < 1):
            raise ValueError(
                "GradScaler expects growth_factor > 1 and 0 < backoff_factor < 1, "
                f"got {growth_factor} and {backoff_factor}"
            )
        self._scale = float(init_scale)
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._enabled = enabled
        self._good_steps = 0
        # Since the last update(): whether the optimizers' gradients are finite.
        self._finite: dict[int, bool] = {}

    def get_scale(self) -> float:
        """The factor of losses now."""
        return self._scale if self._enabled else 1.0

    def scale(self, loss: ndarray) -> ndarray:
        """The loss, scaled."""
        return loss * self._scale if self._enabled else loss

    def unscale(self, optimizer: Optimizer) -> None:
        """Divides the gradients of the optimizer's parameters by the scale, in place.

        For who clips or looks at them before `step`, which else does so itself.

        Raises:
          RuntimeError: it was called for this optimizer since the last `update`.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._finite:
            raise RuntimeError("unscale() was called for this optimizer since the last update()")
        grads = gradients(optimizer.params.values())
        for g in grads:
            g *= 1.0 / self._scale
        # One value of each device, which are read when all have been asked for.
        finite = [
            _core.all(_core.stack([_core.all(_core.isfinite(g)) for g in group]))
            for group in by_device(grads, grads)
        ]
        self._finite[id(optimizer)] = all(bool(each) for each in finite)

    def step(self, optimizer: Optimizer) -> bool:
        """Unscales the gradients, and updates the parameters if all of them are finite.

        Returns:
          Whether it has updated them.
        """
        if self._enabled and id(optimizer) not in self._finite:
            self.unscale(optimizer)
        finite = self._finite.get(id(optimizer), True)
        if finite:
            optimizer.update()
        return finite

    def update(self) -> None:
        """Adjusts the scale, after the steps of all optimizers."""
        if not self._finite:
            return
        if all(self._finite.values()):
            self._good_steps += 1
            if self._good_steps == self._growth_interval:
                self._scale *= self._growth_factor
                self._good_steps = 0
        else:
            self._scale *= self._backoff_factor
            self._good_steps = 0
        self._finite.clear()

    def state_dict(self) -> dict[str, Any]:
        """What a snapshot needs of it."""
        return {"scale": self._scale, "good_steps": self._good_steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from there.

        Raises:
          KeyError: it is not of state_dict().
        """
        self._scale, self._good_steps = float(state["scale"]), int(state["good_steps"])
