"""The operations of the package: small, deterministic, with known results."""

from __future__ import annotations

import contextlib
import json
import pickle
import struct
import threading
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from cntk_reader import (
    CTFDeserializer,
    HTKFeatureDeserializer,
    HTKMLFDeserializer,
    ImageDeserializer,
    Minibatch,
    MinibatchSource,
    NumpyDeserializer,
    ReaderError,
    StreamDef,
    StreamDefs,
    _native,
    compress,
    from_arrays,
    get_threads,
    htk_to_kaldi,
    htk_to_numpy,
    kaldi_to_htk,
    kaldi_to_numpy,
    mlf_to_kaldi,
    mlf_to_numpy,
    mlf_to_text,
    mount,
    one_hot,
    set_log_callback,
    set_threads,
    text_to_mlf,
    unmount,
)

from .users import Fails, Listed, Lists, Log, Memory, Negative, Progress, Rows, Waits

#: Samples of each sequence in the text file.
LENGTHS = (1, 2, 1, 3, 1, 2)


@dataclass(frozen=True)
class Place:
    """Folders of an operation: input files, and output files."""

    data: Path
    output: Path
    #: Names of all output files that have ever been complete.
    finished: set[str] = field(default_factory=set)

    @classmethod
    def create(cls, folder: Path) -> Place:
        """Writes the input files."""
        place = cls(folder / "data", folder / "output")
        place.data.mkdir()
        place.output.mkdir()
        _write(place.data)
        return place

    def clear(self) -> list[str]:
        """Removes all output files and returns their names."""
        names = sorted(path.name for path in self.output.iterdir())
        for name in names:
            (self.output / name).unlink()
        return names

    def collect(self) -> list[str]:
        """Removes all output files, which must be complete, and returns their names."""
        names = self.clear()
        self.finished.update(names)
        return names


def _write(folder: Path) -> None:
    lines = []
    sample = 0
    for sequence, length in enumerate(LENGTHS):
        for _ in range(length):
            lines.append(f"{sequence} |x {sample} {sample + 10} |y {sample % 4}:1 |z 1:{sample} 3:2\n")
            sample += 1
    (folder / "a.ctf").write_text("".join(lines))
    (folder / "rows.ctf").write_text("|x 0\n|x 1\n|x 2\n|x 3\n")
    section = (
        f'[type="CNTKTextFormatDeserializer"; module="CNTKTextFormatReader"; file="{folder / "a.ctf"}"; '
        'input=[x=[dim=2; format="dense"]]]'
    )
    (folder / "reader.cntk").write_text(f"train=[reader=[randomize=false; traceLevel=0; deserializers=({section})]]\n")
    np.save(folder / "a.npy", np.arange(8, dtype=np.float32).reshape(4, 2))
    frames = np.arange(10, dtype=">f4").tobytes()
    (folder / "a.mfc").write_bytes(struct.pack(">iihh", 5, 100000, 8, 9) + frames)
    archive = folder / "a.mfc"
    (folder / "a.scp").write_text(f"u1.mfc={archive}[0,2]\nu2.mfc={archive}[3,4]\n")
    (folder / "a.mlf").write_text('#!MLF!#\n"u1.lab"\n0 2 a\n2 3 b\n.\n"u2.lab"\n0 2 b\n.\n')
    (folder / "states").write_text("a\nb\n")
    palette = b"".join(bytes([i, i, i, 0]) for i in range(256))
    offset = 54 + len(palette)
    header = b"BM" + (offset + 16).to_bytes(4, "little") + bytes(4) + offset.to_bytes(4, "little")
    numbers = [40, 4, 4, 1 | 8 << 16, 0, 16, 0, 0, 256, 0]
    bitmap = header + b"".join(number.to_bytes(4, "little") for number in numbers) + palette + bytes(range(16))
    (folder / "i.bmp").write_bytes(bitmap)
    (folder / "images.map").write_text(f"{folder / 'i.bmp'}\t0\n{folder / 'i.bmp'}\t1\n")


Run = Callable[[Place], object]


@dataclass(frozen=True)
class Operation:
    """One use of the package, from beginning to end."""

    name: str
    run: Run
    expected: object
    #: Modules without which the operation is skipped.
    needs: tuple[str, ...] = ()
    #: Whether it uses Python threads, so that it cannot run where threads are counted.
    has_threads: bool = False

    def problem(self, place: Place) -> str | None:
        """Runs the operation. Returns None if the result is right."""
        result = self.run(place)
        return None if result == self.expected else f"{result!r} instead of {self.expected!r}"


