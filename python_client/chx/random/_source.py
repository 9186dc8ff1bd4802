"""Where distributions draw from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chx._core import ndarray
from chx._runtime import random_streams
from chx._types import DeviceLike, DtypeLike, Parameter, Shape, Size


class Source:
    """Draws from a stream of random numbers."""

    _stream: random_streams.Stream | None = None  # the session's

    def _draw(
        self,
        name: str,
        shape: Shape,
        a: Parameter,
        b: Parameter,
        dtype: DtypeLike,
        device: DeviceLike,
    ) -> ndarray:
        return random_streams.draw(self._stream, name, shape, a, b, dtype, device)

    def _draw_of(self, name: str, *parameters: ndarray) -> ndarray:
        return random_streams.draw_of(self._stream, name, *parameters)

    if TYPE_CHECKING:
        # Continuous and discrete distributions are made of each other.
        def random(
            self, size: Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
        ) -> ndarray: ...
        def standard_exponential(
            self, size: Size = None, dtype: DtypeLike = "float64", device: DeviceLike = None
        ) -> ndarray: ...
        def standard_gamma(
            self,
            shape: Parameter,
            size: Size = None,
            dtype: DtypeLike = "float64",
            device: DeviceLike = None,
        ) -> ndarray: ...
        def poisson(
            self, lam: Parameter = 1.0, size: Size = None, device: DeviceLike = None
        ) -> ndarray: ...
