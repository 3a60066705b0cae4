"""Tables of other libraries as arrays: correct values or a clear error, whatever the memory
layout."""

import importlib.util
import unittest

import numpy as np
import scipy.sparse as sp
from cntk_reader import MinibatchSource, ReaderError, from_arrays, one_hot

from .loops import next_epoch


def have(*modules):
    """Returns whether packages are installed."""
    return all(importlib.util.find_spec(module) for module in modules)


def delivered(**arrays):
    """Returns the sequences of the stream x, dense, in the data's order."""
    with MinibatchSource(from_arrays(**arrays), randomize=False, precision="double") as source:
        return [
            (part.toarray() if hasattr(part, "toarray") else part).tolist()
            for minibatch in next_epoch(source, 5)
            for part in minibatch["x"].as_sequences()
        ]


def classes(value):
    """Returns the class of each sample, and the number of classes."""
    with MinibatchSource(from_arrays(x=value), randomize=False) as source:
        return [
            int(i) for minibatch in next_epoch(source, 5) for i in minibatch["x"].indices()
        ], source.streams.x.shape[0]


class Table(unittest.TestCase):
    """Rows of values, each with the expected result or error."""

    def check(self, rows, deliver=delivered):
        for number, (value, expected) in enumerate(rows):
            with self.subTest(row=number):
                if isinstance(expected, str):
                    with self.assertRaisesRegex((TypeError, ValueError), expected):
                        deliver(x=value)
                else:
                    self.assertEqual(deliver(x=value), expected)

    def check_classes(self, rows):
        self.check(rows, lambda x: classes(x))


class NumPyTables(Table):
    def test_memory(self):
        floats = np.arange(24, dtype=np.float32).reshape(4, 6)
        packed = np.zeros(3, np.dtype([("a", "u1"), ("b", "<f4")], align=False))
        packed["b"] = [1.5, 2.5, 3.5]
        rows = [
            (floats[:, ::2], floats[:, ::2][:, None].tolist()),
            (floats[::-1, ::-3], floats[::-1, ::-3][:, None].tolist()),
            (floats.T, floats.T[:, None].tolist()),
            (np.asfortranarray(floats), floats[:, None].tolist()),
            (np.broadcast_to(floats[:1], (3, 6)), [floats[:1].tolist()] * 3),
            (floats.astype(">f4"), floats[:, None].tolist()),
            (floats.astype(">f8"), floats[:, None].tolist()),
            (floats.astype(">i2"), floats[:, None].tolist()),
            (packed["b"], [[1.5], [2.5], [3.5]]),
            (np.frombuffer(b"\0" + floats.tobytes(), np.float32, 4, 0)[:0], "at least 1"),
            (np.ndarray(4, np.float32, b"\0" + floats.tobytes(), 1), [[0], [1], [2], [3]]),
            (np.array([True, False]), [[1], [0]]),
            (np.array([1, -2, 255], np.int16), [[1], [-2], [255]]),
            (np.array([0.5, 65504], np.float16), [[0.5], [65504]]),
            (np.matrix([[1.0, 2.0]], np.float32), [[[1, 2]]]),
            (np.ma.array(floats, mask=False), floats[:, None].tolist()),
            (np.ma.array([1.0, 2.0], mask=[False, True]), "1 values are masked"),
            (np.zeros((3, 0), np.float32), "and so no value"),
            (np.float32(3), "cannot be read as an array of samples"),
        ]
        self.check(rows)

    def test_types(self):
        refused = ["c8", "M8[s]", "m8[s]", "U3", "S3", "O", "V4", "g", [("a", "f4")]]
        self.check([(np.zeros(3, kind), "Stream 'x': ") for kind in refused])

    def test_classes(self):
        rows = [
            (one_hot(np.array([1, 2, 0], kind), 3), ([1, 2, 0], 3))
            for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i2", ">i4", ">u4", ">i8", ">u8")
        ]
        rows += [
            (one_hot(np.arange(6, dtype=np.int32)[::-2], 6), ([5, 3, 1], 6)),
            (one_hot(np.ma.array([1, 2], mask=[0, 1]), 3), "masked"),
            (one_hot(np.array([1.0]), 3), "one integer per sample"),
            (one_hot(np.array([True]), 3), "one integer per sample"),
            (one_hot(np.array([[1]]), 3), "one integer per sample"),
        ]
        self.check_classes(rows)
        for ids in ([3], [-1], [2**31], [2**32 + 1], [2**63], [2**64 - 1]):
            with self.subTest(ids), self.assertRaises((ReaderError, ValueError)):
                classes(one_hot(np.array(ids, np.uint64 if ids[0] >= 2**63 else np.int64), 3))

    def test_lengths(self):
        x = np.zeros((4, 2), np.float32)
        for lengths, message in [
            (np.ma.array([2, 2], mask=[0, 1]), "masked"),
            ([2.0, 2.0], "list of integers"),
            ([True, True], "list of integers"),
            (np.array([2**64 - 2, 6], np.uint64), "has the length"),
            ([-2, 6], "has the length -2"),
            ([5, -1], "has the length -1"),
            ([[2, 2]], "list of integers"),
            ([2, 3], "add up to 5"),
        ]:
            with self.subTest(lengths=lengths), self.assertRaisesRegex((TypeError, ValueError), message):
                from_arrays(x=x, lengths=lengths)


