"""cntk_reader.jax: arrays, epochs, states, and several processes."""

import json
import multiprocessing
import socket
import tempfile
import unittest
from pathlib import Path

import numpy as np
from cntk_reader import (
    CTFDeserializer,
    MinibatchSource,
    ReaderValueError,
    StreamDef,
    StreamDefs,
    from_arrays,
    one_hot,
)

try:
    import jax
    from cntk_reader.jax import Loader
except ImportError as error:
    raise unittest.SkipTest(f"jax is not installed: {error}") from None

STREAMS = StreamDefs(x=StreamDef(shape=2), s=StreamDef(shape=5, is_sparse=True))


def open_source(path, **options):
    return MinibatchSource(CTFDeserializer(path, STREAMS, chunk_size_in_bytes=200), **options)


def ids(minibatch):
    return [int(value) for value in minibatch["x"].array[..., 0].ravel()]


def flat(loader):
    return [value for minibatch in loader for value in minibatch]


def process(rank, ranks, path, port, connection):
    """One process of a computation."""
    jax.distributed.initialize(f"localhost:{port}", ranks, rank)
    connection.send(flat(Loader(open_source(path), 30, convert=ids)))


class Loaders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.path = Path(folder.name) / "x.ctf"
        cls.path.write_text("".join(f"|x {i} {-i} |s {i % 5}:{i}\n" for i in range(300)))

    def test_arrays(self):
        (minibatch,) = list(Loader(open_source(self.path, randomize=False), 300, sparse="csr"))
        self.assertIsInstance(minibatch["x"], jax.Array)
        self.assertEqual(minibatch["x"].shape, (300, 2))
        self.assertEqual(minibatch["x"][7].tolist(), [7, -7])
        self.assertEqual(minibatch["s"].todense()[8].tolist(), [0, 0, 0, 8, 0])

    def test_ids(self):
        words, labels = np.array([12, 7, 31, 5, 44, 9]), np.array([1, 0, 1])
        data = from_arrays(words=one_hot(words, 50), labels=one_hot(labels, 2), y=np.arange(3.0), lengths=[3, 1, 2])
        loader = Loader(MinibatchSource(data, randomize=False), 6, padding={"words": -1})
        self.assertEqual(loader.epoch, 0)
        (item,) = list(loader)
        self.assertEqual(loader.epoch, 1)
        expected = {
            "words": ((3, 3), "int32"),
            "words_mask": ((3, 3), "bool"),
            "labels": ((3,), "int32"),
            "y": ((3,), "float32"),
        }
        self.assertEqual({name: (one.shape, str(one.dtype)) for name, one in item.items()}, expected)
        self.assertEqual(item["words"].tolist(), [[12, 7, 31], [5, -1, -1], [44, 9, -1]])
        self.assertEqual(item["y"].tolist(), [0, 1, 2])
        source = MinibatchSource(data, lockstep=True, workers=40, rank=39)
        empty = next(iter(Loader(source, 6, sequences=["words"])))
        self.assertEqual([(name, len(one)) for name, one in empty.items()], [(name, 0) for name in item])

    def test_state_of_a_finished_epoch(self):
        def loader():
            return Loader(open_source(self.path), 30, convert=ids)

        first = loader()
        for _ in first:
            state = first.get_state()
        other = loader()
        other.set_state(json.loads(json.dumps(state)))
        self.assertEqual(other.epoch, 1)
        self.assertEqual(flat(other), flat(first))
        with self.assertRaisesRegex(ReaderValueError, "state of a MinibatchSource, but was given to a Loader"):
            other.set_state(first.source.state_dict())

    def test_epochs_and_states(self):
        loader = Loader(open_source(self.path), 30, convert=ids)
        loops = [flat(loader) for _ in range(2)]
        for loop in loops:
            self.assertEqual(sorted(loop), list(range(300)))
        self.assertNotEqual(*loops)
        loader.set_epoch(1)
        iterator = iter(loader)
        first = next(iterator)
        state = json.loads(json.dumps(loader.get_state()))
        other = Loader(lambda: open_source(self.path), 30, convert=ids)
        other.set_state(state)
        self.assertEqual([*first, *flat(other)], loops[1])

    def test_processes(self):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in range(2)]
        processes = [
            context.Process(target=process, args=(rank, 2, self.path, port, there))
            for rank, (_, there) in enumerate(pipes)
        ]
        for one in processes:
            one.start()
        for here, _ in pipes:
            self.assertTrue(here.poll(100), "a process does not answer")
        parts = [here.recv() for here, _ in pipes]
        for one in processes:
            one.join(30)
        self.assertTrue(all(parts))
        self.assertEqual(sorted(parts[0] + parts[1]), list(range(300)))


if __name__ == "__main__":
    unittest.main()
