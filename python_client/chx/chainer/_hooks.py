"""Hooks of Chainer's that measure: on a daemon's arrays they wait for what was called."""

import time

from chainer.backends import _cpu

import chx


def _adapt_timer(cls, name_of):
    preprocess, postprocess = cls._preprocess, cls._postprocess

    def is_remote(hook):
        return getattr(hook.xp, "ndarray", None) is chx.ndarray

    def before(self):
        if not is_remote(self):
            preprocess(self)
            return
        chx.get_default_device().synchronize()
        self._running_stack.append(time.perf_counter())
        self._depth += 1

    def after(self, timed):
        if not is_remote(self):
            postprocess(self, timed)
            return
        chx.get_default_device().synchronize()
        elapsed = time.perf_counter() - self._running_stack.pop()
        self.call_history.append((name_of(timed), elapsed))
        self._depth -= 1
        if self._depth == 0:
            self._total_time += elapsed

    cls._preprocess, cls._postprocess = before, after


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
    _adapt_timer(function_hooks.TimerHook, lambda function: function._impl_name)
    _adapt_timer(link_hooks.TimerHook, lambda link: type(link).__name__)
