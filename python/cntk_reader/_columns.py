"""Streams made of the columns of a table: the choice of columns, their types and categories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from . import _arrow
from ._explain import resembles, unknown
from ._types import ELEMENTS, DType, dtype_of, element_of

#: The columns of a stream: a name, a list of names, or ``"*"``, all other columns.
Columns = Union[str, Sequence[str]]
#: Types by stream: ``"category"`` or a type of numbers.
DTypes = Mapping[str, DType]
#: Categories by stream.
Categories = Mapping[str, Sequence[Any]]

#: All columns that no other stream has.
REST = "*"
#: The type of columns whose values are classes.
CATEGORY = "category"


def chosen(
    streams: Mapping[str, Columns], names: Sequence[str], where: str, options: Iterable[str], apart: str | None
) -> dict[str, Columns]:
    """Returns the columns of each stream; without ``streams``, each column is a stream.

    ``where`` is the table in messages, ``options`` the options of the function that was called, and
    ``apart`` a column that is not part of any stream.
    """
    if apart is not None and apart not in names:
        raise ValueError(f"{where}: {unknown('column', apart, names)}")
    if not streams:
        return {name: name for name in names if name and name != apart}
    made: dict[str, Columns] = {}
    for stream, columns in streams.items():
        listed = [columns] if isinstance(columns, str) else columns
        is_names = isinstance(listed, (list, tuple)) and all(isinstance(name, str) for name in listed)
        if not is_names or not listed:
            raise TypeError(_hint(stream, columns, options))
        for name in listed:
            if name != REST and name not in names:
                near = resembles(stream, options)
                note = "" if near is None else f" If {stream!r} is an option: did you mean {near!r}?"
                raise ValueError(f"{where}, stream {stream!r}: {unknown('column', name, names)}{note}")
        twice = next((name for place, name in enumerate(listed) if name in listed[:place]), None)
        if twice is not None:
            raise ValueError(f"Stream {stream!r} has the column {twice!r} twice.")
        made[stream] = columns
    used = {name for columns in made.values() if columns != REST for name in _listed(columns)} | {apart}
    for stream, columns in made.items():
        if columns == REST and REST not in names:
            made[stream] = [name for name in names if name and name not in used]
            if not made[stream]:
                raise ValueError(f"Stream {stream!r} has no columns: all of them are in other streams.")
    return made


def _hint(stream: str, columns: object, options: Iterable[str]) -> str:
    if resembles(stream, options):
        return f"{unknown('option', stream, options)} All other names are streams, and their values names of columns."
    return f"Stream {stream!r} is {columns!r}, but must be the name of a column, a list of names, or '*', all other columns."


def _listed(columns: Columns) -> Sequence[str]:
    return [columns] if isinstance(columns, str) else columns


def used(streams: Mapping[str, Columns]) -> dict[str, list[str]]:
    """Returns the streams of each column that has one."""
    made: dict[str, list[str]] = {}
    for stream, columns in streams.items():
        for name in _listed(columns):
            made.setdefault(name, []).append(stream)
    return made


def checked_types(
    dtypes: DTypes | None, categories: Categories | None, streams: Mapping[str, Columns]
) -> dict[str, str]:
    """Returns the types by stream, if the streams exist and the types are possible."""
    made: dict[str, str] = {}
    for stream, dtype in (dtypes or {}).items():
        if stream not in streams:
            raise ValueError(f"dtypes: {unknown('stream', stream, streams)}")
        element = CATEGORY if isinstance(dtype, str) and dtype == CATEGORY else element_of(dtype)
        if element is None or element == "bfloat16":
            known = [CATEGORY, *(name for name in ELEMENTS if name != "bfloat16")]
            raise ValueError(f"dtypes of {stream!r}: {unknown('type', dtype, known)}")
        made[stream] = element
    for stream in categories or {}:
        if stream not in streams:
            raise ValueError(f"categories: {unknown('stream', stream, streams)}")
        if made.setdefault(stream, CATEGORY) != CATEGORY:
            raise ValueError(f"Stream {stream!r} has categories, but also the type {made[stream]!r}: omit one of them.")
    return made


class Table:
    """The columns of a table, from which streams are made."""

    def __init__(
        self, columns: Mapping[str, _arrow.Column], where: str, place: Callable[[int], str] = "row {}".format
    ) -> None:
        #: Columns with ``values`` hold codes of these.
        self.columns = columns
        self.where, self.place = where, place
        #: The categories by stream.
        self.categories: dict[str, list[Any]] = {}

    def streams(
        self, chosen: Mapping[str, Columns], types: Mapping[str, str], categories: Categories | None
    ) -> dict[str, Any]:
        """Returns the arrays of the streams."""
        made = {}
        for stream, columns in chosen.items():
            try:
                made[stream] = self._stream(stream, columns, types.get(stream), (categories or {}).get(stream))
            except (TypeError, ValueError) as error:
                raise type(error)(f"{self.where}, stream {stream!r}: {error}") from None
        return made

    def _stream(self, stream: str, columns: Columns, dtype: str | None, categories: Sequence[Any] | None) -> Any:
        if isinstance(columns, str):
            column = self.columns[columns]
            if dtype == CATEGORY or (dtype is None and column.values is not None):
                return self._ids(stream, [columns], categories)[0]
            _only_numbers(columns, column)
            element = None if dtype is None else dtype_of(dtype)
            return column._replace(pieces=[_converted(columns, piece, element) for piece in column.pieces])
        parts = [self.columns[name] for name in columns]
        for name, part in zip(columns, parts):
            if part.lengths is not None or part.pieces[0].ndim != 1:
                raise TypeError(
                    f"The column {name!r} has lists: only columns of single values can be joined to vectors."
                )
        texts = [name for name, part in zip(columns, parts) if part.values is not None]
        is_category = dtype == CATEGORY or (dtype is None and len(texts) == len(columns))
        if is_category:
            ids = self._ids(stream, columns, categories)
            joined = [np.concatenate(column.pieces) for column in ids]
            return np.stack(joined, axis=1)
        if texts:
            numbers = next((name for name in columns if name not in texts), None)
            reason = "numbers are wanted" if numbers is None else f"the column {numbers!r} numbers"
            raise TypeError(
                f"The column {texts[0]!r} has texts, {reason}. Make texts a stream of their own, for example "
                f"{_identifier(texts[0])}={texts[0]!r}, which delivers the numbers of their categories."
            )
        element = np.dtype(np.float32) if dtype is None else dtype_of(dtype)
        vectors = np.empty((sum(len(piece) for piece in parts[0].pieces), len(columns)), element)
        for place, (name, part) in enumerate(zip(columns, parts)):
            vectors[:, place] = np.concatenate([_converted(name, piece, element) for piece in part.pieces])
        return vectors

    def _ids(self, stream: str, columns: Sequence[str], categories: Sequence[Any] | None) -> list[_arrow.Column]:
        """Returns columns as numbers of categories, which all columns of a stream share."""
        coded = [_coded(name, self.columns[name]) for name in columns]
        if categories is None:
            # Dictionaries of one column keep their order, such as that of pandas' categories.
            first = coded[0].values or []
            is_ordered = len(coded) == 1 and not coded[0].is_found
            values = first if is_ordered else _sorted({value for column in coded for value in column.values or ()})
        else:
            values = list(categories)
            if len(set(values)) < len(values):
                twice = next(value for place, value in enumerate(values) if value in values[:place])
                raise ValueError(f"categories have {twice!r} twice.")
        numbers = {value: number for number, value in enumerate(values)}
        self.categories[stream] = values
        made = []
        for name, column in zip(columns, coded):
            missing = [code for code, value in enumerate(column.values or ()) if value not in numbers]
            place = _first(column.pieces, missing)
            if place is not None:
                code, row = place
                known = ", ".join(map(repr, values[:5])) + (", ..." if len(values) > 5 else "")
                found = (column.values or [])[code]
                near = resembles(found, map(str, values))
                question = "" if near is None else f" Did you mean {near!r}?"
                raise ValueError(
                    f"{self.place(row)}, column {name!r}: {found!r} is none of the {len(values)} categories: {known}.{question} "
                    "Correct the value, or add it to the categories."
                )
            of_code = np.array([numbers.get(value, -1) for value in column.values or ()], np.int64)
            pieces = [of_code[piece] if len(of_code) else piece.astype(np.int64) for piece in column.pieces]
            made.append(_arrow.Column(pieces, column.lengths, None))
        return made


def _first(pieces: Sequence[npt.NDArray[Any]], codes: list[int]) -> tuple[int, int] | None:
    """Returns the first code that is one of ``codes``, and its place."""
    begin = 0
    for piece in pieces if codes else ():
        found = np.flatnonzero(np.isin(piece, codes))
        if len(found):
            return int(piece[found[0]]), begin + int(found[0])
        begin += len(piece)
    return None


def _sorted(values: set[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda value: (type(value).__name__, str(value)))


def _coded(name: str, column: _arrow.Column) -> _arrow.Column:
    """Returns a column as codes of its values."""
    if column.values is not None:
        return column._replace(values=[_decoded(value) for value in column.values])
    if column.pieces[0].ndim != 1:
        raise TypeError(f"The column {name!r} has vectors, which cannot be categories.")
    joined = column.pieces[0] if len(column.pieces) == 1 else np.concatenate(column.pieces)
    values, codes = np.unique(joined, return_inverse=True)
    return _arrow.Column([codes.astype(np.int64).reshape(-1)], column.lengths, None, values.tolist())


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value


def _only_numbers(name: str, column: _arrow.Column) -> None:
    if column.values is not None:
        raise TypeError(
            f"The column {name!r} has texts, such as {_decoded(column.values[0])!r}, but numbers are wanted."
        )


def _converted(name: str, piece: npt.NDArray[Any], element: np.dtype[Any] | None) -> npt.NDArray[Any]:
    """Returns numbers in a type; without one, fractions are of single precision."""
    if element is None:
        return piece.astype(np.float32) if piece.dtype == np.float64 else piece
    if piece.dtype == element:
        return piece
    with np.errstate(all="ignore"):
        made = piece.astype(element)
    if element.kind in "iub" and not np.array_equal(made.astype(piece.dtype), piece):
        wrong = np.flatnonzero(made.astype(piece.dtype) != piece)[0]
        raise ValueError(
            f"The column {name!r} has {piece.reshape(-1)[wrong]}, which is not a value of the type {element}."
        )
    return made


def _identifier(name: str) -> str:
    made = "".join(letter if letter.isalnum() else "_" for letter in name)
    return made if made.isidentifier() else "text"
