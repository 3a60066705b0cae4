"""Columns of Arrow, taken over through its C data interface: pyarrow, Polars, pandas and others offer it without a dependency.

https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int64, c_void_p
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

#: NumPy's types by Arrow's formats.
_PRIMITIVE = {
    b"c": np.int8,
    b"C": np.uint8,
    b"s": np.int16,
    b"S": np.uint16,
    b"i": np.int32,
    b"I": np.uint32,
    b"l": np.int64,
    b"L": np.uint64,
    b"e": np.float16,
    b"f": np.float32,
    b"g": np.float64,
}


class _Schema(Structure):
    pass


_Schema._fields_ = [
    ("format", c_char_p),
    ("name", c_char_p),
    ("metadata", c_void_p),
    ("flags", c_int64),
    ("n_children", c_int64),
    ("children", POINTER(POINTER(_Schema))),
    ("dictionary", POINTER(_Schema)),
    ("release", ctypes.CFUNCTYPE(None, c_void_p)),
    ("private_data", c_void_p),
]


class _Array(Structure):
    pass


_Array._fields_ = [
    ("length", c_int64),
    ("null_count", c_int64),
    ("offset", c_int64),
    ("n_buffers", c_int64),
    ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(_Array))),
    ("dictionary", POINTER(_Array)),
    ("release", ctypes.CFUNCTYPE(None, c_void_p)),
    ("private_data", c_void_p),
]


class _Stream(Structure):
    _fields_ = [
        ("get_schema", ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(_Schema))),
        ("get_next", ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(_Array))),
        ("get_last_error", ctypes.CFUNCTYPE(c_char_p, c_void_p)),
        ("release", ctypes.CFUNCTYPE(None, c_void_p)),
        ("private_data", c_void_p),
    ]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]


Struct = TypeVar("Struct", _Schema, _Array)


class Column(NamedTuple):
    """What a column has: samples in consecutive pieces, each of shape (samples, *shape of a sample)."""

    pieces: list[npt.NDArray[Any]]
    lengths: npt.NDArray[np.int64] | None  #: samples of each sequence, if the column is one of lists
    categories: int | None  #: if the values are numbers of categories: how many there are


class _Owned(Generic[Struct]):
    """A struct that was filled for us, and is released when nothing refers to it any more."""

    def __init__(self, struct: Struct) -> None:
        self.struct: Struct = struct

    def __del__(self) -> None:
        if self.struct.release:
            self.struct.release(ctypes.addressof(self.struct))


class _View:
    """Memory of an array for NumPy, which keeps this object alive, and this object the owner."""

    def __init__(self, owner: Any, address: int, count: int, dtype: np.dtype[Any]) -> None:
        self.owner = owner
        self.__array_interface__ = {"version": 3, "data": (address, True), "shape": (count,), "typestr": dtype.str}


def is_arrow(value: Any) -> bool:
    """Whether a value offers Arrow's interface."""
    return hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__")


def read(value: Any) -> Column:
    """Takes a column over: an array or a chunked array."""
    if hasattr(value, "__arrow_c_array__"):
        schema_capsule, array_capsule = value.__arrow_c_array__()
        schema = _Schema.from_address(_capsule_pointer(schema_capsule, b"arrow_schema"))
        array = _Array.from_address(_capsule_pointer(array_capsule, b"arrow_array"))
        # The capsules release what they hold.
        return _join([_column(schema, array, (schema_capsule, array_capsule))])
    capsule = value.__arrow_c_stream__()
    stream = _Stream.from_address(_capsule_pointer(capsule, b"arrow_array_stream"))
    address = ctypes.addressof(stream)
    made: _Owned[_Schema] = _Owned(_Schema())
    _check(stream, stream.get_schema(address, byref(made.struct)))
    columns = []
    while True:
        part: _Owned[_Array] = _Owned(_Array())
        _check(stream, stream.get_next(address, byref(part.struct)))
        if not part.struct.release:
            break
        columns.append(_column(made.struct, part.struct, part))
    return _join(columns or [_column(made.struct, None, None)])


def _check(stream: _Stream, status: int) -> None:
    if status:
        text = stream.get_last_error(ctypes.addressof(stream))
        raise ValueError(f"The Arrow stream has failed: {(text or b'').decode(errors='replace') or status}.")


def _join(columns: list[Column]) -> Column:
    first = columns[0]
    listed = [column.lengths for column in columns if column.lengths is not None]
    lengths = np.concatenate(listed) if listed else None
    return Column([piece for column in columns for piece in column.pieces], lengths, first.categories)


def _column(schema: _Schema, array: _Array | None, owner: Any) -> Column:
    form = schema.format
    if form in (b"+l", b"+L"):
        begin, end, lengths = 0, 0, np.zeros(0, np.int64)
        if array is not None:
            _refuse_nulls(array)
            kind = np.dtype(np.int32 if form == b"+l" else np.int64)
            offsets = _buffer(owner, array, 1, array.length + 1, kind).astype(np.int64)
            begin, end, lengths = int(offsets[0]), int(offsets[-1]), np.diff(offsets)
        child = None if array is None else array.children[0].contents
        values, categories = _samples(schema.children[0].contents, child, owner)
        return Column([values[begin:end]], lengths, categories)
    values, categories = _samples(schema, array, owner)
    return Column([values], None, categories)


def _samples(schema: _Schema, array: _Array | None, owner: Any) -> tuple[npt.NDArray[Any], int | None]:
    """Samples, and the number of categories if they are numbers of categories."""
    form, width = schema.format, None
    if form.startswith(b"+w:"):
        width = int(form[3:])
        inner_schema = schema.children[0].contents
        inner = None if array is None else array.children[0].contents
        if array is not None:
            _refuse_nulls(array)
    else:
        inner_schema, inner = schema, array
    dtype = _PRIMITIVE.get(inner_schema.format)
    if dtype is None:
        shown = form.decode(errors="replace")
        raise TypeError(
            f"The Arrow format '{shown}' cannot be read as samples. There are numbers, lists of numbers, lists of fixed size, lists "
            "of lists of fixed size, and dictionaries: cast the column to one of them."
        )
    if inner is None:
        values = np.zeros(0, dtype)
    else:
        _refuse_nulls(inner)
        values = _buffer(owner, inner, 1, inner.length, np.dtype(dtype))
    categories = None
    if inner_schema.dictionary:
        categories = int(inner.dictionary.contents.length) if inner is not None else 0
    if width is None:
        return values, categories
    samples = values.reshape(-1, width)
    return (samples if array is None else samples[array.offset : array.offset + array.length]), categories


def _buffer(owner: Any, array: _Array, number: int, count: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    address = array.buffers[number]
    if not address or count == 0:
        return np.zeros(count, dtype)
    return np.asarray(_View(owner, address + array.offset * dtype.itemsize, count, dtype))


def _refuse_nulls(array: _Array) -> None:
    count = array.null_count
    validity = array.buffers[0] if array.n_buffers else None
    if count < 0 and validity:
        first, end = array.offset, array.offset + array.length
        present = np.asarray(_View(None, validity, (end + 7) // 8, np.dtype(np.uint8)))
        count = array.length - int(np.unpackbits(present, bitorder="little")[first:end].sum())
    if count > 0 and validity:
        raise ValueError(
            f"The Arrow column has {count} nulls among {array.length} values: fill them, or leave them out."
        )
