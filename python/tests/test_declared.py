"""Declared streams: each must exist in the data, none is lost, and every setting has an effect."""

import tempfile
import unittest
from pathlib import Path

import numpy as np
from cntk_reader import (
    Base64ImageDeserializer,
    CBFDeserializer,
    ComposableUserDeserializer,
    CTFDeserializer,
    HTKFeatureDeserializer,
    HTKMLFBinaryDeserializer,
    HTKMLFDeserializer,
    ImageDeserializer,
    KaldiDeserializer,
    LatticeDeserializer,
    MinibatchSource,
    NumpyDeserializer,
    ReaderError,
    Scale,
    SequenceList,
    StreamDef,
    StreamDefs,
    StreamInformation,
    UserDeserializer,
    from_arrays,
)

#: A binary file with the streams "features" (dense, 2 values) and "words" (sparse, 5 values).
DUMP = (
    "6e69625f6b746e63010000000200000002000000020000000000803f0000004000004040000080400100"
    "00000000a0400000d040010000000200000000008040000040400000000001000000020000000200"
    "0000030000000000803f0000003f000080bf0400000002000000030000000100000002000000"
    "01000000010000000000e040000000410100000001000000000010410000000001000000"
    "6e69625f6b746e63020000000200000000080000006665617475726573000200000001050000"
    "00776f7264730005000000"
    "0c0000000000000002000000040000007800000000000000010000000100000"
    "09c00000000000000"
)


