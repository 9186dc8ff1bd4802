"""Chainer's hooks of optimizers, in the daemon: one command for all parameters."""

from __future__ import annotations

import collections

from chainer import optimizer, optimizer_hooks

import chx
from chx._runtime import recording
from chx.chainer import _optimizers
from chx.optimizers._rules import operators

GradientMethod = optimizer.GradientMethod

_call_hook = GradientMethod.call_hook


def _arrays(params):
    return [_optimizers._array_of(p) for p in params]


def _grads(params):
    return [_optimizers._grad_of(p) for p in params]


def _decay(hook, params):
    by_scale = collections.defaultdict(list)
    for param in params:
        by_scale[param._loss_scale].append(param)
    for scale, group in by_scale.items():
        _optimizers._call_varying(
            operators["weight_decay"],
            (_grads(group), _arrays(group)),
            lambda scale=scale: (hook.rate if scale is None else hook.rate * scale,),
        )


def _lasso(hook, params):
    _optimizers._call_varying(
        operators["lasso"], (_grads(params), _arrays(params)), lambda: (hook.rate,)
    )


def _clip(hook, params):
    _optimizers._call_varying(
        operators["gradient_clipping"], (_grads(params),), lambda: (hook.threshold,)
    )


def _clip_hard(hook, params):
    _optimizers._call_varying(
        operators["gradient_hard_clipping"],
        (_grads(params),),
        lambda: (hook.lower_bound, hook.upper_bound),
    )


def _lars(hook, params):
    _optimizers._call_varying(
        operators["gradient_lars"],
        (_grads(params), _arrays(params)),
        lambda: (hook.threshold, hook.weight_decay, hook.eps),
    )


# By the function that is the hook: also of the deprecated classes in chainer.optimizer.
_HOOKS = {
    optimizer_hooks.WeightDecay.__call__: _decay,
    optimizer_hooks.Lasso.__call__: _lasso,
    optimizer_hooks.GradientClipping.__call__: _clip,
    optimizer_hooks.GradientHardClipping.__call__: _clip_hard,
    optimizer_hooks.GradientLARS.__call__: _lars,
}


def call_hook(self, hook):
    """Calls a hook for the optimizer, or for each of its parameters."""
    fused = _HOOKS.get(getattr(type(hook), "__call__", None))  # noqa: B004
    params = list(self.target.params(False)) if fused else []
    # A norm over several devices is Chainer's to gather.
    if not fused or not _optimizers._remote(params) or len({p._data[0].device for p in params}) > 1:
        _call_hook(self, hook)
        return
    fused(hook, params)
    self.reallocate_cleared_grads()


def _device_noise(xp, shape, dtype, hook, opt):
    """Chainer's exponential_decay_noise; the numbers are the daemon's for arrays that are there."""
    if xp is not chx.chainerx:
        return _exponential_decay_noise(xp, shape, dtype, hook, opt)
    if recording.current() is not None:
        raise _optimizers._cannot_record("GradientNoise", "it depends on the number of the step")
    deviation = (hook.eta / (1 + opt.t) ** 0.55) ** 0.5
    return chx.random.normal(0.0, deviation, shape, dtype=dtype)


_exponential_decay_noise = optimizer_hooks.gradient_noise.exponential_decay_noise


def adapt(chainer):
    GradientMethod.call_hook = call_hook
    optimizer_hooks.gradient_noise.exponential_decay_noise = _device_noise
    # The default argument holds the function itself.
    optimizer_hooks.GradientNoise.__init__.__defaults__ = (_device_noise,)
