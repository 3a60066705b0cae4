"""Tables in memory as deserializers: Arrow, pandas, Polars, data sets of Hugging Face."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _arrow
from ._arrays import ArrayDeserializer
from ._columns import Categories, Columns, DTypes, Table, checked_types, chosen, used
from ._explain import explained
from ._rules import POSITIVE, TABLE, TEXT, Maybe, Within
from ._types import ArrowArrayLike, ArrowStreamLike, TableLike

#: The options of :func:`from_table`.
_OPTIONS = ("keys", "dtypes", "categories", "minibatch_stream", "chunk_size")


@explained(
    'from_table(frame, features=["age", "income"], label="bought")',
    table=Within("when it is read"),
    keys=Maybe(TEXT),
    dtypes=Maybe(TABLE),
    categories=Maybe(TABLE),
    minibatch_stream=Maybe(TEXT),
    chunk_size=Maybe(POSITIVE),
)
def from_table(
    table: TableLike | ArrowStreamLike | ArrowArrayLike,
    *,
    keys: str | None = None,
    dtypes: DTypes | None = None,
    categories: Categories | None = None,
    minibatch_stream: str | None = None,
    chunk_size: int | None = None,
    **streams: Columns,
) -> ArrayDeserializer:
    """Returns a deserializer of a table in memory: pandas (with pyarrow), Polars, pyarrow, DuckDB,
    or anything else with Arrow's interface for tables, and data sets of Hugging Face.

    Each further argument is a stream: the name of its column, a list of names, whose values become
    vectors, or ``"*"``, all columns that no other stream has. Without them each column is a stream
    of its own name. Types of streams:

    * a column of numbers or booleans keeps its type, except that ``float64`` becomes ``float32``
    * several columns of numbers become vectors of ``float32``
    * texts, dictionaries and pandas' categories become numbers of their categories, from 0,
      ``int64``; ``deserializer.categories["label"]`` has the category of each number, texts in
      alphabetical order
    * lists are sequences, lists of fixed size are vectors; lists of texts, such as tokens, become
      sequences of numbers

    * ``table``: the table; a data set of Hugging Face is one split, ``dataset["train"]``
    * ``keys``: the column of the sequences' keys, for joining the data with other deserializers
    * ``dtypes``: types by stream, ``{"price": "float64", "zip": "category"}``
    * ``categories``: categories by stream, in the order of their numbers; pass
      ``categories=train.categories`` to give test data the numbers of the training data
    * ``minibatch_stream``, ``chunk_size``: as in :func:`from_arrays`
    """
    where = type(table).__name__
    read, names_of_classes = _arrow_table(table)
    plan: dict[str, Columns] = {}

    def choose(names: list[str]) -> set[str]:
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is not None:
            raise ValueError(f"{where}: two columns have the name {twice!r}: rename one.")
        plan.update(chosen(streams, names, where, _OPTIONS, keys))
        return set(used(plan)) | ({keys} if keys else set())

    try:
        columns = _arrow.read_table(read, choose)
    except ImportError as error:
        raise TypeError(f"{where} needs pyarrow here, which is not installed ({error}): pip install pyarrow.") from None
    if not plan:
        raise ValueError(f"{where} has no columns.")
    for name, classes in names_of_classes.items():
        # Codes that are already numbers of classes.
        if name in columns and columns[name].values is None and columns[name].lengths is None:
            for piece in columns[name].pieces:
                if len(piece) and not 0 <= int(piece.min()) <= int(piece.max()) < len(classes):
                    wrong = int(piece.min()) if int(piece.min()) < 0 else int(piece.max())
                    raise ValueError(
                        f"{where}: The column {name!r} has the class {wrong}, but classes go from 0 to {len(classes) - 1}; -1 stands "
                        "for an unknown class. Leave out such rows: dataset.filter(lambda row: row[...] >= 0)."
                    )
            columns[name] = columns[name]._replace(values=list(classes))
    types = checked_types(dtypes, categories, plan)
    made = Table(columns, where)
    deserializer = ArrayDeserializer(
        made.streams(plan, types, categories),
        keys=_keys(columns, keys),
        minibatch_stream=minibatch_stream,
        chunk_size=chunk_size,
    )
    deserializer.categories, deserializer.keeps_types = made.categories, True
    return deserializer


def _keys(columns: Mapping[str, _arrow.Column], keys: str | None) -> Any:
    """Returns the values of the column of keys."""
    if keys is None:
        return None
    column = columns[keys]
    if column.lengths is not None or column.pieces[0].ndim != 1:
        raise TypeError(f"The column {keys!r} has lists, which cannot be keys.")
    listed = [value for piece in column.pieces for value in piece.tolist()]
    if column.values is None:
        return listed
    values = [value.decode(errors="replace") if isinstance(value, bytes) else value for value in column.values]
    return [values[code] for code in listed]


def _arrow_table(table: Any) -> tuple[Any, Mapping[str, list[str]]]:
    """Returns a table with Arrow's interface, and the names of classes of its columns."""
    kind = type(table)
    if kind.__module__.split(".")[0] == "datasets":
        if isinstance(table, Mapping):
            splits = ", ".join(map(repr, table))
            raise TypeError(f"This is a {kind.__name__} with the splits {splits}: pass one of them, dataset['train'].")
        if not callable(getattr(table, "with_format", None)) or not hasattr(table, "__len__"):
            raise TypeError(
                f"The rows of a {kind.__name__} are not in memory. Load the data without streaming=True, or derive a class from "
                "UserDeserializer."
            )
        classes = {
            name: list(feature.names)
            for name, feature in (getattr(table, "features", None) or {}).items()
            if hasattr(feature, "names") and hasattr(feature, "int2str")
        }
        return table.with_format("arrow")[:], classes
    if isinstance(table, str) or hasattr(table, "__fspath__"):
        raise TypeError(f"{table!r} is a path: pass a table, or call from_csv(path) for CSV files.")
    if isinstance(table, Mapping):
        raise TypeError(f"A {kind.__name__} was given: call from_arrays(**arrays) for arrays by name.")
    if hasattr(table, "iloc") and hasattr(table, "reset_index"):
        if not hasattr(table, "columns"):
            raise TypeError("This is a single column of pandas: call from_arrays(x=column), or pass column.to_frame().")
        # pandas would deliver its index as a column.
        table = table.reset_index(drop=True)
        if not hasattr(table, "__arrow_c_stream__"):
            raise TypeError(
                "This pandas is older than 2.2, which has no Arrow interface: pass its columns to from_arrays."
            )
    if not _arrow.is_arrow(table):
        raise TypeError(
            f"{kind.__name__} is not a table with Arrow's interface (__arrow_c_stream__), as those of pyarrow, Polars and pandas "
            "are. Call from_arrays(x=array) for arrays."
        )
    return table, {}