class BinaryFiles(unittest.TestCase):
    def test_streams_must_be_in_the_file(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = str(Path(folder.name) / "x.cbf")
        Path(path).write_bytes(bytes.fromhex(DUMP))
        for streams, names in [
            ({}, {"features", "words"}),
            (StreamDefs(x=StreamDef("features", 2)), {"x", "words"}),
            (StreamDefs(words=StreamDef(shape=5, is_sparse=True)), {"features", "words"}),
            (StreamDefs(words=StreamDef("features"), features=StreamDef("words")), {"features", "words"}),
        ]:
            with self.subTest(streams), MinibatchSource(CBFDeserializer(path, streams)) as source:
                self.assertEqual(set(source.streams), names)
        table = [
            (StreamDefs(q=StreamDef()), "The file has no stream 'q'."),
            (StreamDefs(q=StreamDef("nothing")), "The file has no stream 'nothing', which is to be delivered as 'q'."),
            (StreamDefs(Words=StreamDef()), "The file has no stream 'Words'."),
            (StreamDefs(q=StreamDef("words"), r=StreamDef("words")), "has two names: 'q' and 'r'"),
            (StreamDefs(words=StreamDef("features")), "Two streams with the same name 'words'"),
            (StreamDefs(features=StreamDef(shape=3)), "'features' has samples of 2 values .* declared with 3"),
            (StreamDefs(features=StreamDef(is_sparse=True)), "'features' is dense"),
        ]
        for streams, message in table:
            with self.subTest(message), self.assertRaisesRegex((ReaderError, ValueError), message):
                MinibatchSource(CBFDeserializer(path, streams))


class AllDeserializers(unittest.TestCase):
    def test_names_differing_only_in_case(self):
        streams = {"x": StreamDef(shape=1), "X": StreamDef(shape=2)}
        for make in (
            lambda: StreamDefs(**streams),
            lambda: CTFDeserializer("x.ctf", streams),
            lambda: CBFDeserializer("x.cbf", streams),
            lambda: ImageDeserializer("x.map", {"x": StreamDef("image"), "X": StreamDef("label", 3)}),
        ):
            with self.assertRaisesRegex(ValueError, "'x' and 'X' differ only in case"):
                make()

    def test_settings_without_effect_are_errors(self):
        said = {
            "field": "f",
            "context": (1, 1),
            "scp": "a.scp",
            "mlf": "a.mlf",
            "ark": "a.ark",
            "npy": "a.npy",
            "broadcast": True,
            "max_sequence_length": 9,
            "transforms": [Scale(1, 1, 1)],
            "defines_mb_size": True,
            "is_sparse": True,
        }
        kinds = [
            (lambda streams: CTFDeserializer("x", streams), "field transforms defines_mb_size is_sparse"),
            (lambda streams: CBFDeserializer("x", streams), "field defines_mb_size is_sparse"),
            (HTKFeatureDeserializer, "scp context broadcast max_sequence_length defines_mb_size"),
            (lambda streams: HTKMLFDeserializer(None, streams), "mlf is_sparse"),
            (HTKMLFBinaryDeserializer, "mlf is_sparse"),
            (lambda streams: LatticeDeserializer("x", streams), ""),
            (NumpyDeserializer, "npy defines_mb_size"),
            (KaldiDeserializer, "scp ark context broadcast max_sequence_length defines_mb_size is_sparse"),
        ]
        for number, (make, used) in enumerate(kinds):
            for option, value in said.items():
                with self.subTest(kind=number, option=option):
                    streams = {"x": StreamDef(**{option: value})}
                    if option in used.split():
                        make(streams)
                    else:
                        with self.assertRaisesRegex(ValueError, f"does not support '{option}'"):
                            make(streams)

    def test_any_name_and_path(self):
        """Names, fields and paths with characters that a configuration cannot express."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("seed", "dim", "file", "a b=c;d", '"quoted"', "$x$ [1] (2) # 3", "default", "'", "ä\nb"):
                path = Path(folder) / f"{name} #.ctf"
                path.write_text("|f'\" 1 2\n|f'\" 3 4\n")
                streams = {name: StreamDef("f'\"", 2)}
                with self.subTest(name), MinibatchSource(CTFDeserializer(path, streams), randomize=False) as source:
                    self.assertEqual(list(source.streams), [name])
                    self.assertEqual(source.next_minibatch(2)[name].array.tolist(), [[[1, 2], [3, 4]]])
                    self.assertEqual(list(source.reopen().streams), [name])
            for name in ("", "a\0b"):
                with self.assertRaisesRegex(ValueError, "is not a valid name of an option or a stream"):
                    MinibatchSource(CTFDeserializer("a", {name: StreamDef(shape=1)}))

    def test_values_of_options(self):
        data = from_arrays(x=np.ones((4, 1), np.float32))
        for value, message in [
            (None, "The option 'prefetch' is None. Omit it to get its default."),
            (object(), "is not a valid value for the option"),
            ([object()], "is not a valid element of the list"),
            (b"x", "is not a valid value for the option"),
        ]:
            with self.assertRaisesRegex(TypeError, message):
                MinibatchSource(data, options={"prefetch": value})
        with self.assertRaisesRegex(OverflowError, "does not fit in 64 bits"):
            MinibatchSource(data, options={"randomizationSeed": 2**64})
        with MinibatchSource(data, options={"randomizationSeed": 2**64 - 1, "prefetch": np.bool_(False)}) as source:
            self.assertEqual(source.next_minibatch(4)["x"].num_samples, 4)

    def test_duplicate_fields(self):
        for kind in (ImageDeserializer, Base64ImageDeserializer):
            for field in ("image", "label"):
                streams = StreamDefs(a=StreamDef(field, 3), b=StreamDef(field, 3))
                with self.subTest(kind=kind, field=field), self.assertRaisesRegex(ValueError, f"the field '{field}'"):
                    kind("x", streams).section()

    def test_duplicate_streams(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "x.ctf")
            Path(path).write_text("|x 1\n|x 2\n")
            file = CTFDeserializer(path, StreamDefs(x=StreamDef(shape=1)))
            arrays = from_arrays(x=np.zeros((2, 1), np.float32))
            for two in ([file, file], [file, arrays], [arrays, from_arrays(x=np.ones((2, 1), np.float32))]):
                with self.assertRaisesRegex(ReaderError, "Two streams with the same name 'x'"):
                    MinibatchSource(two)


class UserStreams(unittest.TestCase):
    def deserializer(self, base, names, **attributes):
        class Data(base):
            def stream_infos(self):
                return [StreamInformation(name, i, "dense", np.float32, (1,)) for i, name in enumerate(names)]

            def num_chunks(self):
                return 1

            def get_sequences(self, chunk_id):
                return SequenceList(1)

            def get_chunk(self, chunk_id):
                return {name: np.zeros((1, 1), np.float32) for name in names}

        for name, value in attributes.items():
            setattr(Data, name, value)
        return Data()

    def test_names(self):
        for base in (UserDeserializer, ComposableUserDeserializer):
            with MinibatchSource(self.deserializer(base, ["a", "b", "A"])) as source:
                self.assertEqual(list(source.streams), ["a", "b", "A"])
            with self.assertRaisesRegex(ValueError, "Two streams have the name 'a'"):
                MinibatchSource(self.deserializer(base, ["a", "b", "a"]))
            with self.assertRaisesRegex(
                ValueError, "'transforms' are given for the stream 'q'.*There is no stream 'q'"
            ):
                MinibatchSource(self.deserializer(base, ["a"], transforms={"q": [Scale(1, 1, 1)]}))

    def test_flags(self):
        for flag in ("thread_safe", "has_text_keys"):
            with self.assertRaisesRegex(TypeError, f"Data.{flag} must be True or False, not 'no'"):
                MinibatchSource(self.deserializer(ComposableUserDeserializer, ["a"], **{flag: "no"}))


class TextTypes(unittest.TestCase):
    """Element types and ids of text streams."""

    def read(self, text: str, **streams: StreamDef):
        """Returns the source and its only minibatch."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name, "x.ctf")
        path.write_text(text)
        text_file = CTFDeserializer(str(path), StreamDefs(**streams))
        source = MinibatchSource(text_file, minibatch_size=10, randomize=False, max_sweeps=1, trace_level=0)
        (minibatch,) = source
        return source, minibatch

    def test_dtype_and_ids(self):
        for dtype in ("uint8", np.uint8, np.dtype("uint8")):
            source, minibatch = self.read(
                "1 |p 0 255 |w 3:1\n1 |p 7 8 |w 0:1\n",
                p=StreamDef(shape=2, dtype=dtype),
                w=StreamDef(shape=5, is_sparse=True, ids="int64"),
            )
            pixels, ids = minibatch["p"].as_sequences()[0], minibatch["w"].as_sequences()[0]
            self.assertEqual((pixels.dtype, pixels.tolist()), (np.uint8, [[0, 255], [7, 8]]))
            self.assertEqual((ids.dtype, ids.tolist()), (np.int64, [3, 0]))
            self.assertEqual((source.streams["w"].classes, source.streams["w"].shape), (5, ()))
            self.assertIsNone(source.streams["p"].classes)

    def test_mismatched_dtype_and_ids(self):
        with self.assertRaisesRegex(ReaderError, "A value does not fit: 256. Expected an integer from 0 to 255"):
            self.read("|p 256\n", p=StreamDef(shape=1, dtype="uint8"))
        for options in ({"dtype": "complex64"}, {"ids": "uint8", "is_sparse": True}):
            with self.assertRaisesRegex(ValueError, "StreamDef"):
                StreamDef(shape=1, **options)
        with self.assertRaisesRegex(ValueError, "'ids'"):
            NumpyDeserializer({"x": StreamDef(npy="x.npy", ids="int32")})
        with self.assertRaisesRegex(ReaderError, "Expected a whole number of the type int32"):
            self.read("|x 1:1\n", x=StreamDef(shape=2, is_sparse=True, ids="int32", padding=2**40))

    def test_ids_of_other_formats(self):
        words = StreamDef("words", shape=9, is_sparse=True, ids="int64", padding=-100)
        keys = {"ids": "int64", "padding": -100}
        self.assertEqual(CBFDeserializer("x.cbf", {"x": words}).section()["input"], {"x": {"alias": "words", **keys}})
        labels = StreamDef(shape=9, mlf="a.mlf", ids="int64", padding=-100)
        for section in (
            HTKMLFDeserializer(None, {"l": labels}).section(),
            HTKMLFBinaryDeserializer({"l": labels}).section(),
        ):
            self.assertEqual(section["input"]["l"], {"mlfFile": "a.mlf", "dim": 9, **keys})
        kaldi = KaldiDeserializer({"l": StreamDef(shape=9, ark="a.ark", is_sparse=True, ids="int32")}).section()
        self.assertEqual(kaldi["input"]["l"], {"arkFile": "a.ark", "dim": 9, "format": "sparse", "ids": "int32"})


if __name__ == "__main__":
    unittest.main()
