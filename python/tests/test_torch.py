"""cntk_reader.torch: in one process, in DataLoader workers, StatefulDataLoader,
torch.distributed."""

import pickle
import tempfile
import unittest
import warnings
from pathlib import Path

import numpy as np
from cntk_reader import (
    CTFDeserializer,
    MinibatchSource,
    ReaderError,
    ReaderValueError,
    StreamDef,
    StreamDefs,
    from_arrays,
    mount,
    unmount,
)
from cntk_reader._epoch import LoaderState

try:
    import torch
    from cntk_reader.torch import Dataset
    from torch.utils.data import DataLoader
except ImportError as error:
    raise unittest.SkipTest(f"torch is not installed: {error}") from None
try:
    from torchdata.stateful_dataloader import StatefulDataLoader
except ImportError:
    StatefulDataLoader = None

COUNT = 600


def ids(minibatch):
    """Returns the item that workers send: the values, without gaps."""
    return torch.cat([torch.from_numpy(part.copy()) for part in minibatch["x"].as_sequences()]).ravel().int()


class Opener:
    """Opens sources in the reading process."""

    def __init__(self, path):
        self.path = path

    def __call__(self):
        return open_source(self.path)


def open_source(path, **options):
    data = CTFDeserializer(path, StreamDefs(x=StreamDef(shape=1)), chunk_size_in_bytes=200)
    return MinibatchSource(data, **options)


def open_two(path):
    streams = StreamDefs(x=StreamDef(shape=2), s=StreamDef(shape=5, is_sparse=True))
    return MinibatchSource(CTFDeserializer(path, streams), randomize=False)


def flat(loader):
    return [value for minibatch in loader for value in minibatch.tolist()]