#: All operations by name.
OPERATIONS: dict[str, Operation] = {}


def operation(expected: object, *needs: str, has_threads: bool = False) -> Callable[[Run], Run]:
    """Registers a function as an operation."""

    def add(run: Run) -> Run:
        name = run.__name__
        OPERATIONS[name] = Operation(name, run, expected, needs, has_threads)
        return run

    return add


def available() -> list[Operation]:
    """Returns the operations whose modules are installed."""
    return [one for one in OPERATIONS.values() if all(map(find_spec, one.needs))]


# Data


STREAMS = {
    "x": StreamDef(shape=2),
    "y": StreamDef(shape=4, is_sparse=True),
    "z": StreamDef(shape=5, is_sparse=True),
}


def text(place: Place, *names: str) -> CTFDeserializer:
    """Returns a deserializer of some streams of the text file."""
    streams = StreamDefs(**{name: STREAMS[name] for name in names or ("x",)})
    return CTFDeserializer(place.data / "a.ctf", streams, chunk_size_in_bytes=40)


def open_text(place: Place, *names: str, **options: Any) -> MinibatchSource:
    """Opens a source over the text file in order, with minibatches of three samples."""
    options = {"minibatch_size": 3, "randomize": False, "max_sweeps": 1, "trace_level": 0, **options}
    return MinibatchSource(text(place, *names), **options)


def open_rows(place: Place, **options: Any) -> MinibatchSource:
    """Opens a source in frame mode."""
    data = CTFDeserializer(place.data / "rows.ctf", StreamDefs(x=StreamDef(shape=1)))
    return MinibatchSource(data, randomize=False, frame_mode=True, max_sweeps=1, trace_level=0, **options)


def values(minibatch: Minibatch, stream: str = "x") -> list[list[float]]:
    """Returns the first value of each sample, sequence by sequence."""
    if not minibatch:
        return []
    return [part.reshape(len(part), -1)[:, 0].tolist() for part in minibatch[stream].as_list()]


def read(source: MinibatchSource | Iterable[Minibatch], stream: str = "x") -> list[list[list[float]]]:
    """Returns the values of all minibatches."""
    return [values(minibatch, stream) for minibatch in source]


def error_of(call: Callable[[], object]) -> tuple[str, str]:
    """Returns the class of the error that a call raises, and its kind if it is the library's."""
    try:
        call()
    except (ReaderError, ValueError, TypeError, LookupError, ZeroDivisionError) as error:
        return type(error).__name__, getattr(error, "kind", "")
    return "nothing", ""


# Opening and reading

#: The minibatches of the text file, of three samples.
TEXT = [[[0.0], [1.0, 2.0]], [[3.0]], [[4.0, 5.0, 6.0]], [[7.0], [8.0, 9.0]]]


@operation(TEXT)
def text_file(place: Place) -> object:
    with open_text(place) as source:
        return read(source)


@operation([[[3.0], [7.0]], [[1.0, 2.0], [0.0]], [[4.0, 5.0, 6.0]], [[8.0, 9.0]]])
def randomized(place: Place) -> object:
    with open_text(place, randomize=True, randomization_seed=5) as source:
        return read(source)


@operation([[[0.0], [1.0], [2.0]], [[3.0]]])
def frames(place: Place) -> object:
    with open_rows(place, minibatch_size=3) as source:
        return read(source)


@operation([TEXT[0], [[3.0]], [[4.0, 5.0, 6.0]], TEXT[3], []])
def single_minibatches(place: Place) -> object:
    source = open_text(place)
    read_until_end = [values(source.next_minibatch()) for _ in range(5)]
    source.close()
    return read_until_end


@operation([[[[0.0], [2.0], [4.0]], [[6.0], [8.0], [10.0]]], [0, 1, 2, 3, 4, 5]])
def user_deserializer(place: Place) -> object:
    with MinibatchSource(Rows(), minibatch_size=3, randomize=False, max_sweeps=1) as source:
        minibatches = list(source)
        return [read(minibatches), [int(i) for one in minibatches for i in one["y"].indices()]]


