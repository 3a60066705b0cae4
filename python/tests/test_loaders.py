"""Epochs, states, pickling and forks: the basis of training loops and loaders."""

import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

import cntk_reader
import numpy as np
from cntk_reader import (
    CTFDeserializer,
    MinibatchSource,
    ReaderError,
    ReaderValueError,
    StreamDef,
    StreamDefs,
    StreamInformation,
    UserDeserializer,
)

from .loops import minibatches_of, next_epoch
from .values import samples

GLOBAL = {"options": {"localTimeline": False}}
MODES = [
    {},
    {"randomize": False},
    {"randomization_window_in_samples": 100},
    {"truncation_length": 3},
    {"randomize": False, "truncation_length": 3},
    GLOBAL,
    {"randomize": False, **GLOBAL},
]


class Listing(UserDeserializer):
    """Ten chunks that list their sequences only when loaded."""

    def stream_infos(self):
        return [StreamInformation("x", 0, "dense", np.float32, (1,))]

    def num_chunks(self):
        return 10

    def get_chunk(self, chunk_id):
        return {"x": np.arange(chunk_id * 20, chunk_id * 20 + 20, dtype=np.float32)[:, None]}


class Empty(Listing):
    """Four chunks without sequences."""

    def num_chunks(self):
        return 4

    def get_chunk(self, chunk_id):
        return {"x": []}


