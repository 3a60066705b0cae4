"""Columns of Arrow, imported through its C data interface.

pyarrow, Polars, pandas and others offer it, so no dependency is needed:
https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
"""

from __future__ import annotations

import ctypes
import json
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int64, c_void_p
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

#: NumPy types by Arrow format.
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
    """An imported column: samples in consecutive pieces of shape (samples, *shape of a sample)."""

    pieces: list[npt.NDArray[Any]]
    lengths: npt.NDArray[np.int64] | None  #: samples of each sequence, in a column of lists
    categories: int | None  #: number of categories, if the values are category codes


class _Owned(Generic[Struct]):
    """A struct that we own, and release once nothing refers to it."""

    def __init__(self, struct: Struct) -> None:
        self.struct: Struct = struct

    def __del__(self) -> None:
        if self.struct.release:
            self.struct.release(ctypes.addressof(self.struct))


class _View:
    """Memory of an array for NumPy, which keeps this object alive, and so the owner."""

    def __init__(self, owner: Any, address: int, count: int, dtype: np.dtype[Any]) -> None:
        self.owner = owner
        self.__array_interface__ = {"version": 3, "data": (address, True), "shape": (count,), "typestr": dtype.str}


def is_arrow(value: Any) -> bool:
    """Returns whether a value offers Arrow's interface."""
    return hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__")


def read(value: Any) -> Column:
    """Imports a column: an array or a chunked array."""
    if hasattr(value, "__arrow_c_array__"):
        schema_capsule, array_capsule = value.__arrow_c_array__()
        schema = _Schema.from_address(_capsule_pointer(schema_capsule, b"arrow_schema"))
        array = _Array.from_address(_capsule_pointer(array_capsule, b"arrow_array"))
        # The capsules release the structs.
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


def _join(columns: list[_ColumnChunk]) -> Column:
    listed = [column.lengths for column in columns if column.lengths is not None]
    lengths = np.concatenate(listed) if listed else None
    pieces = [column.values for column in columns]
    dictionaries = [column.dictionary for column in columns]
    if dictionaries[0] is None:
        return Column(pieces, lengths, None)
    # Each chunk has its own dictionary: a code may stand for another value in the next chunk.
    known: dict[Any, int] = {}
    for place, dictionary in enumerate(dictionaries):
        own = [known.setdefault(value, len(known)) for value in dictionary or ()]
        codes = pieces[place]
        if len(codes) and (int(codes.min()) < 0 or int(codes.max()) >= len(own)):
            raise ValueError(
                f"The Arrow column has codes from {codes.min()} to {codes.max()}, but a dictionary of {len(own)} values."
            )
        if own != list(range(len(own))):
            pieces[place] = np.asarray(own, np.int64)[codes]
        elif len({piece.dtype for piece in pieces}) > 1:
            pieces[place] = codes.astype(np.int64)
    return Column(pieces, lengths, len(known))


class _ColumnChunk(NamedTuple):
    """One chunk of a column."""

    values: npt.NDArray[Any]
    lengths: npt.NDArray[np.int64] | None
    dictionary: list[Any] | None  #: the values that codes stand for


def _column(schema: _Schema, array: _Array | None, owner: Any) -> _ColumnChunk:
    form = schema.format
    if form in (b"+l", b"+L"):
        _extension_shape(schema)
        begin, end, lengths = 0, 0, np.zeros(0, np.int64)
        if array is not None:
            _refuse_nulls(array, 0, array.length)
            kind = np.dtype(np.int32 if form == b"+l" else np.int64)
            if array.length:
                offsets = _buffer(owner, array, 1, 0, array.length + 1, kind).astype(np.int64)
                begin, end, lengths = int(offsets[0]), int(offsets[-1]), np.diff(offsets)
        child = None if array is None else array.children[0].contents
        values, dictionary = _samples(schema.children[0].contents, child, owner, begin, end)
        return _ColumnChunk(values, lengths, dictionary)
    values, dictionary = _samples(schema, array, owner, 0, 0 if array is None else array.length)
    return _ColumnChunk(values, None, dictionary)


def _samples(
    schema: _Schema, array: _Array | None, owner: Any, begin: int, end: int
) -> tuple[npt.NDArray[Any], list[Any] | None]:
    """Returns samples ``begin`` to ``end``, and the dictionary if they are codes."""
    form, width = schema.format, None
    shape = _extension_shape(schema)
    inner_schema, inner = schema, array
    if form.startswith(b"+w:"):
        width = int(form[3:])
        inner_schema = schema.children[0].contents
        _extension_shape(inner_schema)
        inner = None if array is None else array.children[0].contents
        if array is not None:
            _refuse_nulls(array, begin, end)
            begin, end = ((array.offset + bound) * width for bound in (begin, end))
    dtype = np.dtype(np.bool_) if inner_schema.format == b"b" else _PRIMITIVE.get(inner_schema.format)
    if dtype is None:
        shown = inner_schema.format.decode(errors="replace")
        raise TypeError(
            f"The Arrow format '{shown}' cannot be read as samples. Supported are numbers, lists of numbers, lists of fixed "
            "size, lists of lists of fixed size, and dictionaries: cast the column to one of them."
        )
    if inner is None:
        values = np.zeros(0, dtype)
    else:
        _refuse_nulls(inner, begin, end)
        values = _numbers(owner, inner, begin, end, np.dtype(dtype))
    dictionary = None
    if inner_schema.dictionary:
        dictionary = []
        if inner is not None:
            dictionary = _dictionary(inner_schema.dictionary.contents, inner.dictionary.contents)
    if width is not None:
        values = values.reshape((0, width) if width == 0 else (-1, width))
    if shape is not None:
        values = values.reshape(-1, *shape)
    return values, dictionary


