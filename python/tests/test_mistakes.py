"""Mistakes that users make, and the part of the message that names the cause or the remedy."""

from __future__ import annotations

import tempfile
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cntk_reader.cntk as cntk_io
import numpy as np
from cntk_reader import (
    CBFDeserializer,
    CTFDeserializer,
    HTKFeatureDeserializer,
    MinibatchSource,
    NumpyDeserializer,
    StreamDef,
    StreamDefs,
    StreamInformation,
    UserDeserializer,
    from_arrays,
    from_csv,
    from_folder,
)

TEXT = "".join(f"{number} |x {number} 1 2 |y {number % 3}:1\n" for number in range(20))


class Own(UserDeserializer):
    """A deserializer that returns a given value as its chunk."""

    def __init__(self, chunk: object) -> None:
        self.chunk = chunk

    def stream_infos(self) -> list[StreamInformation]:
        return [StreamInformation("x", 0, "dense", np.float32, (2,))]

    def num_chunks(self) -> int:
        return 1

    def get_chunk(self, chunk_id: int) -> Any:
        return self.chunk


class WithoutChunks(UserDeserializer):
    """A deserializer that lacks a method."""

    def stream_infos(self) -> list[StreamInformation]:
        return [StreamInformation("x", 0, "dense", np.float32, (2,))]


