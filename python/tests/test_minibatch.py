"""Minibatches: sequence forms compared with plain loops, ownership, other libraries."""

import gc
import importlib.util
import tempfile
import unittest
import unittest.mock
import warnings
from pathlib import Path

import numpy as np
from cntk_reader import (
    GAP,
    CTFDeserializer,
    MinibatchSource,
    ReaderError,
    ReaderValueError,
    StreamDef,
    StreamDefs,
    from_arrays,
    one_hot,
)

from .loops import minibatches_of


def needs(package):
    return unittest.skipUnless(importlib.util.find_spec(package), f"{package} is not installed")


def text(sequences=40):
    """Sequences of 1 to 7 samples.

    The streams are dense x (2,) and t (2, 3), sparse s (5) with 0 to 2 values, and one-hot w (6).
    """
    lines = []
    for key in range(sequences):
        for step in range(1 + key * 5 % 7):
            x, t = f"{key} {step}", " ".join(str(key + i) for i in range(6))
            s = ["", "3:2", "4:1 0:0.5"][(key + step) % 3]
            lines.append(
                f"{key} |x {x} |t {t} |s {s} |w {(key + step) % 6}:1 |h {' '.join('01'[i == key % 3] for i in range(3))}\n"
            )
    return "".join(lines)


STREAMS = StreamDefs(
    x=StreamDef(shape=2),
    t=StreamDef(shape=6),
    s=StreamDef(shape=5, is_sparse=True),
    w=StreamDef(shape=6, is_sparse=True),
    h=StreamDef(shape=3),
)
ONE_HOT = ["w", "h"]

#: Options of a source, and the size of its minibatches.
MODES = {
    "whole": ({}, 50),
    "one sequence": ({}, 1),
    "in order": ({"randomize": False}, 1000),
    "double": ({"precision": "double"}, 50),
    "truncated": ({"truncation_length": 3}, 12),
    "worker": ({"workers": 2, "rank": 1, "randomize": False}, 80),
}


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "x.ctf"

    def open(self, content=None, streams=STREAMS, **options):
        self.path.write_text(text() if content is None else content)
        source = MinibatchSource(CTFDeserializer(str(self.path), streams), max_sweeps=1, **options)
        self.addCleanup(source.close)
        return source

    def read(self, size=1000, **options):
        return self.open(randomize=False, **options).next_minibatch(size)


def sequences(stream):
    """Returns the samples of each sequence, record by record."""
    columns = stream.asarray()
    found = []
    for number, lane, begin, end in stream.records.tolist():
        if number != GAP:
            found.append(columns[max(begin, 0) : min(end, stream.steps), lane])
    return found


