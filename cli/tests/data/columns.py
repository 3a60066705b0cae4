"""Writes columns.parquet, columns.feather and odd.parquet, which the tests of the tool read.

Run with pyarrow 26: python columns.py
"""

import datetime
import decimal

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet

ROWS = range(10)
sample = pa.struct([("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float32()))])
vectors = pa.array([number / 4 for number in range(20)], pa.float32())
steps = [[float(step) for step in range(row % 3 + 1)] for row in ROWS]
words = [[{"indices": [row % 7], "values": [0.5]}] * (row % 2 + 1) for row in ROWS]
table = pa.table(
    {
        "key": [f"k{row}" for row in ROWS],
        "x": pa.FixedSizeListArray.from_arrays(vectors, 2),
        "label": pa.array([row % 3 for row in ROWS], pa.int64()),
        "steps": pa.array(steps, pa.large_list(pa.float64())),
        "flag": pa.array([row % 2 == 0 for row in ROWS]),
        "words": pa.array(words, pa.list_(sample)),
        "name": pa.array(["u" if row < 4 else "v" for row in ROWS]),
    }
)
parquet.write_table(table, "columns.parquet", row_group_size=4)
feather.write_feather(table, "columns.feather", chunksize=4)

odd = {
    "decimal": pa.array([decimal.Decimal("1.50")] * 2),
    "time": pa.array([datetime.datetime(2020, 1, 1)] * 2),
    "text": pa.array(["a", "b"]),
    "category": pa.array(["a", "b"]).dictionary_encode(),
    "struct": pa.array([{"a": 1, "b": 2.0}] * 2),
    "nested": pa.array([[[1.0]], [[2.0], [3.0]]]),
    "binary": pa.array([b"a", b"b"]),
    "nothing": pa.nulls(2),
    "null": pa.array([1.0, None]),
    "inner": pa.array([[1.0, None], [1.0]]),
    "vector": pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2)),
    "index": pa.array([{"indices": [-1], "values": [1.0]}] * 2, sample),
}
parquet.write_table(pa.table(odd), "odd.parquet")
