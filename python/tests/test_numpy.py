"""NumPy array files: configurations, and minibatches equal to the saved arrays."""

import tempfile
import unittest
from pathlib import Path

import numpy as np
from cntk_reader import (
    CTFDeserializer,
    MinibatchSource,
    NumpyDeserializer,
    ReaderError,
    StreamDef,
    StreamDefs,
    compress,
)

from .loops import minibatches_of


class Sections(unittest.TestCase):
    """Objects as sections of the configuration."""

    def test_keys(self) -> None:
        streams = StreamDefs(x=StreamDef(npy="x.npy"), y=StreamDef(npy=Path("y.npy"), defines_mb_size=True))
        section = NumpyDeserializer(streams, lengths=Path("n.npy"), chunk_size_in_bytes=9).section()
        expected = {
            "type": "NumpyDeserializer",
            "input": {"x": {"file": "x.npy"}, "y": {"file": "y.npy", "definesMBSize": True}},
            "lengths": "n.npy",
            "chunkSizeInBytes": 9,
        }
        self.assertEqual(section, expected)
        plain = NumpyDeserializer({"x": StreamDef(npy="x.npy")}).section()
        self.assertEqual(plain, {"type": "NumpyDeserializer", "input": {"x": {"file": "x.npy"}}})

    def test_wrong_arguments(self) -> None:
        with self.assertRaisesRegex(ValueError, r"'x' of a NumpyDeserializer needs .*StreamDef\(npy=...\)"):
            NumpyDeserializer({"x": StreamDef()}).section()
        with self.assertRaisesRegex(ValueError, "does not support 'shape'"):
            NumpyDeserializer({"x": StreamDef(npy="x.npy", shape=3)})
        with self.assertRaisesRegex(ValueError, "chunk_size_in_bytes must be at least 1"):
            NumpyDeserializer({"x": StreamDef(npy="x.npy")}, chunk_size_in_bytes=0)
        with self.assertRaisesRegex(TypeError, "StreamDef"):
            NumpyDeserializer("x.npy")  # type: ignore[arg-type]


