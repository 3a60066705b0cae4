"""Users' deserializers: recorded orders of CNTK, arrays, mistakes, lifetimes, threads,
processes."""

import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref
from pathlib import Path

import cntk_reader
import numpy as np
import scipy.sparse as sp
from cntk_reader import (
    ComposableUserDeserializer,
    CTFDeserializer,
    MinibatchSource,
    ReaderError,
    SequenceArray,
    SequenceList,
    StreamDef,
    StreamDefs,
    StreamInformation,
    UserDeserializer,
    set_log_callback,
)

from .loops import minibatches_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"


class Chunks(UserDeserializer):
    """Given chunks. Records how it is called."""

    def __init__(self, chunks, **streams):
        self.chunks = chunks
        self.infos = [
            StreamInformation(name, i, kind, np.float32, shape, *flags)
            for i, (name, (kind, shape, *flags)) in enumerate(streams.items())
        ]
        self.loads = []
        self.threads = set()
        self.inside = self.most_inside = 0

    def stream_infos(self):
        return self.infos

    def num_chunks(self):
        return len(self.chunks)

    def get_chunk(self, chunk_id):
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.loads.append(chunk_id)
        self.threads.add(threading.get_ident())
        chunk = self.chunks[chunk_id]
        time.sleep(0.001)
        self.inside -= 1
        return chunk() if callable(chunk) else chunk


def numbers(*sizes):
    """Returns chunks of numbered samples."""
    firsts = np.cumsum([0, *sizes])
    chunks = [{"x": np.arange(a, b, dtype=np.float32)[:, None]} for a, b in zip(firsts, firsts[1:])]
    return Chunks(chunks, x=("dense", (1,)))


def read(source, size, stream="x"):
    """Returns the values of all minibatches."""
    return [int(value) for part in minibatches_of(source, size) for value in part[stream].array.ravel()]


def dense(values, stream="dense", shape=(2,)):
    """Returns the first minibatch of one stream with one chunk."""
    user = Chunks([{"x": values}], x=(stream, shape))
    with MinibatchSource(user, randomize=False, max_sweeps=1) as source:
        return source.next_minibatch(100)["x"]


