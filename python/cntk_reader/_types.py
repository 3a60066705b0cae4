"""Types of arrays and similar objects in public signatures."""

from __future__ import annotations

from typing import Protocol, Union

import numpy as np
import numpy.typing as npt

#: Layout of a record: the sequence's number (or GAP), its lane, and the steps at which it begins
#: and ends.
RECORD = np.dtype([("sequence", "u8"), ("lane", "u8"), ("begin", "i8"), ("end", "u8")])
#: The sequence number of a record that is a gap.
GAP = 2**64 - 1

#: An array of numbers of any type.
Array = npt.NDArray[np.generic]
#: Values of samples, of one of :data:`ELEMENTS`.
Values = npt.NDArray[np.generic]
#: Type of the values of samples.
DType = npt.DTypeLike

#: The element types of streams, by NumPy's names. Sparse streams have float32 or float64.
ELEMENTS = ("float32", "float64", "float16", "int16", "uint8", "int32", "int64", "bfloat16", "bool")


def dtype_of(name: str) -> np.dtype[np.generic]:
    """Returns the dtype of one of :data:`ELEMENTS`."""
    if name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError(
                "The values are of the type bfloat16, which NumPy does not have. Install ml_dtypes, or use stream.to_torch()."
            ) from None
        brain: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
        return brain
    return np.dtype(name)


def element_of(dtype: npt.DTypeLike) -> str | None:
    """Returns the one of :data:`ELEMENTS` that a dtype is, or None."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        return dtype
    try:
        name = np.dtype(dtype).name
    except TypeError:
        return None
    return name if name in ELEMENTS else None


#: A value that can be written as JSON.
Json = Union[None, bool, int, float, str, "list[Json]", "dict[str, Json]"]


class CsrLike(Protocol):
    """A CSR matrix, such as SciPy's.

    Row r has ``data`` and ``indices`` from ``indptr[r]`` to ``indptr[r + 1]``.
    """

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
        """The start of each row's values, and the end of the last row's."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...


class FsspecLike(Protocol):
    """The part of an fsspec file system that is used."""

    @property
    def protocol(self) -> str | tuple[str, ...]:
        """The names of its schemes."""
        ...

    def info(self, path: str) -> dict[str, object]:
        """Returns facts about a file, including ``size``."""
        ...

    def cat_file(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        """Returns bytes of a file."""
        ...

    def ukey(self, path: str) -> str:
        """Returns a text that changes with the file."""
        ...


class HasArray(Protocol):
    """An object that NumPy can convert to an array, such as a pandas column."""

    def __array__(self) -> Array:
        """Returns the array."""
        ...


class ArrowArrayLike(Protocol):
    """An Arrow column in one piece."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Returns capsules with the schema and the array."""
        ...


class ArrowStreamLike(Protocol):
    """An Arrow column in several pieces."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Returns a capsule with the stream."""
        ...


class TableLike(Protocol):
    """A data set of Hugging Face."""

    def with_format(self, type: str | None = None) -> object:
        """Returns the rows as objects of a library, such as ``"arrow"``."""
        ...


#: A column of numbers in memory.
ColumnLike = Union[Array, HasArray, ArrowArrayLike, ArrowStreamLike]