class WithFiles(unittest.TestCase):
    """Two files: 200 sequences of 1 to 7 samples, and 1000 of one sample, all with distinct
    numbers."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        root = Path(cls.folder.name)
        cls.long, cls.short = root / "long.ctf", root / "short.ctf"
        lines = [f"{i} |x {i * 10 + j}\n" for i in range(200) for j in range(1 + i * 5 % 7)]
        cls.long.write_text("".join(lines))
        cls.short.write_text("".join(f"|x {i}\n" for i in range(1000)))
        cls.long_samples = len(lines)

    def open(self, path=None, **options):
        data = CTFDeserializer(path or self.long, StreamDefs(x=StreamDef(shape=1)), chunk_size_in_bytes=300)
        return MinibatchSource(data, **options)


class Lockstep(WithFiles):
    MODES = ({}, {"randomize": False}, {"randomization_window_in_samples": 60})

    def workers(self, count, **options):
        return [
            self.open(minibatch_size=20, workers=count, rank=rank, lockstep=True, trace_level=0, **options)
            for rank in range(count)
        ]

    def together(self, loops):
        """Returns the sorted samples of each step of all workers, and the number of empty
        shares."""
        loops = [[samples([minibatch]) if minibatch else [] for minibatch in loop] for loop in loops]
        self.assertEqual(len({len(loop) for loop in loops}), 1, "steps")
        return [sorted(sum(step, [])) for step in zip(*loops)], sum(not share for loop in loops for share in loop)

    def test_shares_add_up_to_one_workers_minibatches(self):
        for options in self.MODES:
            (alone,) = self.workers(1, **options)
            expected = [self.together([next_epoch(alone)]) for _ in range(2)]
            # There are 30 chunks.
            for count in (2, 3, 50):
                with self.subTest(options, workers=count):
                    sources = self.workers(count, **options)
                    empty = 0
                    for steps, none in expected:
                        self.assertEqual(none, 0)
                        got, more = self.together([next_epoch(source) for source in sources])
                        self.assertEqual(got, steps)
                        empty += more
                    self.assertTrue(empty or count < 50)
                    sources = self.workers(count, max_sweeps=2, **options)
                    got, _ = self.together([minibatches_of(source) for source in sources])
                    self.assertEqual(sorted(sum(got, [])), sorted(sum(expected[0][0] + expected[1][0], [])))

    def test_worker_count_changes_after_any_step(self):
        for options in self.MODES:
            sources = self.workers(1, **options)
            steps, _ = self.together([next_epoch(sources[0])])
            following, _ = self.together([next_epoch(sources[0])])
            for stop in (1, 7, len(steps) - 1, len(steps)):
                for before, after in ((3, 2), (50, 3), (2, 50)):
                    with self.subTest(options, stop=stop, before=before, after=after):
                        source = self.workers(before, **options)[before - 1]
                        loop = iter(next_epoch(source))
                        for _ in range(stop):
                            next(loop)
                        state = source.state_dict()
                        others = self.workers(after, **options)
                        for other in others:
                            other.load_state_dict(state)
                        rest, _ = self.together([next_epoch(other) for other in others])
                        # After the last step the epoch is over, and the next one begins.
                        self.assertEqual(rest, steps[stop:] or following)

    def test_lengths_are_known(self):
        for rank in range(3):
            data = CTFDeserializer(self.short, StreamDefs(x=StreamDef(shape=1)), chunk_size_in_bytes=100)
            with MinibatchSource(data, minibatch_size=64, workers=3, rank=rank, lockstep=True) as source:
                self.assertTrue(source.lockstep)
                self.assertEqual((len(next_epoch(source)), len(list(next_epoch(source)))), (16, 16))

    def test_minibatches_without_data(self):
        with self.workers(50)[49] as source:
            empty = next(minibatch for minibatch in source if not minibatch)
            self.assertEqual(len(empty), 0)
            self.assertRaisesRegex(KeyError, "lockstep", lambda: empty["x"])
            self.assertFalse(empty.end_of_epoch)
            self.assertTrue(empty.is_step)
        with self.workers(1)[0] as source:
            steps = [minibatch.is_step for minibatch in next_epoch(source)]
            nothing = source.next_minibatch()
            self.assertEqual((set(steps), bool(nothing), nothing.is_step), ({True}, False, False))
            self.assertTrue(nothing.end_of_epoch)

    def test_unsupported_modes(self):
        with self.assertRaisesRegex(ReaderError, "pieces of sequences"):
            self.open(lockstep=True, truncation_length=3)
        with self.assertRaisesRegex(ReaderError, "only when they are loaded"):
            MinibatchSource(Listing(), lockstep=True)


class Epochs(WithFiles):
    def test_each_loop_delivers_one_sweep(self):
        for options in MODES:
            with self.subTest(options), self.open(**options) as source:
                orders = [samples(next_epoch(source, 50)) for _ in range(3)]
                for order in orders:
                    self.assertEqual(len(order), self.long_samples)
                    self.assertEqual(sorted(order), sorted(orders[0]))
                    self.assertEqual(len(set(order)), len(order))
                if options.get("randomize", True):
                    self.assertNotEqual(orders[0], orders[1])
                self.assertEqual(samples(next_epoch(source, 50, index=1)), orders[1])

    def test_epochs_match_endless_reading(self):
        with self.open(self.short) as source:
            endless = samples(source.next_minibatch(100) for _ in range(20))
            self.assertEqual([*samples(next_epoch(source, 100)), *samples(next_epoch(source, 100))], endless)

    def test_epochs_of_samples_follow_each_other(self):
        for options in MODES:
            with self.subTest(options), self.open(**options) as source:
                seen = Counter()
                for _ in range(5):
                    part = samples(next_epoch(source, 50, samples=333))
                    self.assertLessEqual(abs(len(part) - 333), 7)
                    seen.update(part)
                # 1665 samples: two sweeps, and a part of the third.
                self.assertEqual(len(seen), self.long_samples)
                self.assertEqual(set(seen.values()), {2, 3})

    def test_abandoned_loop_is_not_continued(self):
        with self.open() as source:
            orders = [samples(next_epoch(source, 50)) for _ in range(2)]
            for _ in next_epoch(source, 50, index=0):
                break
            self.assertEqual(samples(next_epoch(source, 50)), orders[1])
            first = next_epoch(source, 50)
            next(first)
            second = next_epoch(source, 50)
            self.assertRaisesRegex(ReaderError, "Another epoch", next, first)
            self.assertRaisesRegex(ReaderError, "has begun an epoch other than 2", lambda: first.delivered)
            self.assertTrue(next(second))

    def test_epoch_resumes_where_its_loop_stopped(self):
        with self.open() as source:
            epoch = next_epoch(source, 50)
            whole = samples(epoch)
            self.assertEqual((samples(epoch), epoch.index), ([], 0))
            again = next_epoch(source, 50, index=0)
            first = next(again)
            self.assertEqual([*samples([first]), *samples(again)], whole)

    def test_some_epochs(self):
        with self.open(minibatch_size=50) as source:
            orders = [samples(epoch) for epoch in source.epochs(3)]
            self.assertEqual(len({tuple(order) for order in orders}), 3)
            with self.assertRaisesRegex(ReaderError, "None of the first 3 epochs is left: the next one is 3"):
                source.epochs(3)
            again = {epoch.index: samples(epoch) for epoch in source.epochs(3, start=1)}
            self.assertEqual(again, {1: orders[1], 2: orders[2]})
            self.assertEqual([epoch.index for epoch in source.epochs(5)], [3, 4])
            self.assertEqual(list(source.epochs(5, start=5)), [])
            self.assertRaisesRegex(ValueError, "start is 6", source.epochs, 5, start=6)

    def test_remaining_epochs(self):
        """A program that is stopped anywhere resumes with the data it would have read."""
        with self.open(minibatch_size=50) as source:
            expected, states = [], []

            def save():
                states.append((len(expected), source.state_dict()))

            save()
            for epoch in source.epochs(2):
                save()
                for minibatch in epoch:
                    expected.append((epoch.index, samples([minibatch])))
                    save()
                save()
        for done, state in states:
            with self.subTest(done=done), self.open(minibatch_size=50) as other:
                other.load_state_dict(state)
                got = [(epoch.index, samples([minibatch])) for epoch in other.epochs(2) for minibatch in epoch]
                self.assertEqual(got, expected[done:])

    def test_state_of_a_started_epoch(self):
        with self.open(minibatch_size=50) as source:
            samples(next_epoch(source))
            epoch = next_epoch(source)
            state = source.state_dict()
            expected = samples(epoch)
        with self.open(minibatch_size=50) as other:
            other.load_state_dict(state)
            epoch = next_epoch(other)
            self.assertEqual((epoch.index, samples(epoch)), (1, expected))

    def test_lengths_and_progress(self):
        with self.open(self.short, minibatch_size=64) as source:
            epoch = next_epoch(source)
            self.assertEqual((len(epoch), epoch.samples, epoch.delivered), (16, 1000, 0))
            delivered = [epoch.delivered for _ in epoch]
            self.assertEqual((len(delivered), delivered[0], delivered[-1]), (16, 64, 1000))
            part = next_epoch(source, samples=100, index=3)
            self.assertEqual((len(part), part.samples, len(list(part))), (2, 100, 2))
        with self.open(minibatch_size=64) as source:
            epoch = next_epoch(source)
            self.assertRaises(TypeError, len, epoch)
            self.assertEqual(epoch.samples, self.long_samples)
            self.assertEqual((source.sizes.samples, source.sizes.sequences), (self.long_samples, 200))
        with self.open(self.short, minibatch_size=64, workers=2, rank=0) as source:
            self.assertRaises(TypeError, len, next_epoch(source))

    def test_tqdm(self):
        try:
            from tqdm import tqdm
        except ImportError:
            self.skipTest("tqdm is not installed")
        with self.open(self.short) as source, open(os.devnull, "w") as nowhere:
            bar = tqdm(next_epoch(source, 64), file=nowhere)
            self.assertEqual(bar.total, 16)
            self.assertEqual(len(samples(bar)), 1000)
            self.assertEqual(bar.n, 16)

    def test_finished_source_continues(self):
        with self.open(max_sweeps=1, minibatch_size=50) as source:
            loops = [samples(source) for _ in range(2)]
            self.assertEqual(loops, [samples(next_epoch(source, index=i)) for i in range(2)])
        with self.open(self.short, randomize=False, max_samples=300, minibatch_size=100) as source:
            self.assertEqual([samples(source)[0] for _ in range(4)], [0, 300, 600, 900])
            while source.next_minibatch():
                pass
            self.assertFalse(source.next_minibatch())
        with self.open(max_sweeps=1, minibatch_size=50) as source:
            self.assertEqual(samples([next(iter(source)), *source]), loops[0])

    def test_workers(self):
        for options in MODES:
            with self.subTest(options):
                for workers in (2, 3):
                    sources = [self.open(workers=workers, rank=rank, **options) for rank in range(workers)]
                    for _ in range(2):
                        parts = [samples(next_epoch(source, 50)) for source in sources]
                        self.assertTrue(all(parts))
                        self.assertEqual(
                            sorted(value for part in parts for value in part),
                            sorted(samples(next_epoch(self.open(randomize=False), 50))),
                        )

    def test_sequences_listed_on_loading(self):
        for options in ({}, {"randomize": False}, {"randomization_window_in_chunks": 3}):
            with self.subTest(options), MinibatchSource(Listing(), **options) as source:
                orders = [samples(next_epoch(source, 30)) for _ in range(3)]
                for order in orders:
                    self.assertEqual(sorted(order), list(range(200)))
                self.assertEqual(orders[0] == orders[1], options == {"randomize": False})
                next(iter(next_epoch(source, 30)))
                self.assertEqual(samples(next_epoch(source, 30, index=1)), orders[1])
                with MinibatchSource(Listing(), max_sweeps=1, **options) as ended:
                    self.assertEqual([samples(minibatches_of(ended, 30)) for _ in range(3)], orders)
        with MinibatchSource(Listing()) as source:
            parts = [samples(next_epoch(source, 30, samples=100)) for _ in range(4)]
            self.assertEqual([len(part) for part in parts], [100] * 4)
            self.assertEqual(sorted(parts[0] + parts[1]), list(range(200)))
            with self.assertRaisesRegex(ReaderError, "Epoch 9 of 100 samples cannot start here"):
                next(iter(next_epoch(source, 30, samples=100, index=9)))

    def test_mistakes(self):
        with self.open() as source:
            for wrong in ({"samples": 0}, {"index": -1}):
                self.assertRaises(ValueError, next_epoch, source, 5, **wrong)
            next(iter(next_epoch(source, 50)))
            with self.assertRaisesRegex(ReaderError, "had one sweep, but one of 10 samples was requested"):
                next(iter(next_epoch(source, 50, samples=10)))
        with self.open() as source:
            source.load_state_dict({"minibatchSourcePosition": 0})
            with self.assertRaisesRegex(ReaderError, "does not contain epochs"):
                next(iter(next_epoch(source, 50)))
            self.assertTrue(next(iter(next_epoch(source, 50, index=0))))

    def test_checkpoint_bytes_contain_the_epoch(self):
        for options in MODES:
            with self.subTest(options), self.open(minibatch_size=50, **options) as source:
                samples(next_epoch(source))
                loop = iter(next_epoch(source))
                next(loop)
                inside = source.checkpoint()
                rest = samples(loop)
                after = source.checkpoint()
                third = samples(next_epoch(source))
                for checkpoint, expected in ((inside, [rest, third]), (after, [third])):
                    with self.open(minibatch_size=50, **options) as other:
                        other.load_state_dict(checkpoint)
                        self.assertEqual([samples(next_epoch(other)) for _ in expected], expected)


class States(WithFiles):
    def passed_on(self, state):
        """Passes a state through JSON and pickle."""
        self.assertEqual(pickle.loads(pickle.dumps(state)), state)
        return json.loads(json.dumps(state))

    def test_exact_in_every_mode(self):
        for options in [*MODES, {"workers": 3, "rank": 1}]:
            for stop in (0, 1, 7):
                with self.subTest(options, stop=stop), self.open(minibatch_size=50, **options) as source:
                    samples(next_epoch(source))
                    loop = iter(next_epoch(source))
                    before = [next(loop) for _ in range(stop)]
                    state = self.passed_on(source.state_dict())
                    expected = [*samples(loop), *samples(next_epoch(source))]
                    with self.open(minibatch_size=50, **options) as other:
                        other.load_state_dict(state)
                        epoch = next_epoch(other)
                        rest = samples(epoch)
                        # Before the loop begins, the state is that of the previous epoch's end.
                        self.assertEqual(epoch.index, 1)
                        self.assertEqual([*rest, *samples(next_epoch(other))], expected)
                        self.assertEqual(len(samples(before)) + len(rest) > 0, True)

    def test_at_the_end_of_an_epoch(self):
        with self.open(minibatch_size=50) as source:
            loop = next_epoch(source)
            for _ in loop:
                inside = source.state_dict()
            after = source.state_dict()
            expected = samples(next_epoch(source))
        for state in (inside, after):
            with self.open(minibatch_size=50) as other:
                other.load_state_dict(state)
                self.assertEqual(samples(next_epoch(other)), expected)

    def test_before_the_first_minibatch(self):
        with self.open(minibatch_size=50) as source:
            state = self.passed_on(source.state_dict())
            expected = samples(next_epoch(source))
            source.load_state_dict(state)
            self.assertEqual(samples(next_epoch(source)), expected)

    def test_loops_over_limits_and_single_minibatches(self):
        with self.open(max_sweeps=2, minibatch_size=50) as source:
            source.next_minibatch()
            state = source.state_dict()
            expected = samples(source)
            more = samples(source)
        with self.open(max_sweeps=2, minibatch_size=50) as other:
            other.load_state_dict(state)
            self.assertEqual(samples(other), expected)
            self.assertEqual(samples(other), more)

    def test_lengths_after_resuming(self):
        with self.open(self.short, minibatch_size=64) as source:
            loop = iter(next_epoch(source))
            for _ in range(3):
                next(loop)
            state = source.state_dict()
        with self.open(self.short, minibatch_size=64) as other:
            other.load_state_dict(state)
            epoch = next_epoch(other)
            self.assertEqual(len(epoch), 13)
            self.assertEqual(len(list(epoch)), 13)

    def test_worker_count_changes(self):
        everything = sorted(samples(next_epoch(self.open(randomize=False), 50)))
        for options in ({"lockstep": True}, {"randomize": False, "lockstep": True}):
            for before, after in ((1, 3), (2, 1), (2, 3), (3, 2)):
                with self.subTest(options, before=before, after=after):
                    sources = [
                        self.open(minibatch_size=60, workers=before, rank=rank, **options) for rank in range(before)
                    ]
                    loops = [iter(next_epoch(source)) for source in sources]
                    seen = [value for _ in range(4) for loop in loops for value in samples([next(loop)])]
                    state = self.passed_on(sources[0].state_dict())
                    for rank in range(after):
                        other = self.open(minibatch_size=60, workers=after, rank=rank, **options)
                        other.load_state_dict(state)
                        seen += samples(next_epoch(other))
                    self.assertEqual(sorted(seen), everything)

    def test_worker_count_changes_at_end_of_epoch(self):
        everything = sorted(samples(next_epoch(self.open(randomize=False), 50)))
        for options in MODES:
            with self.subTest(options):
                source = self.open(minibatch_size=50, workers=2, rank=1, **options)
                samples(next_epoch(source))
                state = source.state_dict()
                seen = []
                for rank in range(3):
                    other = self.open(minibatch_size=50, workers=3, rank=rank, **options)
                    other.load_state_dict(state)
                    epoch = next_epoch(other)
                    seen += samples(epoch)
                    self.assertEqual(epoch.index, 1)
                self.assertEqual(sorted(seen), everything)

    def test_sample_epochs_listed_on_loading_keep_worker_count(self):
        with MinibatchSource(Listing(), minibatch_size=20, workers=2, rank=0) as source:
            samples(next_epoch(source, samples=100))
            state = source.state_dict()
        with MinibatchSource(Listing(), minibatch_size=20, workers=3, rank=0) as other:
            self.assertRaisesRegex(ReaderValueError, "this is worker 0 of 3", other.load_state_dict, state)

    def test_changed_values_need_permission(self):
        path = Path(self.folder.name) / "changed.ctf"
        path.write_text(self.short.read_text())
        with self.open(path, minibatch_size=50) as source:
            next(iter(next_epoch(source)))
            state, checkpoint = self.passed_on(source.state_dict()), source.checkpoint()
        path.write_text(self.short.read_text().replace("|x 500\n", "|x 501\n"))
        with self.open(path, minibatch_size=50) as other:
            with self.assertRaisesRegex(ReaderError, "the same sequences, but different values") as caught:
                other.load_state_dict(state)
            self.assertEqual(caught.exception.kind, "checkpoint")
            self.assertRaises(ReaderError, other.load_state_dict, checkpoint)
            other.load_state_dict(checkpoint, allow_changed_values=True)
            other.load_state_dict(state, allow_changed_values=True)
            self.assertEqual(len(samples(next_epoch(other))), 950)

    def test_empty_sweep_is_an_error(self):
        for options in ({}, {"randomize": False}):
            for limit in ({"max_sweeps": 1}, {}):
                with MinibatchSource(Empty(), minibatch_size=5, **limit, **options) as source:
                    with self.assertRaisesRegex(ReaderError, "None of the 4 chunks of the deserializer has a sequence"):
                        list(source)

    def test_mismatched_states(self):
        with self.open(minibatch_size=50, workers=2, rank=0) as source:
            next(iter(next_epoch(source)))
            state = source.state_dict()
        for workers, rank in ((2, 1), (3, 0)):
            with self.open(minibatch_size=50, workers=workers, rank=rank) as other:
                with self.assertRaisesRegex(ReaderValueError, f"but this is worker {rank} of {workers}"):
                    other.load_state_dict(state)
                # The source is unchanged.
                self.assertTrue(samples(next_epoch(other)))
        # Settings decide, not texts that look like them, and a shared timeline is not enough.
        for name, value in (("localTimeline", False), ("note", "lockstep = true"), ("note", "localTimeline = false")):
            with self.subTest(name, value=value):
                options = {"options": {name: value}}
                with self.open(minibatch_size=50, workers=2, rank=0, **options) as source:
                    next(iter(next_epoch(source)))
                    state, checkpoint = source.state_dict(), source.checkpoint()
                with self.open(minibatch_size=50, workers=3, rank=0, **options) as other:
                    with self.assertRaisesRegex(ReaderValueError, "but this is worker 0 of 3"):
                        other.load_state_dict(state)
                    # The bytes contain their own workers, and other workers cannot continue.
                    other.load_state_dict(checkpoint)
                    with self.assertRaisesRegex(ReaderError, "worker 0 of 3 cannot continue from there"):
                        other.next_minibatch()
        text = f'''# lockstep = true
            deserializers = ([ type = "CNTKTextFormatDeserializer"; module = "CNTKTextFormatReader"; file = "{self.long}"
            chunkSizeInBytes = 300; input = [ x = [ dim = 1; format = "dense" ] ] ])'''
        with MinibatchSource.from_text(text, minibatch_size=50, workers=2, rank=0) as source:
            next(iter(next_epoch(source)))
            state = source.state_dict()
        with MinibatchSource.from_text(text, minibatch_size=50, workers=3, rank=0) as other:
            with self.assertRaisesRegex(ReaderValueError, "but this is worker 0 of 3"):
                other.load_state_dict(state)
        with self.open(minibatch_size=50, workers=2, rank=0, randomization_seed=5) as other:
            self.assertRaisesRegex(ReaderError, "seed", other.load_state_dict, state)
        with self.open() as other:
            for wrong in ({}, {**state, "version": 9}, {**state, "checkpoint": "?"}, {**state, "span": [1]}):
                with self.assertRaisesRegex(ReaderValueError, "This is not a state of a source") as caught:
                    other.load_state_dict(wrong)
                self.assertEqual(caught.exception.kind, "checkpoint")
            self.assertRaisesRegex(TypeError, "state_dict must be a dictionary", other.load_state_dict, [])


def read_all(source, connection):
    """The work of a process."""
    try:
        connection.send(samples(next_epoch(source, 50)))
    except ReaderError as error:
        connection.send(f"{error.kind}: {error.message}")


def reopen_and_read_all(source, connection):
    """The work of a process that was forked."""
    assert not source.is_of_this_process
    read_all(source.reopen(), connection)


#: A program whose children fail unless they read the same number of samples.
FORKING = """
import os, signal, sys, time
from cntk_reader import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs

