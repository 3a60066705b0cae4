"""What `repr` says: names, types, shapes and sizes, without reading."""

import tempfile
import unittest
from pathlib import Path

import numpy as np
from cntk_reader import (
    CBFDeserializer,
    CTFDeserializer,
    HTKFeatureDeserializer,
    MinibatchSource,
    StreamDef,
    StreamDefs,
    StreamInformation,
    UserDeserializer,
    from_arrays,
    one_hot,
)


class Listing(UserDeserializer):
    """Lists its sequences on loading."""

    def stream_infos(self):
        return [StreamInformation("x", 0, "dense", np.float32, (2,))]

    def num_chunks(self):
        return 1

    def get_chunk(self, chunk_id):
        return {"x": np.zeros((3, 2), np.float32)}


class Sources(unittest.TestCase):
    def test_source(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.ctf"
            path.write_text("0 |w 3:1\n0 |w 1:1\n1 |w 2:1\n")
            data = CTFDeserializer(path, StreamDefs(w=StreamDef(shape=9, is_sparse=True)))
            source = MinibatchSource(data)
            path.unlink()
            expected = "<MinibatchSource: w (9,) sparse float32; 3 samples, 2 sequences, 1 chunk>"
            self.assertEqual(repr(source), expected)
        source.close()
        self.assertEqual(repr(source), "<MinibatchSource: w (9,) sparse float32; The source is closed>")
        self.assertEqual(repr(MinibatchSource(Listing())), "<MinibatchSource: x (2,) float32; 1 chunk>")

    def test_minibatch(self):
        words = np.array([3, 1, 2])
        data = from_arrays(w=one_hot(words, 9), y=np.arange(2, dtype=np.int64), lengths=[2, 1])
        minibatch = next(iter(MinibatchSource(data, minibatch_size=9, max_sweeps=1, randomize=False)))
        expected = "<Minibatch: 2 sequences; w (9,) sparse float32 of 3 samples; y () int64 of 2 samples, end of epoch>"
        self.assertEqual(repr(minibatch), expected)
        expected = "<StreamMinibatch: w (9,) sparse float32; 2 sequences, 3 samples in 2 steps x 2 lanes>"
        self.assertEqual(repr(minibatch["w"]), expected)
        source = MinibatchSource(data, minibatch_size=1, lockstep=True, workers=40, rank=39)
        self.assertEqual(repr(next(iter(source))), "<Minibatch: no data>")

    def test_deserializers(self):
        """Only what was given, as the call that gives it."""
        streams = {"w": StreamDef(field="word", shape=9, is_sparse=True), "x": StreamDef(shape=(2, 3))}
        for made, expected in (
            (StreamDef(), "StreamDef()"),
            (
                CTFDeserializer("none.ctf", streams, max_errors=3),
                "CTFDeserializer(filename='none.ctf', streams={'w': StreamDef(field='word', shape=9, is_sparse=True), "
                "'x': StreamDef(shape=(2, 3))}, max_errors=3)",
            ),
            (CBFDeserializer("none.cbf"), "CBFDeserializer(filename='none.cbf')"),
            (
                HTKFeatureDeserializer({"f": StreamDef(shape=40, scp="a.scp", context=(5, 5))}),
                "HTKFeatureDeserializer(streams={'f': StreamDef(shape=40, context=(5, 5), scp='a.scp')})",
            ),
        ):
            self.assertEqual(repr(made), expected)
            self.assertEqual(eval(repr(made)), made)


if __name__ == "__main__":
    unittest.main()