class Forms(Test):
    def test_every_form_matches_records(self):
        views = 0
        for name, (options, size) in MODES.items():
            minibatches = list(minibatches_of(self.open(**options), size))
            self.assertGreater(len(minibatches), 0)
            for minibatch in minibatches:
                for stream in minibatch.values():
                    with self.subTest(name, stream=stream.info.name):
                        views += self.check(stream)
        self.assertGreater(views, 50)

    def check(self, stream):
        expected = sequences(stream)
        lengths = [len(sequence) for sequence in expected]
        self.assertEqual((stream.num_sequences, stream.longest), (len(lengths), max(lengths)))
        shape = stream.info.shape
        for length in (None, max(lengths) + 2):
            array, mask = stream.padded(7, length)
            steps = length or max(lengths)
            self.assertEqual((array.shape, array.dtype), ((len(lengths), steps, *shape), stream.dtype))
            np.testing.assert_array_equal(mask, np.arange(steps) < np.array(lengths)[:, None])
            np.testing.assert_array_equal(array[mask], np.concatenate(expected))
            self.assertTrue((array[~mask] == 7).all())
        values, offsets, longest = stream.packed()
        np.testing.assert_array_equal(values, np.concatenate(expected))
        np.testing.assert_array_equal(offsets, np.cumsum([0, *lengths]))
        self.assertEqual((offsets.dtype, longest), (np.int32, max(lengths)))
        for one, other in zip(stream.as_list(), expected):
            np.testing.assert_array_equal(one, other)
        self.assertEqual(len(stream.as_list()), len(expected))
        if stream.info.name in ONE_HOT:
            indices = np.concatenate(expected).argmax(axis=1)
            np.testing.assert_array_equal(stream.indices(), indices)
            np.testing.assert_array_equal(stream.packed_indices().offsets, offsets)
            array, mask = stream.padded_indices(-1)
            np.testing.assert_array_equal(array[mask], indices)
            self.assertTrue((array[~mask] == -1).all())
            self.assertEqual((array.dtype, stream.indices().dtype), (np.int32, np.int32))
        return not stream.is_sparse and np.shares_memory(values, stream.array)

    def test_sequences_follow_key_order_in_every_stream(self):
        minibatch = self.open().next_minibatch(60)
        keys = minibatch.keys_of_sequences.tolist()
        self.assertNotEqual(keys, sorted(keys))
        self.assertEqual([sequence[0, 0] for sequence in minibatch["x"].as_list()], keys)
        self.assertEqual(minibatch["t"].padded().array[:, 0, 0].tolist(), keys)
        self.assertEqual(minibatch["w"].padded_indices().array[:, 0].tolist(), [key % 6 for key in keys])

    def test_frame_labels_are_views(self):
        minibatch = self.read(
            content="|x 1 2 |w 3:1\n|x 3 4 |w 0:1\n", streams=StreamDefs(x=STREAMS["x"], w=STREAMS["w"])
        )
        x = minibatch["x"]
        self.assertEqual(minibatch["w"].indices().tolist(), [3, 0])
        for array in (x.packed().values, x.padded().array):
            self.assertTrue(np.shares_memory(array, x.array))
        self.assertEqual(x.padded().array.tolist(), [[[1, 2]], [[3, 4]]])
        self.assertEqual(x.padded().mask.tolist(), [[True], [True]])

    def test_not_one_hot_is_an_error(self):
        minibatch = self.read()
        for name, found in (("s", "no value"), ("x", "no value but 0"), ("t", "5 values")):
            with self.subTest(name), self.assertRaises(ReaderValueError) as caught:
                minibatch[name].padded_indices()
            error = caught.exception
            self.assertIn(found, error.message)
            self.assertIn("not one-hot", error.message)
            self.assertIn("The stream is dense" if name != "s" else "Use the sparse or dense values", error.detail)
            self.assertEqual((error.stream, error.key), (name, "0"))
        doubled = self.read(content="|w 3:2\n", streams=StreamDefs(w=STREAMS["w"]))
        with self.assertRaisesRegex(ReaderValueError, "it has the value 2"):
            doubled["w"].indices()

    def test_too_short_lengths_and_too_large_samples(self):
        with self.assertRaisesRegex(ReaderValueError, "7 samples and does not fit into 6"):
            self.read()["x"].padded(length=6)
        streams = StreamDefs(w=StreamDef(shape=2**30, is_sparse=True))
        wide = self.read(content="0 |w 5:1\n0 |w 6:1\n0 |w 7:1\n", streams=streams)["w"]
        for form in (wide.padded, wide.packed, wide.as_list):
            with self.assertRaisesRegex(ReaderValueError, "too large for a dense form"):
                form()
        self.assertEqual(wide.padded_indices().array.tolist(), [[5, 6, 7]])

    def test_values_changed_by_the_program(self):
        minibatch = self.read()
        minibatch["x"].array[:] = 3
        self.assertTrue((minibatch["x"].packed().values == 3).all())
        data, indices, indptr, _ = minibatch["w"].sparse
        data[:] = 1
        indices[:] = 2
        self.assertTrue((minibatch["w"].indices() == 2).all())
        # Invalid values must cause an error, nothing worse.
        indptr[:] = 2**31 - 1
        for form in (minibatch["w"].indices, minibatch["w"].packed):
            with self.assertRaises(ReaderError):
                form()
        indptr[:] = np.arange(len(indptr))
        indices[:] = -5
        with self.assertRaises(ReaderError):
            minibatch["w"].packed()


