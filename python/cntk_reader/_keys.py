"""Sequence keys given by Python code: numbers from 0, or texts. Different texts are different
keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from ._types import Array

Keys = Union[Sequence[int], Sequence[str], Array, None]

#: The canonical text of a number.
_CANONICAL = re.compile("0|[1-9][0-9]*", re.ASCII)

_WHAT = "keys must be texts or integers from 0, one per sequence"


def checked(keys: Any, count: int) -> Any:
    """Returns the keys of ``count`` sequences: None, an array of uint64, or a list of str."""
    if keys is None:
        return None
    if not isinstance(keys, (list, tuple)):
        if np.ma.is_masked(keys):
            raise ValueError(f"The key {int(np.flatnonzero(np.ma.getmaskarray(keys))[0])} is masked: {_WHAT}.")
        given, keys = keys, np.asarray(keys)
        if keys.ndim == 0:
            raise TypeError(f"Keys must be a list, a tuple or an array, not {given!r}.")
        if keys.dtype.kind in "SU" or keys.dtype.kind not in "iuf":
            keys = keys.tolist() if keys.ndim == 1 else keys
    if isinstance(keys, (list, tuple)):
        return _of_list(list(keys), count)
    if keys.shape != (count,):
        raise ValueError(f"There are {keys.size} keys for {count} sequences.")
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        raise ValueError(f"The key {int(np.flatnonzero(np.isnan(keys))[0])} is missing (NaN): {_WHAT}.")
    if keys.dtype.kind not in "iu":
        raise TypeError(f"Keys of the type {keys.dtype} are not supported: {_WHAT}.")
    return _numbers(keys)


def is_text(keys: Any) -> bool:
    """Returns whether keys must be compared as texts: as numbers, ``007`` and ``7`` would be
    equal."""
    return isinstance(keys, list) and not all(_CANONICAL.fullmatch(key) and int(key) < 2**64 for key in keys)


def _of_list(keys: list[Any], count: int) -> Any:
    if len(keys) != count:
        raise ValueError(f"There are {len(keys)} keys for {count} sequences.")
    kinds = set(map(type, keys))
    if all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds):
        try:
            return _numbers(np.array(keys, np.uint64 if all(key >= 0 for key in keys) else np.int64))
        except OverflowError:
            raise ValueError(f"The key {max(keys, key=abs)} does not fit 64 bits: {_WHAT}.") from None
    if all(issubclass(kind, str) for kind in kinds):
        return [str(key) for key in keys]
    if all(issubclass(kind, bytes) for kind in kinds):
        return [_decoded(number, key) for number, key in enumerate(keys)]
    for number, key in enumerate(keys):
        if _is_null(key):
            raise ValueError(f"The key {number} is missing ({key!r}): {_WHAT}.")
        if isinstance(key, bool) or not isinstance(key, (int, np.integer, str, bytes)):
            raise TypeError(f"The key {number} is {key!r}: {_WHAT}.")
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise TypeError(
        f"The keys are of several types ({names}): {_WHAT}. Make all of them texts, or all of them integers."
    )


def _decoded(number: int, key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise ValueError(f"The key {number} is {key!r}, which is not UTF-8: {_WHAT}.") from None


def _is_null(key: Any) -> bool:
    """Returns whether a key is None, NaN, NaT, or pandas' NA, whose comparisons are not
    booleans."""
    if key is None:
        return True
    try:
        return bool(key != key)
    except Exception:  # As `bool(pandas.NA)` does.
        return True


def _numbers(keys: Any) -> Any:
    if keys.dtype.kind == "i" and keys.size and keys.min() < 0:
        raise ValueError(f"The key {int(keys.min())} is negative: keys must be texts or numbers from 0.")
    return np.ascontiguousarray(keys, np.uint64)
