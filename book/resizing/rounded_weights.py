"""Weights rounded to integers: a symmetric grid of 2^bits - 1 levels, one scale a tensor or a channel.

Arrays are numpy, computed in float64; :func:`quantize` does the same to the matrices of a torch module.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from embviz import metrics
from embviz.arrays import check_array

Per = Literal["tensor", "channel"]
Model = TypeVar("Model", bound=nn.Module)
MOST_BITS = 24  # a float32 has no more


@dataclass(frozen=True, eq=False)
class Quantized:
    """An array as integers times a scale.

    `codes` lie in -L..L with L = 2^(bits - 1) - 1: the grid is symmetric, and 0 is on it.
    """

    codes: np.ndarray  # (...), integers
    scale: np.ndarray  # (), or (n, 1, ...) with a scale for each entry of the first axis

    @property
    def values(self) -> np.ndarray:
        """What the integers stand for, float64."""
        return self.codes * self.scale


def n_levels(bits: int) -> int:
    """L = 2^(bits - 1) - 1, the largest integer of the symmetric grid.

    >>> n_levels(8), n_levels(4)
    (127, 7)

    Raises
    ------
    ValueError
        If `bits` is no whole number from 2 to 24: one bit has no level beside 0 on a symmetric grid.
    """
    if isinstance(bits, bool) or not isinstance(bits, int | np.integer) or not 2 <= bits <= MOST_BITS:
        raise ValueError(
            f"bits is {bits!r}: give a whole number from 2 to {MOST_BITS} (1 leaves nothing but 0 on a grid "
            "that is symmetric around it; a float32 has no more than 24)"
        )
    return int(2 ** (bits - 1) - 1)


def round_to_grid(values: ArrayLike, bits: int, per: Per = "tensor") -> Quantized:
    """Round to the nearest level; a half goes to the even one.

    Parameters
    ----------
    values : array, shape (n, ...)
        With ``per="channel"`` each entry of the first axis, an output of a linear map as PyTorch keeps it,
        has a scale of its own.
    bits : int, 2 to 24
    per : {"tensor", "channel"}

    Returns
    -------
    Quantized
        Of an array, or a channel, of zeros the scale is 0.

    Raises
    ------
    ValueError
        If the array is empty or holds a NaN or an infinity, if it has too few axes for channels, or for an
        unknown `per` or `bits`.

    Examples
    --------
    >>> round_to_grid([0.1, -0.5, 0.7], bits=4).values.round(6).tolist()
    [0.1, -0.5, 0.7]
    """
    largest_code, array = n_levels(bits), _checked(values, per)
    axes = tuple(range(array.ndim)) if per == "tensor" else tuple(range(1, array.ndim))
    largest = np.abs(array).max(axis=axes, keepdims=per == "channel")
    scale = largest / largest_code
    ratios = np.divide(array, scale, out=np.zeros_like(array), where=scale > 0)
    return Quantized(np.rint(ratios).astype(np.int32), np.asarray(scale))


def _checked(values: ArrayLike, per: Per, name: str = "values") -> np.ndarray:
    if per not in get_args(Per):
        raise ValueError(f"per is {per!r}: choose one of {', '.join(get_args(Per))}")
    array = check_array(values, name)
    if array.ndim < (2 if per == "channel" else 1):
        raise ValueError(
            f"{name} has shape {array.shape}: a scale a channel needs two axes, outputs first; use "
            "per='tensor'"
        )
    return array


# --- what decides the error -------------------------------------------------------------------------


def relative_error(values: ArrayLike, bits: int, per: Per = "tensor") -> float:
    """Squared error of :func:`round_to_grid` over the squared values, both summed.

    Raises
    ------
    ValueError
        As :func:`round_to_grid`, and if all values are 0.
    """
    array = _checked(values, per)
    rounded = round_to_grid(array, bits, per).values
    power = float((array**2).sum())
    if power == 0:
        raise ValueError("all values are 0: an error relative to them means nothing")
    return float(((array - rounded) ** 2).sum()) / power


def crest_factor(values: ArrayLike, per: Per = "tensor") -> float:
    """Largest absolute value over the root mean square: what a scale that covers all values pays for.

    With a scale a channel, the root of the mean of squared largest values over the root mean square of all:
    as long as a step is small against the values, the relative squared error is crest^2 / 12 L^2 either way.

    Raises
    ------
    ValueError
        As :func:`round_to_grid`, and if all values are 0.
    """
    array = _checked(values, per)
    largest = np.abs(array).reshape(1 if per == "tensor" else len(array), -1).max(axis=1)
    if not largest.any():
        raise ValueError("all values are 0: a crest factor relative to them means nothing")
    return float(np.sqrt(np.mean(largest**2) / np.mean(array**2)))


def excess_kurtosis(values: ArrayLike) -> float:
    """Of all entries together, about their mean: 0 for the normal, -1.2 for an even spread.

    Raises
    ------
    ValueError
        If there is no value, one is not finite, or all are equal.
    """
    return metrics.kurtosis(_checked(values, "tensor").ravel()) - 3


def rotated_kurtosis(rows: ArrayLike) -> float:
    """Excess kurtosis, about 0, of all coordinates of rows (n, D) that a random rotation is to expect.

    A coordinate of a randomly rotated row has a mean square of |row|^2 / D and a mean fourth power of
    3 |row|^4 / D (D + 2). What is left depends on the rows' lengths alone: slightly below 0 where all are
    equal, above 0 where they differ much. A rotation lowers a kurtosis that is above, and raises one below.

    Raises
    ------
    ValueError
        If there are no two axes, a value is not finite, or all are 0.

    Examples
    --------
    >>> round(rotated_kurtosis([[3.0, 4.0], [0.0, 5.0]]), 6)  # 3 d / (d + 2) - 3
    -1.5
    """
    array = _checked(rows, "channel", "rows")
    squares = (array**2).sum(axis=tuple(range(1, array.ndim)))
    if not squares.any():
        raise ValueError("all values of rows are 0: they have no kurtosis")
    dim = array[0].size
    return float(3 * dim / (dim + 2) * np.mean(squares**2) / np.mean(squares) ** 2 - 3)


# --- a model ----------------------------------------------------------------------------------------


def matrices(model: nn.Module) -> dict[str, Tensor]:
    """What :func:`quantize` rounds: parameters with two axes or more, each storage once, by name.

    Gains, biases and scalars are left out, and so are buffers.

    Raises
    ------
    ValueError
        If there is none, or a layer keeps its weight with the inputs first (Hugging Face's ``Conv1D``).
    """
    turned = [name for name, part in model.named_modules() if type(part).__name__ == "Conv1D"]
    if turned:
        raise ValueError(
            f"{turned[0]} is a Conv1D, whose weight has its inputs first: give a model of linear layers"
        )
    found = {name: array.detach() for name, array in model.named_parameters() if array.dim() >= 2}
    if not found:
        raise ValueError(f"{type(model).__name__} has no parameter with two axes: there is nothing to round")
    return found


def quantize(model: Model, bits: int, per: Per = "tensor") -> Model:
    """A copy whose matrices hold rounded values, in their own type; tied weights stay tied.

    Parameters
    ----------
    model : nn.Module
    bits, per
        As in :func:`round_to_grid`.

    Raises
    ------
    ValueError
        As :func:`round_to_grid`, with the matrix's name, and :func:`matrices`.
    """
    n_levels(bits)  # a wrong number of bits is no matter of one matrix
    rounded = copy.deepcopy(model)
    with torch.no_grad():
        for name, array in matrices(rounded).items():
            try:
                own = round_to_grid(_numpy(array), bits, per)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
            array.copy_(torch.from_numpy(own.values).to(array.dtype))
    return rounded


def weight_table(model: nn.Module) -> pd.DataFrame:
    """How the entries of each matrix are spread.

    Returns
    -------
    DataFrame
        One row per matrix: name, n_weights, excess_kurtosis, crest_tensor and crest_channel (see
        :func:`crest_factor`). Matrices whose entries are all equal, such as zeros, are left out.
    """
    rows = []
    for name, array in matrices(model).items():
        values = _numpy(array)
        if np.ptp(values) > 0:
            rows.append(
                {
                    "name": name,
                    "n_weights": values.size,
                    "excess_kurtosis": excess_kurtosis(values),
                    "crest_tensor": crest_factor(values),
                    "crest_channel": crest_factor(values, "channel"),
                }
            )
    return pd.DataFrame(rows)


def error_table(model: nn.Module, bits: int, per: Per = "tensor") -> pd.DataFrame:
    """Relative squared error of each matrix that is not all zeros: name, relative_error."""
    values = {name: _numpy(array) for name, array in matrices(model).items()}
    rows = [
        {"name": name, "relative_error": relative_error(own, bits, per)}
        for name, own in values.items()
        if own.any()
    ]
    return pd.DataFrame(rows)


def _numpy(array: Tensor) -> np.ndarray:
    values: np.ndarray = array.detach().double().cpu().numpy()
    return values
