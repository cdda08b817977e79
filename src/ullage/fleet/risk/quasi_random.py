"""Points that fill a cube more evenly than chance does: Sobol's sequence with the direction numbers of Joe and Kuo.

A seed shifts all points by the same random bits, which leaves their evenness as it is and makes the mean over them
unbiased. Two to the power of k points are balanced in every dimension.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ullage.errors import InternalError

Floats = NDArray[np.float64]

_BITS = 32
# Of dimensions 2, 3, ...: the inner coefficients of a primitive polynomial, and its first direction numbers
# (S. Joe and F. Y. Kuo, Constructing Sobol sequences with better two-dimensional projections, 2008).
_DIRECTIONS: tuple[tuple[int, tuple[int, ...]], ...] = (
    (0, (1,)),
    (1, (1, 3)),
    (1, (1, 3, 1)),
    (2, (1, 1, 1)),
    (1, (1, 1, 3, 3)),
    (4, (1, 3, 5, 13)),
    (2, (1, 1, 5, 5, 17)),
    (4, (1, 1, 5, 5, 5)),
    (7, (1, 1, 7, 11, 19)),
    (11, (1, 1, 5, 1, 1)),
    (13, (1, 1, 1, 3, 11)),
    (14, (1, 3, 5, 5, 31)),
    (1, (1, 3, 3, 9, 7, 49)),
    (13, (1, 1, 1, 15, 21, 21)),
    (16, (1, 3, 1, 13, 27, 49)),
    (19, (1, 1, 1, 15, 7, 5)),
    (22, (1, 3, 1, 15, 13, 25)),
    (25, (1, 1, 5, 5, 19, 61)),
    (1, (1, 3, 7, 11, 23, 15, 103)),
    (4, (1, 3, 7, 13, 13, 15, 69)),
)
MOST_DIMENSIONS = len(_DIRECTIONS) + 1
_SCORES: Floats = np.linspace(-7.0, 7.0, 14001)
_BELOW: Floats = np.array([0.5 * math.erfc(-each / math.sqrt(2.0)) for each in _SCORES.tolist()])


def sobol_points(count: int, dimensions: int, rng: Generator | None = None) -> Floats:
    """So many points of the open unit cube, one a row; without a generator the plain sequence from its origin on.

    Beyond the dimensions of the table columns are drawn by chance: the first ones, which matter most, stay even.

    >>> sobol_points(4, 2).tolist()
    [[0.0, 0.0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75]]
    """
    if dimensions > MOST_DIMENSIONS:
        if rng is None:
            raise InternalError(law="the sequence has so many dimensions", left=dimensions, right=MOST_DIMENSIONS)
        even = sobol_points(count, MOST_DIMENSIONS, rng)
        return np.hstack([even, rng.uniform(1e-9, 1.0 - 1e-9, (count, dimensions - MOST_DIMENSIONS))])
    found = np.zeros((count, dimensions), np.uint64)
    # Of each number the place of its lowest zero bit says which direction takes the point to the next one.
    places = [(~number & (number + 1)).bit_length() - 1 for number in range(count - 1)]
    for column in range(dimensions):
        directions = _directions(column)
        found[1:, column] = np.bitwise_xor.accumulate(directions[places]) if count > 1 else 0
    if rng is None:
        return np.asarray(found / 2.0**_BITS)
    shifted = found ^ rng.integers(0, 2**_BITS, dimensions, dtype=np.uint64)
    return np.asarray((shifted + 0.5) / 2.0**_BITS)


def _directions(column: int) -> NDArray[np.uint64]:
    if column == 0:
        return np.array([1 << (_BITS - 1 - place) for place in range(_BITS)], np.uint64)
    coefficients, first = _DIRECTIONS[column - 1]
    degree = len(first)
    found = [number << (_BITS - 1 - place) for place, number in enumerate(first)]
    for place in range(degree, _BITS):
        value = found[place - degree] ^ (found[place - degree] >> degree)
        for inner in range(1, degree):
            if coefficients >> (degree - 1 - inner) & 1:
                value ^= found[place - inner]
        found.append(value)
    return np.array(found, np.uint64)


def normal_scores(fractions: Floats) -> Floats:
    """The normal quantile of each fraction, to a ten-thousandth between one in a hundred billion and its mirror.

    >>> normal_scores(np.array([0.05, 0.5, 0.9])).round(3).tolist()
    [-1.645, 0.0, 1.282]
    """
    return np.asarray(np.interp(fractions, _BELOW, _SCORES))


def normal_fractions(scores: Floats) -> Floats:
    """The inverse: how much lies below each normal score."""
    return np.asarray(np.interp(scores, _SCORES, _BELOW))