class SciPyTables(Table):
    def test_formats(self):
        dense = np.array([[0, 2, 0], [1, 0, 0], [0, 0, 3]], np.float32)
        rows = [(sp.csr_array(dense), dense[:, None].tolist()), (sp.csr_matrix(dense), dense[:, None].tolist())]
        for form in ("csc", "coo", "bsr", "lil", "dok", "dia"):
            rows.append((sp.csr_matrix(dense).asformat(form), f"sparse matrix in the format '{form}'.*tocsr"))
        self.check(rows)

    def test_indices(self):
        def matrix(data, indices, indptr, kind=np.int32, element=np.float32):
            made = sp.csr_matrix((2, 4), dtype=element)
            made.data, made.indices, made.indptr = (
                np.array(data, element),
                np.array(indices, kind),
                np.array(indptr, kind),
            )
            return made

        right = [[[0, 2, 0, 1]], [[0, 0, 3, 0]]]
        rows = [
            (matrix([1, 2, 3], [3, 1, 2], [0, 2, 3]), right),
            (matrix([1, 2, 3], [3, 1, 2], [0, 2, 3], np.int64), right),
            (matrix([1, 2, 3], [3, 1, 2], [0, 2, 3], np.dtype(">i4")), right),
            # Equal indices add up.
            (matrix([1, 2, 3], [3, 3, 2], [0, 2, 3]), [[[0, 0, 0, 3]], [[0, 0, 3, 0]]]),
            # Rows of a larger matrix.
            (matrix([9, 1, 2, 3], [0, 3, 1, 2], [1, 3, 4]), right),
            (matrix([1, 2, 3], [3, 1, 2], [0, 2]), "2 entries in indptr"),
            (matrix([1, 2, 3], [3, 1, 2], [0, 2, 4]), "goes from 0 to 4, but there are 3"),
            (matrix([1, 2, 3], [3, 1, 2], [-1, 2, 3]), "goes from -1"),
            (matrix([1, 2, 3], [3, 1, 2], [0, 3, 1]), "falls from 3 to 1 in row 1"),
            (matrix([1, 2], [3, 1, 2], [0, 2, 3]), "there are 2 values"),
            (matrix([1, 2, 3], [3, 1, 2], [0, 2, 3], np.float64), "'indices' .* not integers"),
            (matrix([1, 2, 3], [3, 1, 2], [0, 2, 3], element=np.int32), "are not supported"),
            (matrix([1, 2, 3], [3, 1, 2], [0, 2, 3], element=np.complex64), "are not supported"),
            (matrix([1, 2, 3], [3, 1, 2], [0, 2, 3], element=np.bool_), "are not supported"),
        ]
        self.check(rows)
        for wrong in ([4, 1, 2], [-1, 1, 2], [2**31 + 1, 1, 2], [2**32 + 1, 1, 2]):
            with self.subTest(wrong), self.assertRaises(ReaderError):
                delivered(x=matrix([1, 2, 3], wrong, [0, 2, 3], np.int64))


