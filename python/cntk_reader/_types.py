"""Types of arrays and of what looks like them, in public signatures."""

from __future__ import annotations

from typing import Protocol, Union

import numpy as np
import numpy.typing as npt

#: Layout of a record: the sequence's number (or GAP), its lane, and the steps where it begins and ends.
RECORD = np.dtype([("sequence", "u8"), ("lane", "u8"), ("begin", "i8"), ("end", "u8")])
#: The sequence number of a record that is a gap.
GAP = 2**64 - 1

#: An array of numbers of any type.
Array = npt.NDArray[np.generic]
#: Values of samples, of one of :data:`ELEMENTS`.
Values = npt.NDArray[np.generic]
#: Type of such values.
DType = npt.DTypeLike

#: The types of values that streams have, by NumPy's names. Sparse streams have float32 or float64.
ELEMENTS = ("float32", "float64", "float16", "int16", "uint8", "int32", "int64", "bfloat16", "bool")


def dtype_of(name: str) -> np.dtype[np.generic]:
    """The dtype of one of :data:`ELEMENTS`."""
    if name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError(
                "The values are of the type bfloat16, which NumPy does not have. Install ml_dtypes, or take stream.to_torch()."
            ) from None
        brain: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
        return brain
    return np.dtype(name)


def element_of(dtype: npt.DTypeLike) -> str | None:
    """Which one of :data:`ELEMENTS` a dtype is; None: none of them."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        return dtype
    try:
        name = np.dtype(dtype).name
    except TypeError:
        return None
    return name if name in ELEMENTS else None


#: An element of a dictionary that can be written as JSON, or pickled.
Json = Union[None, bool, int, float, str, "list[Json]", "dict[str, Json]"]


class CsrLike(Protocol):
    """A CSR matrix, such as SciPy's: row r has ``data`` and ``indices`` from ``indptr[r]`` to ``indptr[r + 1]``."""

    @property
    def data(self) -> Array:
        """The values."""
        ...

    @property
    def indices(self) -> Array:
        """The column of each value."""
        ...

    @property
    def indptr(self) -> Array:
        """Where the values of each row begin, and where those of the last one end."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...


class FsspecLike(Protocol):
    """What is needed of a file system of fsspec."""

    @property
    def protocol(self) -> str | tuple[str, ...]:
        """The names of its schemes."""
        ...

    def info(self, path: str) -> dict[str, object]:
        """Facts about a file, with ``size``."""
        ...

    def cat_file(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        """Bytes of a file."""
        ...

    def ukey(self, path: str) -> str:
        """A text that changes with the file."""
        ...


class HasArray(Protocol):
    """What NumPy can look at as an array, such as a column of pandas."""

    def __array__(self) -> Array:
        """The array."""
        ...


class ArrowArrayLike(Protocol):
    """A column of Arrow in one piece."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Capsules with the schema and the array."""
        ...


class ArrowStreamLike(Protocol):
    """A column of Arrow in several pieces."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with the stream."""
        ...


#: A column of numbers in memory.
ColumnLike = Union[Array, HasArray, ArrowArrayLike, ArrowStreamLike]
