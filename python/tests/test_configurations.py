"""Whole configuration files, and paths that CNTK's language cannot express."""

from __future__ import annotations

import os
import tempfile
import unittest
from pathlib import Path

from cntk_reader import CTFDeserializer, MinibatchSource, ReaderError, StreamDef, StreamDefs

from .loops import minibatches_of

STREAMS = StreamDefs(x=StreamDef(shape=2), y=StreamDef(shape=3, is_sparse=True))
DATA = "|x 1 2 |y 0:1\n|x 3 4 |y 2:1\n"
NAMES = [
    b"a #b.ctf",
    b'a"b.ctf',
    b"$a$.ctf",
    b"$a$ $b$.ctf",
    b"a\\b.ctf",
    b"a[b]{c}(d),e;f:g=h.ctf",
    b"(a:b)",
    b"a\nb.ctf",
    b" a ",
    b"'a'",
    b"a //b.ctf",
    b"a%20b.ctf",
    b"file:a.ctf",
    b"default",
    b"\xff\xfe.ctf",
    "\u00e4\u201c.ctf".encode(),
]


def read(source: MinibatchSource) -> list[float]:
    with source:
        return sorted(
            value for minibatch in minibatches_of(source, 64) for value in minibatch["x"].array.ravel().tolist()
        )


class Configurations(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_paths_with_any_characters(self) -> None:
        for name in NAMES:
            path = os.path.join(os.fsencode(self.folder), name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(DATA)
            text = os.fsdecode(path)
            for one in (text, Path(text), [text], [Path(text)]):
                with self.subTest(name=name, kind=type(one)):
                    source = MinibatchSource(CTFDeserializer(one, STREAMS), max_sweeps=1)
                    self.assertEqual(read(source), [1, 2, 3, 4])

    def test_patterns_in_folders_with_any_characters(self) -> None:
        folder = self.folder / 'a #"b'
        folder.mkdir()
        for number in range(2):
            (folder / f"{number}.ctf").write_text(DATA)
        source = MinibatchSource(CTFDeserializer(folder / "*.ctf", STREAMS), max_sweeps=1)
        self.assertEqual(read(source), [1, 1, 2, 2, 3, 3, 4, 4])

    def test_readers_listed_and_chosen(self) -> None:
        (self.folder / "a.ctf").write_text(DATA)
        reader = f'reader = [ file = "{self.folder}/$name$.ctf" ; input = [ x = [ dim = 2 ; format = dense ] ] ]'
        text = f"name = a\ntrain = [ modelPath = $unknown$\n{reader} ]\ntest = [ {reader} ]\n"
        path = self.folder / "whole.cntk"
        path.write_text(text)
        self.assertEqual(MinibatchSource.readers(path), ["test.reader", "train.reader"])
        for name in MinibatchSource.readers(path):
            self.assertEqual(read(MinibatchSource.from_file(path, reader=name, max_sweeps=1)), [1, 2, 3, 4])
            source = MinibatchSource.from_text(text, reader=name, max_sweeps=1)
            self.assertEqual(read(source.reopen()), [1, 2, 3, 4])
        with self.assertRaisesRegex(ReaderError, "Its readers are 'test.reader', 'train.reader'"):
            MinibatchSource.from_file(path)
        with self.assertRaisesRegex(ReaderError, "Did you mean 'train.reader'"):
            MinibatchSource.from_file(path, reader="trian.reader")


if __name__ == "__main__":
    unittest.main()
