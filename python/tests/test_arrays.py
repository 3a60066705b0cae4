"""Arrays in memory as deserializers: equal to files, used in place, from every kind of table."""

import gc
import importlib.util
import json
import pickle
import tempfile
import threading
import unittest
import weakref
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from cntk_reader import (
    ArrayDeserializer,
    CTFDeserializer,
    MinibatchSource,
    ReaderError,
    StreamDef,
    StreamDefs,
    from_arrays,
    one_hot,
)

from .loops import next_epoch

MODES = [
    {},
    {"randomize": False},
    {"randomization_window_in_samples": 50},
    {"truncation_length": 4},
    {"workers": 2, "rank": 0},
    {"randomize": False, "options": {"localTimeline": False}, "workers": 3, "rank": 0},
]


def needs(module):
    """Skips a test where a package is not installed."""
    return unittest.skipIf(importlib.util.find_spec(module) is None, f"{module} is not installed")


def contents(source, epochs=2):
    """Returns everything that minibatches contain."""
    parts = []
    for _ in range(epochs):
        for minibatch in next_epoch(source, 20):
            for name, stream in sorted(minibatch.items()):
                parts.append((name, stream.asarray().tolist(), stream.records.tolist()))
            parts.append(minibatch.keys_of_sequences.tolist())
    return parts


def delivered(deserializer, stream="x"):
    """Returns the sequences of a stream in the data's order."""
    with MinibatchSource(deserializer, randomize=False) as source:
        return [
            (part.toarray() if hasattr(part, "toarray") else part).tolist()
            for minibatch in next_epoch(source, 7)
            for part in minibatch[stream].as_sequences()
        ]