def _extension_shape(schema: _Schema) -> tuple[int, ...] | None:
    """Returns the shape of a sample that an extension type states.

    Other extension types are refused: they give their storage another meaning.
    """
    entries = _metadata(schema)
    name = entries.get(b"ARROW:extension:name")
    if name is None:
        return None
    if name == b"arrow.fixed_shape_tensor":
        described = json.loads(entries.get(b"ARROW:extension:metadata", b"{}"))
        permutation = described.get("permutation")
        if permutation is None or list(permutation) == sorted(permutation):
            return tuple(int(size) for size in described["shape"])
    raise TypeError(
        f"The Arrow column has the extension type '{name.decode(errors='replace')}', which this package does not know "
        "in this form: cast the column to its storage."
    )


def _metadata(schema: _Schema) -> dict[bytes, bytes]:
    """Parses the metadata of a field: the number of pairs, then the length and bytes of each
    text."""
    if not schema.metadata:
        return {}
    at = schema.metadata

    def number() -> int:
        nonlocal at
        at += 4
        return ctypes.c_int32.from_address(at - 4).value

    def text() -> bytes:
        nonlocal at
        length = number()
        at += length
        return ctypes.string_at(at - length, length)

    return {text(): text() for _ in range(number())}


#: Sizes of formats that are compared by their bytes: times and dates.
_OF_SIZE = {b"tdD": 4, b"tdm": 8, b"tts": 4, b"ttm": 4, b"ttu": 8, b"ttn": 8}


def _dictionary(schema: _Schema, array: _Array) -> list[Any]:
    """Returns the values of a dictionary in a form in which equal values compare equal."""
    if _nulls(array, 0, array.length):
        raise ValueError("The dictionary of the Arrow column has a null among its values: fill it, or leave it out.")
    form, count = schema.format, int(array.length)
    if form in (b"u", b"z", b"U", b"Z"):
        kind = np.dtype(np.int32 if form in (b"u", b"z") else np.int64)
        ends = _buffer(None, array, 1, 0, count + 1, kind).tolist() if count else [0]
        data = array.buffers[2]
        return [ctypes.string_at(data + begin, end - begin) if data else b"" for begin, end in zip(ends, ends[1:])]
    if form in (b"vu", b"vz"):
        return [_viewed(array, place) for place in range(count)]
    if form == b"b":
        return list(_numbers(None, array, 0, count, np.dtype(np.bool_)).tolist())
    size = _OF_SIZE.get(form)
    if form in _PRIMITIVE:
        size = np.dtype(_PRIMITIVE[form]).itemsize
    elif form.startswith((b"ts", b"tD")):
        size = 8
    elif form.startswith(b"w:"):
        size = int(form[2:])
    elif form.startswith(b"d:"):
        bits = form[2:].split(b",")[2:]
        size = int(bits[0]) // 8 if bits else 16
    if size is None or size == 0:
        raise TypeError(
            f"The dictionary of the Arrow column has values of the format '{form.decode(errors='replace')}', which cannot "
            "be compared: cast them to texts."
        )
    start = (array.buffers[1] or 0) + array.offset * size
    return [ctypes.string_at(start + place * size, size) for place in range(count)]


def _viewed(array: _Array, place: int) -> bytes:
    """Returns a value of a view array: up to 12 bytes are inline, longer ones in a buffer."""
    view = array.buffers[1] + 16 * (array.offset + place)
    length, _, buffer, offset = (ctypes.c_int32.from_address(view + 4 * part).value for part in range(4))
    if length <= 12:
        return ctypes.string_at(view + 4, length)
    return ctypes.string_at(array.buffers[2 + buffer] + offset, length)


def _numbers(owner: Any, array: _Array, begin: int, end: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns the values from ``begin`` to ``end``. Only booleans, which are bits, are copied."""
    if begin < 0 or end > array.length or begin > end:
        raise ValueError(f"The Arrow column refers to values {begin} to {end}, but there are {array.length}.")
    if dtype == np.bool_:
        return _bits(array, 1, begin, end)
    return _buffer(owner, array, 1, begin, end - begin, dtype)


def _bits(array: _Array, number: int, begin: int, end: int) -> npt.NDArray[np.bool_]:
    """Returns bits ``begin`` to ``end`` of a buffer."""
    address = array.buffers[number]
    first, last = array.offset + begin, array.offset + end
    if not address or first == last:
        return np.zeros(end - begin, np.bool_)
    octets = np.asarray(_View(None, address + first // 8, (last + 7) // 8 - first // 8, np.dtype(np.uint8)))
    bits = np.unpackbits(octets, bitorder="little")[first % 8 :][: end - begin]
    return bits.astype(np.bool_)


def _buffer(owner: Any, array: _Array, number: int, begin: int, count: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    address = array.buffers[number]
    if not address or count == 0:
        return np.zeros(count, dtype)
    return np.asarray(_View(owner, address + (array.offset + begin) * dtype.itemsize, count, dtype))


def _nulls(array: _Array, begin: int, end: int) -> int:
    """Counts the nulls among the values from ``begin`` to ``end``."""
    validity = array.buffers[0] if array.n_buffers else None
    if array.null_count == 0 or not validity:
        return 0
    return end - begin - int(_bits(array, 0, begin, end).sum())


def _refuse_nulls(array: _Array, begin: int, end: int) -> None:
    count = _nulls(array, begin, end)
    if count > 0:
        raise ValueError(
            f"The Arrow column has {count} nulls among {end - begin} values: fill them, or leave them out."
        )
