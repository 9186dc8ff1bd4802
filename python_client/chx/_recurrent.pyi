from collections.abc import Sequence
from typing import TypeAlias

from ._core import ndarray

_Weights: TypeAlias = Sequence[Sequence[ndarray]]
_Steps: TypeAlias = Sequence[ndarray]

def n_step_lstm(
    n_layers: int, hx: ndarray, cx: ndarray, ws: _Weights, bs: _Weights, xs: _Steps
) -> tuple[ndarray, ndarray, list[ndarray]]: ...
def n_step_bilstm(
    n_layers: int, hx: ndarray, cx: ndarray, ws: _Weights, bs: _Weights, xs: _Steps
) -> tuple[ndarray, ndarray, list[ndarray]]: ...
def n_step_gru(
    n_layers: int, hx: ndarray, ws: _Weights, bs: _Weights, xs: _Steps
) -> tuple[ndarray, list[ndarray]]: ...
def n_step_bigru(
    n_layers: int, hx: ndarray, ws: _Weights, bs: _Weights, xs: _Steps
) -> tuple[ndarray, list[ndarray]]: ...
def n_step_rnn(
    n_layers: int, hx: ndarray, ws: _Weights, bs: _Weights, xs: _Steps, activation: str
) -> tuple[ndarray, list[ndarray]]: ...
def n_step_birnn(
    n_layers: int, hx: ndarray, ws: _Weights, bs: _Weights, xs: _Steps, activation: str
) -> tuple[ndarray, list[ndarray]]: ...
