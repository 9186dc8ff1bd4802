"""Optimizers over chx arrays: one command per step, whatever the number of parameters."""

import collections
import types

import chx
from chx.optimizers._rules import RULES


class Optimizer:
    """Updates parameters in place from their gradients. The base of all optimizers here.

    Hyperparameters are attributes, which may be changed between steps. Every array of one device
    is updated by one command; nothing is waited for.

    Attributes:
      t: the number of updates so far.
      params: {name: array}, as given to setup.
      state: {name: {state: array}}, filled by the first update with a gradient. The arrays are
        updated in place, on the parameter's device, and are of its shape and dtype.
    """

    rule = ""  # a key of RULES
    _fixed = {}  # hyperparameters that tell this optimizer from others with the same rule

    def __init__(self, **hyperparameters):
        self.t = 0
        self.params = {}
        self.state = {}
        self._hooks = collections.OrderedDict()
        self._writable = {}
        values = {**RULES[self.rule].defaults, **hyperparameters, **self._fixed}
        self._names = tuple(values)
        unknown = sorted(set(values) - set(RULES[self.rule].defaults))
        if unknown or set(hyperparameters) & set(self._fixed):
            wrong = unknown or sorted(set(hyperparameters) & set(self._fixed))
            raise TypeError(f"{type(self).__name__} has no hyperparameter {', '.join(wrong)}")
        self.__dict__.update(values)
        self._initial_alpha = values.get("alpha")

    def setup(self, params):
        """Names the arrays to update.

        Args:
          params: float arrays that require gradients: a dict by name, or a sequence, whose names
            are '0', '1', ...

        Returns:
          The optimizer.

        Raises:
          ValueError: an array that requires no gradient.
        """
        if not isinstance(params, dict):
            params = {str(i): p for i, p in enumerate(params)}
        for name, p in params.items():
            if not p.is_grad_required():
                raise ValueError(
                    f"setup() expects arrays that require gradients, got {name!r}: {p!r}"
                )
        self.params = dict(params)
        self.state = {}
        self.t = 0
        self._writable = {name: p.as_grad_stopped() for name, p in params.items()}
        return self

    def cleargrads(self):
        """Forgets the gradients of all parameters."""
        for p in self.params.values():
            p.cleargrad()

    def add_hook(self, hook, name=None):
        """Calls hook(params, grads), lists of arrays of one device, before every update.

        A hook changes gradients in place; those of chx.optimizers do so by one command.

        Raises:
          KeyError: there is a hook of that name.
        """
        name = name or getattr(hook, "name", None) or type(hook).__name__
        if name in self._hooks:
            raise KeyError(f"there is a hook {name!r}")
        self._hooks[name] = hook

    def remove_hook(self, name):
        """Undoes add_hook."""
        del self._hooks[name]

    def update(self):
        """Takes a step. Parameters without a gradient stay as they are.

        A step that could not be sent does not count.
        """
        t = self.t + 1
        rule = RULES[self.rule]
        groups = collections.defaultdict(list)
        for name, p in self.params.items():
            if p.grad is not None:
                groups[p.device].append(name)
        hp = types.SimpleNamespace(**{name: getattr(self, name) for name in self._names})
        for names in groups.values():
            params = [self._writable[name] for name in names]
            grads = [_stopped(self.params[name].grad) for name in names]
            for hook in self._hooks.values():
                hook(params, grads)
            states = [self._states_of(name) for name in names]
            lists = [[state[key] for state in states] for key in rule.states]
            arguments = rule.arguments(hp, t, self._initial_alpha)
            rule.operator(params, grads, *lists, *arguments)
        self.t = t

    def _states_of(self, name):
        if name not in self.state:
            p = self.params[name]
            self.state[name] = {
                key: chx.full(p.shape, first, p.dtype, p.device)
                for key, first in RULES[self.rule].states.items()
            }
        return self.state[name]

    def state_dict(self):
        """All that the next steps depend on but the parameters: {name: number or array}.

        Arrays are the optimizer's own: copy them, or save them with chx.savez, before the next
        update.
        """
        values = {"t": self.t, "initial_alpha": self._initial_alpha}
        values.update({name: getattr(self, name) for name in self._names})
        for name, states in self.state.items():
            values.update({f"{name}/{key}": array for key, array in states.items()})
        return {name: value for name, value in values.items() if value is not None}

    def load_state_dict(self, values):
        """Takes back what state_dict gave; arrays may be NumPy's, and are copied.

        Raises:
          KeyError: something is missing or unknown: a hyperparameter, a parameter that setup did
            not name, one of its states.
          ValueError: a state is not of its parameter's shape.
        """
        names = {"t", *self._names, *({"initial_alpha"} if self._initial_alpha is not None else ())}
        states = self._states_in(values, names)
        missing = sorted(names - set(values))
        if missing:
            raise KeyError(f"load_state_dict() expects {', '.join(missing)}, got no such value")
        defaults = RULES[self.rule].defaults
        numbers = {
            name: bool(values[name]) if isinstance(defaults[name], bool) else float(values[name])
            for name in self._names
        }
        t = int(values["t"])
        if self._initial_alpha is not None:
            self._initial_alpha = float(values["initial_alpha"])
        self.__dict__.update(numbers)
        self.t = t
        self.state = {
            param: {key: _copied(value, self.params[param]) for key, value in arrays.items()}
            for param, arrays in states.items()
        }

    def _states_in(self, values, names):
        """{parameter: {state: value}} of what load_state_dict was given, checked."""
        keys = RULES[self.rule].states
        states = {}
        for name, value in values.items():
            param, _, key = name.rpartition("/")
            if name in names:
                continue
            if param not in self.params or key not in keys:
                raise KeyError(
                    f"load_state_dict() expects {', '.join(sorted(names))} and states "
                    f"({', '.join(keys)}) of {', '.join(self.params)}, got {name!r}"
                )
            shape, given = self.params[param].shape, tuple(getattr(value, "shape", ()))
            if given != shape:
                raise ValueError(f"load_state_dict() expects {name!r} of {shape}, got {given}")
            states.setdefault(param, {})[key] = value
        for param, arrays in states.items():
            if len(arrays) != len(keys):
                raise KeyError(
                    f"load_state_dict() expects {', '.join(keys)} of {param!r}, got "
                    f"{', '.join(arrays)}"
                )
        return states


