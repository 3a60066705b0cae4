"""Programs for CNTK's Python package: its names of streams and minibatches, and its results."""

import tempfile
import unittest
from pathlib import Path

import cntk_reader
import cntk_reader.cntk as cntk_io
import numpy as np
from cntk_reader.cntk import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs, StreamInformation, TraceLevel

TEXT = """0 |x 3:1 3:2 |y 1
0 |x 1:5 |y 2
1 |x 2:1 0:4 2:7 |y 3
"""


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = str(Path(folder.name) / "x.ctf")
        Path(self.path).write_text(TEXT)
        self.streams = StreamDefs(
            x=StreamDef(field="x", shape=5, is_sparse=True, max_sequence_length=65535, broadcast=None),
            y=StreamDef(field="y", shape=1, is_sparse=False),
        )

    def source(self, **options):
        source = MinibatchSource(CTFDeserializer(self.path, self.streams), randomize=False, max_sweeps=1, **options)
        self.addCleanup(source.close)
        return source

    def test_streams(self):
        source = self.source(trace_level=TraceLevel.Warning, multithreaded_deserializer=False)
        x = source.streams.x
        self.assertEqual(
            (x.m_name, x.m_storage_format, x.m_element_type, x.m_is_binary, x.m_defines_mb_size),
            ("x", 1, 1, False, False),
        )
        self.assertEqual((x.m_sample_layout.dimensions(), x.sample_shape, x.as_string()), ((5,), (5,), "x([5])"))
        self.assertEqual(
            [source.stream_info(name).m_id for name in ("x", "y")], [info.m_id for info in (x, source["y"])]
        )
        self.assertEqual({info.m_name for info in list(source.streams.values())}, {"x", "y"})
        self.assertFalse(source.is_infinite())
        made = StreamInformation("y", 0, "dense", np.float64, (3, 2))
        self.assertEqual(
            (made.name, made.sample_shape, made.storage_format, made.m_element_type), ("y", (3, 2), "dense", 2)
        )
        self.assertEqual(cntk_reader.cntk.DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS, 128)
        with self.assertRaisesRegex(KeyError, "There is no stream 'z'"):
            source.stream_info("z")

    def test_minibatches(self):
        """The values are CNTK 2.7's."""
        source = self.source()
        x, y = object(), object()
        minibatch = source.next_minibatch(64, input_map={x: source.streams.x, y: source.streams["y"]})
        self.assertEqual(set(minibatch), {x, y})
        data = minibatch[x]
        self.assertEqual(
            (data.num_samples, data.number_of_samples, data.num_sequences, data.number_of_sequences), (3, 3, 2, 2)
        )
        self.assertTrue(data.is_sparse and data.end_of_sweep and data.sweep_end)
        self.assertEqual((data.shape, data.data.shape), ((2, 2, 5), (2, 2, 5)))
        self.assertEqual(data.mask.tolist(), [[2, 1], [2, 0]])
        self.assertEqual(
            (data.mask.dtype, data.data.mask.tolist(), data.data.masked_count), (np.int8, [[2, 1], [2, 0]], 1)
        )
        expected = [[[0, 0, 0, 3, 0], [0, 5, 0, 0, 0]], [[4, 0, 8, 0, 0], [0] * 5]]
        self.assertEqual(data.data.asarray().tolist(), expected)
        self.assertEqual(np.asarray(data.data).tolist(), expected)
        sequences = data.as_sequences(x)
        self.assertEqual([part.toarray().tolist() for part in sequences], [expected[0], expected[1][:1]])
        self.assertEqual(minibatch[y].data.asarray().tolist(), [[[1], [2]], [[3], [0]]])
        self.assertEqual([part.tolist() for part in minibatch[y].data.as_sequences()], [[[1], [2]], [[3]]])
        self.assertEqual(data.as_string(), "MinibatchData(data=Value([2 x 2 x 5], CPU), samples=3, seqs=2)")
        # The end of the data, as programs for CNTK detect it.
        self.assertFalse(source.next_minibatch(64, {x: source.streams.x}))
        self.assertFalse(source.next_minibatch(64))

    def test_positions(self):
        source = self.source()
        first = source.next_minibatch(1, None, None, 1, 0)
        state = source.current_position
        self.assertEqual(state, source.get_checkpoint_state())
        second = source.next_minibatch(1)
        source.current_position = state
        again = source.next_minibatch(1)
        for minibatch, expected in ((first, [1, 2]), (second, [3]), (again, [3])):
            self.assertEqual(minibatch[source.streams.y].data.asarray().ravel().tolist(), expected)

    def test_mistakes(self):
        source = self.source()
        with self.assertRaisesRegex(TypeError, "device is 'gpu'"):
            source.next_minibatch(1, device="gpu")
        with self.assertRaisesRegex(KeyError, "There is no stream 'z'"):
            source.next_minibatch(1, {"a": "z"})
        with self.assertRaisesRegex(TypeError, "input_map must be a dictionary"):
            source.next_minibatch(1, ["x"])
        with self.assertRaisesRegex(TypeError, "Did you mean 'phone_boundaries'"):
            cntk_reader.HTKMLFDeserializer("states", {}, phoneBoundaries=True)


