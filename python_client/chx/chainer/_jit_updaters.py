"""StandardUpdater whose iterations the daemon repeats (chx.jit), where chx.config.jit_updaters is on.

An iteration is recorded: the loss, its gradients and the update. What a link reports meanwhile is
reported again after each run. What the recording depends on beside its arguments is a part of its key:
Chainer's configuration, the arrays of parameters and states, which rules are enabled, the hooks.

Where an iteration cannot be recorded, everything is put back to where it was before, and the updater
goes on as Chainer's own.
"""

import logging
import random
import weakref

import chainer
import numpy
from chainer import reporter
from chainer.dataset import convert
from chainer.training import updaters

import chx
from chx import _config
from chx._runtime import recording
from chx.chainer import _optimizers

_logger = logging.getLogger("chx")
_update_core = updaters.StandardUpdater.update_core
_MANY = 32  # recordings
_COUNTED = ("t", "beta_power")
_steps = weakref.WeakKeyDictionary()  # of updaters


class _Same:
    """An object in a key: equal to itself only, and kept."""

    __slots__ = ("_object",)

    def __init__(self, obj):
        self._object = obj

    def __eq__(self, other):
        return type(other) is _Same and other._object is self._object

    def __hash__(self):
        return id(self._object)


class Key:
    """A part of a recording's key, in which floats are no arguments that vary."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, *parts):
        self._parts = parts
        self._hash = hash(parts)

    def __eq__(self, other):
        return type(other) is Key and other._parts == self._parts

    def __hash__(self):
        return self._hash


def _hashable(value):
    try:
        hash(value)
    except TypeError:
        return _Same(value)
    return type(value), value


def settings():
    """Chainer's configuration of this thread."""
    config = chainer.config
    values = {**config._global.__dict__, **config._local.__dict__}
    return tuple((name, _hashable(values[name])) for name in sorted(values))


def persistents(link):
    """Links of a link, each with the name and the value of what it keeps beside parameters."""
    for part in link.links():
        for name in sorted(part._persistent):
            yield part, name, part.__dict__[name]


def arrays_of(link):
    """What a recording of the link has taken from it; it writes to these in place."""
    parts = [_Same(param._data[0]) for param in link.params()]
    for _, _, value in persistents(link):
        parts.append(_Same(value) if isinstance(value, chx.ndarray) else _hashable(value))
    return tuple(parts)


def _hooks(owner):
    """Of an optimizer or a rule."""
    hookable = owner._hookable
    hooks = (*hookable._pre_update_hooks.values(), "", *hookable._post_update_hooks.values())
    return [_Same(hook) for hook in hooks]


def _state_of(optimizer):
    """What a recorded update depends on; it changes from one iteration to the next only by others."""
    parts = [
        *_hooks(optimizer),
        _hashable(optimizer._loss_scale),
        getattr(optimizer, "_use_cleargrads", True),
    ]
    for param in optimizer.target.params():
        rule = param.update_rule
        parts.append(_Same(param))
        if rule is None:
            continue
        # Rules that have made different numbers of steps do not step together.
        behind = optimizer.t - rule.t if rule.enabled else None
        parts += [_Same(rule), behind, _Same(rule._fp32_param)]
        parts += _hooks(rule)
        parts += [_Same(value) for value in (rule.state or {}).values()]
    return (*parts, *arrays_of(optimizer.target))


class Counters:
    """What runs of a recording change in this process: steps, and random numbers drawn."""

    def __init__(self, owners, session):
        self._values = [
            (vars(owner), {name: vars(owner)[name] for name in _COUNTED if name in vars(owner)})
            for owner in owners
        ]
        self._session, self._stream = session, session._stream
        self._draws = None if self._stream is None else self._stream.draws

    def restore(self):
        for own, values in self._values:
            own.update(values)
        self._session._stream = self._stream
        if self._stream is not None:
            self._stream.draws = self._draws


class _Snapshot:
    """What an iteration that could not be recorded may have changed."""

    def __init__(self, optimizer):
        self._optimizer = optimizer
        target = optimizer.target
        self._own = dict(optimizer.__dict__)
        self._rules = [
            (rule, dict(rule.__dict__), None if rule.state is None else dict(rule.state))
            for rule in (p.update_rule for p in target.params())
            if rule is not None
        ]
        self._persistents = list(persistents(target))
        arrays = [p.array for p in target.params() if p.array is not None]
        arrays += [value for _, _, value in self._persistents]
        for rule, _, state in self._rules:
            arrays += (state or {}).values()
            if rule._fp32_param is not None:
                arrays.append(rule._fp32_param.array)
        there = [a.as_grad_stopped() for a in arrays if isinstance(a, chx.ndarray)]
        self._copies = [(a, a.copy()) for a in there]
        self._random = random.getstate(), numpy.random.get_state()

    def restore(self):
        self._optimizer.target.cleargrads()
        self._optimizer.__dict__.update(self._own)
        for rule, own, state in self._rules:
            rule.__dict__.update(own)
            rule._state = state
        for link, name, value in self._persistents:
            link.__dict__[name] = value
        for array, copy in self._copies:
            chx.copyto(array, copy)
        random.setstate(self._random[0])
        numpy.random.set_state(self._random[1])


