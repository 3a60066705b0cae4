"""Keys of sequences: different texts differ, nulls are refused, in all kinds of lists and
tables."""

import unittest

import numpy as np
from cntk_reader import (
    ComposableUserDeserializer,
    CTFDeserializer,
    MinibatchSource,
    ReaderError,
    SequenceList,
    StreamDef,
    StreamDefs,
    StreamInformation,
    from_arrays,
)
from cntk_reader._keys import checked, is_text

from .loops import next_epoch
from .test_arrays import needs


class Listed(ComposableUserDeserializer):
    """Sequences with these keys. The value of each is its number."""

    def __init__(self, stream, keys, texts=True):
        self.stream, self.keys, self.has_text_keys = stream, keys, texts

    def stream_infos(self):
        return [StreamInformation(self.stream, 0, "dense", np.float32, (1,))]

    def num_chunks(self):
        return 1

    def get_sequences(self, chunk_id):
        return SequenceList(len(self.keys), keys=self.keys)

    def get_chunk(self, chunk_id):
        return {self.stream: np.arange(len(self.keys), dtype=np.float32)[:, None]}


def joined(one, other):
    """By key, the values of the streams x and y."""
    found = {}
    with MinibatchSource([one, other], randomize=False) as source:
        for minibatch in next_epoch(source, 10):
            pairs = zip(minibatch["x"].array.ravel().tolist(), minibatch["y"].array.ravel().tolist())
            for number, pair in enumerate(pairs):
                found[minibatch.key_text(number)] = pair
    return found


#: Texts that could be taken for equal keys: numbers with leading zeros, and texts that differ after
#: a NUL.
TEXTS = ["007", "7", "k\0a", "k\0b", "k", "k\0", "None", "", "7 ", "+7", "\u0667", "ü"]
ORDER = list(range(len(TEXTS)))[::-1]


