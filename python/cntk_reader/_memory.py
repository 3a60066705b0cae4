"""NumPy arrays over the memory of a minibatch, without copies."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_void_p
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from . import _library as lib

Scalar = TypeVar("Scalar", bound=np.generic)


class Owner:
    """A reference to a minibatch of the library."""

    __slots__ = ("handle",)

    def __init__(self, handle: c_void_p) -> None:
        self.handle = handle

    def __del__(self, release: Callable[[c_void_p], None] = lib.minibatch_release) -> None:
        release(self.handle)


class _Memory(ctypes.Array[ctypes.c_char]):
    """Memory of a minibatch for NumPy, from an address on. An array keeps this object alive, and this object the minibatch.

    Its length is more than any minibatch has: one type serves all of them, and NumPy takes what the array's shape says. This
    takes a third of the time of ``__array_interface__``, which matters for small minibatches.
    """

    _type_ = ctypes.c_char  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    _length_ = 2**62  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]

    owner: Owner


def view(
    owner: Owner, address: int | None, shape: tuple[int, ...], dtype: np.dtype[Scalar], writable: bool = True
) -> npt.NDArray[Scalar]:
    """An array of this shape at an address inside a minibatch."""
    if not address or 0 in shape:
        return np.empty(shape, dtype)
    memory = _Memory.from_address(address)
    memory.owner = owner
    buffer: Any = memory  # A buffer, which not every version of NumPy's types knows of ctypes.
    array: npt.NDArray[Scalar] = np.ndarray(shape, dtype, buffer)
    if not writable:
        array.flags.writeable = False
    return array
