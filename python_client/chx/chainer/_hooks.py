"""Hooks of Chainer's that measure: on a daemon's arrays they wait for what was called."""

import functools
import time

from chainer import backend
from chainer.backends import _cpu

import chx


def _adapt_timer(cls, name_of, devices_of):
    preprocess, postprocess = cls._preprocess, cls._postprocess

    def noting_devices(call):
        @functools.wraps(call)
        def noting(self, *args):
            self._chx_devices = devices_of(*args)
            call(self, *args)

        return noting

    def wait(hook):
        for device in hook._chx_devices:
            device.synchronize()

    def is_remote(hook):
        return getattr(hook.xp, "ndarray", None) is chx.ndarray

    def before(self):
        if not is_remote(self):
            preprocess(self)
            return
        wait(self)
        self._running_stack.append(time.perf_counter())
        self._depth += 1

    def after(self, timed):
        if not is_remote(self):
            postprocess(self, timed)
            return
        wait(self)
        elapsed = time.perf_counter() - self._running_stack.pop()
        self.call_history.append((name_of(timed), elapsed))
        self._depth -= 1
        if self._depth == 0:
            self._total_time += elapsed

    cls._preprocess, cls._postprocess = before, after
    for timing in ("forward", "backward"):
        for name in (f"{timing}_preprocess", f"{timing}_postprocess"):
            if name in vars(cls):
                setattr(cls, name, noting_devices(getattr(cls, name)))


def _devices_of_arrays(function, in_data, out_grad=()):
    return {a.device for a in (*in_data, *out_grad) if isinstance(a, chx.ndarray)}


def _devices_of_link(args):
    """Of a model that is on several, all."""
    devices = [args.link.device, *[p.device for p in args.link.params()]]
    return {d.device for d in devices if isinstance(d, backend.ChainerxDevice)}


def _adapt_print(cls):
    process = cls._process

    def on_host(arrays):
        return arrays and tuple([None if a is None else _cpu._to_cpu(a) for a in arrays])

    def process_here(self, function, in_data, out_grad=None):
        process(self, function, on_host(in_data), on_host(out_grad))

    cls._process = process_here


def adapt(chainer):
    from chainer import function_hooks, link_hooks

    _adapt_print(function_hooks.PrintHook)
    _adapt_timer(function_hooks.TimerHook, lambda function: function._impl_name, _devices_of_arrays)
    _adapt_timer(link_hooks.TimerHook, lambda link: type(link).__name__, _devices_of_link)
