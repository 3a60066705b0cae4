"""Columns of Arrow, imported through its C data interface.

pyarrow, Polars, pandas and others offer it, so no dependency is needed:
https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Collection
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
    values: list[Any] | None = None  #: the categories, in :func:`read_table`
    is_found: bool = False  #: the categories have the order in which texts were found


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
    schema, arrays, _owner = _imported(value)
    columns = [_column(schema, array, owner) for array, owner in arrays]
    return _join(columns or [_column(schema, None, None)])


def read_table(value: Any, choose: Callable[[list[str]], Collection[str]]) -> dict[str, Column]:
    """Imports the columns of a table that ``choose`` picks among their names.

    Texts become codes of categories.
    """
    schema, arrays, _owner = _imported(value)
    if schema.format != b"+s":
        raise TypeError(f"{type(value).__name__} is a single column, not a table of named columns.")
    names = [(schema.children[place].contents.name or b"").decode() for place in range(schema.n_children)]
    wanted = choose(names)
    made: dict[str, Column] = {}
    for place, name in enumerate(names):
        if name not in wanted:
            continue
        field = schema.children[place].contents
        try:
            parts = [_column(field, _child(array, place), owner, texts=True) for array, owner in arrays]
            made[name] = _join(parts or [_column(field, None, None, texts=True)])
        except (TypeError, ValueError) as error:
            raise type(error)(f"Column {name!r}: {error}") from None
    return made


def _child(table: _Array, place: int) -> _Array:
    """Returns a column of a piece of a table, of which the table may show a part."""
    child: _Array = table.children[place].contents
    if table.offset == 0 and child.length == table.length:
        return child
    part: _Array = _Array.from_buffer_copy(child)
    part.offset, part.length = child.offset + table.offset, table.length
    part.null_count = -1 if child.null_count else 0
    return part


def _imported(value: Any) -> tuple[_Schema, list[tuple[_Array, Any]], Any]:
    """Returns the schema of a value, its pieces with the owners of their memory, and the schema's
    owner."""
    if hasattr(value, "__arrow_c_array__"):
        schema_capsule, array_capsule = value.__arrow_c_array__()
        schema = _Schema.from_address(_capsule_pointer(schema_capsule, b"arrow_schema"))
        array = _Array.from_address(_capsule_pointer(array_capsule, b"arrow_array"))
        # The capsules release the structs.
        owners = schema_capsule, array_capsule
        return schema, [(array, owners)], owners
    capsule = value.__arrow_c_stream__()
    stream = _Stream.from_address(_capsule_pointer(capsule, b"arrow_array_stream"))
    address = ctypes.addressof(stream)
    made: _Owned[_Schema] = _Owned(_Schema())
    _check(stream, stream.get_schema(address, byref(made.struct)))
    arrays: list[tuple[_Array, Any]] = []
    while True:
        part: _Owned[_Array] = _Owned(_Array())
        _check(stream, stream.get_next(address, byref(part.struct)))
        if not part.struct.release:
            break
        arrays.append((part.struct, part))
    return made.struct, arrays, made


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
    return Column(pieces, lengths, len(known), list(known), columns[0].is_found)


class _ColumnChunk(NamedTuple):
    """One chunk of a column."""

    values: npt.NDArray[Any]
    lengths: npt.NDArray[np.int64] | None
    dictionary: list[Any] | None  #: the values that codes stand for
    is_found: bool  #: the values are texts of the column, in the order in which they were found


def _column(schema: _Schema, array: _Array | None, owner: Any, texts: bool = False) -> _ColumnChunk:
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
        values, dictionary = _samples(schema.children[0].contents, child, owner, begin, end, texts)
        is_found = texts and schema.children[0].contents.format in _TEXT
        return _ColumnChunk(values, lengths, dictionary, is_found)
    values, dictionary = _samples(schema, array, owner, 0, 0 if array is None else array.length, texts)
    return _ColumnChunk(values, None, dictionary, texts and schema.format in _TEXT)


def _samples(
    schema: _Schema, array: _Array | None, owner: Any, begin: int, end: int, texts: bool
) -> tuple[npt.NDArray[Any], list[Any] | None]:
    """Returns samples ``begin`` to ``end``, and the dictionary if they are codes.

    With ``texts``, texts are codes of a dictionary.
    """
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
    if texts and width is None and form in _TEXT:
        return _codes(schema, array, begin, end)
    dtype = np.dtype(np.bool_) if inner_schema.format == b"b" else _PRIMITIVE.get(inner_schema.format)
    if dtype is None:
        shown = inner_schema.format.decode(errors="replace")
        kind = next((f" because it has {kind}" for start, kind in _KINDS.items() if shown.startswith(start)), "")
        raise TypeError(
            f"The Arrow format '{shown}' cannot be read as samples{kind}. Supported are numbers, lists of numbers, lists of "
            f"fixed size, lists of lists of fixed size, {'texts ' if texts else ''}and dictionaries: cast the column to one of "
            "them."
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


#: Arrow formats of texts and bytes.
_TEXT = (b"u", b"z", b"U", b"Z", b"vu", b"vz")

#: Arrow formats of other values, by the start of the format, for messages.
_KINDS = {
    "u": "texts",
    "U": "texts",
    "vu": "texts",
    "z": "bytes",
    "Z": "bytes",
    "vz": "bytes",
    "td": "dates",
    "tt": "times",
    "ts": "times",
    "tD": "durations",
    "d:": "decimal numbers",
    "+s": "a struct",
    "+m": "a map",
    "+l": "lists of lists",
    "+L": "lists of lists",
    "+u": "a union",
    "n": "only nulls",
}


def _codes(schema: _Schema, array: _Array | None, begin: int, end: int) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Returns codes of texts ``begin`` to ``end``, and the texts that they stand for."""
    known: dict[Any, int] = {}
    if array is None:
        return np.zeros(0, np.int64), []
    _refuse_nulls(array, begin, end)
    texts = _texts(schema.format, array, begin, end)
    codes = np.fromiter((known.setdefault(text, len(known)) for text in texts), np.int64, len(texts))
    return codes, list(known)