@operation([[[0.0, 1.0, 2.0], [3.0]], [[0.0, 1.0, 2.0], [3.0]]])
def user_deserializer_with_sequences(place: Place) -> object:
    with MinibatchSource(Lists(), minibatch_size=9, randomize=False, max_sweeps=1) as source:
        minibatch = source.next_minibatch()
        return [values(minibatch, "a"), values(minibatch, "b")]


@operation([[[0.0], [2.0]], [[4.0], [6.0]], [[8.0], [10.0]]])
def listed_sequences(place: Place) -> object:
    with MinibatchSource(Listed(), minibatch_size=2, randomize=False, max_sweeps=1) as source:
        return read(source)


@operation([[[[0.0], [2.0]], [[4.0], [6.0]]], ("ReaderError", "user")])
def user_deserializer_that_fails(place: Place) -> object:
    with MinibatchSource(Fails(), minibatch_size=2, randomize=False, options={"prefetch": False}) as source:
        return [[values(source.next_minibatch()) for _ in range(2)], error_of(source.next_minibatch)]


@operation([[[0, 1, 2, 3], ["a", "b"]]])
def tables(place: Place) -> object:
    words = one_hot(np.arange(4, dtype=np.int32), 10)
    data = from_arrays(words=words, lengths=[3, 1], keys=["a", "b"])
    with MinibatchSource(data, minibatch_size=9, randomize=False, max_sweeps=1) as source:
        return [
            [minibatch["words"].indices().tolist(), [minibatch.key_text(place) for place in range(2)]]
            for minibatch in source
        ]


@operation([[[0.0], [2.0]], [[4.0], [6.0]]])
def numpy_files(place: Place) -> object:
    data = NumpyDeserializer(StreamDefs(x=StreamDef(npy=place.data / "a.npy")))
    with MinibatchSource(data, minibatch_size=2, randomize=False, max_sweeps=1) as source:
        return read(source)


@operation([[[0.0, 2.0, 4.0], [6.0, 8.0]], [0, 0, 1, 1, 1]])
def speech(place: Place) -> object:
    features = HTKFeatureDeserializer(StreamDefs(x=StreamDef(shape=2, scp=place.data / "a.scp")))
    labels = HTKMLFDeserializer(place.data / "states", StreamDefs(y=StreamDef(shape=2, mlf=place.data / "a.mlf")))
    options: dict[str, Any] = {"minibatch_size": 9, "randomize": False, "max_sweeps": 1, "trace_level": 0}
    with MinibatchSource([features, labels], **options) as source:
        minibatch = source.next_minibatch()
        return [values(minibatch), minibatch["y"].indices().tolist()]


@operation([255, 240, 2])
def images(place: Place) -> object:
    streams = StreamDefs(x=StreamDef("image", transforms=[Negative()]), y=StreamDef("label", shape=2))
    data = ImageDeserializer(place.data / "images.map", streams)
    with MinibatchSource(data, minibatch_size=2, randomize=False, trace_level=0) as source:
        array = source.next_minibatch()["x"].array
        return [int(array.max()), int(array.min()), array.shape[1]]


@operation([[[0.0], [1.0], [2.0]], ("ReaderError", "io")])
def mounted_files(place: Place) -> object:
    mount("edges", Memory())
    try:
        data = CTFDeserializer("edges://", StreamDefs(x=StreamDef(shape=1)))
        with MinibatchSource(data, minibatch_size=3, randomize=False, max_sweeps=1) as source:
            first = values(source.next_minibatch())
    finally:
        unmount("edges")
    return [first, error_of(lambda: MinibatchSource(data))]


@operation([[[0.0], [1.0, 2.0]], ["train.reader"], [[0.0], [1.0, 2.0]]])
def configurations(place: Place) -> object:
    path = place.data / "reader.cntk"
    with MinibatchSource.from_file(path, minibatch_size=3) as source:
        first = values(source.next_minibatch())
    with MinibatchSource.from_text(path.read_text(), reader="train.reader", minibatch_size=3) as source:
        second = values(source.next_minibatch())
    return [first, MinibatchSource.readers(path), second]


@operation([[[0.0], [1.0, 2.0]], [[3.0]]])
def names_of_cntk(place: Place) -> object:
    from cntk_reader import cntk

    streams = cntk.StreamDefs(x=cntk.StreamDef(field="x", shape=2))
    source = cntk.MinibatchSource(
        cntk.CTFDeserializer(str(place.data / "a.ctf"), streams), randomize=False, max_sweeps=1, trace_level=0
    )
    found = []
    for _ in range(2):
        data = source.next_minibatch(3)[source.streams.x]
        found.append([part[:, 0].tolist() for part in data.as_sequences()])
    source.close()
    return found


