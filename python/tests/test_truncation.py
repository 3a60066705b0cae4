"""Truncated minibatches whose sparse streams stay sparse, compared with those of CNTK's form."""

import random
import tempfile
import unittest
from pathlib import Path

import numpy as np
from cntk_reader import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs
from cntk_reader import cntk as cntk_io

from .test_minibatch import needs

STREAMS = StreamDefs(
    s=StreamDef(shape=300, is_sparse=True), w=StreamDef(shape=600, is_sparse=True), x=StreamDef(shape=1)
)


def write(path, seed):
    """Sequences of 1 to 12 samples with 0 to 3 entries, some of them repeated, and a word."""
    rng = random.Random(seed)
    lines = []
    for key in range(40):
        for _ in range(rng.randint(1, 12)):
            entries = " ".join(
                f"{rng.choice([0, 7, 299])}:{rng.choice([1, 2, 0.25])}" for _ in range(rng.randint(0, 3))
            )
            lines.append(f"{key} |s {entries} |w {rng.randrange(600)}:1 |x {key}\n")
    Path(path).write_text("".join(lines))


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = str(Path(folder.name) / "data.ctf")

    def open(self, expands, **options):
        return MinibatchSource(
            CTFDeserializer(self.path, STREAMS), max_sweeps=2, options={"expandSparse": expands}, **options
        )

    def check(self, found, expected):
        """Compares a minibatch with its expanded form, bit for bit."""
        for flag in ("end_of_sweep", "end_of_epoch"):
            self.assertEqual(getattr(found, flag), getattr(expected, flag))
        np.testing.assert_array_equal(found.keys_of_sequences, expected.keys_of_sequences)
        self.assertEqual(list(found.keys()), list(expected.keys()))
        for name in expected:
            sparse, dense = found[name], expected[name]
            self.assertEqual((sparse.is_sparse, dense.is_sparse), (name != "x", False))
            self.assertEqual((sparse.steps, sparse.lanes), (dense.steps, dense.lanes))
            self.assertEqual(sparse.records.tolist(), dense.records.tolist())
            self.assertEqual(sparse.asarray().tobytes(), dense.array.tobytes())
            self.assertEqual(sparse.padded().array.tobytes(), dense.padded().array.tobytes())
            for part, whole in zip(sparse.as_sequences(), dense.as_sequences()):
                part = part.toarray() if sparse.is_sparse else part
                np.testing.assert_array_equal(part.reshape(whole.shape), whole)
        np.testing.assert_array_equal(found["w"].indices(), expected["w"].indices())

    def test_expands_to_the_dense_form(self):
        for seed in range(6):
            rng = random.Random(seed)
            write(self.path, seed)
            workers = rng.choice([1, 1, 2, 3])
            options = {
                "truncation_length": (steps := rng.randint(1, 9)),
                "minibatch_size": steps * workers * rng.randint(1, 3),
                "workers": workers,
                "rank": rng.randrange(workers),
                "randomize": rng.random() < 0.7,
                "precision": rng.choice(["float", "double"]),
            }
            with (
                self.subTest(seed, **options),
                self.open(False, **options) as sparse,
                self.open(True, **options) as dense,
            ):
                stop, count = rng.randint(0, 5), 0
                for count, (found, expected) in enumerate(zip(sparse, dense)):
                    self.check(found, expected)
                    if count == stop:
                        # Checkpoints of either form continue with the other one.
                        states = sparse.state_dict(), dense.state_dict()
                        with self.open(False, **options) as again, self.open(True, **options) as other:
                            again.load_state_dict(states[1])
                            other.load_state_dict(states[0])
                            for one, two in zip(again, other):
                                self.check(one, two)
                self.assertGreater(count, 3)
                self.assertFalse(sparse.next_minibatch() or dense.next_minibatch())

    def test_memory_is_for_the_stored_values(self):
        write(self.path, 1)
        with self.open(False, truncation_length=32, minibatch_size=64) as source:
            words = source.next_minibatch()["w"]
            data, indices, offsets, shape = words.sparse
            self.assertEqual(shape, (64, 600))
            self.assertEqual((len(data), len(indices), len(offsets)), (words.num_samples, words.num_samples, 65))

    def test_defaults(self):
        write(self.path, 1)
        for module, is_sparse in ((None, True), (cntk_io, False)):
            source = (module.MinibatchSource if module else MinibatchSource)(
                CTFDeserializer(self.path, STREAMS), truncation_length=4
            )
            with source:
                minibatch = source.next_minibatch(8)
                part = minibatch[source.streams["s"]].data if module else minibatch["s"]
                self.assertEqual(part.is_sparse, is_sparse)

    @needs("torch")
    def test_torch(self):
        write(self.path, 2)
        with self.open(False, truncation_length=5, minibatch_size=20) as source:
            stream = source.next_minibatch()["s"]
            np.testing.assert_array_equal(stream.to_torch().to_dense().numpy(), stream.csr.toarray())

    @needs("jax")
    def test_jax(self):
        write(self.path, 2)
        with self.open(False, truncation_length=5, minibatch_size=20) as source:
            stream = source.next_minibatch()["s"]
            np.testing.assert_array_equal(np.asarray(stream.to_jax().todense()), stream.to_scipy().toarray())


if __name__ == "__main__":
    unittest.main()