def _copied(value, param):
    if hasattr(value, "to_device"):
        value = value.to_device(param.device)
    return chx.array(value, param.dtype, copy=True, device=param.device)


def _stopped(grad):
    return grad.as_grad_stopped() if grad.is_backprop_required(chx.anygraph) else grad


def _optimizer(name, rule, doc, **fixed):
    defaults = {k: v for k, v in RULES[rule].defaults.items() if k not in fixed}
    arguments = ", ".join(f"{k}={v}" for k, v in defaults.items())
    text = f"{doc}\n\n    Hyperparameters: {arguments}.\n    "
    return type(name, (Optimizer,), {"rule": rule, "_fixed": fixed, "__doc__": text})


SGD = _optimizer("SGD", "SGD", "Stochastic gradient descent.")
MomentumSGD = _optimizer("MomentumSGD", "MomentumSGD", "Gradient descent with momentum.")
CorrectedMomentumSGD = _optimizer(
    "CorrectedMomentumSGD",
    "CorrectedMomentumSGD",
    "Momentum whose velocity does not depend on the learning rate.",
)
NesterovAG = _optimizer("NesterovAG", "NesterovAG", "Nesterov's accelerated gradient.")
AdaGrad = _optimizer("AdaGrad", "AdaGrad", "AdaGrad (Duchi et al., 2011).")
AdaDelta = _optimizer("AdaDelta", "AdaDelta", "AdaDelta (Zeiler, 2012).")
_NO_BOUND = {"adabound": False, "final_lr": 0.1, "gamma": 1e-3}
Adam = _optimizer("Adam", "Adam", "Adam (Kingma and Ba, 2015).", amsgrad=False, **_NO_BOUND)
AdamW = _optimizer(
    "AdamW",
    "Adam",
    "Adam with decoupled weight decay (Loshchilov and Hutter, 2019).",
    amsgrad=False,
    **_NO_BOUND,
)
AMSGrad = _optimizer(
    "AMSGrad", "AMSGrad", "AMSGrad (Reddi et al., 2018).", amsgrad=True, **_NO_BOUND
)
AdaBound = _optimizer(
    "AdaBound", "Adam", "AdaBound (Luo et al., 2019).", amsgrad=False, adabound=True
)
AMSBound = _optimizer("AMSBound", "AMSGrad", "AdaBound over AMSGrad.", amsgrad=True, adabound=True)
RMSprop = _optimizer("RMSprop", "RMSprop", "RMSprop (Tieleman and Hinton, 2012).")
RMSpropGraves = _optimizer("RMSpropGraves", "RMSpropGraves", "RMSprop of Graves (2013).")
SMORMS3 = _optimizer("SMORMS3", "SMORMS3", "Simon Funk's SMORMS3.")
MSVAG = _optimizer("MSVAG", "MSVAG", "M-SVAG (Balles and Hennig, 2018).")