@unittest.skipUnless(have("pyarrow"), "pyarrow is not installed")
class ArrowTables(Table):
    def test_dictionaries_of_chunks(self):
        import pyarrow as pa

        def chunks(*parts, index=None):
            return pa.chunked_array(
                [
                    pa.DictionaryArray.from_arrays(pa.array(codes, index or pa.int8()), pa.array(values))
                    for codes, values in parts
                ]
            )

        day = [np.datetime64("2020-01-01"), np.datetime64("2021-01-01")]
        rows = [
            # Compared by code alone, x,x and y,z,w would share a class.
            (chunks(([0, 0], ["x"]), ([0, 1, 2], ["y", "z", "w"])), ([0, 0, 1, 2, 3], 4)),
            (chunks(([0, 1], ["a", "b"]), ([0, 1], ["b", "a"])), ([0, 1, 1, 0], 2)),
            (chunks(([1, 0], ["a", "b"]), ([1, 0], ["a", "b"])), ([1, 0, 1, 0], 2)),
            (chunks(([0], ["a"]), ([0], ["a"])), ([0, 0], 1)),
            (chunks(([0, 1, 2], ["a", "b", "a"])), ([0, 1, 0], 2)),
            (chunks(([0, 1], [10, 20]), ([0, 1], [20, 30])), ([0, 1, 1, 2], 3)),
            (chunks(([0, 1], [0.5, 1.5]), ([0, 1], [1.5, 0.5])), ([0, 1, 1, 0], 2)),
            (chunks(([0, 1], [True, False]), ([0, 1], [False, True])), ([0, 1, 1, 0], 2)),
            (chunks(([0, 1], [b"\0", b"\0\0"]), ([0, 1], [b"\0\0", b"\0"])), ([0, 1, 1, 0], 2)),
            (chunks(([0, 1], np.array(day)), ([0], np.array(day[1:]))), ([0, 1, 1], 2)),
            (
                chunks(([0, 1], pa.array(["a", "b"], pa.large_string())), ([0], pa.array(["b"], pa.large_string()))),
                ([0, 1, 1], 2),
            ),
            (chunks(([1, 0], ["a", "b"]), index=pa.uint32()), ([1, 0], 2)),
            (chunks(([0, None], ["a"])), "1 nulls among 2"),
            (chunks(([0, 1], ["a", None])), "dictionary of the Arrow column has a null"),
            (chunks(([0], ["a"]), ([0], ["a", None])), "dictionary of the Arrow column has a null"),
        ]
        self.check_classes(rows)
        # Slices of a column, and of a dictionary.
        column = chunks(([0, 0, 1], ["q", "x"]), ([0, 1, 2], ["y", "x", "w"]))
        self.assertEqual(classes(column.slice(2, 3)), ([1, 2, 1], 4))
        sliced = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", "b", "c"]).slice(1))
        other = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["c", "b"]))
        self.assertEqual(classes(pa.chunked_array([sliced, other])), ([0, 1, 1, 0], 2))
        if hasattr(pa, "string_view"):
            views = [pa.array(["a", "a text of more than twelve bytes"], pa.string_view())]
            views.append(pa.array(["a text of more than twelve bytes", "b"], pa.string_view()))
            made = [pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), one) for one in views]
            self.assertEqual(classes(pa.chunked_array(made)), ([0, 1, 1, 2], 3))

    def test_lists_of_dictionaries(self):
        import pyarrow as pa

        def lists(ends, codes, values):
            return pa.ListArray.from_arrays(
                pa.array(ends, pa.int32()), pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(values))
            )

        column = pa.chunked_array([lists([0, 2, 3], [0, 0, 0], ["x"]), lists([0, 1, 2], [0, 1], ["y", "x"])])
        x, y = [1, 0], [0, 1]
        self.assertEqual(delivered(x=column), [[x, x], [x], [y], [x]])

    def test_numbers(self):
        import pyarrow as pa

        floats = pa.array([9.0, 1.5, 2.5, 3.5], pa.float32())
        fixed = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12, dtype=np.float32)), 3)
        lists = pa.array([[9.0], [1.0, 2.0], [3.0]], pa.list_(pa.float32()))
        nested = pa.ListArray.from_arrays(pa.array([0, 1, 4], pa.int32()), fixed)
        rows = [
            (floats.slice(1), [[1.5], [2.5], [3.5]]),
            (pa.chunked_array([floats.slice(1, 1), floats.slice(3), floats.slice(0, 0)]), [[1.5], [3.5]]),
            (pa.array([True, False, True] * 5).slice(2, 4), [[1], [1], [0], [1]]),
            (pa.array([True, None]), "1 nulls"),
            (pa.array([1.0, None, 2.0]).slice(2), [[2.0]]),
            (pa.array([1.0, None, 2.0]).slice(1), "1 nulls among 2"),
            (pa.array([1, -2], pa.int8()), [[1], [-2]]),
            (pa.array([0.5], pa.float16()), [[0.5]]),
            (fixed.slice(1, 2), [[[3, 4, 5]], [[6, 7, 8]]]),
            (pa.chunked_array([fixed.slice(3), fixed.slice(0, 1)]), [[[9, 10, 11]], [[0, 1, 2]]]),
            (
                pa.FixedSizeListArray.from_arrays(pa.array(np.arange(9, dtype=np.float32)).slice(1, 6), 3),
                [[[1, 2, 3]], [[4, 5, 6]]],
            ),
            (lists.slice(1), [[1, 2], [3]]),
            (lists.cast(pa.large_list(pa.float32())).slice(1), [[1, 2], [3]]),
            (pa.array([[1.0], None, [2.0, 3.0]], pa.list_(pa.float32())).slice(2), [[2, 3]]),
            (pa.array([[1.0, None], [2.0, 3.0]], pa.list_(pa.float32())).slice(1), [[2, 3]]),
            (pa.array([[1.0], None], pa.list_(pa.float32())), "1 nulls among 2"),
            (pa.array([[1.0, None]], pa.list_(pa.float32())), "1 nulls among 2"),
            (pa.array([[1.0], []], pa.list_(pa.float32())), "Sequence 1 has the length 0"),
            (nested, [[[0, 1, 2]], [[3, 4, 5], [6, 7, 8], [9, 10, 11]]]),
            (nested.slice(1), [[[3, 4, 5], [6, 7, 8], [9, 10, 11]]]),
            (pa.array([[[1.0]]], pa.list_(pa.list_(pa.float32()))), r"format '\+l' cannot be read"),
            (pa.array([1, -2], pa.int64()), [[1], [-2]]),
            (pa.array([1, 2], pa.uint64()), [[1], [2]]),
            (pa.array([1, 2], pa.timestamp("ms")), "cannot be read as samples"),
            (pa.array([1, 2], pa.duration("s")), "cannot be read as samples"),
            (pa.array([1, 2], pa.date32()), "cannot be read as samples"),
            (pa.array([1, 2], pa.time64("ns")), "cannot be read as samples"),
            (pa.array([1, 2], pa.decimal128(5, 2)), "cannot be read as samples"),
            (pa.array(["1", "2"]), "cannot be read as samples"),
            (pa.array([b"1"]), "cannot be read as samples"),
            (pa.array([None, None]), "cannot be read as samples"),
            (pa.array([{"a": 1.0}]), "cannot be read as samples"),
            (pa.table({"a": floats}), "cannot be read as samples"),
            (pa.array([], pa.float32()), "at least 1"),
            (pa.chunked_array([], pa.float32()), "at least 1"),
        ]
        self.check(rows)

    def test_tensors(self):
        import pyarrow as pa

        if not hasattr(pa, "fixed_shape_tensor"):
            self.skipTest("this pyarrow has no tensors")
        storage = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12, dtype=np.float32)), 6)
        plain = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [2, 3]), storage)
        turned = pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.float32(), [2, 3], permutation=[1, 0]), storage
        )
        whole = np.arange(12, dtype=np.float32).reshape(2, 1, 2, 3)
        self.check(
            [(plain, whole.tolist()), (plain.slice(1), whole[1:].tolist()), (turned, "extension type 'arrow.fixed")]
        )