class Mistakes(unittest.TestCase):
    """Each message names cause and remedy in Python's words."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "t.ctf"
        self.path.write_text(TEXT)

    def data(self) -> CTFDeserializer:
        return CTFDeserializer(self.path, StreamDefs(x=StreamDef(shape=3), y=StreamDef(shape=3, is_sparse=True)))

    def source(self, **options: Any) -> MinibatchSource:
        return MinibatchSource(self.data(), **{"minibatch_size": 4, **options})

    def written(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def says(self, wrong: Callable[[], object], *wanted: str, unwanted: str = "\0") -> None:
        """Expects an error that contains these texts, and at most one example."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                wrong()
            except Exception as error:
                message = str(error)
            else:
                self.fail(f"no error, but expected: {wanted}")
        for part in wanted:
            self.assertIn(part, message)
        self.assertLessEqual(message.count("For example: "), 1, message)
        self.assertNotIn(unwanted, message)

    def test_words_of_other_libraries(self) -> None:
        source, data = self.source, self.data()
        self.says(lambda: source(shuffle=True), "has no option 'shuffle'. Did you mean 'randomize'?")
        self.says(lambda: source(seed=1), "Did you mean 'randomization_seed'?")
        self.says(lambda: source(batch_size=1), "Did you mean 'minibatch_size'?")
        self.says(lambda: source(epochs=1), "Did you mean 'max_sweeps'?")
        self.says(lambda: source(precision="float64"), "Did you mean 'double'?")
        self.says(lambda: CTFDeserializer(path="a", streams={}), "Did you mean 'filename'?")  # type: ignore[call-arg]
        self.says(lambda: StreamDef(dim=3), "Did you mean 'shape'?")  # type: ignore[call-arg]
        self.says(lambda: MinibatchSource("train.csv"), "from_csv('train.csv')")  # type: ignore[arg-type]
        self.says(lambda: MinibatchSource(["train.ctf"]), "CTFDeserializer('train.ctf'")  # type: ignore[list-item]
        self.says(lambda: MinibatchSource([]), "needs a deserializer, such as CTFDeserializer(")
        self.says(lambda: MinibatchSource([(data,)]), "A source reads deserializers")  # type: ignore[list-item]

    def test_numbers(self) -> None:
        source = self.source
        self.says(lambda: source(minibatch_size=64.0), "must be a whole number, not 64.0", unwanted="For example")
        self.says(lambda: source(minibatch_size=-1), "minibatch_size must be at least 1, but is -1")
        self.says(lambda: source(max_sweeps=1, max_samples=9), "pass one of them")
        self.says(
            lambda: source(randomization_window_in_chunks=2, randomization_window_in_samples=9), "pass one of them"
        )
        self.says(lambda: source(frame_mode=True, truncation_length=9), "pass frame_mode or truncation_length")
        self.says(lambda: list(source().epochs(0)), "number of epochs must be at least 1")
        self.says(lambda: source().next_minibatch(0), "minibatch size must be at least 1, but is 0")
        self.says(lambda: from_folder(self.folder, "16"), "a whole number, or a list or a tuple, not '16'")  # type: ignore[arg-type]

    def test_streams(self) -> None:
        def read(**streams: Any) -> object:
            return MinibatchSource(CTFDeserializer(self.path, streams)).next_minibatch(4)

        self.says(lambda: read(x=3), "The stream 'x' is 3, not a StreamDef")
        self.says(lambda: read(x=StreamDef(shape=2.5)), "not 2.5")  # type: ignore[arg-type]
        self.says(lambda: read(x=StreamDef()), "needs a shape")
        self.says(lambda: self.source().next_minibatch().x, "minibatch['x']")
        self.says(lambda: self.source().next_minibatch().z, "no attribute 'z'", unwanted="minibatch[")
        self.says(lambda: self.source().next_minibatch()["x"].indices(), "The stream is dense: use its values")
        self.says(lambda: self.source().next_minibatch()["y"].array, "use .sparse")

    def test_sources(self) -> None:
        closed = self.source()
        closed.close()
        self.says(closed.next_minibatch, "The source is closed", "source.reopen()")
        self.says(lambda: self.source().load_state_dict({"layer.weight": 1}), "no state of a reader", "state_dict()")
        self.says(lambda: self.source().load_state_dict(b"abc"), "checkpoint")
        self.says(lambda: MinibatchSource.from_text("train.cntk"), "MinibatchSource.from_file")

    def test_files(self) -> None:
        def read(data: Any) -> object:
            return MinibatchSource(data).next_minibatch(4)

        np.savez(self.folder / "a.npz", x=np.ones(3))
        archive = self.folder / "a.npz"
        self.says(lambda: read(CBFDeserializer(archive)), "The file looks like a ZIP archive", unwanted="WARNING")
        self.says(
            lambda: read(CBFDeserializer(self.path)), "The file looks like a text file", "A 'CTFDeserializer' reads it"
        )
        streams = StreamDefs(f=StreamDef(shape=3, scp=self.path))
        self.says(lambda: read(HTKFeatureDeserializer(streams)), "The file looks like a text file")
        self.says(lambda: read(NumpyDeserializer(StreamDefs(x=StreamDef(npy=self.path)))), "looks like a text file")
        late = self.written("late.ctf", "99999999999999999999999 |x 1 2 3\n")
        self.says(
            lambda: read(CTFDeserializer(late, StreamDefs(x=StreamDef(shape=3)))),
            "A sequence id is too large",
            "below 2^64",
        )

    def test_one_name_in_two_deserializers(self) -> None:
        second = self.written("second.ctf", TEXT)
        streams = StreamDefs(x=StreamDef(shape=3))
        self.says(
            lambda: MinibatchSource([CTFDeserializer(self.path, streams), CTFDeserializer(second, streams)]),
            f"'{self.path}' and '{second}', have a stream with the name 'x'",
            "give its name in the file as 'field'",
        )

    def test_state_that_is_a_text(self) -> None:
        source = cntk_io.MinibatchSource(
            cntk_io.CTFDeserializer(str(self.path), cntk_io.StreamDefs(x=cntk_io.StreamDef(field="x", shape=3)))
        )
        self.addCleanup(source.close)
        self.says(lambda: source.restore_from_checkpoint("abc"), "'abc'")  # type: ignore[arg-type]

    def test_parts_of_a_data_set_are_not_classes(self) -> None:
        for part in ("train", "test"):
            (self.folder / "pictures" / part / "cat").mkdir(parents=True)
            (self.folder / "pictures" / part / "cat" / "a.png").write_bytes(b"")
        pictures = self.folder / "pictures"
        self.says(lambda: from_folder(pictures, 8), "named like parts of a data set", "classes=['test', 'train']")
        self.assertEqual(from_folder(pictures, 8, classes=["test", "train"]).classes, ("test", "train"))

    def test_tables(self) -> None:
        table = self.written("a.csv", "a,b\n1,x\n2,y\n")
        self.says(lambda: from_csv(table, features=["a", "c"]), "There is no column 'c'", "a, b")
        self.says(lambda: from_csv(table, features=["a", "b"]), "The column 'b' has texts")
        picture = self.written("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\r")
        self.says(lambda: from_csv(picture, x="a"), "this is a binary file", unwanted="encoding")
        self.says(lambda: from_csv(self.path, x="x"), "a text file in CNTK's format", "CTFDeserializer")
        self.says(lambda: from_arrays(x=[[1, 2], [3]]), "np.concatenate")
        self.says(lambda: from_arrays(x=np.array(["a"])), "np.unique")
        self.says(lambda: from_arrays(x=np.ones((3, 2)), y=np.ones((4, 1))), "'x' has 3, 'y' has 4")

    def test_deserializers_of_users(self) -> None:
        def read(chunk: object) -> object:
            return MinibatchSource(Own(chunk)).next_minibatch(4)

        self.says(lambda: read([1, 2]), "get_chunk must return a dictionary, such as {'x': array}", "type list")
        self.says(lambda: read(None), "not None")
        self.says(lambda: read({"z": np.ones((2, 2))}), "stream 'z', which stream_infos() does not have", "'x'")
        self.says(lambda: read({}), "get_chunk returned no stream 'x'")
        self.says(lambda: read({"x": np.ones(4)}), "(samples, 2) was expected")
        self.says(lambda: MinibatchSource(WithoutChunks()), "WithoutChunks has no num_chunks()")  # type: ignore[abstract]


if __name__ == "__main__":
    unittest.main()