class WithFile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.path = Path(folder.name) / "x.ctf"
        # 200 sequences of 1 to 5 samples with distinct numbers.
        lengths = [1 + i % 5 for i in range(COUNT // 3)]
        cls.path.write_text("".join(f"{i} |x {10 * i + j}\n" for i, n in enumerate(lengths) for j in range(n)))
        cls.everything = sorted(10 * i + j for i, n in enumerate(lengths) for j in range(n))
        # torch warns about forks of a process with threads, sparse tensors, and more workers than
        # CPUs.
        warnings.simplefilter("ignore")

    def dataset(self, **options):
        return Dataset(open_source(self.path, **options), 30, convert=ids)


class InOneProcess(WithFile):
    def test_epochs(self):
        dataset = self.dataset()
        loops = [flat(dataset) for _ in range(3)]
        for loop in loops:
            self.assertEqual(sorted(loop), self.everything)
        self.assertNotEqual(loops[0], loops[1])
        dataset.set_epoch(1)
        self.assertEqual(flat(DataLoader(dataset, batch_size=None)), loops[1])
        self.assertEqual(flat(dataset), loops[2])

    def test_tensors(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "two.ctf"
            path.write_text("|x 1 2 |s 3:4\n|x 5 6 |s 0:7\n")
            dataset = Dataset(open_two(path), 2, sparse="csr", device="cpu")
            (minibatch,) = list(dataset)
            loader = Dataset(open_two(path), 2, sparse="csr").loader(num_workers=1)
            for tensors in (minibatch, *loader):
                self.assertEqual(tensors["x"].tolist(), [[1, 2], [5, 6]])
                self.assertEqual(tensors["s"].to_dense().tolist(), [[0, 0, 0, 4, 0], [7, 0, 0, 0, 0]])
                tensors["x"] += 1

    def test_states(self):
        dataset = self.dataset()
        flat(dataset)
        loop = iter(dataset)
        for _ in range(4):
            next(loop)
        state = pickle.loads(pickle.dumps(dataset.state_dict()))
        expected = [flat(loop), flat(dataset)]
        other = self.dataset()
        other.load_state_dict(state)
        self.assertEqual([flat(other), flat(other)], expected)
        self.assertEqual(other.epoch, 3)
        # At the end of an epoch, and before the first one.
        for state, index in ((dataset.state_dict(), 3), (self.dataset().state_dict(), 0)):
            other.load_state_dict(state)
            loop, fresh = flat(other), self.dataset()
            fresh.set_epoch(index)
            self.assertEqual(loop, flat(fresh))

    def test_mistakes(self):
        with self.assertRaisesRegex(ValueError, "No minibatch size"):
            next(iter(Dataset(open_source(self.path))))
        for option, message in (
            ("num_workers", r"dataset.loader\(num_workers=2\)"),
            ("shuffle", "The source randomizes"),
            ("max_errors", r"MinibatchSource\(data, max_errors=...\)"),
            ("minibatchsize", "Did you mean 'minibatch_size'"),
        ):
            with self.assertRaisesRegex(TypeError, f"Dataset has no option '{option}'.*{message}"):
                Dataset(open_source(self.path), **{option: 1})
        loader = DataLoader(Dataset(open_source(self.path), 30, device="cuda"), batch_size=None, num_workers=1)
        with self.assertRaisesRegex(ValueError, "cannot copy to cuda"):
            next(iter(loader))


def whole(minibatch):
    return minibatch


def inside(minibatch):
    return {"a": [1, (minibatch["x"],)]}


def function(minibatch):
    return lambda: 1


class EndOfEpoch(WithFile):
    """States that are saved in a loop, after the last minibatch."""

    def ended(self, dataset, epochs=1):
        """Reads epochs. Returns the state after the last minibatch."""
        for _ in range(epochs):
            for _ in dataset:
                state = dataset.state_dict()
        return pickle.loads(pickle.dumps(state))

    def test_next_epoch_follows(self):
        state = self.ended(self.dataset(), 2)
        fresh = self.dataset()
        fresh.set_epoch(2)
        expected = [flat(fresh), flat(fresh)]
        other = self.dataset()
        other.load_state_dict(state)
        self.assertEqual(other.epoch, 2)
        self.assertEqual([flat(other), flat(other)], expected)
        self.assertEqual(other.epoch, 4)

    def test_next_epoch_follows_if_its_size_is_unknown(self):
        for drop_last in (False, True):
            with self.subTest(drop_last=drop_last):
                arguments = {"minibatch_size": 6, "drop_last": drop_last, "convert": ids}
                dataset = Dataset(from_arrays(x=np.arange(20, dtype=np.float32)), **arguments)
                state = self.ended(dataset)
                expected = flat(dataset)
                self.assertEqual(len(expected), 18 if drop_last else 20)
                other = Dataset(from_arrays(x=np.arange(20, dtype=np.float32)), **arguments)
                other.load_state_dict(state)
                self.assertEqual(flat(other), expected)

    @unittest.skipIf(StatefulDataLoader is None, "torchdata is not installed")
    def test_stateful_loader(self):
        """With workers, torchdata first ends the loop in which the state was saved."""
        for workers, options in ((0, {}), (1, {}), (2, {"persistent_workers": True})):
            with self.subTest(workers=workers, **options):
                first = StatefulDataLoader(self.dataset(), batch_size=None, num_workers=workers, **options)
                for _ in first:
                    inside = pickle.loads(pickle.dumps(first.state_dict()))
                after = pickle.loads(pickle.dumps(first.state_dict()))
                expected = [flat(first), flat(first)]
                for state in (inside, after):
                    other = StatefulDataLoader(self.dataset(), batch_size=None, num_workers=workers, **options)
                    other.load_state_dict(state)
                    if workers and state is inside:
                        self.assertEqual(flat(other), [])
                    self.assertEqual([flat(other), flat(other)], expected)


class Lengths(WithFile):
    def single(self, **options):
        return MinibatchSource(from_arrays(x=np.arange(100, dtype=np.float32)), **options)

    def test_known(self):
        for size in (1, 7, 50, 100, 1000):
            for drop_last in (False, True):
                dataset = Dataset(self.single(), size, drop_last=drop_last)
                for _ in range(2):
                    items = list(dataset)
                    self.assertEqual(len(items), len(dataset), f"size {size}")
                    sizes = {len(item["x"]) for item in items}
                    self.assertTrue(sizes <= {size} if drop_last else max(sizes) <= size)
                self.assertEqual(len(dataset.loader()), len(dataset))
                self.assertTrue(dataset)

    def test_epochs_of_samples(self):
        """Some of them go beyond the end of a sweep."""
        for size in (7, 20):
            for drop_last in (False, True):
                dataset = Dataset(self.single(), size, samples=60, drop_last=drop_last)
                for epoch in range(6):
                    self.assertEqual(len(list(dataset)), len(dataset), f"size {size}, epoch {epoch}")

    def test_lockstep(self):
        for drop_last in (False, True):
            datasets = [
                Dataset(self.single(lockstep=True, workers=3, rank=rank), 7, drop_last=drop_last) for rank in range(3)
            ]
            loops = [list(dataset) for dataset in datasets]
            self.assertEqual({len(loop) for loop in loops}, {len(datasets[0])})
            self.assertEqual(len(datasets[0]), 14 if drop_last else 15)
            self.assertEqual(sum(len(item["x"]) for loop in loops for item in loop), 98 if drop_last else 100)

    def test_unknown(self):
        for dataset in (self.dataset(), Dataset(self.single(workers=2, rank=0), 7)):
            with self.assertRaisesRegex(TypeError, "number of minibatches is not known"):
                len(dataset)
            self.assertTrue(dataset)
        with self.assertRaisesRegex(ValueError, "drop_last needs data whose sequences have one sample"):
            next(iter(Dataset(open_source(self.path), 30, drop_last=True)))


class Loaders(WithFile):
    def test_default_collation_is_refused(self):
        """It would stack minibatches, without an error."""
        for options in ({}, {"batch_size": 30}, {"num_workers": 1}):
            for dataset in (self.dataset(), Dataset(open_source(self.path), 30)):
                with (
                    self.subTest(options),
                    self.assertRaisesRegex(ValueError, "Pass batch_size=None, or use dataset.loader"),
                ):
                    next(iter(DataLoader(dataset, **options)))
        stacked = DataLoader(self.dataset(), batch_size=2, collate_fn=torch.cat)
        self.assertEqual(sorted(flat(stacked)), self.everything)

    def test_loader(self):
        loader = self.dataset().loader()
        self.assertEqual((loader.num_workers, loader.persistent_workers, loader.pin_memory), (0, False, False))
        self.assertEqual(sorted(flat(loader)), self.everything)
        loader = self.dataset().loader(2, prefetch_factor=3)
        self.assertEqual((loader.num_workers, loader.persistent_workers, loader.prefetch_factor), (2, True, 3))
        loops = [flat(loader) for _ in range(2)]
        for loop in loops:
            self.assertEqual(sorted(loop), self.everything)
        self.assertNotEqual(*loops)
        for options, message in (
            ({"batch_size": 4}, "no option 'batch_size'. .*minibatch_size"),
            ({"shuffle": True}, "The source randomizes"),
            ({"num_workers": -1}, "num_workers must be at least 0"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                self.dataset().loader(**options)
        with self.assertRaisesRegex(ValueError, "cannot copy to cuda"):
            Dataset(open_source(self.path), 30, device="cuda").loader(1)

    def test_lengths(self):
        def open_single(**options):
            return MinibatchSource(from_arrays(x=np.arange(100, dtype=np.float32)), **options)

        loader = Dataset(open_single(lockstep=True), 7).loader(2)
        self.assertEqual((len(loader), len(list(loader))), (16, 16))
        loader = Dataset(open_single(), 7).loader(1)
        self.assertEqual((len(loader), len(list(loader))), (15, 15))
        with self.assertRaisesRegex(TypeError, "With lockstep=True it is known"):
            len(Dataset(open_single(), 7).loader(2))


class Described(WithFile):
    def test_repr(self):
        dataset = Dataset(open_source(self.path), 30)
        expected = r"<Dataset: minibatches of 30 samples from <MinibatchSource: x \(1,\) float32; 600 samples, 200 sequences, \d+ chunks>>"
        self.assertRegex(repr(dataset), expected)
        self.assertEqual(repr(Dataset(open_source)), "<Dataset: minibatches of ? samples from a function>")


class States(WithFile):
    def test_states_of_other_classes(self):
        dataset = self.dataset()
        next(iter(dataset))
        source = open_source(self.path, minibatch_size=30)
        of_source = dataset.source.state_dict()
        with self.assertRaisesRegex(ReaderValueError, "state of a MinibatchSource, but was given to a Dataset"):
            dataset.load_state_dict(of_source)
        with self.assertRaisesRegex(
            ReaderValueError, "state of a Dataset or Loader, but was given to a MinibatchSource"
        ):
            source.load_state_dict(dataset.state_dict())
        with self.assertRaisesRegex(ReaderValueError, "state of a CNTK MinibatchSource"):
            dataset.load_state_dict({"minibatchSourcePosition": 3})
        with self.assertRaisesRegex(TypeError, "not a text or a path, 'abc'"):
            source.load_state_dict("abc")
        with self.assertRaisesRegex(TypeError, "state_dict must be a dictionary"):
            dataset.load_state_dict("abc")
        # As the messages say.
        whole = flat(self.dataset())
        dataset.source.load_state_dict(of_source)
        rest = flat(dataset)
        self.assertEqual(rest, whole[len(whole) - len(rest) :])
        self.assertIn(len(whole) - len(rest), range(26, 31))
        dataset.load_state_dict(LoaderState(None, of_source).encode())
        self.assertEqual(flat(dataset), rest)
        source.load_state_dict(dataset.state_dict()["source"])
        self.assertEqual(next(source.epochs()).index, 1)

    @unittest.skipIf(StatefulDataLoader is None, "torchdata is not installed")
    def test_states_of_stateful_loader(self):
        for workers in (0, 1):
            loader = StatefulDataLoader(self.dataset(), batch_size=None, num_workers=workers)
            next(iter(loader))
            for target, name in ((self.dataset(), "Dataset"), (open_source(self.path), "MinibatchSource")):
                message = (
                    f"state of a StatefulDataLoader, but was given to a {name}. Load it with load_state_dict of that"
                )
                with self.assertRaisesRegex(ReaderValueError, message):
                    target.load_state_dict(loader.state_dict())

    def test_state_of_main_process_is_refused_by_workers(self):
        dataset = self.dataset()
        dataset.load_state_dict(dataset.state_dict())
        with self.assertRaisesRegex(ValueError, "each worker of DataLoader has its own position"):
            next(iter(dataset.loader(1)))

    def test_workers_keep_their_positions(self):
        """The main process cannot save them, and says so, instead of returning its own position."""
        dataset = self.dataset()
        loop = iter(dataset.loader(2))
        next(loop)
        with self.assertRaisesRegex(ReaderError, "each has its own position.*StatefulDataLoader"):
            dataset.state_dict()
        del loop
        own = self.dataset()
        own.set_epoch(3)
        self.assertEqual(own.state_dict()["next"], 3)


class InWorkers(WithFile):
    def test_unsendable_item_is_an_error(self):
        """The worker must not drop such an item silently: the trainer would wait forever."""
        for convert, name in ((whole, "Minibatch"), (inside, "StreamMinibatch"), (function, "function")):
            for options in ({"num_workers": 1}, {"num_workers": 2, "persistent_workers": True}):
                with self.subTest(name, **options):
                    dataset = Dataset(open_source(self.path), 30, convert=convert)
                    loader = DataLoader(dataset, batch_size=None, timeout=60, **options)
                    message = f"object of type {name}, which a DataLoader worker cannot send"
                    with self.assertRaisesRegex(TypeError, message):
                        next(iter(loader))
        # Without workers the item is not sent.
        self.assertTrue(next(iter(Dataset(open_source(self.path), 30, convert=whole)))["x"].num_samples)
        with self.assertRaisesRegex(TypeError, "A minibatch cannot be pickled"):
            pickle.dumps(next(iter(Dataset(open_source(self.path), 30, convert=whole))))

    def test_every_sequence_delivered_once(self):
        for method, numbers in (("fork", (1, 3)), ("spawn", (2,))):
            for workers in numbers:
                with self.subTest(method, workers=workers):
                    dataset = self.dataset()
                    # The source is in use before the workers are made.
                    flat(dataset)
                    dataset.set_epoch(0)
                    loader = DataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=method)
                    loops = [flat(loader) for _ in range(2)]
                    for loop in loops:
                        self.assertEqual(sorted(loop), self.everything)
                    self.assertNotEqual(*loops)

    def test_whole_minibatches(self):
        loader = DataLoader(self.dataset(), batch_size=None, num_workers=2)
        sizes = [len(minibatch) for minibatch in loader]
        # Minibatches have 26 to 30 samples, because sequences have up to 5, except each worker's
        # last one.
        self.assertTrue(all(size <= 30 for size in sizes))
        self.assertLessEqual(sum(size < 26 for size in sizes), 2)

    def test_each_loop_is_the_next_epoch(self):
        for options in ({}, {"persistent_workers": True}):
            with self.subTest(options):
                loader = DataLoader(self.dataset(), batch_size=None, num_workers=2, **options)
                loops = []
                for i in range(4):
                    if i == 2:
                        # Loops that start with the same seed, and one that is left early.
                        torch.manual_seed(1)
                        next(iter(loader))
                        torch.manual_seed(1)
                    loops.append(flat(loader))
                again = self.dataset()
                again.set_epoch(1)
                second = flat(DataLoader(again, batch_size=None, num_workers=2))
                for loop in loops:
                    self.assertEqual(sorted(loop), self.everything)
                self.assertEqual(len(set(map(tuple, loops))), 4)
                self.assertEqual(loops[1], second)

    def test_source_factory(self):
        for method, workers in (("fork", 2), ("spawn", 1)):
            dataset = Dataset(Opener(self.path), 30, convert=ids)
            loader = DataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=method)
            self.assertEqual(sorted(flat(loader)), self.everything)
            self.assertIsNone(dataset._source)

    def test_files_of_fsspec_and_patterns(self):
        try:
            import fsspec
        except ImportError:
            self.skipTest("fsspec is not installed")
        memory = fsspec.filesystem("memory")
        lines = self.path.read_text().splitlines(keepends=True)
        for part in range(4):
            memory.pipe(f"/{part}.ctf", "".join(lines[part * 150 : (part + 1) * 150]).encode())
            (self.path.parent / f"part-{part}.ctf").write_text("".join(lines[part * 150 : (part + 1) * 150]))
        mount("memory", memory)
        self.addCleanup(unmount, "memory")
        for files in ([f"memory://{part}.ctf" for part in range(4)], self.path.parent / "part-*.ctf"):
            with self.subTest(files):
                dataset = Dataset(open_source(files), 30, convert=ids)
                for workers in (0, 2):
                    # A spawned worker would have to mount the file system itself.
                    method = "fork" if workers else None
                    loader = DataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=method)
                    loops = [flat(loader) for _ in range(2)]
                    for loop in loops:
                        self.assertEqual(sorted(loop), self.everything)
                    self.assertNotEqual(*loops)

    def test_ranks_times_workers(self):
        seen = []
        for rank in range(2):
            dataset = self.dataset(workers=2, rank=rank)
            seen += flat(DataLoader(dataset, batch_size=None, num_workers=2))
        self.assertEqual(sorted(seen), self.everything)

    def test_ranks_in_lockstep(self):
        def shares(minibatch):
            return ids(minibatch) if minibatch else torch.empty(0, dtype=torch.int32)

        for workers in (0, 2):
            with self.subTest(workers=workers):
                loops = []
                for rank in range(3):
                    source = open_source(self.path, workers=3, rank=rank, lockstep=True)
                    dataset = Dataset(source, 6, convert=shares)
                    loops.append([item.tolist() for item in DataLoader(dataset, batch_size=None, num_workers=workers)])
                self.assertEqual(len({len(loop) for loop in loops}), 1)
                self.assertIn([], sum(loops, []))
                self.assertEqual(sorted(sum(sum(loops, []), [])), self.everything)


@unittest.skipIf(StatefulDataLoader is None, "torchdata is not installed")
class Stateful(WithFile):
    def loader(self, workers, **options):
        return StatefulDataLoader(self.dataset(), batch_size=None, num_workers=workers, **options)

    def test_in_the_middle(self):
        for options in ({}, {"persistent_workers": True}):
            for workers in (0, 1, 3) if not options else (2,):
                for stop in (1, 19):
                    with self.subTest(workers=workers, stop=stop):
                        loader = self.loader(workers, **options)
                        flat(loader)
                        loop = iter(loader)
                        seen = [value for _ in range(stop) for value in next(loop).tolist()]
                        state = pickle.loads(pickle.dumps(loader.state_dict()))
                        rest = flat(loop)
                        self.assertEqual(sorted(seen + rest), self.everything)
                        other = self.loader(workers, **options)
                        other.load_state_dict(state)
                        self.assertEqual(flat(other), rest)
                        self.assertEqual(flat(other), flat(loader))

    def test_one_worker_exhausted(self):
        def loader():
            # Three chunks for two workers: one worker has about twice the data of the other.
            data = CTFDeserializer(self.path, StreamDefs(x=StreamDef(shape=1)), chunk_size_in_bytes=2300)
            return StatefulDataLoader(Dataset(MinibatchSource(data), 30, convert=ids), batch_size=None, num_workers=2)

        first = loader()
        loop = iter(first)
        states, minibatches = [], []
        for minibatch in loop:
            minibatches.append(minibatch.tolist())
            states.append(pickle.loads(pickle.dumps(first.state_dict())))
        for number in (-2, -4):
            other = loader()
            other.load_state_dict(states[number])
            self.assertEqual([minibatch.tolist() for minibatch in other], minibatches[number + 1 :])
            self.assertEqual(sorted(flat(other)), self.everything)

    def test_at_the_end_and_at_the_start(self):
        for workers in (0, 2):
            with self.subTest(workers=workers):
                loader = self.loader(workers)
                start = loader.state_dict()
                loops = [flat(loader)]
                end = loader.state_dict()
                loops.append(flat(loader))
                self.assertEqual(sorted(loops[1]), self.everything)
                for state, expected in ((start, loops), (end, loops[1:])):
                    other = self.loader(workers)
                    other.load_state_dict(state)
                    self.assertEqual([flat(other) for _ in expected], expected)


def rank_of_several(rank, ranks, path, store, folder):
    """One process of a group."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    dataset = Dataset(open_source(path), 30, convert=ids)
    loops = [flat(dataset), flat(DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="spawn"))]
    torch.save(loops, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def steps_of_a_rank(rank, ranks, path, store, folder):
    """A trainer that waits for the others in each step."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    try:
        steps = []
        # 24 sequences in three chunks: without lockstep one rank has two thirds of them.
        source = open_source(path)
        dataset = Dataset(source, 6, convert=lambda minibatch: minibatch["x"].num_samples if minibatch else 0)
        for epoch in range(2):
            for samples in dataset:
                total = torch.tensor([float(samples), float(epoch)])
                torch.distributed.all_reduce(total)
                steps.append(total.tolist())
        assert dataset.source.lockstep and not source.lockstep
        own = Dataset(open_source(path), 6, lockstep=False, convert=lambda minibatch: minibatch["x"].num_samples)
        alone = sum(own)
        text = MinibatchSource.from_text(
            f"""deserializers = ([ type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader" ; file = "{path}"
            input = [ x = [ dim = 1 ; format = "dense" ] ] ])"""
        )
        locked = Dataset(text, 6, convert=lambda minibatch: 1).source.lockstep
        truncated = Dataset(open_source(path, truncation_length=2), 6)
        try:
            next(iter(truncated))
        except ValueError as error:
            refused = str(error)
        torch.save((steps, alone, locked, refused), f"{folder}/{rank}.pt")
    finally:
        torch.distributed.destroy_process_group()


class Distributed(WithFile):
    def test_lockstep_is_the_default(self):
        """Otherwise steps of different epochs would be paired, and the last ones would wait until
        timeout."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "few.ctf"
            path.write_text("".join(f"|x {i:015}\n" for i in range(24)))
            arguments = (2, path, f"{folder}/store", folder)
            torch.multiprocessing.spawn(steps_of_a_rank, arguments, nprocs=2)
            (steps, alone, *_), (others, other_alone, locked, refused) = (
                torch.load(f"{folder}/{rank}.pt") for rank in range(2)
            )
        self.assertEqual(steps, [[6, 0]] * 4 + [[6, 2]] * 4)
        self.assertEqual(steps, others)
        self.assertEqual(alone + other_alone, 24)
        self.assertNotEqual(alone, other_alone)
        self.assertTrue(locked)
        self.assertRegex(refused, "reads in lockstep.*this source cannot.*lockstep=False")

    def test_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = (2, self.path, f"{folder}/store", folder)
            torch.multiprocessing.spawn(rank_of_several, arguments, nprocs=2)
            ranks = [torch.load(f"{folder}/{rank}.pt") for rank in range(2)]
        for number in range(2):
            self.assertEqual(sorted(ranks[0][number] + ranks[1][number]), self.everything)


if __name__ == "__main__":
    unittest.main()