def _reporter():
    reporters = reporter._get_reporters()
    return reporters[-1] if reporters else None


def _recordable(name, value):
    """A reported value as the result of a recording: an array, and whether it was a variable's."""
    is_variable = isinstance(value, chainer.Variable)
    array = value.array if is_variable else value
    if not isinstance(array, chx.ndarray):
        raise chx.NotImplementedError(
            f"[jit] cannot record the report of {name!r}: it is {type(array).__name__} of this "
            "process, which would be the same each time"
        )
    return array, is_variable


class _Step:
    """The iterations of one updater."""

    def __init__(self, optimizer, loss_func):
        self._optimizer = optimizer
        self._loss_func = loss_func
        self._jitted = chx.jit(self._iterate)
        self._jitted._before = self._before
        self._snapshot = None
        self._refused = False

    def is_for(self, optimizer, loss_func):
        return self._optimizer is optimizer and self._loss_func is loss_func

    def _before(self):
        self._snapshot = _Snapshot(self._optimizer)

    def _session(self):
        return next(self._optimizer.target.params())._data[0].device.backend._session

    def _iterate(self, state, args, kwargs):
        current = _reporter()
        if current is None:
            self._optimizer.update(self._loss_func, *args, **kwargs)
            return {}
        before, current.observation = current.observation, {}
        try:
            self._optimizer.update(self._loss_func, *args, **kwargs)
            return {name: _recordable(name, v) for name, v in current.observation.items()}
        finally:
            current.observation = before

    def _why_not(self, args, kwargs):
        """Why this iteration is Chainer's own; None: it may be recorded."""
        if not isinstance(self._optimizer, _optimizers.GradientMethod):
            return f"{type(self._optimizer).__name__} is no GradientMethod"
        params = list(self._optimizer.target.params())
        if not _optimizers._remote(params):
            # Parameters without a shape get one by the first iteration.
            if any(p._data[0] is None for p in params):
                return ""
            return "parameters are not on a device of the daemon"
        for value in (*args, *kwargs.values()):
            if not isinstance(value, chx.ndarray):
                return f"the converter gives {type(value).__name__}, and not arrays of the daemon"
        info = self._jitted.cache_info()
        if info.misses >= _MANY and info.hits < info.misses:
            return f"{info.misses} of {info.misses + info.hits} had to be recorded"
        return None

    def update(self, args, kwargs):
        why_not = "" if self._refused else self._why_not(args, kwargs)
        if why_not is None:
            why_not = self._repeat(args, kwargs)
            if why_not is None:
                return
        if why_not:
            self._refused = True
            _logger.warning(
                "chx.config.jit_updaters: iterations are not recorded, but run as ever: %s", why_not
            )
        self._optimizer.update(self._loss_func, *args, **kwargs)

    def _repeat(self, args, kwargs):
        """Runs the iteration; why it could not, after which nothing has changed."""
        optimizer = self._optimizer
        for param in optimizer.target.params():
            rule = param.update_rule
            if rule is not None and rule.enabled and rule.state is None:
                with chx.no_backprop_mode():
                    rule._init_states(_optimizers._master_of(rule, param))
        rules = (p.update_rule for p in optimizer.target.params())
        owners = (optimizer, *(r for r in rules if r is not None))
        counters = Counters(owners, self._session())
        self._snapshot = None
        try:
            reports = self._jitted(Key(settings(), _state_of(optimizer)), args, kwargs)
        except chx.NotImplementedError as error:
            counters.restore()
            if self._snapshot is None:  # a run: what was recorded does not hold any more
                self._jitted.cache_clear()
                return self._repeat(args, kwargs)
            self._snapshot.restore()
            return str(error)
        finally:
            self._snapshot = None
        current = _reporter()
        if current is not None:
            for name, (array, is_variable) in reports.items():
                value = chainer.Variable(array, requires_grad=False) if is_variable else array
                current.observation[name] = value
        return None


def update_core(self):
    """One iteration: of Chainer's own or, if chx.config.jit_updaters is on, by a recording."""
    if not _config.config.jit_updaters or recording.current() is not None:
        _update_core(self)
        return
    iterator = self.get_iterator("main")
    optimizer = self.get_optimizer("main")
    loss_func = self.loss_func or optimizer.target
    inputs = convert._call_converter(self.converter, iterator.next(), self.input_device)
    args = inputs if isinstance(inputs, tuple) else () if isinstance(inputs, dict) else (inputs,)
    kwargs = inputs if isinstance(inputs, dict) else {}
    step = _steps.get(self)
    if step is None or not step.is_for(optimizer, loss_func):
        step = _steps[self] = _Step(optimizer, loss_func)
    step.update(args, kwargs)
    if self.auto_new_epoch and iterator.is_new_epoch:
        optimizer.new_epoch(auto=True)


def adapt(chainer):
    updaters.StandardUpdater.update_core = update_core
