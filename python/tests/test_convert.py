"""Conversions of speech data."""

import tempfile
import unittest
from pathlib import Path

import cntk_reader as cr
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
KALDI = ROOT / "tests" / "kaldi"
HTK = ROOT / "tests" / "htk" / "data"


class Conversions(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_arrays_match_kaldi_values(self) -> None:
        output = self.folder / "x.npz"
        # Paths in scripts are relative to the working directory, so an archive is read here.
        cr.kaldi_to_numpy(KALDI / "compressed.ark", output)
        expected = {}
        for line in (KALDI / "expected.txt").read_text().splitlines():
            key, rows, columns, *bits = line.split()
            values = np.array([int(word, 16) for word in bits], dtype=np.uint32)
            expected[key] = values.reshape(int(rows), int(columns))
        with np.load(output) as arrays:
            self.assertEqual(len(arrays.files), 21)
            for key in arrays.files:
                self.assertEqual(arrays[key].dtype, np.float32)
                np.testing.assert_array_equal(arrays[key].view(np.uint32), expected[key])

    def test_features_round_trip_through_htk(self) -> None:
        archive, script, back = (self.folder / name for name in ("x.mfc", "x.scp", "y.ark"))
        seen = []
        cr.kaldi_to_htk(KALDI / "float.ark", archive, script, progress=lambda *counts: seen.append(counts))
        self.assertEqual(seen[-1], (400, 400, 3))
        cr.htk_to_kaldi(script, back)
        self.assertEqual(back.read_bytes(), (KALDI / "float.ark").read_bytes())
        cr.htk_to_numpy(script, self.folder / "y.npz")
        with np.load(self.folder / "y.npz") as arrays:
            self.assertEqual({key: arrays[key].shape for key in arrays}, {"f1": (7, 5), "f2": (1, 5), "f3": (12, 5)})

    def test_labels_round_trip_through_all_formats(self) -> None:
        states = HTK / "state.list"
        mlf, text, archive, arrays = (self.folder / name for name in ("x.mlf", "x.ctf", "x.ark", "x.npz"))
        cr.mlf_to_text(HTK / "lab.mlf", text, "labels", states)
        cr.text_to_mlf(text, mlf, "labels", states)
        self.assertEqual(mlf.read_bytes(), (HTK / "lab.mlf").read_bytes())
        cr.mlf_to_kaldi(mlf, archive, states, self.folder / "x.scp")
        cr.kaldi_to_mlf(self.folder / "x.scp", mlf)
        cr.mlf_to_numpy(mlf, arrays)
        with np.load(arrays) as loaded:
            self.assertEqual(loaded["u1"].tolist(), [0, 0, 0, 1, 1, 1, 2])
            self.assertEqual(loaded["u5"].dtype, np.int32)

    def test_errors_and_exceptions_propagate(self) -> None:
        with self.assertRaises(cr.ReaderError) as caught:
            cr.mlf_to_kaldi(HTK / "lab.mlf", self.folder / "x.ark")
        self.assertTrue(str(caught.exception.file).endswith("lab.mlf"))

        def fail(*_: int) -> bool:
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            cr.kaldi_to_numpy(KALDI / "float.ark", self.folder / "x.npz", progress=fail)
        with self.assertRaises(cr.ReaderError):
            cr.kaldi_to_numpy(KALDI / "float.ark", self.folder / "x.npz", progress=lambda *_: False)
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
