"""Chainer's optimizers, in the daemon.

ChainerX's own way updates NumPy views of the parameters, in this process. Here an update is one
command for all parameters that have the same rule and hyperparameters (chx.optimizers). Loss scaling
is undone by a division for each parameter, after the cast to float32 where there is one. States are
arrays in the daemon, which serializers see.

While chx.jit records, an update is a part of what is recorded: each run takes one more step, with the
hyperparameters of that moment.

Update rules of users are called as with ChainerX. update_core_cpu gets NumPy copies, which are
written back, and counts as a fallback. update_core_gpu gets the daemon's arrays: chx has no CuPy
arrays, but cuda.elementwise makes kernels that write to arrays of the daemon.
"""

from __future__ import annotations

import collections

import numpy
from chainer import optimizer, optimizers, variable

import chx
from chx._compat import zip_strict
from chx._runtime import recording
from chx.chainer import _fallbacks, _graph
from chx.optimizers._rules import MAX_OPERANDS, RULES, operators

GradientMethod = optimizer.GradientMethod
UpdateRule = optimizer.UpdateRule

_update = GradientMethod.update
_update_by_rule = UpdateRule._UpdateRule__update
_reallocate_cleared_grads = GradientMethod.reallocate_cleared_grads
_check_nan_in_grads = optimizer.Optimizer.check_nan_in_grads

# Chainer's rules by their class, exactly: a class made of one may compute something else.
_NAMES = {
    optimizers.sgd.SGDRule: "SGD",
    optimizers.momentum_sgd.MomentumSGDRule: "MomentumSGD",
    optimizers.corrected_momentum_sgd.CorrectedMomentumSGDRule: "CorrectedMomentumSGD",
    optimizers.nesterov_ag.NesterovAGRule: "NesterovAG",
    optimizers.ada_grad.AdaGradRule: "AdaGrad",
    optimizers.ada_delta.AdaDeltaRule: "AdaDelta",
    optimizers.adam.AdamRule: "Adam",
    optimizers.rmsprop.RMSpropRule: "RMSprop",
    optimizers.rmsprop_graves.RMSpropGravesRule: "RMSpropGraves",
    optimizers.smorms3.SMORMS3Rule: "SMORMS3",
    optimizers.msvag.MSVAGRule: "MSVAG",
}


def _name_of(rule):
    name = _NAMES.get(type(rule))
    return "AMSGrad" if name == "Adam" and rule.hyperparam.amsgrad else name


# Every update comes through most of these functions for each parameter: they take the short ways
# to arrays and gradients, without properties and generators.


def _initialized(params):
    return [p for p in params if p._data[0] is not None]


def _remote(params):
    """Whether there are parameters, and all have arrays in the daemon."""
    for p in params:
        if not p._has_chainerx_array or p._data[0] is None or p._layout is not None:
            return False
    return bool(params)


def _array_of(param):
    """The array, outside of graphs."""
    array = param._chainerx_nobp_array_cache
    return param.array if array is None else array


def _grad_of(param):
    """The gradient, outside of graphs; None if there is none."""
    grad = _graph.grad_of(param)
    return param.grad if grad is not None and _graph.is_connected(grad) else grad


def _cannot_record(what, how):
    return chx.NotImplementedError(f"[jit] cannot record {what}: {how}")


class _Batch:
    """Parameters to step together: lists by rule, attributes and device."""

    def __init__(self):
        self._groups = collections.defaultdict(list)
        self._halves = []
        self._known = {}  # arguments that follow from an optimizer's own hyperparameters

    def add(self, rule, param, grad):
        """Takes a parameter whose rule has begun its step: t counts it."""
        array = _array_of(param)
        if rule.state is None or not _in_place(rule.state, array.device):
            rule._init_states(param)
            _hold(rule.state.values())
        recorded = recording.current()
        if grad is None:
            if recorded is not None:
                recorded.vary((), lambda: _count(rule))
            return
        name = _name_of(rule)
        arguments = self._arguments(name, rule, array.dtype, rule.t)
        _after(name, rule)
        self._groups[name, arguments, array.device].append((array, grad, rule.state, rule))

    def copy_back(self, param, master):
        """After the step, rounds a float32 copy into its parameter."""
        self._halves.append((param.array, master.array))

    def _arguments(self, name, rule, dtype, t):
        hp = rule.hyperparam
        own = hp.__dict__
        if name == "MSVAG" or len(own) != 1:  # more than its parent
            return self._computed(name, rule, dtype, t)
        key = name, id(own["_parent"]), t, getattr(rule, "initial_alpha", None), dtype
        arguments = self._known.get(key)
        if arguments is None:
            arguments = self._known[key] = self._computed(name, rule, dtype, t)
        return arguments

    def _computed(self, name, rule, dtype, t):
        return tuple([_plain(a) for a in self._hyperparameters(name, rule, dtype, t)])

    def _hyperparameters(self, name, rule, dtype, t):
        hp = rule.hyperparam
        if name == "MSVAG":
            return hp.lr, hp.beta, hp.eta, hp.weight_decay_rate, rule.beta_power
        if name == "RMSprop" and hp.eps != 0 and dtype.type(hp.eps) == 0:
            raise ValueError(f"[RMSprop] expects an eps that {dtype.name} can hold, got {hp.eps}")
        return RULES[name].arguments(hp, t, getattr(rule, "initial_alpha", None))

    def next_step(self, name, arguments, rules):
        """Counts one more step of rules that stepped together; its arguments.

        Raises:
          NotImplementedError: they cannot step together any more.
        """
        found = {self._arguments(_name_of(r), r, dtype, r.t + 1) for r, dtype in rules}
        new = found.pop()
        kinds = [[a for a in each if type(a) is not float] for each in (arguments, new)]
        if found or kinds[0] != kinds[1] or any(_name_of(rule) != name for rule, _ in rules):
            raise _cannot_record(
                "hyperparameters that differ where they did not",
                "record the function again, after cache_clear()",
            )
        for rule, _ in rules:
            _count(rule)
            _after(name, rule)
        return new

    def run(self):
        recorded = recording.current()
        for (name, arguments, _), entries in self._groups.items():
            rule = RULES[name]
            params, grads, states, rules = zip_strict(*entries)
            lists = [[state[key] for state in states] for key in rule.states]
            if recorded is not None:
                _vary_steps(
                    recorded, name, arguments, [(r, p.dtype) for r, p in zip_strict(rules, params)]
                )
            rule.operator(params, grads, *lists, *arguments)
        for half, master in self._halves:
            chx.copyto(half, master, casting="same_kind")


