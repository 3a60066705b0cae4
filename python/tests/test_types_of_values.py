"""Element types of text files in all modes, and ids instead of one-hot samples."""

import tempfile
import unittest
from pathlib import Path

import numpy as np
from cntk_reader import CTFDeserializer, MinibatchSource, ReaderError, StreamDef, StreamDefs

#: Types with values at their limits, as text.
LIMITS = {
    "uint8": ["0", "255", "7.0"],
    "int16": ["-32768", "32767", "1e2"],
    "int32": ["-2147483648", "2147483647", "3"],
    "int64": ["-9223372036854775808", "9223372036854775807", "9007199254740993"],
    "bool": ["0", "1", "1.0"],
    "float16": ["0.5", "-65504", "3"],
    "float64": ["0.1", "1e300", "-2"],
}
MODES = ({}, {"randomize": False}, {"truncation_length": 2}, {"frame_mode": True})


class Text(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "x.ctf"

    def source(self, streams, **options):
        options.setdefault("minibatch_size", 100)
        source = MinibatchSource(CTFDeserializer(self.path, StreamDefs(**streams)), max_sweeps=1, **options)
        self.addCleanup(source.close)
        return source

    def test_values_at_the_limits(self):
        for dtype, texts in LIMITS.items():
            self.path.write_text("".join(f"{number} |x {text}\n" for number, text in enumerate(texts)))
            expected = np.array([int(text) if text.lstrip("-").isdigit() else float(text) for text in texts], dtype)
            for given in (dtype, np.dtype(dtype)):
                with self.subTest(dtype, given=given):
                    source = self.source({"x": StreamDef(shape=1, dtype=given)}, randomize=False)
                    self.assertEqual(source.streams["x"].dtype, np.dtype(dtype))
                    values = source.next_minibatch()["x"].packed().values
                    self.assertEqual((values.dtype, values.ravel().tolist()), (expected.dtype, expected.tolist()))

    def test_values_out_of_range(self):
        for dtype, text in (("uint8", "256"), ("uint8", "-1"), ("int16", "1.5"), ("int64", "1e30"), ("bool", "2")):
            with self.subTest(dtype, text=text):
                self.path.write_text(f"0 |x 1\n1 |x 0\n1 |x {text}\n2 |x 1\n")
                streams = {"x": StreamDef(shape=1, dtype=dtype)}
                with self.assertRaises(ReaderError) as caught:
                    list(self.source(streams, randomize=False, trace_level=0))
                error = caught.exception
                self.assertEqual((error.file, error.line, error.stream), (str(self.path), 3, "x"))
                self.assertIn(text, str(error))
                tolerant = CTFDeserializer(self.path, StreamDefs(**streams), max_errors=9)
                with MinibatchSource(
                    tolerant, randomize=False, max_sweeps=1, minibatch_size=9, trace_level=0
                ) as source:
                    values = np.concatenate([minibatch["x"].packed().values for minibatch in source])
                self.assertEqual(values.ravel().astype(int).tolist(), [1, 0, 1])

    def test_ids_are_the_indices_of_one_hot_samples(self):
        random = np.random.default_rng(3)
        lines = []
        for sequence in range(300):
            lines += [f"{sequence} |w {random.integers(5000)}:1\n" for _ in range(1 + sequence % 7)]
        self.path.write_text("".join(lines))
        for options in MODES[:3]:
            for dtype in ("int32", "int64"):
                with self.subTest(dtype, **options):
                    sparse = StreamDef(shape=5000, is_sparse=True)
                    one_hot = self.source({"w": sparse}, minibatch_size=20, **options)
                    ids = self.source(
                        {"w": StreamDef(shape=5000, is_sparse=True, ids=dtype)}, minibatch_size=20, **options
                    )
                    info = ids.streams["w"]
                    self.assertEqual((info.classes, info.shape, info.dtype), (5000, (), np.dtype(dtype)))
                    for expected, found in zip(one_hot, ids):
                        self.assertEqual(expected.keys_of_sequences.tolist(), found.keys_of_sequences.tolist())
                        values = found["w"].packed().values
                        self.assertEqual(values.dtype, np.dtype(dtype))
                        self.assertEqual(values.tolist(), expected["w"].indices().tolist())
                    self.assertFalse(one_hot.next_minibatch() or ids.next_minibatch())

    def test_mixed_types(self):
        rows = [(n % 256, -n, n / 4) for n in range(500)]
        self.path.write_text("".join(f"{n} |a {a} |b {b} |c {c}\n" for n, (a, b, c) in enumerate(rows)))
        streams = {
            "a": StreamDef(shape=1, dtype="uint8"),
            "b": StreamDef(shape=1, dtype="int32"),
            "c": StreamDef(shape=1),
        }
        for options in MODES:
            with self.subTest(**options):
                seen = []
                for minibatch in self.source(streams, minibatch_size=30, **options):
                    columns = [minibatch[name].packed().values.ravel() for name in "abc"]
                    self.assertEqual([column.dtype for column in columns], [np.uint8, np.int32, np.float32])
                    seen += zip(*(column.tolist() for column in columns))
                self.assertEqual(sorted(seen), sorted(rows))

    def test_sparse_streams_have_floats(self):
        self.path.write_text("0 |x 1:1\n")
        with self.assertRaisesRegex(ReaderError, "sparse stream 'x' cannot be uint8"):
            self.source({"x": StreamDef(shape=3, is_sparse=True, dtype="uint8")})


if __name__ == "__main__":
    unittest.main()