class Views(Test):
    def test_sparse_data_as_csr_arrays(self):
        minibatch = self.read()
        stream = minibatch["s"]
        data, indices, indptr, shape = stream.sparse
        self.assertEqual(shape, (stream.steps * stream.lanes, 5))
        self.assertEqual([array.dtype for array in (data, indices, indptr)], [np.float32, np.int32, np.int32])
        dense = np.zeros(shape)
        np.add.at(dense, (np.repeat(np.arange(shape[0]), np.diff(indptr)), indices), data)
        np.testing.assert_array_equal(stream.asarray().reshape(shape), dense)
        with self.assertRaisesRegex(TypeError, "is dense: use .array"):
            _ = minibatch["x"].sparse
        with self.assertRaisesRegex(TypeError, "is sparse: use .sparse"):
            _ = stream.array

    def test_values_are_writable_and_live_as_long_as_an_array(self):
        array = self.read()["x"].array
        gc.collect()
        self.assertTrue(array.flags.writeable)
        array += 1
        self.assertEqual(array[0, 0].tolist(), [1, 1])
        minibatch = self.read()
        for array in (minibatch["x"].records, minibatch.keys_of_sequences):
            self.assertFalse(array.flags.writeable)

    def test_arrays_are_exported_by_numpy_and_dlpack(self):
        stream = self.read()["x"]
        self.assertTrue(np.shares_memory(np.asarray(stream), stream.array))
        self.assertEqual(np.asarray(stream, np.float64).dtype, np.float64)
        self.assertTrue(np.shares_memory(np.from_dlpack(stream), stream.array))
        self.assertEqual(stream.__dlpack_device__(), (1, 0))
        self.assertEqual(memoryview(stream.array).shape, stream.array.shape)
        if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
            self.assertIn("dltensor_versioned", repr(stream.__dlpack__(max_version=(1, 0))))
        self.assertIn('"dltensor"', repr(stream.__dlpack__()))

    def test_missing_streams(self):
        minibatch = self.read()
        with self.assertRaises(KeyError) as caught:
            minibatch["ww"]
        self.assertIn("'ww'. Did you mean 'w'? There are: h, s, t, w, x.", str(caught.exception))
        self.assertNotIn("ww", minibatch)
        self.assertIsNone(minibatch.get("ww"))
        source = self.open(content="|x 1 2\n", streams=StreamDefs(x=STREAMS["x"]))
        source.next_minibatch(5)
        with self.assertRaisesRegex(KeyError, "has no data"):
            source.next_minibatch(5)["x"]