class Orders(unittest.TestCase):
    """Orders recorded from CNTK 2.7."""

    def in_memory(self, randomize):
        # Rows of 3 numbers, and sparse rows i with i at column i modulo 2.
        x = np.arange(15, dtype=np.float32).reshape(5, 3)
        y = sp.csr_matrix((np.arange(5, dtype=np.float32), ([0, 1, 2, 3, 4], [1, 0, 2, 0, 0])), shape=(5, 3))
        user = Chunks([{"x": x, "y": y}], x=("dense", (3,)), y=("sparse", (3,)))
        with MinibatchSource([user], randomize=randomize) as source:
            part = source.next_minibatch(5)
            self.assertTrue((part["y"].asarray()[0] == y.toarray()[(part["x"].array[0, :, 0] // 3).astype(int)]).all())
            return part["x"].array[0].tolist()

    def test_first_example_of_the_manual(self):
        self.assertEqual(self.in_memory(False)[:3], [[0, 1, 2], [3, 4, 5], [6, 7, 8]])
        shuffled = self.in_memory(True)
        self.assertEqual(shuffled[:3], [[12, 13, 14], [0, 1, 2], [9, 10, 11]])
        self.assertEqual(shuffled[3:], [[6, 7, 8], [3, 4, 5]])

    def test_sweeps(self):
        with MinibatchSource(numbers(5), max_sweeps=3) as source:
            self.assertEqual(read(source, 5), [4, 0, 3, 2, 1, 3, 0, 2, 1, 4, 3, 2, 0, 4, 1])

    def test_windows(self):
        orders = {
            (("randomization_window_in_chunks", 2),): [0, 3, 1, 2, 4, 5, 6, 8, 7, 2, 1, 0, 6, 7, 3, 5, 4, 8],
            (("randomization_window_in_samples", 4),): [0, 3, 1, 2, 4, 5, 6, 8, 7, 2, 1, 0, 6, 7, 3, 5, 4, 8],
            (): [6, 4, 5, 3, 2, 7, 1, 0, 8, 8, 4, 3, 6, 5, 2, 7, 0, 1, 0, 5, 6, 2, 8, 3, 1, 4, 7],
        }
        for settings, order in orders.items():
            user = numbers(3, 3, 3)
            with MinibatchSource(user, max_sweeps=len(order) // 9, **dict(settings)) as source:
                self.assertEqual(read(source, 3), order, settings)
        self.assertEqual(sorted(user.loads), [0, 1, 2], "a window of all chunks loads each once")

    def test_end_of_sweep_comes_with_next_minibatch(self):
        with MinibatchSource(numbers(4), randomize=False, max_sweeps=3) as source:
            flags = [source.next_minibatch(2).end_of_sweep for _ in range(6)]
            self.assertEqual(flags, [False, False, True, False, True, False])
            self.assertFalse(source.next_minibatch(2))

    def test_state(self):
        with MinibatchSource(numbers(3, 3, 3), max_sweeps=3, randomization_window_in_chunks=2) as source:
            self.assertEqual(set(source.cntk_state().values()), {0})
            first = [source.next_minibatch(2)["x"].array.ravel().tolist() for _ in range(2)]
            state, checkpoint = source.cntk_state(), source.checkpoint()
            rest = read(source, 2)
        self.assertEqual(len(sum(first, [])) + len(rest), 27)
        self.assertEqual(state["baseSampleCount"], 4)
        self.assertEqual(len(state), 5)
        for saved in state, checkpoint:
            with MinibatchSource(numbers(3, 3, 3), max_sweeps=3, randomization_window_in_chunks=2) as source:
                source.load_state_dict(saved)
                self.assertEqual(read(source, 2), rest)

    def test_more_workers_than_chunks(self):
        seen = []
        for rank in range(3):
            with MinibatchSource(numbers(4), max_sweeps=1, workers=3, rank=rank) as source:
                seen += read(source, 3)
        self.assertEqual(sorted(seen), [0, 1, 2, 3])

    def test_composable_deserializers_join_files(self):
        class Keyed(ComposableUserDeserializer):
            def stream_infos(self):
                return [StreamInformation("x", 0, "dense", np.float32, ())]

            def num_chunks(self):
                return 2

            def get_sequences(self, chunk_id):
                return SequenceList(2, keys=[7 - chunk_id, 3 + chunk_id])

            def get_chunk(self, chunk_id):
                return {"x": np.array([7 - chunk_id, 3 + chunk_id], np.float32)}

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "y.ctf"
            path.write_text("3 |y 30\n7 |y 70\n6 |y 60\n")
            file = CTFDeserializer(path, StreamDefs(y=StreamDef(shape=1)))
            with MinibatchSource([Keyed(), file], randomize=False, max_sweeps=1) as source:
                minibatch = source.next_minibatch(10)
                self.assertEqual(source.cntk_state(), {"minibatchSourcePosition": 3})
        self.assertEqual(minibatch["x"].array.ravel().tolist(), [7, 3, 6])
        self.assertEqual(minibatch["y"].array.ravel().tolist(), [70, 30, 60])
        self.assertEqual(minibatch.keys_of_sequences.tolist(), [7, 3, 6])

    def test_composable_deserializers_list_lengths_and_keys(self):
        class Listed(ComposableUserDeserializer):
            listed = SequenceList(2, lengths=[1, 3], keys=["8", "9"])

            def stream_infos(self):
                return [StreamInformation("x", 0, "dense", np.float32, (1,))]

            def num_chunks(self):
                return 1

            def get_sequences(self, chunk_id):
                return self.listed

            def get_chunk(self, chunk_id):
                return {"x": [np.full((n, 1), n, np.float32) for n in (1, 3)]}

        with MinibatchSource(Listed(), randomize=False, max_sweeps=1) as source:
            parts = list(minibatches_of(source, 3))
        self.assertEqual([part["x"].num_samples for part in parts], [1, 3])
        self.assertEqual([part.key_text(0) for part in parts], ["8", "9"])
        for mistake in (
            SequenceList(-1),
            SequenceList(2**64 + 2),
            SequenceList(2, lengths=[1]),
            SequenceList(2, keys=["8"]),
            SequenceList(2, keys=[1, 2, 3]),
        ):
            Listed.listed = mistake
            with self.assertRaises(ReaderError) as caught:
                MinibatchSource(Listed())
            self.assertIsInstance(caught.exception.__cause__, ValueError)


class Arrays(unittest.TestCase):
    def test_strides_of_all_kinds(self):
        base = np.arange(24, dtype=np.float32).reshape(4, 6)
        for values in (
            base[:, 1:3],
            base[::2, :2],
            base[::-1, 4:],
            base[:, ::3],
            base[:, 1::-1],
            np.asfortranarray(base[:, :2]),
            np.broadcast_to(np.float32([5, 6]), (3, 2)),
        ):
            self.assertEqual(dense(values).array[0].tolist(), values.tolist())
        cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        self.assertEqual(
            dense(cube.transpose(0, 2, 1), shape=(4, 3)).array[0].tolist(), cube.transpose(0, 2, 1).tolist()
        )
        self.assertEqual(dense(base[:, 1], shape=()).array.tolist(), [base[:, 1].tolist()])

    def test_arrays_are_used_in_place(self):
        values = np.zeros((6, 2), np.float32)
        user = Chunks([{"x": values}], x=("dense", (2,)))
        with MinibatchSource(user, randomize=False, max_sweeps=1) as source:
            self.assertFalse(source.next_minibatch(2)["x"].array.any())
            values[4:] = 9
            source.next_minibatch(2)
            self.assertTrue((source.next_minibatch(2)["x"].array == 9).all())

    def test_arrays_need_not_be_aligned(self):
        values = np.zeros(25, np.uint8)[1:].view(np.float32).reshape(3, 2)
        values[:] = np.arange(6).reshape(3, 2)
        self.assertFalse(values.flags.aligned)
        for given in (values, values[:, ::-1]):
            self.assertEqual(dense(given).array[0].tolist(), given.tolist())

    def test_sparse_matrices(self):
        matrix = sp.random(7, 5, 0.4, "csr", np.float32, np.random.default_rng(1))
        wide = matrix.copy()
        wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
        unsorted = matrix.copy()
        for row in range(7):
            part = slice(*unsorted.indptr[row : row + 2])
            unsorted.indices[part], unsorted.data[part] = unsorted.indices[part][::-1], unsorted.data[part][::-1]
        for given in (matrix, wide, unsorted, sp.csr_array(matrix)):
            self.assertEqual(dense(given, "sparse", (5,)).asarray()[0].tolist(), matrix.toarray().tolist())
        self.assertEqual(dense(matrix, "sparse", (1, 5)).asarray().shape, (1, 7, 1, 5))

    def test_sequences(self):
        x = [np.full((n, 2), n, np.float32) for n in (1, 3, 2)]
        y = [np.float32([i]) for i in range(3)]
        expected = {False: [[1], [3], [2]], True: [[1, 3], [2]]}
        for flag, groups in expected.items():
            user = Chunks([{"x": x, "y": y}], x=("dense", (2,)), y=("dense", (1,), flag))
            with MinibatchSource(user, randomize=False, max_sweeps=1) as source:
                parts = list(minibatches_of(source, 2 if flag else 3))
            self.assertEqual([[len(one) for one in part["x"].as_sequences()] for part in parts], groups)
        rows = sp.csr_matrix(np.eye(6, dtype=np.float32))
        part = dense([rows[:2], rows[2:5], rows[5]], "sparse", (6,))
        self.assertEqual(
            [one.toarray().argmax(axis=1).tolist() for one in part.as_sequences()], [[0, 1], [2, 3, 4], [5]]
        )

    def test_double_precision(self):
        class Doubles(Chunks):
            def stream_infos(self):
                return [StreamInformation("x", 0, "dense", np.float64, (1,))]

        with MinibatchSource(Doubles([{"x": np.array([[1 / 3]])}]), randomize=False) as source:
            self.assertEqual(source.next_minibatch(1)["x"].array[0, 0, 0], 1 / 3)

    def test_empty_chunks(self):
        with MinibatchSource(numbers(2, 0, 3), randomize=False, max_sweeps=1) as source:
            self.assertEqual(read(source, 2), [0, 1, 2, 3, 4])


class Conversions(unittest.TestCase):
    """Arrays of other types and shapes that mean the declared ones."""

    def test_types_and_shapes(self):
        sequences = [np.arange(2.0), np.arange(3.0)]
        for shape, chunk, expected in [
            ((), np.arange(3), [[0], [1], [2]]),
            ((), np.arange(3.0)[:, None], [[0], [1], [2]]),
            ((1,), np.arange(3.0), [[[0]], [[1]], [[2]]]),
            ((1, 1), np.arange(3, dtype=np.uint8), [[[[0]]], [[[1]]], [[[2]]]]),
            ((2,), np.arange(4, dtype=">f8").reshape(2, 2), [[[0, 1]], [[2, 3]]]),
            ((), sequences, [[0, 1], [0, 1, 2]]),
            ((1,), sequences, [[[0], [1]], [[0], [1], [2]]]),
            ((2,), [np.arange(2.0), np.ones((2, 2))], [[[0, 1]], [[1, 1], [1, 1]]]),
            ((), SequenceArray(np.arange(3.0), [2, 1]), [[0, 1], [2]]),
        ]:
            user = Chunks([{"x": chunk}], x=("dense", shape))
            with self.subTest(shape=shape, chunk=chunk), MinibatchSource(user, randomize=False, max_sweeps=1) as source:
                stream = source.next_minibatch(10)["x"]
                self.assertEqual([part.tolist() for part in stream.as_sequences()], expected)
                self.assertEqual(stream.as_sequences()[0].dtype, np.float32)

    def test_sparse_values(self):
        matrix = sp.csr_matrix(np.array([[0, 2], [1, 0]]))
        with MinibatchSource(Chunks([{"x": matrix}], x=("sparse", (2,))), randomize=False, max_sweeps=1) as source:
            found = source.next_minibatch(10)["x"].csr
            self.assertEqual((found.dtype, found.toarray().tolist()), (np.float32, [[0, 2], [1, 0]]))


class Mistakes(unittest.TestCase):
    def fails(self, text, chunk, **streams):
        user = Chunks([chunk], **(streams or {"x": ("dense", (2,))}))
        with MinibatchSource(user, randomize=False) as source, self.assertRaises(ReaderError) as caught:
            source.next_minibatch(1)
        self.assertIn(text, str(caught.exception))
        self.assertEqual(caught.exception.kind, "user")
        return caught.exception

    def test_chunks(self):
        good = np.zeros((3, 2), np.float32)
        sparse = {"x": ("sparse", (2,))}
        self.fails("should be a dictionary", [good])
        self.fails("Expected a string, 'int' was provided.", {1: good})
        self.fails("Stream with name 'z' does not exist", {"x": good, "z": good})
        self.fails("get_chunk returned no stream 'x'", {})
        self.fails("Unexpected type tuple", {"x": (good,)})
        self.fails("for a dense stream", {"x": sp.csr_matrix(good)})
        self.fails("for a sparse stream", {"x": good}, **sparse)
        self.fails("Unexpected type csc_matrix", {"x": sp.csc_matrix(good)}, **sparse)
        self.fails("single sample per row", {"x": good[:, 0]})
        shape = "The array has the shape (3, 3), but the stream has samples of the shape (2,), so (samples, 2) was"
        self.fails(shape, {"x": np.zeros((3, 3), np.float32)})
        self.fails("has no 1e+300: declare dtype='float64'", {"x": np.full((3, 2), 1e300)})
        self.fails("Python objects (dtype=object)", {"x": np.array([[1], [2, 3]], object)})
        self.fails("which are not numbers", {"x": np.array([["a", "b"]])})
        self.fails("get_chunk has returned None", {"x": None})
        whole = [StreamInformation("x", 0, "dense", np.int32, ())]
        for array, text in [
            (np.array([0.5]), "of the type int32, but the array has float64. Pass array.astype('int32')"),
            (np.array([2**31]), "which has no 2147483648: declare dtype='int64'"),
        ]:
            user = Chunks([{"x": array}])
            user.infos = whole
            with MinibatchSource(user, randomize=False) as source, self.assertRaises(ReaderError) as caught:
                source.next_minibatch(1)
            self.assertIn(text, str(caught.exception))
        self.fails("3 columns", {"x": sp.csr_matrix(np.zeros((3, 3), np.float32))}, **sparse)
        self.fails("csr_matrix", {"x": [good]}, **sparse)
        self.fails("numpy array", {"x": [[1, 2]]})
        self.fails("A sequence is 1 (int), not an array. For samples of one number, return one array", {"x": [1, 2]})
        self.fails("one frame long", {"x": [good[:0]]})
        self.fails("lengths have 2 dimensions", {"x": SequenceArray(good, [[3]])})
        self.fails("lengths go from 0", {"x": SequenceArray(good, [-3])})
        two = {"x": ("dense", (2,)), "y": ("dense", (2,))}
        self.fails("an equal number of sequences", {"x": good, "y": good[:2]}, **two)
        broken = sp.csr_matrix(np.ones((1, 2), np.float32))
        broken.indices[1] = 2
        self.fails("index 2", {"x": broken}, **sparse)

    def test_exception_is_the_cause(self):
        def raises():
            raise LookupError("the shelf is empty")

        good = {"x": np.zeros((2, 2), np.float32)}
        user = Chunks([good, raises], x=("dense", (2,)))
        with MinibatchSource(user, randomize=False, max_sweeps=1) as source:
            self.assertEqual(source.next_minibatch(2)["x"].num_samples, 2)
            for _ in range(2):
                with self.assertRaises(ReaderError) as caught:
                    source.next_minibatch(2)
                self.assertIsInstance(caught.exception.__cause__, LookupError)
                self.assertIn("get_chunk(1) of Chunks: LookupError: the shelf is empty", str(caught.exception))
            user.chunks[1] = good
            self.assertEqual(source.next_minibatch(2)["x"].num_samples, 2)

    def test_descriptions(self):
        class Strange(Chunks):
            def num_chunks(self):
                raise OSError("no disk")

        with self.assertRaises(OSError):
            MinibatchSource(Strange([{}]))
        with self.assertRaisesRegex(ValueError, "num_chunks.. of Chunks must be at least 1, but is 0"):
            MinibatchSource(Chunks([], x=("dense", (2,))))
        self.assertRaises(ReaderError, MinibatchSource, Chunks([{}]))
        for shape in (0,), (-1,), (3, 0):
            with self.assertRaisesRegex(ValueError, "'x' has the shape .*: each dimension is at least 1"):
                MinibatchSource(Chunks([{}], x=("dense", shape)))
        for kind, shape in ("thick", (2,)), ("dense", (-3,)), ("dense", (2**64 + 2,)):
            self.assertRaises(ValueError, MinibatchSource, Chunks([{}], x=(kind, shape)))
        for count in -1, 2**32 + 1:
            with self.assertRaisesRegex(ValueError, f"num_chunks.. of .* must be at (least|most) .*, but is {count}"):
                MinibatchSource(type("Miscounted", (Chunks,), {"num_chunks": lambda _, count=count: count})([{}]))
        self.assertRaises(NotImplementedError, MinibatchSource, UserDeserializer())

    def test_ids_of_streams_are_their_places(self):
        class Reversed(Chunks):
            def stream_infos(self):
                return [StreamInformation(name, 1 - i, "dense", np.float32, (1,)) for i, name in enumerate("xy")]

        chunk = {name: np.full((2, 1), value, np.float32) for name, value in (("x", 1), ("y", 2))}
        with self.assertRaisesRegex(ValueError, "'x' has the id 1, but its index in the list is 0"):
            MinibatchSource(Reversed([chunk]))
        user = Chunks([chunk], x=("dense", (1,)), y=("dense", (1,)))
        with MinibatchSource(user, randomize=False) as source:
            part = source.next_minibatch(2)
        self.assertEqual([part[name].array.ravel().tolist() for name in "xy"], [[1, 1], [2, 2]])


class Lifetimes(unittest.TestCase):
    def test_chunks_are_released(self):
        made = []

        class Noted(np.ndarray):
            pass

        def alive():
            return sum(reference() is not None for reference in made)

        def chunk():
            values = np.zeros((4, 2), np.float32).view(Noted)
            made.append(weakref.ref(values))
            return {"x": values}

        user = Chunks([chunk] * 50, x=("dense", (2,)))
        with MinibatchSource(user, randomize=False, max_sweeps=1) as source:
            most = 0
            for part in minibatches_of(source, 4):  # noqa: B007 (used below)
                most = max(most, alive())
        self.assertLess(most, 10)
        self.assertEqual(alive(), 0)
        self.assertEqual(len(user.loads), 50)
        self.assertTrue((part["x"].array == 0).all())

    def test_collected_without_being_closed(self):
        user = numbers(10, 10)
        source = MinibatchSource(user)
        source.me = source
        source.next_minibatch(3)
        # CNTK never frees a deserializer.
        kept = [weakref.ref(source), weakref.ref(user)]
        del source, user
        # A collection does nothing while another thread is collecting.
        deadline = time.monotonic() + 20
        while any(reference() for reference in kept) and time.monotonic() < deadline:
            gc.collect()
        self.assertEqual([reference() for reference in kept], [None, None])

    def test_collected_inside_its_own_callback(self):
        def chunk():
            gc.collect()
            return {"x": np.zeros((1, 1), np.float32)}

        for _ in range(20):
            source = MinibatchSource(Chunks([chunk] * 5, x=("dense", (1,))), randomize=False)
            source.me = source
            source.next_minibatch(1)
            del source
        gc.collect()

    def test_threads(self):
        user = numbers(*[3] * 30)
        with MinibatchSource(user, randomize=False, max_sweeps=1) as source:
            self.assertEqual(read(source, 4), list(range(90)))
        self.assertEqual(len(user.threads), 1)
        self.assertNotIn(threading.get_ident(), user.threads)
        self.assertEqual(user.most_inside, 1)
        safe = numbers(*[3] * 30)
        safe.thread_safe = True
        with MinibatchSource(safe, max_sweeps=1) as source:
            self.assertEqual(sorted(read(source, 4)), list(range(90)))

    def test_concurrent_calls_are_errors(self):
        entered, go_on = threading.Event(), threading.Event()

        def chunk():
            entered.set()
            go_on.wait(10)
            return {"x": np.zeros((1, 1), np.float32)}

        with MinibatchSource(Chunks([chunk], x=("dense", (1,))), max_sweeps=1) as source:
            results = []
            thread = threading.Thread(target=lambda: results.append(source.next_minibatch(1)))
            thread.start()
            self.assertTrue(entered.wait(10))
            for call in (lambda: source.next_minibatch(1), source.close):
                with self.assertRaises(ReaderError) as caught:
                    call()
                self.assertEqual(caught.exception.kind, "state")
            go_on.set()
            thread.join(10)
            self.assertEqual(results[0]["x"].num_samples, 1)

    def test_deserializer_may_read_another_source(self):
        def chunk():
            with MinibatchSource(numbers(4), randomize=False, max_sweeps=1) as inner:
                return {"x": np.float32(read(inner, 3))[:, None]}

        with MinibatchSource(Chunks([chunk] * 2, x=("dense", (1,))), randomize=False, max_sweeps=1) as source:
            self.assertEqual(read(source, 3), [0, 1, 2, 3, 0, 1, 2, 3])

    def test_fork(self):
        with MinibatchSource(numbers(5, 5), max_sweeps=1, randomize=False) as source:
            first = source.next_minibatch(3)
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    ok = first["x"].array.ravel().tolist() == [0, 1, 2]
                    try:
                        source.next_minibatch(3)
                        ok = False
                    except ReaderError as error:
                        ok &= error.kind == "state"
                    source.close()
                    with MinibatchSource(numbers(5, 5), max_sweeps=1, randomize=False) as other:
                        ok &= read(other, 4) == list(range(10))
                    status = 0 if ok else 2
                finally:
                    # A forked child must neither continue the parent's test nor run its exit
                    # handlers.
                    os._exit(status)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            self.assertEqual(read(source, 3), [3, 4, 5, 6, 7, 8, 9])


class Processes(unittest.TestCase):
    def run_python(self, program, **variables):
        path = os.pathsep.join([str(Path(cntk_reader.__file__).parents[1]), str(EXAMPLES)])
        environment = {**os.environ, "PYTHONPATH": path, **variables}
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False)

    def test_exit_while_loading_chunks(self):
        program = (
            "import time, numpy as np\n"
            "from cntk_reader import *\n"
            "set_log_callback(lambda level, line: None)\n"
            "class Slow(UserDeserializer):\n"
            "    def stream_infos(self): return [StreamInformation('x', 0, 'dense', np.float32, (1,))]\n"
            "    def num_chunks(self): return 100\n"
            "    def get_chunk(self, chunk_id):\n"
            "        time.sleep(0.05)\n"
            "        return {'x': np.ones((2, 1), np.float32)}\n"
            "source = MinibatchSource(Slow(), randomize=False)\n"
            "kept = [source.next_minibatch(1) for _ in range(3)]\n"
            "print(kept[-1]['x'].array.sum())\n"
        )
        for ending in ("", "raise SystemExit(0)\n", "source.close()\n", "del source\n"):
            result = self.run_python(program + ending)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "1.0\n", ""), ending)

    def test_log(self):
        lines = []
        set_log_callback(lambda level, line: lines.append((level, line)))
        try:
            MinibatchSource.from_text("mistake = 1", {"": numbers(1)}).close()
        finally:
            set_log_callback(None)
        self.assertTrue(any("mistake" in line for _, line in lines), lines)


class Csv(unittest.TestCase):
    def test_tables(self):
        sys.path.insert(0, str(EXAMPLES))
        from csv_deserializer import CSVDeserializer

        table = np.random.default_rng(2).integers(-99, 100, (500, 7)) / 8
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "table.csv")
            with open(path, "w", newline="") as file:
                file.writelines(",".join(f'"{value}"' for value in row) + "\r\n" for row in table)
            for chunk_size in (100, 1000, 1 << 20):
                for randomize in (False, True):
                    user = CSVDeserializer(path, [("a", 1), ("b", 6)], chunk_size)
                    with MinibatchSource([user], randomize=randomize, max_sweeps=1) as source:
                        parts = [
                            np.concatenate([part[name].array[0] for name in ("a", "b")], axis=1)
                            for part in minibatches_of(source, 64)
                        ]
                    rows = np.concatenate(parts)
                    self.assertEqual(sorted(rows.tolist()), sorted(table.tolist()))
                    self.assertEqual((rows == table).all(), not randomize)


if __name__ == "__main__":
    unittest.main()
