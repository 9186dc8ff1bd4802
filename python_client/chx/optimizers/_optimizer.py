"""Optimizers over chx arrays: one command per step, whatever the number of parameters."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from chx import _core
from chx._autograd.modes import outside_graphs
from chx._compat import Self, TypeAlias
from chx._core import ndarray
from chx._numpy import creation
from chx._runtime import recording
from chx._runtime.traced_numbers import Number
from chx.optimizers._rules import MAX_OPERANDS, RULES

_Hook: TypeAlias = Callable[[list[ndarray], list[ndarray]], None]


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
    _names: tuple[str, ...] = ()
    # Hyperparameters that tell this optimizer from others with the same rule.
    _fixed: ClassVar[dict[str, float]] = {}

    def __init_subclass__(cls, rule: str | None = None, **fixed: float) -> None:
        """An optimizer by its rule; its documentation names the hyperparameters that it has."""
        if rule is None:  # a user's, of another class
            return
        cls.rule, cls._fixed = rule, fixed
        defaults = {k: v for k, v in RULES[rule].defaults.items() if k not in fixed}
        arguments = ", ".join(f"{k}={v}" for k, v in defaults.items())
        cls.__doc__ = f"{cls.__doc__}\n\n    Hyperparameters: {arguments}.\n    "

    def __init__(self, **hyperparameters: float) -> None:
        self.t = 0
        self.params: dict[str, ndarray] = {}
        self.state: dict[str, dict[str, ndarray]] = {}
        self._hooks: collections.OrderedDict[str, _Hook] = collections.OrderedDict()
        self._writable: dict[str, ndarray] = {}
        self._by_device: dict[_core.Device, list[str]] = {}
        values = {**RULES[self.rule].defaults, **hyperparameters, **self._fixed}
        self._names = tuple(values)
        unknown = sorted(set(values) - set(RULES[self.rule].defaults))
        if unknown or set(hyperparameters) & set(self._fixed):
            wrong = unknown or sorted(set(hyperparameters) & set(self._fixed))
            raise TypeError(f"{type(self).__name__} has no hyperparameter {', '.join(wrong)}")
        self.__dict__.update(values)
        self._initial_alpha = values.get("alpha")

    if not TYPE_CHECKING:  # which knows the attributes

        def __setattr__(self, name, value):
            """Refuses what would have no effect, such as `lr` where the rate is `alpha`."""
            own = name in self.__dict__ or name in ("t", "params", "state") or name[0] == "_"
            if not own and not any(
                name in vars(c) or name in vars(c).get("__annotations__", ())
                for c in type(self).__mro__[:-1]
            ):
                names = [n for n in self._names if n not in self._fixed]
                raise AttributeError(
                    f"{type(self).__name__} has no attribute {name!r}; its hyperparameters are "
                    f"{', '.join(names)}"
                )
            super().__setattr__(name, value)

    def setup(self, params: Mapping[str, ndarray] | Sequence[ndarray]) -> Self:
        """Names the arrays to update.

        Args:
          params: float arrays that require gradients: a dict by name, or a sequence, whose names
            are '0', '1', ...

        Returns:
          The optimizer.

        Raises:
          ValueError: an array that requires no gradient.
        """
        if not isinstance(params, Mapping):
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
        self._by_device = {}
        for name, p in params.items():
            self._by_device.setdefault(p.device, []).append(name)
        return self

    def cleargrads(self) -> None:
        """Forgets the gradients of all parameters."""
        for p in self.params.values():
            p.cleargrad()

    def add_hook(self, hook: _Hook, name: str | None = None) -> None:
        """Calls hook(params, grads), lists of arrays of one device, before every update.

        A hook changes gradients in place; those of chx.optimizers do so by one command.

        Raises:
          KeyError: there is a hook of that name.
        """
        name = name or getattr(hook, "name", None) or type(hook).__name__
        if name in self._hooks:
            raise KeyError(f"there is a hook {name!r}")
        self._hooks[name] = hook

    def remove_hook(self, name: str) -> None:
        """Undoes add_hook."""
        del self._hooks[name]

    def update(self) -> None:
        """Takes a step. Parameters without a gradient stay as they are.

        A step that could not be sent does not count.
        """
        recorded = recording.current()
        rule = RULES[self.rule]
        groups = [g for g in map(self._gradients, self._by_device.values()) if g]
        if recorded is not None and (
            len(groups) > 1 or len(self.params) * (2 + len(rule.states)) > MAX_OPERANDS
        ):
            raise _core.NotImplementedError(
                "[jit] cannot record an update by several commands: it expects parameters of one "
                f"device, and at most {MAX_OPERANDS} arrays"
            )
        traced = self._take_numbers(recorded)
        for group in groups:
            params = [self._writable[name] for name in group]
            grads = list(group.values())
            for hook in self._hooks.values():
                hook(params, grads)
            lists = []
            if rule.states:
                states = [self._states_of(name) for name in group]
                lists = [[state[key] for state in states] for key in rule.states]
            arguments = self._arguments(self.t + 1)
            if recorded is not None:
                # Flags are what they were.
                varying = [i for i, value in enumerate(arguments) if type(value) is float]
                recorded.vary_by_numbers(varying, functools.partial(self._next, varying, traced))
            rule.operator(params, grads, *lists, *arguments)
        self.t += 1

    def _arguments(self, t: int) -> tuple[float | None, ...]:
        return RULES[self.rule].arguments(self, t, self._initial_alpha)

    def _gradients(self, names: Sequence[str]) -> dict[str, ndarray]:
        """Of those parameters that have one, to be read and written outside of graphs."""
        gradients = {}
        params = self.params
        for name in names:
            grad = params[name].grad
            if grad is not None:
                gradients[name] = outside_graphs(grad)
        return gradients

    def _take_numbers(self, recorded: recording.Recording | None) -> dict[str, int]:
        """Puts floats in the place of hyperparameters that are arguments of what is recorded.

        Returns:
          Where each of those is found in each run.
        """
        traced = {}
        for name in self._names:
            value = getattr(self, name)
            if type(value) is not Number:
                continue
            place = None if recorded is None else value.place_in(recorded)
            if place is not None:
                traced[name] = place
            setattr(self, name, value.value)
        return traced

    def _next(
        self, varying: list[int], traced: dict[str, int], numbers: Sequence[float]
    ) -> list[float]:
        """Of one more step, which the daemon repeats: the arguments that vary."""
        for name, place in traced.items():
            setattr(self, name, numbers[place])
        self.t += 1
        arguments = self._arguments(self.t)
        return [cast(float, arguments[i]) for i in varying]

    def _states_of(self, name: str) -> dict[str, ndarray]:
        if name not in self.state:
            p = self.params[name]
            self.state[name] = {
                key: _core.full(p.shape, first, p.dtype, p.device)
                for key, first in RULES[self.rule].states.items()
            }
            recorded = recording.current()
            if recorded is not None:
                for state in self.state[name].values():
                    recorded.hold(state)
        return self.state[name]

    def state_dict(self) -> dict[str, Any]:
        """All that the next steps depend on but the parameters: {name: number or array}.

        Arrays are the optimizer's own: copy them, or save them with chx.savez, before the next
        update.
        """
        values: dict[str, Any] = {"t": self.t, "initial_alpha": self._initial_alpha}
        values.update({name: getattr(self, name) for name in self._names})
        for name, states in self.state.items():
            values.update({f"{name}/{key}": array for key, array in states.items()})
        return {name: value for name, value in values.items() if value is not None}

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
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
        before = self.state
        self.state = {
            param: {key: _copied(value, self.params[param]) for key, value in arrays.items()}
            for param, arrays in states.items()
        }
        # What chx.jit has recorded goes on with the arrays that there were.
        for param, loaded in self.state.items():
            for key, old in before.get(param, {}).items():
                old[...] = loaded[key]
                loaded[key] = old

    def _states_in(self, values: Mapping[str, Any], names: set[str]) -> dict[str, dict[str, Any]]:
        """{parameter: {state: value}} of what load_state_dict was given, checked."""
        keys = RULES[self.rule].states
        states: dict[str, dict[str, Any]] = {}
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


def _copied(value: Any, param: ndarray) -> ndarray:
    if isinstance(value, ndarray):
        value = value.to_device(param.device)
    return creation.array(value, param.dtype, copy=True, device=param.device)
