"""Bits, histogram bins, chance: integers in, integers out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros
from numba.extending import overload

from ullage.simulate.kernel.codes import BIN_SHIFT, BINS
from ullage.simulate.kernel.compiling import inline, shared


def lowest_bit(word: int) -> int:
    """Index of the lowest set bit of a positive word."""
    return (int(word) & -int(word)).bit_length() - 1


@overload(lowest_bit, jit_options={"forceinline": True})
def _lowest_bit(word):  # type: ignore[no-untyped-def]
    return lambda word: np.int64(trailing_zeros(np.uint64(word)))  # type: ignore[call-arg]


@shared
def bin_of(duration_ps: int) -> int:
    """Histogram bin of a duration: linear below 128 units of 2**20 ps, then 128 bins an octave."""
    units = duration_ps >> BIN_SHIFT
    if units < 128:
        return units
    # Exponent and top seven bits of the mantissa, read from the float: 2**7 gives 128.
    place = (int(np.float64(units).view(np.int64)) >> 45) - (1029 << 7)
    return min(place, BINS - 1)


@shared
def bin_floor(place: int) -> int:
    """The shortest duration in a bin."""
    if place < 128:
        return place << BIN_SHIFT
    return (128 + (place & 127)) << ((place >> 7) - 1 + BIN_SHIFT)


@inline
def scramble32(x: int) -> int:
    """A 32-bit mixing function that never leaves 63 bits, so that it runs uncompiled without wrapping."""
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return x ^ (x >> 16)


def chances32(seed: int, numbers: Any, draw: int) -> Any:
    """`chance32` of many numbers at once, for the driver."""
    return _scrambled(
        _scrambled(_scrambled(np.int64(seed)) ^ np.asarray(numbers, np.int64)) ^ (draw * 0x9E3779B1 & 0xFFFFFFFF)
    )


def _scrambled(x: Any) -> Any:
    for _ in range(2):
        x = ((x ^ (x >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return x ^ (x >> 16)


@shared
def chance32(seed: int, number: int, draw: int) -> int:
    """Chance that belongs to a request, not to the order of events, so that two runs share it."""
    number, draw = int(number), int(draw)  # uncompiled they may be narrow
    return scramble32(
        scramble32(scramble32(seed & 0xFFFFFFFF) ^ (number & 0xFFFFFFFF)) ^ (draw * 0x9E3779B1 & 0xFFFFFFFF)
    )