class SameAsText(unittest.TestCase):
    """A CTF file and arrays with its data give equal minibatches."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        random = np.random.default_rng(7)
        cls.lengths = random.integers(1, 9, 60)
        total = int(cls.lengths.sum())
        cls.x = random.integers(-50, 50, (total, 3)).astype(np.float32)
        cls.words = random.integers(0, 30, total).astype(np.int32)
        cls.labels = random.integers(0, 4, 60).astype(np.int64)
        cls.path = Path(cls.folder.name) / "data.ctf"
        lines, at = [], 0
        for number, length in enumerate(cls.lengths):
            for step in range(length):
                line = f"{number} |x {' '.join(map(str, map(int, cls.x[at])))} |w {cls.words[at]}:1"
                lines.append(line + (f" |y {cls.labels[number]}:1" if step == 0 else "") + "\n")
                at += 1
        cls.path.write_text("".join(lines))

    def file(self):
        sparse = {"w": StreamDef(shape=30, is_sparse=True), "y": StreamDef(shape=4, is_sparse=True)}
        return CTFDeserializer(self.path, StreamDefs(x=StreamDef(shape=3), **sparse))

    def arrays(self, chunk_size=1 << 20):
        return from_arrays(
            x=self.x, w=one_hot(self.words, 30), y=one_hot(self.labels, 4), lengths=self.lengths, chunk_size=chunk_size
        )

    def test_sequences(self):
        for options in MODES:
            options = dict(options)
            if "truncation_length" in options:
                # Sequence labels are not truncated with the words.
                self.assertRaises(ReaderError, contents, MinibatchSource(self.file(), truncation_length=4))
                continue
            with self.subTest(options), MinibatchSource(self.file(), **options) as file:
                with MinibatchSource(self.arrays(), **options) as arrays:
                    expected = contents(file)
                    self.assertTrue(expected)
                    self.assertEqual(contents(arrays), expected)
                    self.assertEqual(arrays.sizes, file.sizes)

    def test_data_order_with_many_chunks(self):
        with MinibatchSource(self.file(), randomize=False) as file:
            expected = contents(file)
        for size in (None, 1, 10):
            with MinibatchSource(self.arrays(size), randomize=False) as arrays:
                self.assertEqual(contents(arrays), expected)
                self.assertGreater(arrays.sizes.chunks, 20)

    def test_truncation(self):
        streams = StreamDefs(x=StreamDef(shape=3), w=StreamDef(shape=30, is_sparse=True))
        for randomize in (False, True):
            options = {"truncation_length": 4, "randomize": randomize}
            arrays = from_arrays(x=self.x, w=one_hot(self.words, 30), lengths=self.lengths, chunk_size=1 << 20)
            with MinibatchSource(CTFDeserializer(self.path, streams), **options) as file:
                self.assertEqual(contents(MinibatchSource(arrays, **options)), contents(file))

    def test_frames(self):
        path = Path(self.folder.name) / "frames.ctf"
        path.write_text("".join(f"|x {' '.join(map(str, map(int, row)))}\n" for row in self.x))
        for options in ({"frame_mode": True}, {}, {"randomize": False}):
            file = MinibatchSource(CTFDeserializer(path, StreamDefs(x=StreamDef(shape=3))), **options)
            arrays = MinibatchSource(from_arrays(x=self.x, chunk_size=1 << 20), **options)
            self.assertEqual(contents(arrays), contents(file))
            self.assertEqual(len(next_epoch(arrays, 20)), len(next_epoch(file, 20)))

    def test_joined_with_a_file(self):
        keys = np.arange(60, dtype=np.int64)[::-1]
        file = CTFDeserializer(self.path, StreamDefs(x=StreamDef(shape=3)))
        for given in (keys, [str(key) for key in keys]):
            weights = from_arrays(weight=keys.astype(np.float32)[:, None], keys=given)
            with MinibatchSource([file, weights]) as source:
                for minibatch in next_epoch(source, 50):
                    self.assertEqual(minibatch["weight"].array.ravel().tolist(), minibatch.keys_of_sequences.tolist())

    def test_text_keys(self):
        others = from_arrays(y=np.float32([1, 2, 3]), keys=["one", "two", "three"])
        words = from_arrays(x=np.float32([3, 1, 2]), keys=["three", "one", "two"])
        with MinibatchSource([words, others]) as source:
            (minibatch,) = list(next_epoch(source, 3))
        keys = [minibatch.key_text(i) for i in range(3)]
        self.assertEqual(sorted(keys), ["one", "three", "two"])
        numbers = [["one", "two", "three"].index(key) + 1 for key in keys]
        self.assertEqual(minibatch["x"].array.ravel().tolist(), numbers)
        self.assertEqual(minibatch["y"].array.ravel().tolist(), numbers)

    def test_states(self):
        with MinibatchSource(self.arrays(10)) as source:
            loop = iter(next_epoch(source, 20))
            next(loop)
            state = json.loads(json.dumps(source.state_dict()))
            expected = [minibatch["x"].array.tolist() for minibatch in loop]
        with MinibatchSource(pickle.loads(pickle.dumps(self.arrays(10)))) as source:
            source.load_state_dict(state)
            self.assertEqual([minibatch["x"].array.tolist() for minibatch in next_epoch(source, 20)], expected)


class Kinds(unittest.TestCase):
    def test_numpy(self):
        base = np.arange(48, dtype=np.float64).reshape(8, 6)
        for values in (base, base[::2, 1:3], base[::-1], np.asfortranarray(base), base.reshape(8, 2, 3), base[:, 0]):
            self.assertEqual([part[0] for part in delivered(from_arrays(x=values))], values.tolist())
            lengths = [2] * (len(values) // 2)
            joined = delivered(from_arrays(x=values, lengths=lengths))
            self.assertEqual(joined, values.reshape(-1, 2, *values.shape[1:]).tolist())

    def test_types_are_kept(self):
        wider = {"int8": "int16", "uint16": "int32", "uint32": "int64", "uint64": "int64", "float64": "float32"}
        for kind in ("bool", *wider, "uint8", "int16", "int32", "int64", "float16", "float32"):
            rows = np.random.default_rng(1).integers(0, 2 if kind == "bool" else 100, (40, 3)).astype(kind)
            expected = rows.astype(wider.get(kind, kind))
            for options in ({}, {"truncation_length": 2}, {"frame_mode": True}):
                lengths = None if "frame_mode" in options else [1, 4, 5] * 4
                with self.subTest(kind, **options):
                    data = from_arrays(x=rows, lengths=lengths, chunk_size=7)
                    with MinibatchSource(data, max_sweeps=1, minibatch_size=6, **options) as source:
                        self.assertEqual(source.streams["x"].dtype, expected.dtype)
                        packed = []
                        for minibatch in source:
                            stream = minibatch["x"]
                            values, offsets, _ = stream.packed()
                            padded, mask = stream.padded()
                            sequences = stream.as_sequences()
                            forms = (stream.array, values, padded, *sequences)
                            self.assertEqual({form.dtype for form in forms}, {expected.dtype})
                            np.testing.assert_array_equal(padded[mask], values)
                            np.testing.assert_array_equal(np.concatenate(sequences), values)
                            packed.append(values)
                    found = np.concatenate(packed)
                    self.assertEqual(sorted(found.tolist()), sorted(expected.tolist()))

    def test_float64_follows_precision(self):
        rows = np.random.default_rng(1).random((5, 3))
        for given in (rows, sp.csr_matrix(rows)):
            data = from_arrays(x=given)
            for precision, kind in (("double", np.float64), ("float", np.float32)):
                source = MinibatchSource(data, randomize=False, precision=precision)
                self.assertEqual(source.streams["x"].dtype, kind)
                values = source.next_minibatch(5)["x"].asarray()[0]
                self.assertEqual(values.dtype, kind)
                np.testing.assert_array_equal(values, rows.astype(kind))

    def test_fill_values_must_fit_the_type(self):
        data = from_arrays(x=np.arange(3, dtype=np.uint8), lengths=[1, 2])
        with MinibatchSource(data, randomize=False, minibatch_size=3) as source:
            stream = source.next_minibatch()["x"]
            self.assertEqual(stream.padded(255).array.tolist(), [[0, 255], [1, 2]])
            for wrong in (-1, 256, 0.5, float("nan")):
                with self.subTest(wrong), self.assertRaisesRegex(ReaderError, "'x' are uint8"):
                    stream.padded(wrong)

    def test_indices_of_64_bits(self):
        data = from_arrays(x=one_hot(np.array([2, 0, 1]), 3), lengths=[1, 2])
        with MinibatchSource(data, randomize=False, minibatch_size=3) as source:
            stream = source.next_minibatch()["x"]
            for dtype in (np.int32, np.int64, "int64"):
                array, mask = stream.padded_indices(-100, dtype=dtype)
                values, _, _ = stream.packed_indices(dtype=dtype)
                self.assertEqual({array.dtype, values.dtype, stream.indices(dtype=dtype).dtype}, {np.dtype(dtype)})
                self.assertEqual((array.tolist(), values.tolist()), ([[2, -100], [0, 1]], [2, 0, 1]))
            self.assertEqual(stream.padded_indices(-(2**40), dtype=np.int64).array[0, 1], -(2**40))
            with self.assertRaisesRegex(ValueError, "int32 or int64, not uint8"):
                stream.indices(dtype=np.uint8)
            with self.assertRaises(ValueError):
                stream.padded_indices(2**40)

    def test_integers_beyond_int64(self):
        with MinibatchSource(from_arrays(x=np.array([1, 2**63], np.uint64)), minibatch_size=2) as source:
            with self.assertRaisesRegex(ReaderError, "9223372036854775808 is too large"):
                source.next_minibatch()

    def test_arrays_are_used_in_place(self):
        values = np.zeros((4, 2), np.float32)
        words = np.zeros(4, np.int32)
        arrays = from_arrays(x=values, w=one_hot(words, 9), chunk_size=1)
        with MinibatchSource(arrays, randomize=False, options={"prefetch": False}) as source:
            values[:], words[:] = 5, 7
            minibatch = next(iter(next_epoch(source, 4)))
        self.assertTrue((minibatch["x"].array == 5).all())
        self.assertEqual(minibatch["w"].csr.indices.tolist(), [7] * 4)
        given = arrays.get_chunk(2)
        self.assertTrue(np.shares_memory(given["x"], values))
        self.assertTrue(np.shares_memory(given["w"].indices, words))

    def test_no_python_call_per_sequence(self):
        class Counting(ArrayDeserializer):
            calls = 0

            def get_chunk(self, chunk_id):
                type(self).calls += 1
                return super().get_chunk(chunk_id)

        arrays = Counting({"x": np.zeros(50_000, np.float32)})
        with MinibatchSource(arrays) as source:
            self.assertEqual(sum(minibatch["x"].num_samples for minibatch in next_epoch(source, 100)), 50_000)
            self.assertEqual(source.sizes, (50_000, 50_000, 128))
        self.assertLessEqual(Counting.calls, 256)

    def test_sparse_matrices(self):
        matrix = sp.random(9, 5, 0.4, "csr", np.float32, np.random.default_rng(1))
        for given in (matrix, sp.csr_array(matrix), matrix.astype(np.float64)):
            self.assertEqual(
                [part[0] for part in delivered(from_arrays(x=given, chunk_size=2))], matrix.toarray().tolist()
            )
        long = delivered(from_arrays(x=matrix, lengths=[4, 5], chunk_size=1))
        self.assertEqual(long, [matrix.toarray()[:4].tolist(), matrix.toarray()[4:].tolist()])

    def test_ids(self):
        for kind in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64):
            made = delivered(from_arrays(x=one_hot(np.array([2, 0, 1], kind), 3), lengths=[2, 1]))
            self.assertEqual(made, [[[0, 0, 1], [1, 0, 0]], [[0, 1, 0]]])

    def test_streams_of_different_lengths(self):
        x, y = np.arange(10, dtype=np.float32), np.arange(6, dtype=np.float32)
        arrays = from_arrays(x=x, y=y, lengths={"x": [5, 2, 3], "y": [1, 4, 1]}, minibatch_stream="y")
        with MinibatchSource(arrays, randomize=False) as source:
            self.assertEqual((source.sizes.samples, source.sizes.sequences), (6, 3))
            self.assertEqual([minibatch["x"].num_samples for minibatch in next_epoch(source, 5)], [7, 3])

    def test_mistakes(self):
        x = np.zeros((4, 2), np.float32)
        for message, work in (
            ("No arrays were given", lambda: from_arrays()),
            ("'x' has 4, 'y' has 3", lambda: from_arrays(x=x, y=x[:3])),
            ("'x' has 0", lambda: from_arrays(x=x[:0])),
            ("add up to 5, but the stream has 4", lambda: from_arrays(x=x, lengths=[2, 3])),
            ("add up to 7, but no array has 7 samples", lambda: from_arrays(x=x, lengths=[1, 2, 2, 2])),
            ("Sequence 1 has the length 0", lambda: from_arrays(x=x, lengths=[4, 0])),
            ("Lengths must be a list of integers", lambda: from_arrays(x=x, lengths=[1.5])),
            ("There is no array 'z'", lambda: from_arrays(x=x, lengths={"z": [4]})),
            ("There is no array 'z'", lambda: from_arrays(x=x, minibatch_stream="z")),
            ("There are 2 keys for 4 sequences", lambda: from_arrays(x=x, keys=[1, 2])),
            ("The key -1 is negative", lambda: from_arrays(x=x, keys=[-1, 2, 3, 4])),
            ("at least 1", lambda: from_arrays(x=x, chunk_size=0)),
            ("'x': complex64 .*|Values of the type complex64|type complex64", lambda: from_arrays(x=np.zeros(3, "c8"))),
            ("'x': A list was given", lambda: from_arrays(x=[x, x])),
            ("A list of numbers was given.*np.array", lambda: from_arrays(x=[1, 2.5])),
            ("Texts cannot be read as samples", lambda: from_arrays(x=np.array(["a", "b"]))),
            ("cannot be read as an array", lambda: from_arrays(x=np.array([None, 1]))),
            (
                "'x': Sample 1 has the class -1, .* from 0 to 2. Fill",
                lambda: from_arrays(x=one_hot(np.array([0, -1]), 3)),
            ),
            ("Sample 2 has the class 3, .*count from 1", lambda: from_arrays(x=one_hot(np.array([1, 2, 3]), 3))),
            ("number of classes is not known", lambda: from_arrays(x=one_hot(np.arange(3)))),
            ("one integer per sample", lambda: from_arrays(x=one_hot(x, 3))),
        ):
            with self.subTest(message), self.assertRaisesRegex((ValueError, TypeError), message):
                work()
        with tempfile.NamedTemporaryFile() as file:
            # Mapped files are checked when they are read.
            mapped = np.memmap(file.name, np.int32, "w+", shape=(4,))
            mapped[:] = [0, 1, 9, 0]
            with MinibatchSource(from_arrays(x=one_hot(mapped, 3))) as source:
                with self.assertRaisesRegex(ReaderError, "Sample 2 has the class 9"):
                    list(next_epoch(source, 5))

    def test_data_freed_with_the_source(self):
        values = np.zeros((4, 2), np.float32)
        watched = weakref.ref(values)
        source = MinibatchSource(from_arrays(x=values))
        del values
        list(next_epoch(source, 2))
        self.assertIsNotNone(watched())
        source.close()
        del source
        gc.collect()
        for _ in range(100):
            if watched() is None:
                break
            threading.Event().wait(0.01)
        self.assertIsNone(watched())


class Tables(unittest.TestCase):
    @needs("pyarrow")
    def test_arrow(self):
        import pyarrow as pa

        numbers = pa.array([0.0, 1, 2, 3, 4, 5], pa.float32())
        lists = pa.array([[1.0, 2], [3], [4, 5, 6]], pa.list_(pa.float32()))
        vectors = pa.array([[1.0, 2], [3, 4], [5, 6], [7, 8]], pa.list_(pa.float32(), 2))
        of_vectors = pa.array([[[1.0, 2]], [[3, 4], [5, 6]]], pa.list_(pa.list_(pa.float32(), 2)))
        for value, expected in (
            (numbers, [[0], [1], [2], [3], [4], [5]]),
            (numbers[2:5], [[2], [3], [4]]),
            (pa.chunked_array([numbers[:2], numbers[2:]]), [[0], [1], [2], [3], [4], [5]]),
            (lists, [[1, 2], [3], [4, 5, 6]]),
            (lists[1:], [[3], [4, 5, 6]]),
            (lists.cast(pa.large_list(pa.float32()))[1:], [[3], [4, 5, 6]]),
            (pa.chunked_array([lists, lists[:1]]), [[1, 2], [3], [4, 5, 6], [1, 2]]),
            (vectors, [[[1, 2]], [[3, 4]], [[5, 6]], [[7, 8]]]),
            (vectors[1:3], [[[3, 4]], [[5, 6]]]),
            (of_vectors, [[[1, 2]], [[3, 4], [5, 6]]]),
            (of_vectors[1:], [[[3, 4], [5, 6]]]),
        ):
            for size in (1, None, 100):
                with self.subTest(value=value, size=size):
                    self.assertEqual(delivered(from_arrays(x=value, chunk_size=size)), expected)
        words = pa.array([[2, 0], [1]], pa.list_(pa.int32()))
        self.assertEqual(delivered(from_arrays(x=one_hot(words, 3))), [[[0, 0, 1], [1, 0, 0]], [[0, 1, 0]]])
        categories = pa.array(["b", "a", "b"]).dictionary_encode()
        self.assertEqual(delivered(from_arrays(x=categories)), [[[1, 0]], [[0, 1]], [[1, 0]]])
        in_place = from_arrays(x=numbers).get_chunk(0)["x"]
        self.assertEqual(in_place.ctypes.data, numbers.buffers()[1].address)
        for value, message in (
            (pa.array([1.0, None]), "1 nulls among 2"),
            (pa.array([[1.0], None]), "1 nulls among 2"),
            (pa.array([[1.0], [None]]), "1 nulls among 2"),
            (pa.array(["a"]), "format 'u' cannot be read"),
            (pa.array([[[1.0]]]), "format '\\+l' cannot be read"),
            (pa.chunked_array([], pa.float32()), "'x' has 0"),
        ):
            with self.subTest(message), self.assertRaisesRegex((ValueError, TypeError), message):
                from_arrays(x=value)

    @needs("pyarrow")
    def test_arrow_is_released(self):
        import pyarrow as pa

        gc.collect()
        before = pa.total_allocated_bytes()
        for _ in range(3):
            column = pa.chunked_array([pa.array(np.zeros(1000, np.float32)), pa.array(np.zeros(1000, np.float32))])
            copy = pa.chunked_array([pa.concat_arrays([chunk, chunk]) for chunk in column.chunks])
            arrays = from_arrays(x=copy)
            del copy, column
            self.assertEqual(len(delivered(arrays)), 4000)
            del arrays
            gc.collect()
        self.assertEqual(pa.total_allocated_bytes(), before)

    @needs("pandas")
    def test_pandas(self):
        import pandas as pd

        table = pd.DataFrame({"a": np.float32([1, 2, 3]), "b": np.float32([4, 5, 6]), "c": ["x", "y", "x"]})
        self.assertEqual(delivered(from_arrays(x=table["a"])), [[1], [2], [3]])
        self.assertEqual(delivered(from_arrays(x=table[["a", "b"]])), [[[1, 4]], [[2, 5]], [[3, 6]]])
        category = table["c"].astype("category")
        self.assertEqual(delivered(from_arrays(x=category)), [[[1, 0]], [[0, 1]], [[1, 0]]])
        self.assertRaisesRegex(
            ValueError, "1 values have no category", from_arrays, x=category.where([True, True, False])
        )
        self.assertRaises(TypeError, from_arrays, x=table)

    @needs("torch")
    def test_torch(self):
        import torch

        values = torch.arange(6.0).reshape(3, 2)
        self.assertEqual(delivered(from_arrays(x=values)), [[[0, 1]], [[2, 3]], [[4, 5]]])


if __name__ == "__main__":
    unittest.main()