# Minibatches


def whole(place: Place) -> Minibatch:
    """Returns all data of the text file in one minibatch."""
    with open_text(place, *STREAMS, minibatch_size=100) as source:
        return source.next_minibatch()


def _lists(parts: Iterable[Any]) -> list[Any]:
    return [part.tolist() if hasattr(part, "tolist") else part for part in parts]


@operation(
    [
        (3, 4, 2),
        [[[0, 0, 0], [1, 2, 0], [3, 0, 0], [4, 5, 6], [7, 0, 0], [8, 9, 0]], [1, 2, 1, 3, 1, 2]],
        [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 1, 3, 4, 7, 8, 10], 3],
        [[0], [1, 2], [3], [4, 5, 6], [7], [8, 9]],
        [0, 1, 2, 3, 4, 5],
    ]
)
def dense_forms(place: Place) -> object:
    minibatch = whole(place)
    x = minibatch["x"]
    array, mask = x.padded()
    samples, offsets, longest = x.packed()
    return [
        x.array.shape,
        _lists([array[:, :, 0], mask.sum(axis=1)]),
        _lists([samples[:, 0], offsets, longest]),
        [part[:, 0].tolist() for part in x.as_sequences()],
        minibatch.keys_of_sequences.tolist(),
    ]


@operation(
    [
        [0, 1, 2, 3, 0, 1, 2, 3, 0, 1],
        [[0, -1, -1], [1, 2, -1], [3, -1, -1], [0, 1, 2], [3, -1, -1], [0, 1, -1]],
        [0, 1, 3, 4, 7, 8, 10],
        [1, 3] * 10,
        [0, 2, 1, 2, 2, 2, 3, 2, 4, 2, 5, 2, 6, 2, 7, 2, 8, 2, 9, 2],
        ("ReaderValueError", "invalid_argument"),
    ]
)
def sparse_forms(place: Place) -> object:
    minibatch = whole(place)
    y, z = minibatch["y"], minibatch["z"]
    bags = z.bags()
    weights = bags.weights
    return [
        y.indices().tolist(),
        y.padded_indices(-1).array.tolist(),
        y.packed_indices().offsets.tolist(),
        bags.indices.tolist(),
        None if weights is None else weights.tolist(),
        error_of(z.indices),
    ]


@operation([[1.0] * 10, 12, 45.0 + 20.0, 45.0])
def views(place: Place) -> object:
    """Arrays outlive the minibatch and the source."""
    minibatch = whole(place)
    y, z, array = minibatch["y"].sparse, minibatch["z"].canonical(), np.asarray(minibatch["x"])
    del minibatch
    return [y.data.tolist(), y.shape[0], float(z.data.sum()), float(array[..., 0].sum())]


@operation([10.0, 65.0, 45.0], "scipy")
def matrices(place: Place) -> object:
    minibatch = whole(place)
    return [
        float(minibatch["y"].csr.sum()),
        float(minibatch["z"].to_scipy().sum()),
        float(minibatch["x"].asarray()[..., 0].sum()),
    ]


@operation([["x", "y", "z"], ("KeyError", ""), ("TypeError", ""), ("TypeError", ""), 3])
def mapping(place: Place) -> object:
    minibatch = whole(place)
    return [
        list(minibatch.keys()),
        error_of(lambda: minibatch["w"]),
        error_of(lambda: minibatch["y"].array),
        error_of(lambda: pickle.dumps(minibatch)),
        sum(name in minibatch for name in ("x", "y", "z", "w")),
    ]


@operation([45.0, True])
def capsules(place: Place) -> object:
    x = whole(place)["x"]
    array = np.from_dlpack(x)  # type: ignore[arg-type]
    return [float(array[..., 0].sum()), bool(np.shares_memory(array, x.array))]


# Epochs and states


@operation([[0, TEXT], [1, TEXT]])
def epochs(place: Place) -> object:
    with open_text(place) as source:
        return [[epoch.index, read(epoch)] for epoch in source.epochs(2)]