def _count(counter):
    """Of an optimizer or a rule: one more step."""
    counter.t += 1
    return ()


def _after(name, rule):
    """What a step changes in its rule beside the states."""
    if name == "MSVAG":
        rule.beta_power *= rule.hyperparam.beta


def _hold(arrays):
    """While a function is recorded: its runs find these arrays, and do not make them."""
    recorded = recording.current()
    if recorded is not None:
        for array in arrays:
            if isinstance(array, chx.ndarray):
                recorded.hold(array)


def _vary_steps(recorded, name, arguments, rules):
    """Each run of what is recorded takes one more step by these rules."""
    if len(rules) * (2 + len(RULES[name].states)) > MAX_OPERANDS:
        raise _cannot_record("an update by several commands", "there are too many parameters")
    varying = [i for i, a in enumerate(arguments) if type(a) is float]

    def numbers():
        new = _Batch().next_step(name, arguments, rules)
        return [new[i] for i in varying]

    recorded.vary(varying, numbers)


def _call_varying(operator, arrays, numbers):
    """operator(*arrays, *numbers()), and in each run of what is recorded with the numbers of then."""
    recorded = recording.current()
    values = numbers()
    if recorded is not None:
        recorded.vary(range(len(values)), lambda: map(float, numbers()))
    operator(*arrays, *values)


def _plain(value):
    """A hyperparameter as a number of Python's: arrays have no hash."""
    return value.item() if hasattr(value, "item") else value


def _master_of(rule, param):
    """What a rule steps: the parameter, or its float32 copy."""
    if not rule._use_fp32_update or param.dtype != numpy.float16:
        return param
    if rule._fp32_param is None or rule._fp32_param.array is None:
        wide = param.array.astype(numpy.float32)
        _hold([wide])
        rule._fp32_param = variable.Parameter(wide, name=param.name)
    return rule._fp32_param


def _unscaled_grad(param, dtype):
    """A parameter's gradient; if its loss was scaled, in dtype and divided.

    As on NumPy, the parameter keeps the result, unless that is of another dtype.
    """
    grad, scale = _grad_of(param), param._loss_scale
    if grad is None or scale is None:
        return grad
    if grad.dtype != dtype:
        return grad.astype(dtype) / float(scale)
    param.grad = grad / float(scale)
    return _grad_of(param)


def _in_place(state, device):
    for value in state.values():
        if not isinstance(value, chx.ndarray) or value.device is not device:
            return False
    return True


def _can_batch(rule):
    hooks = rule._hookable
    return type(rule) in _NAMES and not hooks._pre_update_hooks and not hooks._post_update_hooks


def update(self, lossfun=None, *args, **kwds):
    """Updates the parameters, after a backward pass if a loss function is given."""
    if lossfun is not None:
        loss = lossfun(*args, **kwds)
        if getattr(self, "_use_cleargrads", True):
            self.target.cleargrads()
        else:
            self.target.zerograds()
        loss.backward(loss_scale=self._loss_scale)
        del loss
    # Others take part as on NumPy: their rules count the steps.
    params = list(self.target.params())
    initialized = _initialized(params)
    if not _remote(initialized):
        _update(self)
        return
    if lossfun is not None:
        for param in initialized:  # those that Chainer's graph doesn't lead to, too
            param._loss_scale = self._loss_scale
    _reallocate(self, initialized)
    self.check_nan_in_grads()
    self.call_hooks("pre")
    self.t += 1
    recorded = recording.current()
    if recorded is not None:
        recorded.vary((), lambda: _count(self))
    if self.is_safe_to_update():
        _step(params)
    _reallocate(self, initialized)
    self.call_hooks("post")
    self.update_loss_scale()