@unittest.skipUnless(have("pandas"), "pandas is not installed")
class PandasTables(Table):
    def test_columns(self):
        import pandas as pd

        mixed = pd.DataFrame({"a": [1.5, 2.5], "b": np.array([1, 2**24 + 1], np.int64)})
        rows = [
            (pd.Series([1.0, 2.0], dtype="float32"), [[1], [2]]),
            (pd.Series([1.0, 2.0, 3.0], index=[5, 5, 1])[::2], [[1], [3]]),
            (pd.Series([1.0, None]), "1 values are missing"),
            (pd.Series([1.0, None]).to_numpy()[:1], [[1]]),
            (pd.Series([1, 2], dtype="Int8"), [[1], [2]]),
            (pd.Series([1, None], dtype="Int8"), "1 nulls|not be read|missing"),
            (pd.Series([1.5, None], dtype="Float32"), "1 nulls|not be read|missing"),
            (pd.Series([True, None], dtype="boolean"), "1 nulls|not be read|missing"),
            (pd.Series([1, 2], dtype="int64"), [[1], [2]]),
            (pd.Series(pd.to_datetime(["2020-01-01"])), "cannot be read"),
            (pd.Series(pd.to_datetime(["2020-01-01"]).tz_localize("UTC")), "cannot be read"),
            (pd.Series(pd.to_timedelta([1])), "cannot be read"),
            (pd.Series(["1"]), "cannot be read"),
            (pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, dtype="float32"), [[[1, 3]], [[2, 4]]]),
            (pd.DataFrame({"a": [1.0, None], "b": [3.0, 4.0]}), "1 values are missing"),
            (mixed, [[[1.5, 1]], [[2.5, 2**24 + 1]]]),
            (mixed.assign(b=[1, 2**53 + 1]), "Column 1 has integers"),
            (mixed.astype({"b": "Int64"}), "Column 1 has values of the type Int64"),
            (mixed.astype({"b": "category"}), "Column 1 has values of the type category"),
        ]
        self.check(rows)

    def test_categories(self):
        import pandas as pd

        texts = pd.Categorical(["b", "a", "b"], categories=["a", "b", "c"])
        rows = [
            (pd.Series(texts), ([1, 0, 1], 3)),
            (texts, ([1, 0, 1], 3)),
            (pd.CategoricalIndex(texts), ([1, 0, 1], 3)),
            (pd.Categorical([1.5, 2.5]), ([0, 1], 2)),
            (pd.Series(texts)[::-2], ([1, 1], 3)),
            (one_hot(pd.Series(texts), 9), ([1, 0, 1], 9)),
            (pd.Series(pd.Categorical(["a", None])), "1 values have no category"),
            (pd.Categorical(["a", None]), "1 values have no category"),
        ]
        self.check_classes(rows)


@unittest.skipUnless(have("torch"), "torch is not installed")
class TorchTables(Table):
    def test_tensors(self):
        import torch

        floats = torch.arange(6.0).reshape(2, 3)
        rows = [
            (floats, [[[0, 1, 2]], [[3, 4, 5]]]),
            (floats.T, [[[0, 3]], [[1, 4]], [[2, 5]]]),
            (floats[:, ::2], [[[0, 2]], [[3, 5]]]),
            (floats.clone().requires_grad_(), "cannot be read as an array"),
            (floats.bfloat16(), "cannot be read as an array"),
            (floats.to_sparse_csr(), "cannot be read as an array"),
            (floats.to("meta"), "cannot be read as an array"),
            (floats.to(torch.complex64), "cannot be read as an array of samples"),
            (floats.long(), [[[0, 1, 2]], [[3, 4, 5]]]),
        ]
        self.check(rows)


if __name__ == "__main__":
    unittest.main()