streams = StreamDefs(x=StreamDef(shape=12), w=StreamDef(shape=24, is_sparse=True))

def open_source():
    return MinibatchSource(CTFDeserializer(sys.argv[1], streams, chunk_size_in_bytes=30_000))

def total(source, size):
    source.minibatch_size = size
    return sum(minibatch["x"].num_samples for minibatch in next(source.epochs()))

source = open_source()
expected = [total(source, 100) for _ in range(2)][0]
# All threads of the source have gone to sleep.
time.sleep(0.05)
for _ in range(5):
    child = os.fork()
    if child == 0:
        # A signal ends it, even if it hangs.
        signal.alarm(60)
        status = 1
        try:
            status = int(total(open_source(), 60) != expected)
        finally:
            # A forked child must not run the parent's exit handlers.
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(cntk_reader.__file__))}


class Processes(WithFiles):
    def in_process(self, method, work, source):
        context = multiprocessing.get_context(method)
        here, there = context.Pipe()
        process = context.Process(target=work, args=(source, there))
        process.start()
        self.assertTrue(here.poll(50), "the process does not answer")
        received = here.recv()
        process.join(10)
        self.assertEqual(process.exitcode, 0)
        return received

    def test_spawned_processes_reopen_the_source(self):
        with self.open() as source:
            expected = samples(next_epoch(source, 50))
            self.assertEqual(self.in_process("spawn", read_all, source), expected)

    def test_forked_processes(self):
        with self.open() as source:
            expected = samples(next_epoch(source, 50))
            message = self.in_process("fork", read_all, source)
            self.assertRegex(message, r"state: The source was opened before a fork.*source\.reopen\(\)")
            self.assertEqual(self.in_process("fork", reopen_and_read_all, source), expected)
            self.assertEqual(samples(next_epoch(source, 50, index=0)), expected)

    def test_children_read_while_parent_threads_sleep(self):
        """Prefetching and packing threads do not exist in a child; its readers start their own."""
        path = Path(self.folder.name) / "many.ctf"
        path.write_text("".join(f"{i} |x {i}{' 0.25' * 11} |w {i % 24}:1\n" * (1 + i % 40) for i in range(3000)))
        # Memory addresses, and so the failures, differ from process to process.
        for _ in range(8):
            subprocess.run([sys.executable, "-c", FORKING, str(path)], env=ENVIRONMENT, timeout=300, check=True)

    def test_users_deserializers(self):
        with MinibatchSource(Listing(), minibatch_size=7, workers=2, rank=1) as source:
            copy = pickle.loads(pickle.dumps(source))
            self.assertEqual(samples(next_epoch(copy)), samples(next_epoch(source)))


if __name__ == "__main__":
    unittest.main()
