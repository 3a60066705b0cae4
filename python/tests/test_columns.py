"""Tables of Arrow, pandas, Polars and Hugging Face as deserializers."""

import importlib.util
import unittest

import numpy as np
from cntk_reader import MinibatchSource, from_table

from .loops import next_epoch


def have(*modules):
    """Returns whether packages are installed."""
    return all(importlib.util.find_spec(module) for module in modules)


def sequences(data):
    """Returns the sequences of each stream, in the data's order."""
    with MinibatchSource(data, randomize=False) as source:
        (minibatch,) = next_epoch(source, 100)
        return {name: [part.tolist() for part in minibatch[name].as_sequences()] for name in source.streams}


@unittest.skipUnless(have("pyarrow"), "needs pyarrow")
class Arrow(unittest.TestCase):
    def table(self):
        import pyarrow as pa

        return pa.table(
            {
                "n": [1, 2, 3],
                "x": [0.5, 1.5, 2.5],
                "flag": [True, False, True],
                "label": ["dog", "cat", "dog"],
                "ids": pa.array([[1, 2], [3], [4, 5, 6]], pa.list_(pa.int32())),
                "words": [["b", "a"], ["a"], ["c", "c", "b"]],
                "vector": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2)),
            }
        )

    EXPECTED = {
        "n": [[1], [2], [3]],
        "x": [[0.5], [1.5], [2.5]],
        "flag": [[True], [False], [True]],
        "label": [[1], [0], [1]],
        "ids": [[1, 2], [3], [4, 5, 6]],
        "words": [[1, 0], [0], [2, 2, 1]],
        "vector": [[[1, 2]], [[3, 4]], [[5, 6]]],
    }

    def test_columns(self):
        import pyarrow as pa

        table = self.table()
        data = from_table(table)
        self.assertEqual(sequences(data), self.EXPECTED)
        self.assertEqual(data.categories, {"label": ["cat", "dog"], "words": ["a", "b", "c"]})
        self.assertIn("x: float32;", repr(data))
        many = pa.concat_tables([table.slice(0, 1), table.slice(1)])
        for same in (many, pa.RecordBatchReader.from_batches(table.schema, many.to_batches()), table.to_batches()[0]):
            self.assertEqual(sequences(from_table(same)), self.EXPECTED)
        rest = {name: values[1:] for name, values in self.EXPECTED.items()}
        self.assertEqual(sequences(from_table(table.slice(1), categories=data.categories)), rest)
        self.assertEqual(sequences(from_table(table.to_batches()[0].slice(1), categories=data.categories)), rest)

    def test_streams(self):
        data = from_table(self.table(), x=["x", "n", "flag"], y="label", dtypes={"y": "category"}, keys="n")
        self.assertEqual(sequences(data)["x"], [[[0.5, 1, 1]], [[1.5, 2, 0]], [[2.5, 3, 1]]])
        self.assertEqual(list(data.streams), ["x", "y"])
        with MinibatchSource(data, randomize=False) as source:
            (minibatch,) = next_epoch(source, 10)
            self.assertEqual(minibatch.keys_of_sequences.tolist(), [1, 2, 3])
        self.assertEqual(from_table(self.table(), c="n", dtypes={"c": "category"}).categories, {"c": [1, 2, 3]})
        texts = from_table(self.table().slice(1), c="x", keys="label", minibatch_stream="c", chunk_size=1)
        with MinibatchSource(texts, randomize=False) as source:
            (minibatch,) = next_epoch(source, 10)
            self.assertEqual([minibatch.key_text(i) for i in range(2)], ["cat", "dog"])

    def test_dictionaries_keep_their_order(self):
        import pyarrow as pa

        sizes = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1]), pa.array(["small", "large", "huge"]))
        numbers = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1]), pa.array([50, 10]))
        data = from_table(pa.table({"size": sizes, "number": numbers}))
        self.assertEqual(data.categories, {"size": ["small", "large", "huge"], "number": [50, 10]})
        self.assertEqual(sequences(data), {"size": [[1], [0], [1]], "number": [[1], [0], [1]]})

    def test_texts_of_all_layouts(self):
        import pyarrow as pa

        texts = ["b", "", "a long text that is not inline", "b", "é"]
        for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary()):
            table = pa.table({"t": pa.array(texts, kind)})
            data = from_table(table.slice(1))
            self.assertEqual([data.categories["t"][i] for (i,) in sequences(data)["t"]], texts[1:], str(kind))

    def test_mistakes(self):
        import datetime

        import pyarrow as pa

        table = self.table()
        days = pa.table({"day": [datetime.date(2020, 1, 1)]})
        for value, options, message in [
            (pa.table({"x": [1, None]}), {}, "Column 'x': .*1 nulls among 2 values, the first one at 1"),
            (pa.table({"x": ["a", None]}), {}, "Column 'x': .*1 nulls"),
            (pa.table({"x": pa.nulls(2)}), {}, "Column 'x': .*only nulls"),
            (days, {}, "Column 'day': The Arrow format 'tdD' .* because it has dates"),
            (pa.table({"s": [{"a": 1}]}), {}, "Column 's': .* because it has a struct"),
            (pa.table([[1], [2]], ["x", "x"]), {}, "two columns have the name 'x'"),
            (pa.table({}), {}, "has no columns"),
            (table.slice(3), {}, "at least 1"),
            (table, {"y": "lable"}, "stream 'y': There is no column 'lable'. Did you mean 'label'?"),
            (table, {"x": ["x", "ids"]}, "'ids' has lists: only columns of single values"),
            (table, {"x": ["x", "label"]}, "'label' has texts, the column 'x' numbers"),
            (table, {"x": "vector", "dtypes": {"x": "category"}}, "has vectors, which cannot be categories"),
            (table, {"x": "x", "keys": "ids"}, "'ids' has lists, which cannot be keys"),
            (
                table,
                {"y": "label", "categories": {"y": ["dogs", "cat"]}},
                "row 0, column 'label': 'dog' .*Did you mean 'dogs'",
            ),
            (table["n"], {}, "single column, not a table"),
            ("houses.csv", {}, r"is a path: .*from_csv\(path\)"),
            ({"x": np.zeros(3)}, {}, "call from_arrays"),
            (np.zeros(3), {}, "ndarray is not a table"),
            (None, {}, "NoneType is not a table"),
        ]:
            with self.subTest(message), self.assertRaisesRegex((TypeError, ValueError), message):
                from_table(value, **options)