@operation([[0, 3, 2, [[[0.0], [1.0]], [[2.0]]]], [1, 3, 2, [[[3.0], [0.0]], [[1.0]]]]])
def epochs_of_samples(place: Place) -> object:
    with open_rows(place, minibatch_size=2) as source:
        return [[one.index, one.samples, len(one), read(one)] for one in source.epochs(2, samples=3)]


@operation([TEXT[2:], TEXT[2:], TEXT[2:], TEXT[2:]])
def states(place: Place) -> object:
    rests = []
    with open_text(place) as source:
        rest = iter(source)
        next(rest), next(rest)
        given = [json.loads(json.dumps(source.state_dict())), source.checkpoint(), source.cntk_state()]
        rests.append(read(rest))
    for state in given:
        with open_text(place) as source:
            source.load_state_dict(state)
            rests.append(read(source))
    return rests


@operation([("ReaderValueError", "checkpoint"), ("ReaderError", "checkpoint"), TEXT])
def wrong_states(place: Place) -> object:
    with open_text(place) as source:
        wrong: tuple[Any, ...] = ({"version": 9}, b"no")
        errors = [error_of(partial(source.load_state_dict, state)) for state in wrong]
        return [*errors, read(source)]


@operation([[[[0.0], [3.0], [7.0]]], [[[1.0, 2.0]], [[4.0, 5.0, 6.0]], [[8.0, 9.0]]]])
def workers(place: Place) -> object:
    found = []
    for rank in range(2):
        with open_text(place, "x", workers=2, rank=rank, minibatch_size=6) as source:
            found.append(read(source))
    return found


@operation([[4, 4], 10])
def lockstep(place: Place) -> object:
    counts, samples = [], 0
    for rank in range(2):
        with open_text(place, "x", workers=2, rank=rank, lockstep=True) as source:
            minibatches = list(source)
            counts.append(len(minibatches))
            samples += sum(one["x"].num_samples for one in minibatches if one)
    return [counts, samples]


@operation([TEXT, TEXT])
def reopened(place: Place) -> object:
    with open_text(place) as source:
        source.next_minibatch()
        with source.reopen() as second, pickle.loads(pickle.dumps(source)) as third:
            return [read(second), read(third)]


# Sources


@operation([(10, 6, 6), [(10, 6, 6)], (3, 10, 0), True, ["x"], True])
def questions(place: Place) -> object:
    with open_text(place) as source:
        read(source)
        source = source.reopen()
    with source:
        source.next_minibatch()
        return [
            tuple(source.sizes),
            [tuple(member.sizes) for member in source.members],
            tuple(source.progress),
            source.memory.window > 0,
            list(source.streams),
            source.suggest_chunk_size(2) > 0,
        ]


@operation([("ReaderError", "state"), ("ReaderError", "state"), False])
def closed(place: Place) -> object:
    source = open_text(place)
    source.next_minibatch()
    source.close()
    source.close()
    errors = [error_of(source.next_minibatch), error_of(lambda: source.progress)]
    with contextlib.suppress(ZeroDivisionError), open_text(place) as source:
        raise ZeroDivisionError
    return [*errors, error_of(source.next_minibatch)[0] != "ReaderError"]


@operation(
    [
        ("ReaderError", "io"),
        ("TypeError", ""),
        ("ValueError", ""),
        ("ReaderError", "config"),
        ("TypeError", ""),
        ("AttributeError", ""),
    ]
)
def mistakes(place: Place) -> object:
    def unknown_stream() -> None:
        with open_text(place) as source:
            try:
                _ = source.streams.xx
            except AttributeError as error:
                raise LookupError from error

    return [
        error_of(lambda: MinibatchSource(CTFDeserializer(place.data / "none", StreamDefs(x=StreamDef(shape=1))))),
        error_of(lambda: open_text(place, wrong=1)),
        error_of(lambda: open_text(place, randomization_seed=-1)),
        error_of(lambda: MinibatchSource.from_text("deserializers = (")),
        error_of(lambda: StreamDef(shape="3")),
        ("AttributeError", "") if error_of(unknown_stream)[0] == "LookupError" else None,
    ]


@operation(True)
def log_lines(place: Place) -> object:
    log = Log()
    set_log_callback(log)
    try:
        data = CTFDeserializer(place.data / "a.ctf", StreamDefs(x=StreamDef(shape=2)))
        with MinibatchSource(data, trace_level=2, randomize=False, max_sweeps=1, minibatch_size=9) as source:
            read(source)
    finally:
        set_log_callback(None)
    return bool(log.lines)


