"""Tables in CSV files as deserializers.

The file is parsed in blocks of rows, whose columns become arrays at once, so that memory holds
numbers and not texts. A column's first block decides whether it has numbers or texts.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, Union

import numpy as np
import numpy.typing as npt

from . import _arrow
from ._arrays import ArrayDeserializer
from ._columns import CATEGORY, Categories, Columns, DTypes, Table, checked_types, chosen, used
from ._configuration import Path
from ._explain import explained, unknown
from ._rules import PATH, POSITIVE, TABLE, TEXT, Either, Items, Maybe, Real, Text

#: The options of :func:`from_csv`.
_OPTIONS = (
    "keys",
    "dtypes",
    "categories",
    "missing",
    "names",
    "delimiter",
    "decimal",
    "encoding",
    "minibatch_stream",
    "chunk_size",
)

#: The beginning of a line in CNTK's text format: an id, or none, and a sample.
_CTF = re.compile(r"\s*\d*\s*\|[A-Za-z_]\w* [-+.\d]")
#: Fields that are parsed at once.
_BLOCK = 1 << 16
#: NumPy parses plain numbers three times as fast as Python, from version 1.23 on.
_HAS_FAST_LOADTXT = tuple(map(int, np.__version__.split(".")[:2])) >= (1, 23)
#: Whole numbers from here on are not exact as doubles.
_MOST_EXACT = 2.0**53
#: Texts that stand for a missing number, in lower case and without blanks around them.
_MISSING = {"", "na", "n/a", "nan", "null", "none", "#n/a", "?"}
#: Rows are left out if a value is missing.
_DROP = "drop"
_DELIMITERS = ",;\t|"

Missing = Union[float, str, Mapping[str, Union[float, str]], None]
_NUMBER_OR_TEXT = Either((Real(), Text()))


@explained(
    'from_csv("houses.csv", features=["rooms", "area"], price="price")',
    path=PATH,
    keys=Maybe(TEXT),
    dtypes=Maybe(TABLE),
    categories=Maybe(TABLE),
    missing=Maybe(Either((TABLE, _NUMBER_OR_TEXT))),
    names=Maybe(Items(TEXT)),
    delimiter=Maybe(TEXT),
    decimal=Text((".", ",")),
    encoding=TEXT,
    minibatch_stream=Maybe(TEXT),
    chunk_size=Maybe(POSITIVE),
)
def from_csv(
    path: Path,
    *,
    keys: str | None = None,
    dtypes: DTypes | None = None,
    categories: Categories | None = None,
    missing: Missing = None,
    names: Sequence[str] | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8",
    minibatch_stream: str | None = None,
    chunk_size: int | None = None,
    **streams: Columns,
) -> ArrayDeserializer:
    """Returns a deserializer of a CSV or TSV file, which is read into memory; ``.gz`` is
    decompressed.

    Each further argument is a stream: the name of its column, a list of names, whose values become
    vectors, or ``"*"``, all columns that no other stream has. Without them each column is a stream
    of its own name. Types of streams:

    * a column of whole numbers is ``int64``, one of other numbers ``float32``
    * several columns of numbers become vectors of ``float32``
    * texts become numbers of categories, from 0 in alphabetical order, ``int64``;
      ``deserializer.categories["label"]`` has the category of each number

    Values that are missing, or texts among numbers, are errors with their line.

    * ``path``: the file
    * ``keys``: the column of the sequences' keys; consecutive rows with equal keys are one sequence.
      None: each row is a sequence
    * ``dtypes``: types by stream, ``{"price": "float64", "zip": "category"}``
    * ``categories``: categories by stream, in the order of their numbers; pass
      ``categories=train.categories`` to give test data the numbers of the training data
    * ``missing``: the value of empty fields, and among numbers of NA, NaN, null and the like, for all
      columns or by column, ``{"age": 0, "city": "unknown"}``; ``"drop"`` leaves out their rows
    * ``names``: names of the columns, if the first line does not have them
    * ``delimiter``: separator of fields; None: the comma, semicolon, tab or ``|`` of the first line
    * ``decimal``: the decimal point, ``"."`` or ``","``
    * ``encoding``: encoding of the file
    * ``minibatch_stream``, ``chunk_size``: as in :func:`from_arrays`
    """
    file = _File(os.fspath(path), encoding, delimiter, names)
    file.check_head(streams)
    plan = chosen(streams, file.names, file.path, _OPTIONS, keys)
    types = checked_types(dtypes, categories, plan)
    of_column = used(plan)
    if isinstance(missing, Mapping):
        for name in missing:
            if name not in file.names:
                raise ValueError(f"{file.path}, missing: {unknown('column', name, file.names)}")
    parsers = {}
    for place, name in enumerate(file.names):
        if name not in of_column and name != keys:
            continue
        kinds = {types.get(stream) for stream in of_column.get(name, ())}
        # Codes of a category serve all streams; other columns alone keep whole numbers.
        is_text = name == keys or CATEGORY in kinds
        is_alone = any(isinstance(plan[stream], str) for stream in of_column.get(name, ()))
        given = missing.get(name) if isinstance(missing, Mapping) else missing
        parsers[name] = _Parser(file, place, name, is_text, is_alone, given, decimal)
    dropped = _parse(file, list(parsers.values()))
    columns = {name: parser.column() for name, parser in parsers.items()}
    if not columns:
        raise ValueError(f"{file.path}, line 1: no column has a name.")
    if sum(map(len, next(iter(columns.values())).pieces)) == 0:
        left = f", except {len(dropped)} that are left out because a value is missing" if dropped else ""
        raise ValueError(f"{file.path}: there are no rows{' below the line of names' * (names is None)}{left}.")

    def line(row: int) -> str:
        return f"line {file.line(_before_drop(row, dropped))}"

    table = Table(columns, file.path, line)
    arrays = table.streams(plan, types, categories)
    lengths, texts = (None, None) if keys is None else _sequences(file.path, line, columns[keys], keys)
    deserializer = ArrayDeserializer(
        arrays, lengths=lengths, keys=texts, minibatch_stream=minibatch_stream, chunk_size=chunk_size
    )
    deserializer.categories, deserializer.keeps_types = table.categories, True
    return deserializer


class _File:
    """A CSV file: its form, and its rows."""

    def __init__(self, path: str, encoding: str, delimiter: str | None, names: Sequence[str] | None) -> None:
        self.path, self.encoding = path, encoding
        if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
            self.encoding = "utf-8-sig"
        try:
            "".encode(self.encoding)
        except LookupError:
            raise ValueError(f"There is no encoding {encoding!r}. For example: 'utf-8', 'latin-1', 'utf-16'.") from None
        if delimiter is not None and len(delimiter) != 1:
            raise ValueError(f"delimiter must be one character, not {delimiter!r}.")
        with open(path, "rb") as binary:
            start = binary.read(512)
        if start.startswith((b"PK\x03\x04", b"PAR1")) or start[:2] == b"\x1f\x8b" and not path.endswith(".gz"):
            raise ValueError(
                f"{path}: this is a binary file, not a CSV file. Save an Excel file as CSV, read a Parquet file with from_table, and give "
                "a file compressed by gzip a name that ends in .gz."
            )
        has_wide_characters = "16" in encoding or "32" in encoding or start.startswith((b"\xff\xfe", b"\xfe\xff"))
        if b"\0" in start and start[:2] != b"\x1f\x8b" and not has_wide_characters:
            raise ValueError(f"{path}: this is a binary file, which begins with {start[:8]!r}, not a CSV file.")
        with self._opened() as text:
            try:
                self.first = next((line for line in text if line.strip()), "")
            except UnicodeError as error:
                self._not_text(error)
            except (gzip.BadGzipFile, EOFError) as error:
                raise ValueError(f"{path}: {error}.") from None
        if not self.first:
            raise ValueError(f"{path}: the file is empty, but a line of column names was expected.")
        if _CTF.match(self.first):
            raise ValueError(
                f"{path}, line 1: this looks like a text file in CNTK's format, {_short(self.first.strip())!r}, not like a CSV file. "
                "Read it with CTFDeserializer."
            )
        self.delimiter = delimiter or max(
            _DELIMITERS, key=lambda one: len(next(csv.reader([self.first], delimiter=one)))
        )
        head = next(csv.reader([self.first], delimiter=self.delimiter))
        self.has_head = names is None
        self.names = [name.strip() for name in head] if names is None else list(names)
        if names is not None and len(names) != len(head):
            raise ValueError(f"{path}, line 1: there are {len(head)} columns, but {len(names)} names.")
        twice = next((name for place, name in enumerate(self.names) if name and name in self.names[:place]), None)
        if twice is not None:
            raise ValueError(f"{path}, line 1: two columns have the name {twice!r}. Rename one, or pass names=[...].")

    def check_head(self, streams: Mapping[str, Columns]) -> None:
        """Refuses numbers in place of names, unless streams have them as names."""
        if not self.has_head or not all(map(_is_number, self.names)):
            return
        wanted = {name for columns in streams.values() for name in ([columns] if isinstance(columns, str) else columns)}
        if not wanted - {"*"} or not wanted - {"*"} <= set(self.names):
            names = ", ".join(repr(f"x{number}") for number in range(min(len(self.names), 3)))
            raise ValueError(
                f"{self.path}, line 1: names of columns were expected, but there are only numbers: {_short(self.first.rstrip())!r}. If "
                f"the file has no line of names, pass them: names=[{names}, ...]."
            )

    def _opened(self) -> io.TextIOBase:
        if self.path.endswith(".gz"):
            return gzip.open(self.path, "rt", encoding=self.encoding, newline="")
        return open(self.path, encoding=self.encoding, newline="")

    def _not_text(self, error: UnicodeError) -> NoReturn:
        with (gzip.open if self.path.endswith(".gz") else open)(self.path, "rb") as binary:
            content = binary.read()
        lines, place = content.split(b"\n"), ""
        advised = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "latin-1"
        for number, line in enumerate(lines, 1):
            try:
                line.decode(self.encoding)
            except UnicodeError:
                place = f", line {number}: {_short(line.decode('latin-1').strip())!r}"
                break
        raise ValueError(
            f"{self.path}{place} is not text in the encoding {self.encoding.replace('-sig', '')!r} ({error}). Save the file as UTF-8, or "
            f"pass its encoding, for example encoding={advised!r}."
        ) from None

    def _failed(self, line: int, error: csv.Error) -> NoReturn:
        raise ValueError(
            f'{self.path}, line {line}: {error}. Is a quotation mark (") not closed? In a field in quotation marks, they are doubled: '
            '"a ""b"" c".'
        ) from None

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yields the line at which each row ends, and the row."""
        with self._opened() as text:
            reader = csv.reader(text, delimiter=self.delimiter, strict=True)
            try:
                for row in reader:
                    if row:
                        yield reader.line_num, row
            except csv.Error as error:
                self._failed(reader.line_num, error)

    def blocks(self) -> Iterator[_Block]:
        """Yields the rows of data in blocks."""
        count, before = max(1, _BLOCK // len(self.names)), 0
        with self._opened() as text:
            reader = self._reader(text)
            try:
                if self.has_head:
                    next(filter(None, reader), None)
                before = reader.line_num
                lines = list(itertools.islice(text, count))
                # Without quotation marks each line is a row.
                while lines and not any('"' in line for line in lines):
                    yield _Block(self, lines, before)
                    before += len(lines)
                    lines = list(itertools.islice(text, count))
                reader = self._reader(itertools.chain(lines, text))
                rows = filter(None, reader)
                while True:
                    block = list(itertools.islice(rows, count))
                    if not block:
                        return
                    yield _Block(self, None, before, block)
            except csv.Error as error:
                self._failed(before + reader.line_num, error)
            except UnicodeError as error:
                self._not_text(error)
            except (EOFError, OSError) as error:
                raise ValueError(f"{self.path}: {error}. Is the file truncated? Copy it again.") from None

    def _reader(self, lines: Iterable[str]) -> Any:
        return csv.reader(lines, delimiter=self.delimiter, strict=True)

    def split(self, lines: Sequence[str], before: int) -> list[list[str]]:
        """Returns the rows in these lines, which follow ``before`` others."""
        reader = self._reader(lines)
        try:
            return [row for row in reader if row]
        except csv.Error as error:
            self._failed(before + reader.line_num, error)

    def line(self, row: int) -> int:
        """Returns the line at which a row of data ends."""
        found = next(itertools.islice(self._lines(), row + self.has_head, None), (0, []))
        return found[0]


class _Block:
    """Some rows of a file."""

    def __init__(self, file: _File, lines: list[str] | None, before: int, rows: list[list[str]] | None = None) -> None:
        self.file = file
        #: One line for each row, unless fields may be quoted.
        self.lines = lines
        #: Number of lines before them.
        self.before = before
        self._rows = rows
        self._fields: list[list[str]] | None = None

    def rows(self) -> list[list[str]]:
        """Returns the fields of all rows."""
        return self.file.split(self.lines or [], self.before) if self._rows is None else self._rows

    def numbers(self, places: Sequence[int]) -> npt.NDArray[np.float64] | None:
        """Returns the columns at these places; None unless they have finite numbers alone, in the usual notation."""
        file, lines = self.file, self.lines
        width = len(file.names)
        # A row of one column may be an empty line.
        if not _HAS_FAST_LOADTXT or not lines or not places or width == 1:
            return None
        if any(line.count(file.delimiter) != width - 1 for line in lines):
            return None
        try:
            made = np.loadtxt(lines, delimiter=file.delimiter, comments=None, usecols=places, ndmin=2)
        except ValueError:
            return None
        return made.T if len(made) == len(lines) and np.isfinite(made).all() else None

    def column(self, place: int) -> list[str]:
        """Returns the fields of a column, where :meth:`numbers` returns some."""
        if self._fields is None:
            self._fields = [line.split(self.file.delimiter) for line in self.lines or []]
        return [row[place] for row in self._fields]

    @property
    def has_fractions(self) -> bool:
        """Whether a number may have a fraction or an exponent."""
        return any("." in line or "e" in line or "E" in line for line in self.lines or [])


class _Parser:
    """The values of a column."""

    def __init__(
        self, file: _File, place: int, name: str, is_text: bool, is_alone: bool, missing: Any, decimal: str
    ) -> None:
        self.file, self.place, self.name = file, place, name
        #: None until the first block decides.
        self.is_text = True if is_text else None
        #: Whole numbers stay whole numbers, as long as there are no others.
        self.is_whole = is_alone
        self.missing = missing
        self.decimal = decimal
        self.pieces: list[npt.NDArray[Any]] = []
        #: The texts of a column of texts, and their codes.
        self.codes: dict[str, int] = {}

    def add(self, fields: Sequence[str], first_row: int) -> list[int]:
        """Adds a block of fields; returns the rows of the block to leave out."""
        if self.is_text:
            return self._add_texts(fields, first_row)
        points = [field.replace(",", ".") for field in fields] if self.decimal == "," else fields
        try:
            self.pieces.append(self._numbers(points))
            self.is_text = False
            return []
        except (ValueError, OverflowError):
            pass
        if self.is_text is None:
            self._decide(points, first_row)
        if self.is_text:
            return self._add_texts(fields, first_row)
        fields = points
        # Some field is not a finite number.
        filled, dropped = list(fields), []
        for place, field in enumerate(fields):
            if _is_number(field):
                continue
            if _is_missing(field):
                filled[place] = str(self._fill(first_row + place, field))
                dropped += [place] if self.missing == _DROP else []
            else:
                self._refuse(first_row + place, field)
        self.pieces.append(self._numbers(filled))
        return dropped

    @property
    def is_plain(self) -> bool:
        """Whether the column is known to have numbers in the usual notation."""
        return self.is_text is False and self.decimal == "."

    def add_numbers(self, values: npt.NDArray[np.float64], block: _Block) -> None:
        """Adds a block of finite numbers."""
        made: npt.NDArray[Any] = values
        if self.is_whole and (np.floor(values) == values).all():
            # "1.0" is not a whole number.
            is_exact = np.abs(values).max() < _MOST_EXACT and not block.has_fractions
            made = values.astype(np.int64) if is_exact else self._numbers(block.column(self.place))
        else:
            self.is_whole = False
        self.pieces.append(made)

    def _numbers(self, fields: Sequence[str]) -> npt.NDArray[Any]:
        if self.is_whole:
            try:
                return np.fromiter(map(int, fields), np.int64, len(fields))
            except (ValueError, OverflowError):
                pass
        made = np.fromiter(map(float, fields), np.float64, len(fields))
        if not np.isfinite(made).all():
            raise ValueError("not finite")
        self.is_whole = False
        return made

    def _decide(self, fields: Sequence[str], first_row: int) -> None:
        """Decides whether the column has numbers or texts."""
        present = [field for field in fields if not _is_missing(field)]
        numbers = sum(_is_number(field) or _is_infinite(field) for field in present)
        if numbers == len(present) and (present or not self._has_text_fill()):
            self.is_text = False
        elif 2 * numbers > len(present):
            place = next(
                place for place, field in enumerate(fields) if not _is_number(field) and not _is_missing(field)
            )
            self._refuse(first_row + place, fields[place])
        else:
            self.is_text = True
            if present and all(_is_number(field.replace(",", ".", 1)) for field in present):
                raise ValueError(
                    f"{self._place(first_row)} has numbers with commas, such as {present[0]!r}: pass decimal=','."
                )

    def _has_text_fill(self) -> bool:
        return isinstance(self.missing, str) and self.missing != _DROP and not _is_number(self.missing)

    def _add_texts(self, fields: Sequence[str], first_row: int) -> list[int]:
        codes, dropped = self.codes, []
        texts = map(str.strip, fields)
        block = np.fromiter((codes.setdefault(text, len(codes)) for text in texts), np.int64, len(fields))
        if "" in codes:
            places = np.flatnonzero(block == codes[""])
            if len(places):
                fill = str(self._fill(first_row + int(places[0]), ""))
                dropped = places.tolist() if self.missing == _DROP else []
                block[places] = codes.setdefault(fill, len(codes))
        self.pieces.append(block)
        return dropped

    def _fill(self, row: int, field: str) -> float | str:
        """Returns the value for a missing one."""
        if self.missing is None:
            fill = repr("unknown") if self.is_text else "0"
            raise ValueError(
                f"{self._place(row)}: a value is missing ({field!r}). Correct the file, pass missing={{{self.name!r}: {fill}}} for a value "
                'in its place, or missing="drop" to leave out such rows.'
            )
        if self.missing == _DROP:
            return 0
        if not self.is_text and not _is_number(str(self.missing)):
            raise ValueError(
                f"{self._place(row)}: a number is missing, but missing is {self.missing!r}. Pass a number, "
                f"missing={{{self.name!r}: 0}}."
            )
        return self.missing  # type: ignore[no-any-return]

    def _refuse(self, row: int, field: str) -> NoReturn:
        if _is_infinite(field):
            raise ValueError(f"{self._place(row)}: {field!r} is not a finite number. Correct the file.")
        raise ValueError(
            f"{self._place(row)}: {_short(field)!r} is not a number, but other values of the column are. Correct the file, or read the "
            "column as texts, dtypes={stream: 'category'}."
        )

    def _place(self, row: int) -> str:
        return f"{self.file.path}, line {self.file.line(row)}, column {self.name!r} (number {self.place + 1})"

    def drop(self, rows: Sequence[int]) -> None:
        """Leaves out rows of the block added last."""
        self.pieces[-1] = np.delete(self.pieces[-1], rows)

    def column(self) -> _arrow.Column:
        """Returns all values."""
        pieces = self.pieces or [np.zeros(0, np.float64)]
        if not self.is_text:
            if len({piece.dtype for piece in pieces}) > 1:
                pieces = [piece.astype(np.float64) for piece in pieces]
            return _arrow.Column([np.concatenate(pieces)], None, None)
        joined = np.concatenate(pieces)
        found = np.unique(joined)  # Without texts of rows that were left out.
        texts = list(self.codes)
        places = np.zeros(len(texts), np.int64)
        places[found] = np.arange(len(found))
        return _arrow.Column([places[joined]], None, len(found), [texts[code] for code in found], True)


def _before_drop(row: int, dropped: Sequence[int]) -> int:
    """Returns the row of the file of a row that is not left out."""
    for left in dropped:
        row += left <= row
    return row


def _parse(file: _File, parsers: Sequence[_Parser]) -> list[int]:
    """Parses all rows; returns the rows that are left out."""
    count, gone = 0, []
    for block in file.blocks():
        rows = None
        plain = [parser for parser in parsers if parser.is_plain]
        # The first block decides what columns have.
        is_known = all(parser.is_text or parser.is_plain for parser in parsers)
        numbers = block.numbers([parser.place for parser in plain]) if is_known else None
        if numbers is None:
            rows = block.rows()
            if not rows:
                continue
            columns = _columns(file, rows, count)
            found = {row for parser in parsers for row in parser.add(columns[parser.place], count)}
        else:
            for parser, values in zip(plain, numbers):
                parser.add_numbers(values, block)
            texts = (parser for parser in parsers if parser.is_text)
            found = {row for parser in texts for row in parser.add(block.column(parser.place), count)}
        dropped = sorted(found)
        if dropped:
            for parser in parsers:
                parser.drop(dropped)
        gone += [count + row for row in dropped]
        count += len(rows if rows is not None else block.lines or [])
    return gone


def _columns(file: _File, rows: Sequence[list[str]], before: int) -> list[tuple[str, ...]]:
    """Returns the columns of a block that follows ``before`` rows; refuses rows with other numbers of fields."""
    width = len(file.names)
    if set(map(len, rows)) != {width}:
        place = next(place for place, row in enumerate(rows) if len(row) != width)
        found = len(rows[place])
        raise ValueError(
            f"{file.path}, line {file.line(before + place)}: there {'is' if found == 1 else 'are'} {found} "
            f"{'field' if found == 1 else 'fields'} separated by {file.delimiter!r}, but {width} columns: "
            f"{_short(file.delimiter.join(rows[place]))!r}. Texts that contain the separator need quotation marks; another separator "
            "is passed as delimiter=';'."
        )
    return list(zip(*rows))


def _sequences(path: str, place_of: Callable[[int], str], column: _arrow.Column, name: str) -> tuple[Any, list[str]]:
    """Returns the lengths of the sequences, and their keys; lengths are None if each is one row."""
    codes = column.pieces[0]
    starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    values = column.values or []
    keys = [values[code] for code in codes[starts]]
    if len(set(keys)) < len(keys):
        seen: set[str] = set()
        place = next(place for place, key in enumerate(keys) if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(
            f"{path}, {place_of(int(starts[place]))}: the key {keys[place]!r} of the column {name!r} was in use before. Rows "
            "of a sequence must be consecutive: sort the file by this column."
        )
    lengths = np.diff(np.append(starts, len(codes)))
    return (None if (lengths == 1).all() else lengths), keys


def _is_missing(field: str) -> bool:
    return len(field) < 6 and field.strip().lower() in _MISSING or not field.strip()


def _is_number(field: str) -> bool:
    try:
        return bool(np.isfinite(float(field)))
    except ValueError:
        return False


def _is_infinite(field: str) -> bool:
    return field.strip().lower().lstrip("+-") in ("inf", "infinity")


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}..."
