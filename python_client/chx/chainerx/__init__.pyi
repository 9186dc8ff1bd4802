"""ChainerX's names: chx's, and what differs."""

import builtins

from chx import *  # noqa: F403
from chx import backprop_scope, force_backprop_mode, ndarray, no_backprop_mode
from chx._context import Context
from chx._types import DeviceLike, Scalar

from . import random as random, testing as testing  # type: ignore[no-redef]

bool = builtins.bool
int = builtins.int
float = builtins.float
BackpropScope = backprop_scope
NoBackpropMode = no_backprop_mode
ForceBackpropMode = force_backprop_mode
_global_context: Context
_available: builtins.bool

def empty_like(a: ndarray, device: DeviceLike = None) -> ndarray: ...  # type: ignore[no-redef]
def zeros_like(a: ndarray, device: DeviceLike = None) -> ndarray: ...  # type: ignore[no-redef]
def ones_like(a: ndarray, device: DeviceLike = None) -> ndarray: ...  # type: ignore[no-redef]
def full_like(  # type: ignore[no-redef]
    a: ndarray, fill_value: Scalar, device: DeviceLike = None
) -> ndarray: ...