@operation([2, True])
def loading_threads(place: Place) -> object:
    before = get_threads()
    set_threads(2)
    try:
        return [get_threads(), before > 0]
    finally:
        set_threads(0)


@operation([("ReaderError", "cancelled"), [[0.0], [2.0]]], has_threads=True)
def cancelled(place: Place) -> object:
    user = Waits()
    with MinibatchSource(user, minibatch_size=2, randomize=False) as source:
        errors: list[tuple[str, str]] = []
        thread = threading.Thread(target=lambda: errors.append(error_of(source.next_minibatch)))
        thread.start()
        user.entered.wait(30)
        while not source.cancel():
            pass
        thread.join()
        user.go_on.set()
        return [*errors, values(source.next_minibatch())]


# Conversions


@operation([True, ["u1", "u2"], [[0, 0, 1], [1, 1]], ["a.ctf", "a.npz", "a.txt", "b.mlf"]])
def labels(place: Place) -> object:
    made = place.output
    mlf, classes = place.data / "a.mlf", place.data / "states"
    mlf_to_text(mlf, made / "a.ctf", "y", classes)
    text_to_mlf(made / "a.ctf", made / "b.mlf", "y", classes)
    mlf_to_kaldi(mlf, made / "a.txt", classes)
    mlf_to_numpy(mlf, made / "a.npz", classes)
    with np.load(made / "a.npz") as arrays:
        keys, classes_of = sorted(arrays), [arrays[key].tolist() for key in sorted(arrays)]
    return ["|y" in (made / "a.ctf").read_text(), keys, classes_of, place.collect()]


@operation([[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], [[6.0, 7.0], [8.0, 9.0]], True])
def features(place: Place) -> object:
    made = place.output
    htk_to_kaldi(place.data / "a.scp", made / "a.ark", made / "a.scp")
    kaldi_to_htk(made / "a.scp", made / "a.htk", made / "b.scp")
    htk_to_numpy(made / "b.scp", made / "a.npz")
    kaldi_to_numpy(made / "a.ark", made / "b.npz")
    with np.load(made / "a.npz") as first, np.load(made / "b.npz") as second:
        result = [first[key].tolist() for key in sorted(first)]
        is_equal = result == [second[key].tolist() for key in sorted(second)]
    place.collect()
    return [*result, is_equal]


@operation([TEXT, True, ("ZeroDivisionError", ""), ["a.ctf.zst"]])
def compression(place: Place) -> object:
    target = place.output / "a.ctf.zst"
    progress = Progress()
    compress(place.data / "a.ctf", target, progress=progress)
    data = CTFDeserializer(target, StreamDefs(x=StreamDef(shape=2)))
    with MinibatchSource(data, minibatch_size=3, randomize=False, max_sweeps=1, trace_level=0) as source:
        minibatches = read(source)
    fails = partial(compress, place.data / "a.ctf", place.output / "b.zst", progress=Progress(fails=True))
    return [minibatches, bool(progress.calls), error_of(fails), place.collect()]


@operation([0, TEXT])
def binary_file(place: Place) -> object:
    from cntk_reader import CBFDeserializer

    target = place.output / "a.cbf"
    code = _native.run_tool(["--quiet", "convert", str(place.data / "a.ctf"), str(target)])
    data = CBFDeserializer(target, StreamDefs(x=StreamDef(shape=2)))
    with MinibatchSource(data, minibatch_size=3, randomize=False, max_sweeps=1, trace_level=0) as source:
        minibatches = read(source)
    place.collect()
    return [code, minibatches]


# Other libraries


@operation([[0, 1, 2, 3]], "pyarrow")
def arrow_columns(place: Place) -> object:
    import pyarrow

    data = from_arrays(x=pyarrow.array([0, 1, 2, 3], pyarrow.float32()))
    with MinibatchSource(data, minibatch_size=9, randomize=False, max_sweeps=1) as source:
        return [minibatch["x"].array.ravel().tolist() for minibatch in source]


@operation([[3, 1, 3, 3], [3, 1, 3, 3]], "torch")
def torch_dataset(place: Place) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from cntk_reader.torch import Dataset
        from torch.utils.data import DataLoader

    dataset = Dataset(open_text(place), convert=lambda minibatch: minibatch["x"].num_samples)
    counts = [list(dataset), list(DataLoader(dataset, batch_size=None))]
    dataset.source.close()
    return counts
