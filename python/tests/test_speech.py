"""Speech deserializers: configurations, and minibatches of a small corpus."""

import struct
import tempfile
import unittest
from pathlib import Path

import numpy as np
from cntk_reader import (
    HTKFeatureDeserializer,
    HTKMLFBinaryDeserializer,
    HTKMLFDeserializer,
    KaldiDeserializer,
    LatticeDeserializer,
    MinibatchSource,
    ReaderError,
    StreamDef,
    StreamDefs,
    from_arrays,
)


class Sections(unittest.TestCase):
    """Objects as sections of the configuration."""

    def test_key_placement(self) -> None:
        stream = StreamDef(
            shape=40, scp="a.scp", context=(5, 4), broadcast=True, max_sequence_length=9, defines_mb_size=True
        )
        section = HTKFeatureDeserializer({"f": stream}, prefix_path="/data").section()
        self.assertEqual((section["maxSequenceSize"], section["definesMBSize"]), (9, True))
        expected = {
            "scpFile": "a.scp",
            "dim": 40,
            "contextWindow": [5, 4],
            "expandToUtterance": True,
            "prefixPathInSCP": "/data",
        }
        self.assertEqual(section["input"], {"f": expected})
        several = HTKFeatureDeserializer({"f": StreamDef(shape=40, scp=["a.scp", Path("b.scp")])}).section()
        self.assertEqual(several["input"], {"f": {"scpFile": ["a.scp", "b.scp"], "dim": 40}})

    def test_labels(self) -> None:
        one = HTKMLFDeserializer("s.list", {"l": StreamDef(shape=12, mlf="a.mlf")}, phone_boundaries=True).section()
        expected = {"mlfFile": "a.mlf", "dim": 12, "labelMappingFile": "s.list", "phoneBoundaries": True}
        self.assertEqual(one["input"], {"l": expected})
        two = HTKMLFBinaryDeserializer({"l": StreamDef(shape=12, mlf=["a.bin", "b.bin"])}).section()
        self.assertEqual(two["type"], "HTKMLFBinaryDeserializer")
        self.assertEqual(two["input"], {"l": {"mlfFileList": ["a.bin", "b.bin"], "dim": 12}})

    def test_lattices_and_archives(self) -> None:
        lattices = LatticeDeserializer("l.idx", {"x": StreamDef()}).section()
        self.assertEqual(lattices["input"], {"x": {"latticeIndexFile": "l.idx"}})
        archive = KaldiDeserializer({"k": StreamDef(shape=9, ark="a.ark", is_sparse=True)}).section()
        self.assertEqual(
            archive,
            {"type": "KaldiDeserializer", "input": {"k": {"arkFile": "a.ark", "dim": 9, "format": "sparse"}}},
        )

    def test_missing_files(self) -> None:
        stream = StreamDef(shape=1)
        both = StreamDef(shape=1, scp="a", ark="b")
        for deserializer in (
            HTKFeatureDeserializer({"f": stream}),
            HTKFeatureDeserializer({}),
            HTKFeatureDeserializer({"f": StreamDef(shape=1, scp="a"), "g": StreamDef(shape=1, scp="b")}),
            HTKMLFDeserializer(None, {"l": stream}),
            KaldiDeserializer({"k": stream}),
            KaldiDeserializer({"k": both}),
        ):
            self.assertRaises(ValueError, deserializer.section)


class Minibatches(unittest.TestCase):
    """Features and labels of two utterances."""

    def test_features_with_labels(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            frames = np.arange(10, dtype=">f4").reshape(5, 2)
            archive = Path(folder, "a.mfc")
            archive.write_bytes(struct.pack(">iihh", 5, 100000, 8, 9) + frames.tobytes())
            scp = Path(folder, "a.scp")
            scp.write_text(f"u1.mfc={archive}[0,2]\nu2.mfc={archive}[3,4]\n")
            mlf = Path(folder, "a.mlf")
            mlf.write_text('#!MLF!#\n"u1.lab"\n0 2 a\n2 3 b\n.\n"u2.lab"\n0 2 b\n.\n')
            states = Path(folder, "states.list")
            states.write_text("a\nb\n")
            features = HTKFeatureDeserializer(StreamDefs(features=StreamDef(shape=2, scp=scp, context=(1, 0))))
            labels = HTKMLFDeserializer(states, StreamDefs(labels=StreamDef(shape=2, mlf=mlf)))
            with MinibatchSource([features, labels], randomize=False, max_sweeps=1, frame_mode=True) as source:
                minibatch = source.next_minibatch(100)
                rows = minibatch["features"].array.reshape(5, 4)
                self.assertEqual(rows[:, 2:].tolist(), frames.tolist())
                self.assertEqual(rows[:, :2].tolist(), frames[[0, 0, 1, 3, 3]].tolist())
                classes = minibatch["labels"].csr.indices.tolist()
                self.assertEqual(classes, [0, 0, 1, 1, 1])

    def test_frames_with_arrays(self) -> None:
        """Arrays with a sample per frame are split into frames like the features, in either
        order."""
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder, "a.mfc")
            archive.write_bytes(struct.pack(">iihh", 5, 100000, 4, 9) + np.arange(5, dtype=">f4").tobytes())
            scp = Path(folder, "a.scp")
            scp.write_text(f"u1.mfc={archive}[0,2]\nu2.mfc={archive}[3,4]\n")
            features = HTKFeatureDeserializer(StreamDefs(x=StreamDef(shape=1, scp=scp)))

            def pairs(*deserializers):
                with MinibatchSource(list(deserializers), randomize=False, max_sweeps=1, frame_mode=True) as source:
                    minibatch = source.next_minibatch(100)
                return list(zip(minibatch["x"].array.ravel().tolist(), minibatch["y"].array.ravel().tolist()))

            y = np.arange(5, dtype=np.float32) + 10
            each = from_arrays(y=y, lengths=[2, 3], keys=["u2", "u1"])
            self.assertEqual(pairs(features, each), [(0, 12), (1, 13), (2, 14), (3, 10), (4, 11)])
            self.assertEqual(pairs(each, features), [(3, 10), (4, 11), (0, 12), (1, 13), (2, 14)])
            one = from_arrays(y=y[:2], keys=["u2", "u1"])
            self.assertEqual(pairs(features, one), [(0, 11), (1, 11), (2, 11), (3, 10), (4, 10)])
            for refused in ((one, features), (features, from_arrays(y=y, lengths=[3, 2], keys=["u2", "u1"]))):
                with self.assertRaisesRegex(ReaderError, "The sequence has .* in frame mode|In frame mode"):
                    pairs(*refused)


if __name__ == "__main__":
    unittest.main()