def _texts(form: bytes, array: _Array, begin: int, end: int) -> list[bytes]:
    """Returns texts ``begin`` to ``end`` as bytes."""
    if form in (b"vu", b"vz"):
        return [_viewed(array, place) for place in range(begin, end)]
    kind = np.dtype(np.int32 if form in (b"u", b"z") else np.int64)
    if begin == end:
        return []
    ends = _buffer(None, array, 1, begin, end - begin + 1, kind)
    first, last = int(ends[0]), int(ends[-1])
    data = ctypes.string_at(array.buffers[2] + first, last - first) if last > first else b""
    bounds = (ends - ends[0]).tolist()
    return [data[here:there] for here, there in zip(bounds, bounds[1:])]


#: Sizes of formats that are compared by their bytes: times and dates.
_OF_SIZE = {b"tdD": 4, b"tdm": 8, b"tts": 4, b"ttm": 4, b"ttu": 8, b"ttn": 8}


def _dictionary(schema: _Schema, array: _Array) -> list[Any]:
    """Returns the values of a dictionary in a form in which equal values compare equal."""
    if _nulls(array, 0, array.length):
        raise ValueError("The dictionary of the Arrow column has a null among its values: fill it, or leave it out.")
    form, count = schema.format, int(array.length)
    if form in _TEXT:
        return list(_texts(form, array, 0, count))
    if form in _PRIMITIVE and np.dtype(_PRIMITIVE[form]).kind in "iu":
        return list(_numbers(None, array, 0, count, np.dtype(_PRIMITIVE[form])).tolist())
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
        first = int(np.argmin(_bits(array, 0, begin, end)))
        raise ValueError(
            f"The Arrow column has {count} nulls among {end - begin} values, the first one at {begin + first}: fill them, or "
            "leave them out."
        )
