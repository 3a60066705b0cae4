"""CNTK's conversion of numbers in text, which is not correctly rounded.

CNTK 2.7: digits accumulate in a double, a fraction is divided by a power of ten, and an exponent
multiplies by `pow(10, e)`. All arithmetic is in doubles; single precision rounds the result.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

_DIGITS = b"0123456789"
#: On x86, invalid operations return a NaN with its sign bit set.
_NAN = -math.nan


class Token(NamedTuple):
    """A number in a text, and the position where it ends. None: the text is not a number."""

    value: float | None
    end: int


def _times(one: float, other: float) -> float:
    if math.isnan(one) or math.isnan(other):
        return one + other
    if (one == 0 and math.isinf(other)) or (math.isinf(one) and other == 0):
        return _NAN
    return one * other


def _power(exponent: float) -> float:
    try:
        return math.pow(10.0, exponent)
    except OverflowError:
        return math.inf


def real(text: bytes, at: int, end: int) -> Token:
    """Reads a number of `text[at:end]`, up to the first byte that cannot continue it."""

    def digits(at: int) -> tuple[float, float, int]:
        """Returns the digits as a number, ten to the power of their count, and the position after."""
        value, power = float(text[at] - 48), 10.0
        at += 1
        while at < end and text[at] in _DIGITS:
            value = value * 10.0 + (text[at] - 48)
            power *= 10.0
            at += 1
        return value, power, at

    is_negative = False
    if at < end and text[at] in b"+-":
        is_negative = text[at] == 45
        at += 1
    if at == end or text[at] not in _DIGITS:
        return Token(None, at)
    value, _, at = digits(at)
    has_fraction = None
    if at < end and text[at] == 46:
        at += 1
        has_fraction = at < end and text[at] in _DIGITS
        if has_fraction:
            fraction, power, at = digits(at)
            is_invalid = math.isinf(fraction) and math.isinf(power)
            value += _NAN if is_invalid else fraction / power
    if is_negative:
        value = -value
    # "1.e2" ends at the "e": a point without digits takes no exponent.
    if has_fraction is False or at == end or text[at] not in b"eE":
        return Token(value, at)
    at += 1
    sign = 1.0
    if at < end and text[at] in b"+-":
        sign = -1.0 if text[at] == 45 else 1.0
        at += 1
    if at == end or text[at] not in _DIGITS:
        return Token(None, at)
    exponent, _, at = digits(at)
    return Token(_times(value, _power(sign * exponent)), at)


def whole(text: bytes) -> int | None:
    """Returns the exact integer of a number of this form; None if it is not an integer, or is
    huge."""
    words = text.decode().lower()
    mantissa, _, power = words.partition("e")
    units, _, decimals = mantissa.partition(".")
    scaled = int(units + decimals)
    if scaled == 0:
        return 0
    # Trailing zeros only move the point.
    trimmed = str(abs(scaled)).rstrip("0")
    zeros = len(str(abs(scaled))) - len(trimmed)
    exponent = int(power or "0") - len(decimals) + zeros
    if exponent < 0 or exponent > 40 or len(trimmed) + exponent > 40:
        return None
    value = Fraction(int(trimmed)) * 10**exponent
    # The sign of a negative zero is lost in an int.
    return int(-value if words.startswith("-") else value)


def index(text: bytes, at: int, end: int) -> tuple[int | None, int]:
    """Reads decimal digits like CNTK's 64-bit numbers: a smaller result is taken as overflow."""
    value, first = 0, at
    while at < end and text[at] in _DIGITS:
        following = (value * 10 + text[at] - 48) % 2**64
        if following < value:
            return None, at
        value = following
        at += 1
    return (None, at) if at == first else (value, at)


def limits(dtype: np.dtype[np.generic]) -> tuple[int, int]:
    """Returns the least and the greatest integer of a type."""
    if dtype.kind == "b":
        return 0, 1
    info = np.iinfo(dtype.name)
    return int(info.min), int(info.max)


def element(token: bytes, value: float, dtype: np.dtype[np.generic]) -> np.generic | None:
    """Converts a number to a type; None if the type cannot hold it."""
    if dtype.kind == "f":
        with np.errstate(over="ignore", under="ignore"):
            near: np.generic = np.float64(value).astype(dtype)
            return near
    exact = whole(token)
    low, high = limits(dtype)
    if exact is None or not low <= exact <= high:
        return None
    made: np.generic = np.array([exact]).astype(dtype)[0]
    return made