class Minibatches(unittest.TestCase):
    """Delivered values equal the saved arrays."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def save(self, name: str, array: np.ndarray) -> Path:
        path = self.folder / f"{name}.npy"
        np.save(path, array)
        return path

    def read(self, *deserializers, size=100, **options):
        """The only minibatch of a sweep in the data's order."""
        options.setdefault("randomize", False)
        with MinibatchSource(list(deserializers), max_sweeps=1, **options) as source:
            return source.next_minibatch(size)

    def test_shapes_and_values(self) -> None:
        numbers = np.arange(5 * 6).reshape(5, 2, 3)
        kinds = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")
        for kind in kinds:
            with self.subTest(kind):
                array = numbers.astype(kind)
                path = self.save("x", array)
                stream = self.read(NumpyDeserializer({"x": StreamDef(npy=path)}))["x"]
                self.assertEqual(stream.info.shape, (2, 3))
                wider = {"i1": "i2", "u2": "i4", "u4": "i8", "u8": "i8"}
                self.assertEqual(stream.array.dtype, np.dtype(wider.get(kind, kind)))
                np.testing.assert_array_equal(stream.array.reshape(array.shape), array)
        column = self.save("y", np.arange(4, dtype=np.float32))
        np.testing.assert_array_equal(
            self.read(NumpyDeserializer({"y": StreamDef(npy=column)}))["y"].array.ravel(), np.arange(4)
        )

    def test_several_arrays_in_random_order(self) -> None:
        x, y = np.random.default_rng(1).random((1000, 3), np.float32), np.arange(1000, dtype=np.int64)
        streams = StreamDefs(x=StreamDef(npy=self.save("x", x)), y=StreamDef(npy=self.save("y", y)))
        seen = []
        with MinibatchSource(NumpyDeserializer(streams, chunk_size_in_bytes=500), max_sweeps=1) as source:
            for minibatch in minibatches_of(source, 64):
                rows = minibatch["y"].array.ravel().astype(int)
                self.assertEqual(minibatch.keys_of_sequences.tolist(), rows.tolist())
                np.testing.assert_array_equal(minibatch["x"].array.reshape(-1, 3), x[rows])
                seen += rows.tolist()
        self.assertNotEqual(seen, list(range(1000)))
        self.assertEqual(sorted(seen), list(range(1000)))

    def test_lengths(self) -> None:
        x = np.arange(12, dtype=np.float32).reshape(6, 2)
        for kind in ("i8", "u1"):
            lengths = np.array([1, 3, 2], kind)
            arrays = NumpyDeserializer({"x": StreamDef(npy=self.save("x", x))}, lengths=self.save("n", lengths))
            sequences = self.read(arrays)["x"].as_list()
            for found, expected in zip(sequences, np.split(x, np.cumsum(lengths[:-1].astype(int)))):
                np.testing.assert_array_equal(found, expected)
            self.assertEqual(len(sequences), 3)

    def test_joined_with_text(self) -> None:
        x = np.arange(10, dtype=np.float32).reshape(5, 2)
        text = self.folder / "y.ctf"
        text.write_text("3 |y 30\n0 |y 0\n9 |y 90\n4 |y 40\n")
        arrays = NumpyDeserializer({"x": StreamDef(npy=self.save("x", x))})
        lines = CTFDeserializer(text, StreamDefs(y=StreamDef(shape=1)))
        for pair, rows in (((arrays, lines), [0, 3, 4]), ((lines, arrays), [3, 0, 4])):
            minibatch = self.read(*pair)
            np.testing.assert_array_equal(minibatch["x"].array.reshape(-1, 2), x[rows])
            self.assertEqual(minibatch["y"].array.ravel().tolist(), [row * 10 for row in rows])

    def test_compressed(self) -> None:
        x = np.arange(3000, dtype=np.float32).reshape(1000, 3)
        packed = self.folder / "x.npy.zst"
        compress(self.save("x", x), packed)
        stream = self.read(NumpyDeserializer({"x": StreamDef(npy=packed)}), size=1000)["x"]
        np.testing.assert_array_equal(stream.array.reshape(-1, 3), x)

    def test_wrong_files(self) -> None:
        good = self.save("good", np.zeros((3, 2), np.float32))
        cut = self.folder / "cut.npy"
        cut.write_bytes(good.read_bytes()[:-1])
        text = self.folder / "text.npy"
        text.write_text("|x 1\n")
        archive = self.folder / "archive.npz"
        np.savez(archive, x=np.zeros(3))
        table = [
            (self.save("a", np.zeros((3, 2), ">f4")), "values of the type '>f4'"),
            (self.save("b", np.zeros((3, 2), "c8")), "values of the type '<c8'"),
            (self.save("c", np.array(["a", "b"])), "values of the type '<U1'"),
            (self.save("d", np.asfortranarray(np.zeros((3, 2)))), "Fortran order"),
            (self.save("e", np.zeros(())), "a single number"),
            (self.save("f", np.zeros((0, 2))), "no values"),
            (cut, "the file is incomplete"),
            (text, "The file looks like a text file in CNTK's format"),
            (archive, "archive.npz"),
            (self.folder / "missing.npy", "missing.npy"),
        ]
        for path, message in table:
            with self.subTest(path.name), self.assertRaisesRegex(ReaderError, message) as caught:
                MinibatchSource(NumpyDeserializer({"x": StreamDef(npy=path)}))
            self.assertIn(str(path), str(caught.exception))
        other = self.save("other", np.zeros((4, 2), np.float32))
        both = StreamDefs(x=StreamDef(npy=good), y=StreamDef(npy=other))
        with self.assertRaisesRegex(ReaderError, "The array has 4 rows"):
            MinibatchSource(NumpyDeserializer(both))
        for lengths in (np.array([1, 1]), np.array([3, 1]), np.array([-1, 4]), np.array([1.0, 2.0])):
            with self.subTest(lengths), self.assertRaises(ReaderError) as caught:
                path = self.save("n", lengths)
                MinibatchSource(NumpyDeserializer({"x": StreamDef(npy=good)}, lengths=path))
            self.assertIn("n.npy", str(caught.exception))

    def test_values_out_of_range(self) -> None:
        path = self.save("x", np.array([1, 2**63], np.uint64))
        with self.assertRaisesRegex(ReaderError, "9223372036854775808 in row 1 .*A stream of int64 cannot hold it"):
            self.read(NumpyDeserializer({"x": StreamDef(npy=path)}))


if __name__ == "__main__":
    unittest.main()
