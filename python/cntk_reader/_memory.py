"""NumPy arrays over the memory of a minibatch, without copies."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_void_p
from typing import TypeVar

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


class _Memory:
    """Memory of a minibatch for NumPy. An array keeps this object alive, and this object the minibatch."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Owner, interface: dict[str, object]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def view(
    owner: Owner, address: int | None, shape: tuple[int, ...], dtype: np.dtype[Scalar], writable: bool = True
) -> npt.NDArray[Scalar]:
    """An array of this shape at an address inside a minibatch."""
    if not address or 0 in shape:
        return np.empty(shape, dtype)
    interface: dict[str, object] = {
        "version": 3,
        "data": (address, not writable),
        "shape": shape,
        "typestr": dtype.str,
    }
    if dtype.fields:
        interface["descr"] = dtype.descr
    return np.asarray(_Memory(owner, interface))
