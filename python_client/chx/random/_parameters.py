"""Parameters of distributions: numbers or arrays that broadcast, of chx or what NumPy makes arrays of."""

import functools
import inspect
import numbers
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from chx import _core
from chx._core import ndarray
from chx._numpy import creation
from chx._types import DeviceLike, DtypeLike, Shape, Size

_T = TypeVar("_T")


def shape_of(size: Size, *parameters: Any) -> Shape:
    """The shape `size`, or that of the parameters broadcast."""
    if size is None:
        arrays = [p.shape for p in parameters if isinstance(p, _core.ndarray)]
        return np.broadcast_shapes(*arrays) if arrays else ()
    return (size,) if isinstance(size, (int, np.integer)) else tuple(size)


def device_of(device: DeviceLike, *parameters: Any) -> DeviceLike:
    """The device that is named, or else that of the first parameter that is an array."""
    arrays = [p.device for p in parameters if isinstance(p, _core.ndarray)]
    return arrays[0] if device is None and arrays else device


def filled(value: Any, shape: Shape, dtype: DtypeLike, device: DeviceLike) -> ndarray:
    """A parameter as an array of a shape; outside of the graph, where draws have no gradient."""
    if isinstance(value, _core.ndarray):
        value = value.as_grad_stopped().astype(dtype, copy=False)
        return _core.broadcast_to(value, shape)
    return _core.full(shape, value, dtype, device=device)


def expect(name: str, what: str, value: Any, holds: Callable[[Any], bool]) -> None:
    """ValueError if a number is not as expected; arrays are not waited for."""
    if not isinstance(value, _core.ndarray) and not holds(value):
        raise ValueError(f"[{name}] expects {what}, got {value}")


def positive(x: float) -> bool:
    return x > 0


def not_negative(x: float) -> bool:
    return x >= 0


def are_numbers(*values: object) -> bool:
    """Whether these are numbers, which can be checked at the call."""
    return all(isinstance(v, numbers.Real) for v in values)


def takes_arrays(cls: type[_T]) -> type[_T]:
    """Has a class's distributions take lists and NumPy arrays as parameters: the arguments up to size."""
    for name, method in list(vars(cls).items()):
        parameters = [] if name.startswith("_") else list(inspect.signature(method).parameters)
        if "size" in parameters[2:] and name not in _OWN_WAYS:
            setattr(cls, name, _with_arrays(method, parameters[1 : parameters.index("size")]))
    return cls


# What these do with lists is their own business.
_OWN_WAYS = ("dirichlet", "integers", "multinomial", "hypergeometric", "zipf")


def _with_arrays(method: Callable[..., ndarray], parameters: list[str]) -> Callable[..., ndarray]:
    count = len(parameters)

    @functools.wraps(method)
    def distribution(self: Any, *args: Any, **kwargs: Any) -> ndarray:
        values = [*args[:count], *(kwargs[p] for p in parameters if p in kwargs)]
        if not any(isinstance(v, (list, tuple, np.ndarray)) for v in values):
            return method(self, *args, **kwargs)
        device = device_of(kwargs.get("device"), *values)
        args = (*(converted(v, device) for v in args[:count]), *args[count:])
        for p in parameters:
            if p in kwargs:
                kwargs[p] = converted(kwargs[p], device)
        return method(self, *args, **kwargs)

    return distribution


def converted(value: Any, device: DeviceLike) -> Any:
    """A list or a NumPy array as an array, or a number."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return value
    value = np.asarray(value)
    return value.item() if value.ndim == 0 else creation.array(value, device=device)


def accepted(draw: Callable[[], tuple[ndarray, ndarray]]) -> ndarray:
    """Values of draw() -> (candidates, whether they are accepted), once all are. Waits."""
    values, done = draw()
    while not bool(_core.all(done)):
        others, good = draw()
        values = _core.where(done, values, others)
        done = _core.logical_or(done, good)
    return values