@unittest.skipUnless(have("pandas", "pyarrow"), "needs pandas and pyarrow")
class Pandas(unittest.TestCase):
    def test_frames(self):
        import pandas

        frame = pandas.DataFrame({"x": [1.0, 2.0, 3.0], "size": ["s", "l", "s"], "ids": [[1], [2, 3], [4]]})
        frame["ordered"] = pandas.Categorical(frame["size"], ["s", "m", "l"])
        data = from_table(frame[frame.x > 1])
        self.assertEqual(
            sequences(data), {"x": [[2], [3]], "size": [[0], [1]], "ids": [[2, 3], [4]], "ordered": [[2], [0]]}
        )
        self.assertEqual(data.categories, {"size": ["l", "s"], "ordered": ["s", "m", "l"]})
        with self.assertRaisesRegex(TypeError, "single column of pandas"):
            from_table(frame["x"])
        with self.assertRaisesRegex(ValueError, "1 nulls"):
            from_table(pandas.DataFrame({"x": [1.0, None]}))


@unittest.skipUnless(have("datasets"), "needs datasets")
class HuggingFace(unittest.TestCase):
    def test_data_sets(self):
        import datasets

        rows = {"text": [["a", "b"], ["b"], ["c"]], "label": [1, 0, 1]}
        kinds = datasets.Features(
            {"text": datasets.Sequence(datasets.Value("string")), "label": datasets.ClassLabel(names=["no", "yes"])}
        )
        made = datasets.Dataset.from_dict(rows, features=kinds)
        data = from_table(made.select([2, 0]))
        self.assertEqual(data.categories, {"text": ["a", "b", "c"], "label": ["no", "yes"]})
        self.assertEqual(sequences(data), {"text": [[2], [0, 1]], "label": [[1], [1]]})
        with self.assertRaisesRegex(TypeError, "splits 'train': pass one of them"):
            from_table(datasets.DatasetDict(train=made))
        with self.assertRaisesRegex(TypeError, "streaming=True"):
            from_table(made.to_iterable_dataset())


if __name__ == "__main__":
    unittest.main()
