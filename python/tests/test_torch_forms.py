"""The default items of cntk_reader.torch.Dataset: shapes, types, masks, bags."""

import tempfile
import unittest
import warnings
from pathlib import Path

import numpy as np
from cntk_reader import (
    CTFDeserializer,
    MinibatchSource,
    ReaderError,
    StreamDef,
    StreamDefs,
    StreamInformation,
    UserDeserializer,
    from_arrays,
    one_hot,
)

try:
    import torch
    from cntk_reader.torch import Dataset
    from torch.nn import EmbeddingBag
except ImportError as error:
    raise unittest.SkipTest(f"torch is not installed: {error}") from None

LENGTHS = [3, 1, 2]
WORDS = [12, 7, 31, 5, 44, 9]


def forms(item):
    """Returns shapes and types by name."""
    return {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in item.items()}


def only(dataset):
    (item,) = list(dataset)
    return item


def in_order(deserializers, **options):
    return MinibatchSource(deserializers, randomize=False, **options)


def reviews(**others):
    """Three sequences of words, each with a label."""
    words, labels = np.array(WORDS, np.int32), np.array([1, 0, 1], np.int32)
    return from_arrays(words=one_hot(words, 50), labels=one_hot(labels, 2), lengths=LENGTHS, **others)


class Single(unittest.TestCase):
    """Sequences of one sample."""

    def test_dense(self):
        wide, flat = np.arange(24, dtype=np.float32).reshape(4, 3, 2), np.arange(4, dtype=np.float32)
        data = from_arrays(x=wide, flat=flat, column=flat[:, None], pixels=wide.astype(np.uint8))
        item = only(Dataset(in_order(data), 4))
        expected = {
            "x": ((4, 3, 2), torch.float32),
            "flat": ((4,), torch.float32),
            "column": ((4, 1), torch.float32),
            "pixels": ((4, 3, 2), torch.uint8),
        }
        self.assertEqual(forms(item), expected)
        np.testing.assert_array_equal(item["x"], wide)
        self.assertEqual(item["flat"].tolist(), [0, 1, 2, 3])

    def test_float64_follows_precision(self):
        values = np.array([0.1, 0.2, 0.3])
        data = from_arrays(x=values[:, None], y=values)
        for precision, dtype in (("float", torch.float32), ("double", torch.float64)):
            item = only(Dataset(in_order(data, precision=precision), 3))
            self.assertEqual(forms(item), {"x": ((3, 1), dtype), "y": ((3,), dtype)})
            self.assertEqual(item["y"].tolist(), torch.tensor(values, dtype=dtype).tolist())

    def test_one_hot(self):
        item = only(Dataset(in_order(from_arrays(y=one_hot(np.array([3, 0, 2]), 4))), 3))
        self.assertEqual(forms(item), {"y": ((3,), torch.int64)})
        self.assertEqual(item["y"].tolist(), [3, 0, 2])

    def test_one_hot_declared_as_ids(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ids.ctf"
            path.write_text("|y 3:1\n|y 0:1\n")
            streams = StreamDefs(y=StreamDef(shape=4, is_sparse=True, ids="int32"))
            item = only(Dataset(in_order(CTFDeserializer(path, streams)), 2))
        self.assertEqual(forms(item)["y"][1], torch.int32)
        self.assertEqual(item["y"].tolist(), [3, 0])

    def test_bfloat16(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "brain.ctf"
            path.write_text("0 |x 1 2\n0 |x 3 4\n1 |x 5 6\n")
            streams = StreamDefs(x=StreamDef(shape=2, dtype="bfloat16"))
            for ids, expected in ((True, [[[1, 2], [3, 4]], [[5, 6], [9, 9]]]), (False, [[1, 2], [3, 4], [5, 6]])):
                data = CTFDeserializer(path, streams, skip_sequence_ids=not ids)
                item = only(Dataset(in_order(data), 3, padding={"x": 9}))
                self.assertEqual((item["x"].dtype, item["x"].tolist()), (torch.bfloat16, expected))
                self.assertEqual("x_mask" in item, ids)

    def test_samples_that_are_not_one_hot(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "hot.ctf"
            path.write_text("7 |tags 1:1 3:1\n")
            data = CTFDeserializer(path, StreamDefs(tags=StreamDef(shape=5, is_sparse=True)))
            with self.assertRaisesRegex(ReaderError, r"sequence 7\) .*sparse=\{'tags': 'bag'\}") as caught:
                list(Dataset(data, 1))
            self.assertEqual((caught.exception.stream, caught.exception.key), ("tags", "7"))


class Sequences(unittest.TestCase):
    def test_words_and_labels(self):
        item = only(Dataset(in_order(reviews()), 6))
        expected = {
            "words": ((3, 3), torch.int64),
            "words_mask": ((3, 3), torch.bool),
            "labels": ((3,), torch.int64),
        }
        self.assertEqual(forms(item), expected)
        self.assertEqual(item["words"].tolist(), [[12, 7, 31], [5, 0, 0], [44, 9, 0]])
        self.assertEqual(item["words_mask"].sum(1).tolist(), LENGTHS)
        self.assertEqual(item["labels"].tolist(), [1, 0, 1])

    def test_file(self):
        """Nothing is known of a file's streams before the first minibatch."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "reviews.ctf"
            path.write_text("0 |w 2:1 |l 1:1 |d 1 2\n0 |w 3:1 |d 3 4\n1 |w 4:1 |l 0:1 |d 5 6\n")
            streams = StreamDefs(
                w=StreamDef(shape=9, is_sparse=True), l=StreamDef(shape=2, is_sparse=True), d=StreamDef(shape=2)
            )
            data = CTFDeserializer(path, streams)
            dataset = Dataset(in_order(data, minibatch_size=2), padding={"w": -1})
            first, second = list(dataset)
            again = list(dataset)
            self.assertEqual(forms(first)["w"], ((1, 2), torch.int64))
            # Short sequences keep the form.
            expected = {
                "w": ((1, 1), torch.int64),
                "w_mask": ((1, 1), torch.bool),
                "l": ((1,), torch.int64),
                "d": ((1, 1, 2), torch.float32),
                "d_mask": ((1, 1), torch.bool),
            }
            self.assertEqual(forms(second), expected)
            self.assertEqual([forms(item) for item in again], [forms(first), forms(second)])
            whole = only(Dataset(in_order(data), 9, padding={"w": -1, "d": 7}))
            self.assertEqual(whole["w"].tolist(), [[2, 3], [4, -1]])
            self.assertEqual(whole["d"].tolist(), [[[1, 2], [3, 4]], [[5, 6], [7, 7]]])
            # The first sequence is short, so the form of the streams is not known.
            path.write_text("0 |w 2:1 |l 1:1 |d 1 2\n1 |w 4:1 |l 0:1 |d 5 6\n1 |w 3:1 |d 3 4\n")
            with self.assertRaisesRegex(ValueError, "every sequence has one sample.*sequences="):
                list(Dataset(in_order(data), 1))
            named = list(Dataset(in_order(data), 1, sequences=["w", "d"]))
            self.assertEqual([tuple(item["w"].shape) for item in named], [(1, 1), (1, 2)])
            with self.assertRaisesRegex(ValueError, "'d' has a sequence of 2 samples, but is not in `sequences`"):
                list(Dataset(in_order(data), 9, sequences=["w"]))

    def test_sequences_that_become_longer(self):
        class Growing(UserDeserializer):
            """Lists its sequences on loading: only the second chunk has longer ones."""

            def stream_infos(self):
                return [StreamInformation("x", 0, "dense", np.float32, (1,))]

            def num_chunks(self):
                return 2

            def get_chunk(self, chunk_id):
                return {"x": [np.zeros((1 + chunk_id, 1), np.float32)]}

        with self.assertRaisesRegex(ValueError, "'x' has a sequence of 2 samples, but had sequences of one sample"):
            list(Dataset(in_order(Growing()), 1))
        items = list(Dataset(in_order(Growing()), 1, sequences=["x"]))
        self.assertEqual([tuple(item["x"].shape) for item in items], [(1, 1, 1), (1, 2, 1)])

    def test_truncated(self):
        """Each lane holds sequences one after the other."""
        lengths = [5, 2, 7, 1, 4, 6]
        words = np.arange(1, sum(lengths) + 1)
        values = words.astype(np.float32)[:, None]
        data = from_arrays(w=one_hot(words, 99), x=values, lengths=lengths)
        source = in_order(data, truncation_length=3)
        if not source.streams["w"].is_sparse:
            self.skipTest("sparse streams are dense in truncated mode")
        dataset = Dataset(source, 6, padding={"w": -1, "x": -1})
        lanes = [[], []]
        for item in dataset:
            expected = {
                "w": ((2, 3), torch.int64),
                "w_mask": ((2, 3), torch.bool),
                "x": ((2, 3, 1), torch.float32),
                "x_mask": ((2, 3), torch.bool),
            }
            self.assertEqual(forms(item), expected)
            self.assertTrue(item["w"].is_contiguous() and item["x"].is_contiguous())
            self.assertEqual(item["x"][..., 0].tolist(), item["w"].tolist())
            self.assertEqual((item["w"] != -1).tolist(), item["w_mask"].tolist())
            for lane, ids, mask in zip(lanes, item["w"], item["w_mask"]):
                lane += ids[mask].tolist()
        self.assertEqual(sorted(lanes[0] + lanes[1]), words.tolist())
        for lane in lanes:
            # Only the start of a sequence may follow another number.
            starts = {1 + sum(lengths[:number]) for number in range(len(lengths))}
            self.assertTrue(all(after == before + 1 or after in starts for before, after in zip(lane, lane[1:])))

    def test_empty_share(self):
        for options in ({}, {"sparse": {"words": "bag"}}, {"sparse": "csr"}, {"sequences": ["words"]}):
            with self.subTest(options):
                source = in_order(reviews(chunk_size=3), lockstep=True, workers=40, rank=39)
                full, empty = only(Dataset(in_order(reviews()), 6, **options)), list(Dataset(source, 6, **options))[0]
                self.assertEqual(full.keys(), empty.keys())
                for name, tensor in full.items():
                    other = empty[name]
                    self.assertEqual((other.dtype, other.dim(), len(other)), (tensor.dtype, tensor.dim(), 0))
                    self.assertEqual(other.layout, tensor.layout)


class Bags(unittest.TestCase):
    def setUp(self):
        from scipy.sparse import csr_matrix

        warnings.simplefilter("ignore")
        chance = np.random.default_rng(1)
        self.matrix = ((chance.random((20, 30)) < 0.2) * chance.random((20, 30))).astype(np.float32)
        self.data = from_arrays(x=csr_matrix(self.matrix))
        self.table = torch.from_numpy(chance.random((30, 4)).astype(np.float32))
        self.bag = EmbeddingBag.from_pretrained(self.table, mode="sum")

    def test_equals_dense_product(self):
        expected = torch.from_numpy(self.matrix) @ self.table
        item = only(Dataset(in_order(self.data), 20, sparse="bag"))
        self.assertEqual(item["x_offsets"].shape, (20,))
        self.assertEqual((item["x"].dtype, item["x_offsets"].dtype), (torch.int64, torch.int64))
        self.assertEqual(item["x_weights"].dtype, torch.float32)
        torch.testing.assert_close(self.bag(item["x"], item["x_offsets"], item["x_weights"]), expected)
        stream = in_order(self.data).next_minibatch(20)["x"]
        torch.testing.assert_close(self.bag(*stream.to_torch_bag()), expected)
        csr = only(Dataset(in_order(self.data), 20, sparse={"x": "csr"}))["x"]
        self.assertEqual(csr.layout, torch.sparse_csr)
        torch.testing.assert_close(csr @ self.table, expected)

    def test_bag_of_a_sequence(self):
        stream = in_order(reviews()).next_minibatch(6)["words"]
        indices, offsets, weights = stream.to_torch_bag()
        self.assertEqual((indices.tolist(), offsets.tolist(), weights), (WORDS, [0, 3, 4], None))
        table = torch.eye(50)
        sums = EmbeddingBag.from_pretrained(table, mode="mean")(indices, offsets)
        self.assertEqual(sums[0].nonzero().ravel().tolist(), sorted(WORDS[:3]))

    def test_not_of_pieces(self):
        data = from_arrays(w=one_hot(np.array(WORDS), 50), lengths=LENGTHS)
        source = in_order(data, truncation_length=2)
        if not source.streams["w"].is_sparse:
            self.skipTest("sparse streams are dense in truncated mode")
        with self.assertRaisesRegex(ValueError, "'w' has pieces of sequences"):
            list(Dataset(source, 4, sparse="bag"))


class Mistakes(unittest.TestCase):
    def test_names(self):
        for options, message in (
            ({"sparse": {"word": "bag"}}, "sparse: There is no stream 'word'. Did you mean 'words'?"),
            ({"padding": {"tags": 0}}, "padding: There is no stream 'tags'"),
            ({"sequences": ["labl"]}, "Did you mean 'labels'?"),
        ):
            with self.subTest(options), self.assertRaisesRegex(ValueError, message.replace("?", r"\?")):
                next(iter(Dataset(reviews(), 6, **options)))
        dense = from_arrays(x=np.zeros(2, np.float32))
        with self.assertRaisesRegex(ValueError, "sparse: the stream 'x' is dense"):
            next(iter(Dataset(dense, 2, sparse={"x": "csr"})))
        taken = from_arrays(x=np.zeros(2, np.float32), x_mask=np.zeros(2, np.float32))
        with self.assertRaisesRegex(ValueError, "'x_mask' of the stream 'x' would have the name of another stream"):
            next(iter(Dataset(taken, 2)))

    def test_values(self):
        for options, message in (
            ({"sparse": "dense"}, "sparse must be one of 'ids', 'csr', 'bag', not 'dense'"),
            ({"sparse": {"words": "bags"}}, "Did you mean 'bag'"),
            ({"padding": {"words": "0"}}, r"padding\['words'\] must be a number"),
            ({"sequences": "words"}, "sequences must be a list of stream names"),
            ({"padding": 1, "convert": len}, "omit them, or `convert`"),
        ):
            with self.subTest(options), self.assertRaisesRegex((TypeError, ValueError), message):
                Dataset(reviews(), 6, **options)
        with self.assertRaisesRegex(ValueError, "padding of 'words' must be a whole number"):
            next(iter(Dataset(reviews(), 6, padding=0.5)))

    def test_sources(self):
        with self.assertRaisesRegex(TypeError, r"source is a path, 'a.ctf': .*CTFDeserializer\('a.ctf'"):
            Dataset("a.ctf", 6)
        with self.assertRaisesRegex(TypeError, "source must be a MinibatchSource, a deserializer, or a function"):
            Dataset(7, 6)
        self.assertEqual(len(only(Dataset([reviews()], 6))["labels"]), 3)


if __name__ == "__main__":
    unittest.main()