class Frameworks(Test):
    @needs("scipy")
    def test_scipy(self):
        stream = self.read()["s"]
        matrix = stream.to_scipy()
        self.assertTrue(np.shares_memory(matrix.data, stream.sparse.data))
        np.testing.assert_array_equal(matrix.toarray(), stream.csr.toarray())

    @needs("torch")
    def test_torch(self):
        import torch

        minibatch = self.read()
        stream = minibatch["x"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for tensor in (stream.to_torch(), torch.from_dlpack(stream), torch.from_numpy(stream.array)):
                self.assertEqual(tensor.data_ptr(), stream.array.ctypes.data)
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
            sparse = minibatch["s"].to_torch()
            values, offsets, longest = map(torch.as_tensor, stream.packed())
            nested = torch.nested.nested_tensor_from_jagged(values, offsets, max_seqlen=int(longest))
        np.testing.assert_array_equal(sparse.to_dense().numpy(), minibatch["s"].csr.toarray())
        for one, other in zip(nested.unbind(), stream.as_list()):
            np.testing.assert_array_equal(one.numpy(), other)
        self.assertEqual(nested.values().data_ptr(), values.data_ptr())

    @needs("jax")
    def test_jax(self):
        minibatch = self.read()
        stream = minibatch["x"]
        array = stream.to_jax()
        np.testing.assert_array_equal(array, stream.array)
        self.assertEqual(array.unsafe_buffer_pointer(), stream.array.ctypes.data)
        np.testing.assert_array_equal(minibatch["s"].to_jax().todense(), minibatch["s"].csr.toarray())
        self.assertEqual(self.read(precision="double")["x"].to_jax().shape, stream.array.shape)
        # JAX copies to other devices.
        with unittest.mock.patch("jax.default_backend", return_value="gpu"):
            np.testing.assert_array_equal(stream.to_jax(), stream.array)
            np.testing.assert_array_equal(minibatch["s"].to_jax().todense(), minibatch["s"].csr.toarray())


class EqualIndices(unittest.TestCase):
    """Repeated indices in a sample stand for the sum of their values, in every form."""

    LINES = ["0 |x 3:1 3:2 |w 3:0.5 3:0.5", "0 |x 4:1 0:4 4:7 |w 1:1", "1 |x 1:-1 0:2 |w 0:1"]
    SAMPLES = ([0, 0, 0, 3, 0], [4, 0, 0, 0, 8], [2, -1, 0, 0, 0])

    def sources(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "x.ctf"
        path.write_text("\n".join(self.LINES) + "\n")
        streams = StreamDefs(x=StreamDef(shape=5, is_sparse=True), w=StreamDef(shape=4, is_sparse=True))
        for precision in ("float", "double"):
            for mode in ({}, {"truncation_length": 4}, {"truncation_length": 4, "options": {"expandSparse": True}}):
                with MinibatchSource(
                    CTFDeserializer(path, streams), randomize=False, max_sweeps=1, precision=precision, **mode
                ) as source:
                    yield next(iter(minibatches_of(source, 4)))

    def test_forms(self):
        a, b, c = self.SAMPLES
        for minibatch in self.sources():
            x, w = minibatch["x"], minibatch["w"]
            gap = [0] * 5
            self.assertEqual(sorted(x.asarray().reshape(-1, 5).tolist()), sorted([a, b, c, gap]))
            self.assertEqual(x.padded().array.tolist(), [[a, b], [c, gap]])
            self.assertEqual(x.packed().values.tolist(), [a, b, c])
            self.assertEqual([part.tolist() for part in x.as_list()], [[a, b], [c]])
            dense = [part.toarray() if hasattr(part, "toarray") else part for part in x.as_sequences()]
            self.assertEqual([part.tolist() for part in dense], [[a, b], [c]])
            # Two halves add up to one, so the sample is one-hot.
            self.assertEqual(w.indices().tolist(), [3, 1, 0])
            self.assertEqual(w.padded_indices(-1).array.tolist(), [[3, 1], [0, -1]])
            if not x.is_sparse:
                self.assertRaises(TypeError, x.canonical)
                self.assertRaises(TypeError, x.bags)
                continue
            indices, offsets, weights, sequence_offsets = x.bags()
            self.assertEqual((indices.tolist(), offsets.tolist()), ([3, 3, 4, 0, 4, 1, 0], [0, 2, 5, 7]))
            self.assertEqual((weights.tolist(), weights.dtype), ([1, 2, 1, 4, 7, -1, 2], x.dtype))
            self.assertEqual(sequence_offsets.tolist(), [0, 2, 3])
            if x.lanes == 1:  # truncated
                self.assertEqual((x.steps, x.sparse.indptr.tolist()), (4, [0, 2, 5, 7, 7]))
                self.assertEqual(x.canonical().indices.tolist(), [3, 0, 4, 0, 1])
                continue
            self.assertEqual(x.sparse.indices.tolist(), [3, 3, 1, 0, 4, 0, 4], "as in the data")
            data, indices, indptr, shape = x.canonical()
            self.assertEqual((indices.tolist(), indptr.tolist(), shape), ([3, 0, 1, 0, 4], [0, 1, 3, 5, 5], (4, 5)))
            self.assertEqual((data.tolist(), data.dtype), ([3, 2, -1, 4, 8], x.dtype))
            columns = [a, c, b, gap]
            self.assertEqual((x.csr.toarray().tolist(), x.to_scipy().toarray().tolist()), (columns, columns))

    def test_bags_have_the_sparse_entries_of_each_sequence(self):
        lines = [
            f"{key} |x {' '.join(f'{index}:1' for index in range(key % 4))}\n" * (1 + key % 3) for key in range(50)
        ]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "x.ctf"
        path.write_text("".join(lines))
        data = CTFDeserializer(path, StreamDefs(x=StreamDef(shape=5, is_sparse=True)))
        with MinibatchSource(data, max_sweeps=1) as source:
            for minibatch in minibatches_of(source, 16):
                x = minibatch["x"]
                bags = x.bags("int64")
                self.assertEqual((bags.indices.dtype, bags.weights), (np.int64, None))
                self.assertRaises(ValueError, x.bags, "float32")
                bounds = zip(bags.sequence_offsets, bags.sequence_offsets[1:])
                for key, (first, end) in zip(minibatch.keys_of_sequences, bounds):
                    self.assertEqual(end - first, 1 + key % 3)
                    for sample in range(first, end):
                        entries = bags.indices[bags.offsets[sample] : bags.offsets[sample + 1]]
                        self.assertEqual(entries.tolist(), list(range(key % 4)))

    def test_views_where_nothing_repeats(self):
        with MinibatchSource(from_arrays(x=one_hot(np.arange(3), 5)), randomize=False) as source:
            x = source.next_minibatch(3)["x"]
        self.assertTrue(np.shares_memory(x.canonical().data, x.sparse.data))

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        a, b, c = self.SAMPLES
        minibatch = next(self.sources())
        tensor = minibatch["x"].to_torch()
        # PyTorch's own checks of CSR tensors.
        parts = tensor.crow_indices(), tensor.col_indices(), tensor.values()
        checked = torch.sparse_csr_tensor(*parts, size=tensor.shape, check_invariants=True)
        self.assertEqual(checked.to_dense().tolist(), [a, c, b, [0] * 5])
        self.assertEqual((tensor @ torch.eye(5)).tolist(), [a, c, b, [0] * 5])


if __name__ == "__main__":
    unittest.main()