class Squares(cntk_io.UserDeserializer):
    """Four sequences per chunk, as programs for CNTK write them."""

    def __init__(self):
        super().__init__()
        self._streams = [
            cntk_io.StreamInformation("x", 0, "dense", np.float32, (2,)),
            cntk_io.StreamInformation("y", 1, "dense", np.float32, (1,)),
        ]

    def stream_infos(self):
        return self._streams

    def num_chunks(self):
        return 3

    def get_chunk(self, chunk_id):
        numbers = np.arange(4 * chunk_id, 4 * chunk_id + 4, dtype=np.float32)
        return {
            "x": [np.array([[n, n * n]], np.float32) for n in numbers],
            "y": [np.full((1 + int(n) % 2, 1), n, np.float32) for n in numbers],
        }


class CustomDeserializers(unittest.TestCase):
    """CNTK 2.7 returned the same values and states for the same program."""

    def test_minibatches_and_states(self):
        source = cntk_io.MinibatchSource([Squares()], randomize=False, max_sweeps=1)
        self.addCleanup(source.close)
        given = {"x": source.streams.x, "y": source.streams.y}
        seen, states = [], []
        while True:
            minibatch = source.next_minibatch(5, input_map=given)
            if not minibatch:
                break
            x, y = minibatch["x"], minibatch["y"]
            seen.append((x.num_sequences, y.num_samples, x.shape, y.shape, x.end_of_sweep))
            states.append(source.get_checkpoint_state())
            values = y.data.asarray()
            self.assertEqual(values.shape, y.shape)
            self.assertEqual(x.data.asarray()[:, 0, 0].tolist(), values[:, 0, 0].tolist())
        self.assertEqual(
            seen,
            [
                (3, 4, (3, 1, 2), (3, 2, 1), False),
                (3, 5, (3, 1, 2), (3, 2, 1), False),
                (3, 4, (3, 1, 2), (3, 2, 1), False),
                (3, 5, (3, 1, 2), (3, 2, 1), False),
            ],
        )
        columns = ("currentChunkPosition", "baseSampleCount", "baseCurrentSequencePositionInWindow")
        self.assertEqual(
            [tuple(state[column] for column in columns) for state in states],
            [(0, 4, 3), (1, 9, 2), (2, 13, 1), (2, 18, 4)],
        )
        source.restore_from_checkpoint(states[0])
        again = source.next_minibatch(5, input_map={"a": source.streams.x})
        self.assertEqual(again["a"].asarray().tolist(), [[[3.0, 9.0]], [[4.0, 16.0]], [[5.0, 25.0]]])

    def test_randomized_sweep(self):
        source = cntk_io.MinibatchSource(
            [Squares()], cntk_io.FULL_DATA_SWEEP, cntk_io.INFINITELY_REPEAT, 2, 0, 5, TraceLevel.Warning
        )
        self.addCleanup(source.close)
        seen = []
        for _ in range(4):
            minibatch = source.next_minibatch(4, num_data_partitions=1, partition_index=0)
            seen.append(minibatch[source.streams.x].asarray()[:, 0, 0].tolist())
            self.assertEqual(set(minibatch), {source["x"], source["y"]})
        self.assertEqual(seen, [[2.0, 4.0, 0.0], [5.0, 6.0], [3.0, 1.0], [7.0, 11.0]])


if __name__ == "__main__":
    unittest.main()