def _step(params):
    batch, arrays = _Batch(), set()
    for param in params:
        rule = param.update_rule
        array = _array_of(param)
        if array is not None:
            if id(array) in arrays:  # a copy's, which steps from where the other one got to
                batch.run()
                batch, arrays = _Batch(), set()
            arrays.add(id(array))
        if rule is None or not _can_batch(rule) or param._data[0] is None:
            param.update()
        elif rule.enabled:
            rule.t += 1
            master = _master_of(rule, param)
            grad = _unscaled_grad(param, master.dtype)
            batch.add(rule, master, grad)
            if master is not param and grad is not None:
                batch.copy_back(param, master)
    batch.run()


def update_by_rule(self, param):
    """Updates one parameter with its rule's hooks, which see gradients that are not scaled."""
    if not _remote([param]):
        _update_by_rule(self, param)
        return
    master = _master_of(self, param)
    grad = _unscaled_grad(param, master.dtype)
    if master is not param and grad is not None:
        master.grad = grad.astype(master.dtype)
    self._init_states(master)
    self._hookable.call_hooks("pre", args=(self, master))
    self.update_core(master)
    self._hookable.call_hooks("post", args=(self, master))
    if master is not param:
        chx.copyto(param.array, master.array, casting="same_kind")
        master.cleargrad()


def update_core_chainerx(self, param):
    """Updates one parameter, outside of an optimizer's update or by a rule with hooks.

    One that has no array yet stays so.
    """
    if param._data[0] is None:
        return
    if type(self) in _NAMES:
        batch = _Batch()
        batch.add(self, param, param.grad)
        batch.run()
    elif recording.current() is not None:
        raise _cannot_record(
            f"the update rule {type(self).__name__}", "it may depend on the number of the step"
        )
    elif _takes_device_arrays(type(self), param.device.device.backend.name):
        self.update_core_gpu(param)
    else:
        _update_with_numpy(self, param)


def _takes_device_arrays(rule, backend):
    """Whether a user's rule is updated by update_core_gpu, rather than by update_core_cpu.

    It is if there is no update_core_cpu. On cuda it is, too, if the user wrote update_core_gpu and no
    subclass overrides update_core_cpu: Chainer's own methods for GPUs need CuPy.
    """
    if rule.update_core_gpu is UpdateRule.update_core_gpu:
        return False
    if rule.update_core_cpu is UpdateRule.update_core_cpu:
        return True
    gpu, cpu = (_definer(rule, name) for name in ("update_core_gpu", "update_core_cpu"))
    own = not gpu.__module__.startswith("chainer.")
    return backend == "cuda" and own and issubclass(gpu, cpu)


def _definer(cls, name):
    return next(base for base in cls.__mro__ if name in vars(base))


def _update_with_numpy(rule, param):
    """Calls update_core on NumPy copies, and so update_core_cpu."""
    _fallbacks.note(type(rule).__name__, [param.array])
    local = variable.Variable(chx.to_numpy(param.array))
    if param.grad is not None:
        local.grad = chx.to_numpy(param.grad)
    state = rule.state or {}
    remote = {name: value for name, value in state.items() if isinstance(value, chx.ndarray)}
    for name, value in remote.items():
        state[name] = chx.to_numpy(value)
    rule.update_core(local)
    chx.copyto(param.array, param.device.send(local.array))
    for name in remote:
        state[name] = param.device.send(state[name])


def _reallocate(optimizer, params):
    for param in params:
        if _graph.grad_of(param) is None:
            _reallocate_cleared_grads(optimizer)
            return


def reallocate_cleared_grads(self):
    """Gives zeros to parameters without a gradient."""
    params = list(self.target.params(False))
    if _remote(params):
        _reallocate(self, params)
    else:
        _reallocate_cleared_grads(self)


def check_nan_in_grads(self):
    """For dynamic loss scaling: whether all gradients are finite, in one read."""
    params = _initialized(self.target.params()) if self._loss_scaling_is_dynamic else ()
    if _remote(params):
        by_device = collections.defaultdict(list)
        for param in params:
            by_device[param.grad.device].append(param.grad)
        if all(bool(operators["all_finite"](grads)) for grads in by_device.values()):
            self._loss_scaling_isnan = False
            return
    _check_nan_in_grads(self)  # it warns of each parameter


def adapt(chainer):
    GradientMethod.update = update
    GradientMethod.reallocate_cleared_grads = reallocate_cleared_grads
    optimizer.Optimizer.check_nan_in_grads = check_nan_in_grads
    UpdateRule._UpdateRule__update = update_by_rule
    UpdateRule.update_core_chainerx = update_core_chainerx
