"""Files: golden records, layout, checkpoints, workers, errors, the README's programs."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import cntk_reader
import numpy as np
from cntk_reader import (
    CBFDeserializer,
    CTFDeserializer,
    Deserializer,
    MinibatchSource,
    ReaderError,
    ReaderValueError,
    StreamDef,
    StreamDefs,
    set_log_callback,
)

from .digits import DIGITS, ROOT, STREAMS
from .loops import minibatches_of


def setUpModule():
    set_log_callback(lambda level, line: None)


def tearDownModule():
    set_log_callback(None)


def digits(**settings):
    return MinibatchSource(CTFDeserializer(DIGITS, STREAMS), **settings)


class Inspection(unittest.TestCase):
    """Facts about a source besides its minibatches."""

    def test_sizes_progress_and_memory(self) -> None:
        with digits() as source:
            self.assertEqual(source.sizes.samples, 1437)
            self.assertEqual(source.sizes.sequences, 1437)
            (member,) = source.members
            self.assertEqual(member.type, "CNTKTextFormatDeserializer")
            self.assertTrue(member.name.endswith("digits.train.ctf"))
            self.assertEqual(member.sizes, source.sizes)
            source.next_minibatch(100)
            self.assertEqual(source.progress.delivered, 100)
            self.assertEqual(source.progress.sweep, 0)
            self.assertGreater(sum(source.memory), 0)
            self.assertGreater(source.suggest_chunk_size(4), 0)


class SeveralFiles(unittest.TestCase):
    """A list of files, and a pattern."""

    def test_files_read_in_order(self) -> None:
        lines = DIGITS.read_text().splitlines(keepends=True)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            parts = [folder / "part-1.ctf", folder / "part-2.ctf"]
            parts[0].write_text("".join(lines[:500]))
            parts[1].write_text("".join(lines[500:]))

            def keys(files: object, **settings: bool) -> list[int]:
                with MinibatchSource(CTFDeserializer(files, STREAMS, **settings), randomize=False) as source:
                    return source.next_minibatch(1437).keys_of_sequences.tolist()

            own = [*range(500), *range(1 << 44, (1 << 44) + 937)]
            self.assertEqual(keys(parts), own)
            self.assertEqual(keys(folder / "part-*.ctf"), own)
            self.assertEqual(keys([folder / "part-[1]*", parts[1]], shared_ids=True), [*range(1437)])
            with self.assertRaises(ReaderError) as caught:
                keys(str(folder / "none-*"))
            self.assertIn(f"No file in the folder '{folder}'", str(caught.exception))


#: Recorded cases in which CNTK mixes up the channels of images. This library delivers the requested
#: ones.
MIXED = frozenset((ROOT / "tests" / "golden" / "mixed-channels.txt").read_text().split())


class Golden(unittest.TestCase):
    """Recordings of CNTK 2.7, replayed through Python: cases of one epoch."""

    def test_records(self):
        compared = 0
        #: Cases in which image values differ.
        self.different = set()
        for path in sorted((ROOT / "tests" / "golden").glob("*.json")):
            for case in json.loads(path.read_text()):
                with self.subTest(case["name"]), tempfile.TemporaryDirectory() as folder:
                    compared += self.replay(case, Path(folder))
        self.assertEqual(sorted(self.different), sorted(MIXED))
        self.assertGreater(compared, 2000, "results that were compared")

    def replay(self, case, folder):
        for file in case["files"]:
            if "hex" in file:
                content = bytes.fromhex(file["hex"])
            else:  # a script of features names its archives
                content = "\n".join(file["lines"]).replace("@DIR@", str(folder)).encode()
            (folder / file["name"]).write_bytes(content)
        text = "\n".join(case["config"]).replace("@DIR@", str(folder))
        start = case["steps"][0]["op"].split() if case["steps"] else ["start"] + ["1"] * 9
        # Only cases that start as a source does: at the beginning, crossing the ends of sweeps.
        # Other steps change sizes and workers.
        workers, rank, size, _, _, cross, samples, sweeps, epoch = start[1:]
        if start[0] != "start" or cross != "1" or epoch != "0":
            return 0
        limits = {}
        if sweeps != "inf":
            limits["max_sweeps"] = int(sweeps)
        elif samples == "sweep":
            limits["max_sweeps"] = 1
        elif samples != "inf":
            limits["max_samples"] = int(samples)
        error = case["create"].get("error")
        if error:
            with self.assertRaises(ReaderError) as caught:
                MinibatchSource.from_text(text)
            self.assert_kind(caught.exception, error)
            return 1
        compared = 0
        sizes = {"workers": int(workers), "rank": int(rank), "minibatch_size": int(size)}
        with MinibatchSource.from_text(text, **limits, **sizes) as source:
            self.assertEqual(
                [info.name for info in source.streams.values()], [s["name"] for s in case["create"]["streams"]]
            )
            for number, step in enumerate(case["steps"]):
                op, result = step["op"].split(), step["result"]
                if (number == 0 and "error" in result) or (number > 0 and op[0] in ("start", "config")):
                    break
                if op[0] == "read":
                    if "error" in result:
                        with self.assertRaises(ReaderError) as caught:
                            source.next_minibatch()
                        self.assert_kind(caught.exception, result["error"])
                    else:
                        self.assert_same(source.next_minibatch(), result, case["name"])
                    compared += 1
                elif op[0] == "state" and number > 1:
                    self.assertEqual(source.cntk_state(), result["state"])
                    compared += 1
                elif op[0] == "restore" and "error" not in result:
                    source.load_state_dict(dict(zip(op[1::2], map(int, op[2::2]))))
        return compared

    def assert_kind(self, error, kind):
        self.assertEqual(isinstance(error, ValueError), kind == "invalid_argument", error)

    def assert_same(self, minibatch, recorded, name):
        self.assertEqual(minibatch.end_of_sweep, recorded["end_of_sweep"])
        self.assertEqual(minibatch.end_of_epoch, recorded["end_of_epoch"])
        self.assertEqual(len(minibatch), len(recorded["streams"]))
        for part, stream in zip(minibatch.values(), recorded["streams"]):
            self.assertEqual((part.steps, part.lanes), (stream["num_time_steps"], stream["num_parallel"]))
            records = [[r["sequence"], r["lane"], r["begin"], r["end"]] for r in part.records]
            recorded_records = [[2**64 - 1 if r[0] == -1 else r[0], *r[1:]] for r in stream["sequences"]]
            self.assertEqual([[int(n) for n in r] for r in records], recorded_records)
            keys = [minibatch.key_text(int(r[0])) for r in records if r[0] != 2**64 - 1]
            self.assertEqual(keys, [str(key) for key in stream["keys"]])
            if "dense" in stream:
                columns = part.array.reshape(part.steps * part.lanes, -1)
                for column, values in zip(columns, stream["dense"]):
                    if name in MIXED and len(stream["shape"]) == 3:
                        self.note_difference(name, column, values)
                    else:
                        self.assert_bits(column, values)
            else:
                csr = part.csr
                self.assert_bits(csr.data, stream["values"])
                self.assertEqual(csr.indices.tolist(), stream["rows"])
                self.assertEqual(csr.indptr.tolist(), stream["cols"])

    def note_difference(self, name, values, recorded):
        """Checks that an image has as many values as CNTK delivers, and records different
        values."""
        self.assertEqual(len(values), len(recorded))
        if (values != np.array([float(value) for value in recorded], values.dtype)).any():
            self.different.add(name)

    def assert_bits(self, values, recorded):
        if recorded is None:
            self.assertFalse(values.any())
            return
        expected = np.array([float(value) for value in recorded], values.dtype)
        self.assertEqual(len(values), len(expected))
        unsigned = "u4" if values.dtype == np.float32 else "u8"
        # The recordings lack the signs of zeros and NaNs.
        same = (values == expected) | (np.isnan(values) & np.isnan(expected))
        same &= (values == 0) | np.isnan(values) | (values.view(unsigned) == expected.view(unsigned))
        self.assertTrue(same.all(), f"{values} instead of {recorded}")


class Views(unittest.TestCase):
    def test_arrays_are_views(self):
        minibatch = digits().next_minibatch(100)
        part = minibatch["features"]
        self.assertIs(part.array.base, minibatch)
        self.assertEqual(part.array.ctypes.data % 64, 0)
        labels = minibatch["labels"]
        csr, raw = labels.csr, labels.sparse
        for made, own in zip((csr.data, csr.indices, csr.indptr), raw):
            self.assertEqual(made.ctypes.data, own.ctypes.data)
            self.assertIs(own.base, minibatch)
        self.assertTrue(part.array.flags.writeable and not part.records.flags.writeable)
        self.assertEqual(labels.asarray().shape, (1, 100, 10))
        self.assertTrue((labels.asarray().sum(axis=2) == 1).all())
        with self.assertRaises(TypeError):
            _ = labels.array

    def test_arrays_outlive_minibatch_and_source(self):
        source = digits(randomize=False)
        array = source.next_minibatch(50)["features"].array
        before = array.copy()
        sequence = source.next_minibatch(50)["labels"].as_sequences()[3]
        source.close()
        del source
        # These would reuse released memory.
        with digits(randomize=True) as other:
            for _ in range(20):
                other.next_minibatch(50)
        self.assertTrue((array == before).all())
        self.assertEqual(sequence.sum(), 1)

    def test_sequences_in_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "s.ctf"
            lines = [f"{i} |x {10 * i + t} |s {t}:{10 * i + t}" for i, n in enumerate([3, 1, 2]) for t in range(n)]
            path.write_text("\n".join(lines) + "\n")
            streams = StreamDefs(x=StreamDef(shape=1), s=StreamDef(shape=4, is_sparse=True))
            with MinibatchSource(CTFDeserializer(path, streams), randomize=False) as source:
                minibatch = source.next_minibatch(6)
        x, s = minibatch["x"], minibatch[source.streams["s"]]
        self.assertEqual(x.steps, 3)
        self.assertEqual([part[:, 0].tolist() for part in x.as_sequences()], [[0, 1, 2], [10], [20, 21]])
        dense = [part.toarray().max(axis=1).tolist() for part in s.as_sequences()]
        self.assertEqual(dense, [[0, 1, 2], [10], [20, 21]])
        self.assertTrue(np.shares_memory(x.as_sequences()[0], x.array))
        self.assertEqual(minibatch.keys_of_sequences.tolist(), [0, 1, 2])


class Continuing(unittest.TestCase):
    def rest(self, source, size):
        return np.concatenate([part["features"].array.reshape(-1, 64) for part in minibatches_of(source, size)])

    def test_state_and_checkpoint(self):
        with digits(max_sweeps=2) as source:
            self.assertEqual(source.cntk_state(), {"minibatchSourcePosition": 0})
            for _ in range(7):
                source.next_minibatch(60)
            state, checkpoint = source.cntk_state(), source.checkpoint()
            expected = self.rest(source, 60)
            source.load_state_dict(state)
            self.assertTrue((self.rest(source, 60) == expected).all())
        self.assertEqual(state, {"minibatchSourcePosition": 420})
        for saved in state, checkpoint:
            with digits(max_sweeps=2) as other:
                other.load_state_dict(saved)
                self.assertEqual(other.cntk_state(), state)
                self.assertTrue((self.rest(other, 60) == expected).all())

    def test_initial_state_restarts(self):
        """Also after reads with the same arguments, and if it contains a CNTK state."""
        with digits(max_sweeps=1, minibatch_size=60) as source, digits(max_sweeps=1, minibatch_size=60) as other:
            first = source.state_dict()
            expected = self.rest(source, 60)
            for _ in range(2):
                other.load_state_dict({"minibatchSourcePosition": 120})
                later = other.state_dict()
                self.assertIsNone(later["checkpoint"])
                for state, begin in ((first, 0), (later, 120)):
                    source.load_state_dict(state)
                    self.assertEqual(source.cntk_state(), {"minibatchSourcePosition": begin})
                    found = source.next_minibatch()["features"].array.reshape(-1, 64)
                    self.assertTrue((found == expected[begin : begin + 60]).all())
                    self.assertEqual(source.progress.delivered, begin + 60)
                    source.load_state_dict(state)
                    found = next(iter(source))["features"].array.reshape(-1, 64)
                    self.assertTrue((found == expected[begin : begin + 60]).all())

    def test_truncated_checkpoints_are_exact(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "s.ctf"
            path.write_text("".join(f"{i} |x {100 * i + t}\n" for i in range(40) for t in range(1 + i * 7 % 11)))
            file = CTFDeserializer(path, StreamDefs(x=StreamDef(shape=1)))

            def values(source):
                return [part["x"].array.ravel().tolist() for part in minibatches_of(source, 8)]

            with MinibatchSource(file, truncation_length=4, max_sweeps=1) as source:
                source.next_minibatch(8)
                source.next_minibatch(8)
                checkpoint = source.checkpoint()
                expected = values(source)
            with MinibatchSource(file, truncation_length=4, max_sweeps=1) as other:
                other.load_state_dict(checkpoint)
                self.assertEqual(values(other), expected)
        self.assertGreater(len(expected), 5)

    def test_workers_share_the_data(self):
        seen = []
        for rank in range(3):
            with digits(max_sweeps=1) as source:
                parts = minibatches_of(source, 90, workers=3, rank=rank)
                seen += [row.tobytes() for part in parts for row in part["features"].array.reshape(-1, 64)]
        with digits(max_sweeps=1, randomize=False) as source:
            expected = [row.tobytes() for row in self.rest(source, 100)]
        self.assertEqual(sorted(seen), sorted(expected))

    def test_sizes_may_change(self):
        with digits(max_sweeps=1, randomize=False) as source:
            first = source.next_minibatch(10)["features"].array
            rest = self.rest(source, 333)
        with digits(max_sweeps=1, randomize=False) as source:
            self.assertTrue((np.concatenate([first.reshape(-1, 64), rest]) == self.rest(source, 100)).all())

    def test_defaults_may_change(self):
        with digits(minibatch_size=100, randomize=False) as source:
            sizes = [source.next_minibatch()["features"].num_samples]
            source.minibatch_size = 50
            sizes.append(source.next_minibatch()["features"].num_samples)
            source.workers, source.rank = 2, 1
            sizes.append(source.next_minibatch()["features"].num_samples)
            self.assertEqual(sizes, [100, 50, 25])
            self.assertEqual((source.minibatch_size, source.workers, source.rank), (50, 2, 1))


class Deserializers(unittest.TestCase):
    def test_binary_files(self):
        cases = json.loads((ROOT / "tests" / "golden" / "cbf.json").read_text())
        case = next(case for case in cases if len(case["files"]) == 1 and "streams" in case["create"])
        names = [stream["name"] for stream in case["create"]["streams"]]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "data.bin"
            path.write_bytes(bytes.fromhex(case["files"][0]["hex"]))
            with MinibatchSource(CBFDeserializer(path)) as source:
                file_names = [info.name for info in source.streams.values()]
                self.assertEqual(len(file_names), len(names))
                first = source.next_minibatch(5)
            renamed = CBFDeserializer(path, {"other": StreamDef(file_names[0])}, keep_data_in_memory=True)
            with MinibatchSource(renamed) as source:
                self.assertEqual(list(source.streams.values())[0].name, "other")
                self.assertEqual(source.next_minibatch(5)["other"].num_samples, first[file_names[0]].num_samples)

    def test_any_keys(self):
        section = {
            "file": str(DIGITS),
            "input": {"features": {"dim": 64, "format": "dense"}, "labels": {"dim": 10, "format": "sparse"}},
            "chunkSizeInBytes": 10000,
        }
        anything = Deserializer("CNTKTextFormatDeserializer", "CNTKTextFormatReader", section)
        same = CTFDeserializer(DIGITS, STREAMS, chunk_size_in_bytes=10000)
        arrays = []
        for deserializer in anything, same:
            with MinibatchSource([deserializer], randomization_window_in_samples=200) as source:
                arrays.append(source.next_minibatch(300)["features"].array)
        self.assertTrue((arrays[0] == arrays[1]).all())


class Errors(unittest.TestCase):
    def test_places(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "bad.ctf"
            path.write_text("0 |x 1\n1 |x one\n")
            with MinibatchSource(CTFDeserializer(path, StreamDefs(x=StreamDef(shape=1)))) as source:
                with self.assertRaises(ReaderError) as caught:
                    source.next_minibatch(1)
        error = caught.exception
        self.assertEqual((error.kind, error.file, error.line), ("data", str(path), 2))
        self.assertIsInstance(error, RuntimeError)
        self.assertNotIsInstance(error, ValueError)

    def test_arguments(self):
        with self.assertRaises(ReaderValueError) as caught:
            MinibatchSource.from_text('deserializers = ([ type = "Nothing" ; module = "CNTKTextFormatReader" ])')
        self.assertIsInstance(caught.exception, ValueError)
        with digits() as source:
            for call in (
                lambda: source.next_minibatch(),
                lambda: source.next_minibatch(0),
                lambda: source.next_minibatch(-1),
                lambda: source.next_minibatch(1, workers=2, rank=2),
            ):
                self.assertRaises(ValueError, call)
            self.assertEqual(source.next_minibatch(4)["features"].num_samples, 4)
            self.assertRaises(KeyError, lambda: source.next_minibatch(4)["nothing"])
            self.assertRaises(ReaderError, source.load_state_dict, b"nonsense")
        self.assertRaises(ValueError, digits, max_sweeps=1, max_samples=1)
        self.assertRaises(ValueError, digits, frame_mode=True, truncation_length=1)
        self.assertRaises(ValueError, digits, randomization_window_in_chunks=1, randomization_window_in_samples=1)
        self.assertRaisesRegex(ReaderError, "'a\"b': No such file", MinibatchSource, CBFDeserializer('a"b'))
        self.assertRaises(ValueError, MinibatchSource, [])
        with self.assertRaises(ReaderError) as caught:
            MinibatchSource(CBFDeserializer("nowhere.bin"))
        self.assertIn("nowhere.bin", str(caught.exception))

    def test_closed(self):
        source = digits()
        source.next_minibatch(1)
        source.close()
        source.close()
        with self.assertRaises(ReaderError) as caught:
            source.next_minibatch(1)
        self.assertEqual(caught.exception.kind, "state")


class Readme(unittest.TestCase):
    TEXT = (Path(__file__).resolve().parents[1] / "README.md").read_text()

    def test_programs_print_documented_output(self):
        """Runs all programs in one folder, one after the other."""
        programs = re.findall(r"```python\n(.*?)```(?:\n\n```(?:text)?\n(.*?)```)?", self.TEXT, re.DOTALL)
        self.assertGreaterEqual(len(programs), 7)
        with tempfile.TemporaryDirectory() as folder:
            for program, expected in programs:
                with self.subTest(program=program):
                    self.check(folder, program, expected)

    def test_front_page_prints_documented_output(self):
        """The program in C++ beside it prints the same, as the step `consumers` checks."""
        page = (ROOT / "README.md").read_text()
        program = re.search(r"```python\n(.*?)```", page, re.DOTALL)
        expected = re.search(r"```text\n(.*?)```", page, re.DOTALL)
        with tempfile.TemporaryDirectory() as folder:
            self.check(folder, program[1], expected[1])

    def check(self, folder, program, expected):
        for package in ("jax", "torch"):
            needed = re.search(rf"^(import|from) (cntk_reader\.)?{package}\b", program, re.MULTILINE)
            if needed and importlib.util.find_spec(package) is None:
                self.skipTest(f"{package} is not installed")
        path = Path(folder) / "program.py"
        path.write_text(program.replace("examples/data/digits.train.ctf", str(DIGITS)))
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(cntk_reader.__file__))}
        # Run it as a file, because workers of loaders import it.
        command = [sys.executable, path.name]
        run = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        self.assertEqual((run.stdout, run.returncode), (expected, 0), run.stderr)

    def test_links_are_absolute_and_valid(self):
        """The text is also shown outside the repository, so all links must be absolute."""
        links = re.findall(r"\]\(([^)]+)\)", self.TEXT)
        self.assertGreater(len(links), 3)
        base = "https://github.com/cntk-reader/cntk-reader/blob/main/"
        for link in links:
            if link.startswith("#"):
                continue
            self.assertTrue(link.startswith("https://"), link)
            if link.startswith(base):
                self.assertTrue((ROOT / link[len(base) :].split("#")[0]).exists(), link)


if __name__ == "__main__":
    unittest.main()