class KeysTest(unittest.TestCase):
    def test_a_set_has_no_order(self):
        for keys in ({"a", "b"}, {"a": 1, "b": 2}, (key for key in "ab"), "ab", 7):
            with self.subTest(type(keys)), self.assertRaisesRegex(TypeError, "Keys must be a list, a tuple or an"):
                from_arrays(x=np.ones((2, 1), np.float32), keys=keys)

    def test_different_texts_are_different_keys(self):
        backwards = [TEXTS[number] for number in ORDER]
        expected = {text: (float(number), float(ORDER.index(number))) for number, text in enumerate(TEXTS)}
        values = np.arange(len(TEXTS), dtype=np.float32)
        for given in (TEXTS, tuple(TEXTS), np.array(TEXTS, object), [text.encode() for text in TEXTS]):
            self.assertEqual(joined(from_arrays(x=values, keys=given), Listed("y", backwards)), expected)
            self.assertEqual(joined(Listed("x", given), from_arrays(y=values, keys=backwards)), expected)
        for given in (np.array(["007", "7", "07"]), np.array([b"007", b"7", b"07"])):
            pairs = joined(from_arrays(x=np.float32([0, 1, 2]), keys=given), Listed("y", ["7", "07", "007"]))
            self.assertEqual(pairs, {"007": (0, 2), "7": (1, 0), "07": (2, 1)})

    def test_numeric_texts_join_with_numbers(self):
        x = np.float32([1, 2])
        self.assertEqual(
            joined(from_arrays(x=x, keys=["7", "0"]), from_arrays(y=x, keys=[0, 7])), {"7": (1, 2), "0": (2, 1)}
        )
        self.assertFalse(is_text(["0", "7", str(2**64 - 1)]))
        self.assertTrue(is_text(["7", "07"]) and is_text([str(2**64)]) and is_text(["7\n"]))
        # Where keys are numbers, 007 is refused, because 7 is the same number.
        with self.assertRaisesRegex(ReaderError, "Invalid numeric sequence id '007'"):
            MinibatchSource(Listed("x", ["007", "7"], texts=False))

    def test_nulls_are_refused(self):
        cases = [None, float("nan"), np.nan, np.datetime64("NaT")]
        for null in cases:
            for keys in (["a", null], np.array(["a", null], object), [1, null]):
                with self.subTest(repr(keys)), self.assertRaisesRegex(ValueError, r"key 1 is missing"):
                    from_arrays(x=np.float32([1, 2]), keys=keys)
                with self.subTest(repr(keys)), self.assertRaisesRegex(ReaderError, r"key 1 is missing"):
                    MinibatchSource(Listed("x", keys))
        with self.assertRaisesRegex(ValueError, r"key 1 is missing \(NaN\)"):
            from_arrays(x=np.float32([1, 2]), keys=np.array([1, np.nan]))
        masked = np.ma.array([1, 2], mask=[False, True])
        with self.assertRaisesRegex(ValueError, "key 1 is masked"):
            from_arrays(x=np.float32([1, 2]), keys=masked)

    @needs("pandas")
    def test_columns_of_pandas(self):
        import pandas as pd

        x = np.float32([1, 2])
        for series in (
            pd.Series(["a", None]),
            pd.Series(["a", pd.NA], dtype="string"),
            pd.Series([1, pd.NA], dtype="Int64"),
            pd.Series([1, None]),
            pd.Series(["a", np.nan], dtype="category"),
        ):
            with self.subTest(str(series.dtype)), self.assertRaisesRegex(ValueError, "key 1 is missing"):
                from_arrays(x=x, keys=series)
        for series in (pd.Series(["007", "7"], dtype="string"), pd.Series(["007", "7"], dtype="category")):
            self.assertEqual(checked(series, 2), ["007", "7"])
        self.assertEqual(checked(pd.Series([3, 4], dtype="Int64"), 2).tolist(), [3, 4])

    @needs("pyarrow")
    def test_columns_of_arrow(self):
        import pyarrow as pa

        x = np.float32([1, 2])
        for column in (pa.array(["a", None]), pa.array([1, None]), pa.chunked_array([["a"], [None]])):
            with self.subTest(str(column.type)), self.assertRaisesRegex(ValueError, "key 1 is missing"):
                from_arrays(x=x, keys=column)
        texts = ["k\0", "k\0b", "k"]
        self.assertEqual(checked(pa.array(texts), 3), texts)
        self.assertEqual(checked(pa.array(texts).dictionary_encode(), 3), texts)
        self.assertEqual(checked(pa.chunked_array([[2**63], [5]], pa.uint64()), 2).tolist(), [2**63, 5])

    def test_other_types_are_refused(self):
        for keys, message in (
            ([1.5, 2.5], "The key 0 is 1.5"),
            (np.array([1.0, 2.0]), "Keys of the type float64"),
            ([True, False], "The key 0 is True"),
            (["1", 1], "several types"),
            ([b"\xff", b"a"], "not UTF-8"),
            ([-1, 2], "The key -1 is negative"),
            ([2**64, 1], "does not fit 64 bits"),
            ([1], "There are 1 keys for 2 sequences"),
            ([1, 2, 3], "There are 3 keys for 2 sequences"),
            (np.array([[1, 2]]), "keys for 2 sequences"),
        ):
            with self.subTest(repr(keys)), self.assertRaisesRegex((TypeError, ValueError), message):
                from_arrays(x=np.float32([1, 2]), keys=keys)
        self.assertEqual(checked([np.int8(3), 2**64 - 1], 2).tolist(), [3, 2**64 - 1])

    def test_a_text_file_with_leading_zeros(self):
        import tempfile
        from pathlib import Path

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "y.ctf")
            path.write_text("007 |y 1\n7 |y 2\n")
            file = CTFDeserializer(path, StreamDefs(y=StreamDef(shape=1)))
            pairs = joined(from_arrays(x=np.float32([1, 2]), keys=["7", "007"]), file)
            self.assertEqual(pairs, {"7": (1, 2), "007": (2, 1)})


if __name__ == "__main__":
    unittest.main()
