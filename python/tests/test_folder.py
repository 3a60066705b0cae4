"""Folders of images as deserializers, and pixels as models expect them."""

import tempfile
import unittest
from pathlib import Path

import numpy as np
from cntk_reader import (
    Crop,
    ImageDeserializer,
    ImageInfo,
    MinibatchSource,
    Normalize,
    ReaderError,
    StreamDef,
    StreamDefs,
    from_folder,
)

from .loops import next_epoch

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def picture(seed, columns=4, rows=2):
    """Returns an image (row, column, channel), red first."""
    return np.random.default_rng(seed).integers(256, size=(rows, columns, 3), dtype=np.uint8)


def ppm(image):
    """Returns an image as a file."""
    rows, columns, _ = image.shape
    return f"P6 {columns} {rows} 255\n".encode() + image.tobytes()


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def add(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def pictures(self):
        for number, name in enumerate(("dog/1.ppm", "cat/2.ppm", "cat/deeper/3.ppm", "cat/10.ppm")):
            self.add(name, ppm(picture(number)))

    def read(self, deserializer, **options):
        with MinibatchSource(deserializer, randomize=False, **options) as source:
            (minibatch,) = next_epoch(source, 100)
            names = list(source.streams)
            return minibatch[names[0]].packed().values, minibatch[names[1]].indices().tolist()


class Classes(Folder):
    def test_classes_are_sorted_folders(self):
        self.pictures()
        self.add("cat/notes.txt", b"not an image")
        self.add(".cache/x.ppm", b"hidden")
        data = from_folder(self.folder, (4, 2), dtype="uint8")
        self.assertEqual(data.classes, ("cat", "dog"))
        pixels, classes = self.read(data, trace_level=0)
        self.assertEqual(classes, [0, 0, 0, 1])
        for found, number in zip(pixels, (3, 1, 2, 0)):
            self.assertEqual(found.transpose(1, 2, 0).tolist(), picture(number).tolist())

    def test_expected_classes(self):
        self.pictures()
        train = from_folder(self.folder, 4)
        self.assertEqual(from_folder(self.folder, 4, classes=train.classes).classes, ("cat", "dog"))
        (self.folder / "emu").mkdir()
        with self.assertRaisesRegex(ValueError, "folder of the class 'emu' .* is empty"):
            from_folder(self.folder, 4)
        data = from_folder(self.folder, 4, classes=("cat", "dog", "emu"))
        with MinibatchSource(data) as source:
            self.assertEqual(source.streams.labels.shape, (3,))
        for classes, message in [
            (("cat", "dog"), "the folder 'emu' is not one of them"),
            (("cat", "dog", "eel", "emu"), "there is no folder 'eel'. Make an empty one"),
            (("dog", "cat", "emu"), "in this order, which is not alphabetical"),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                from_folder(self.folder, 4, classes=classes)

    def test_mistakes(self):
        with self.assertRaisesRegex(FileNotFoundError, "There is no folder"):
            from_folder(self.folder / "missing", 4)
        with self.assertRaisesRegex(ValueError, "has no folders in it"):
            from_folder(self.folder, 4)
        self.pictures()
        with self.assertRaisesRegex(NotADirectoryError, "is a file, not a folder of images"):
            from_folder(self.folder / "dog" / "1.ppm", 4)
        for options, message in [
            ({"color_order": "GRB"}, "color_order must be one of 'RGB', 'BGR', 'gray'"),
            ({"mean": MEAN, "dtype": "uint8"}, "mean and std make fractions"),
            ({"std": 0}, "std must be above 0"),
            ({"mean": (123.7, 116.3, 103.5)}, "divide mean and std by 255"),
            ({"mean": (1, 2), "std": STD}, "mean has 2 numbers, std 3"),
            ({"labels": "features"}, "have the same name"),
            ({"classes": []}, "were expected"),
            ({"transforms": Crop()}, "transforms must be a list"),
            ({"colour_order": "RGB"}, "Did you mean 'color_order'"),
        ]:
            with self.subTest(message), self.assertRaisesRegex((TypeError, ValueError), message):
                from_folder(self.folder, 4, **options)
        with self.assertRaisesRegex(ReaderError, "numbers for 2 channels, but the images have 3"):
            self.read(from_folder(self.folder, 4, mean=(0.1, 0.2)))
        self.add("beside.ppm", ppm(picture(5)))
        with self.assertRaisesRegex(ReaderError, "beside.ppm' is not in the folder of a class"):
            MinibatchSource(from_folder(self.folder, 4))
        (self.folder / "beside.ppm").unlink()
        self.add("dog/1.ppm", b"broken")
        with self.assertRaisesRegex(ReaderError, r"dog/1.ppm") as caught:
            self.read(from_folder(self.folder, 4))
        self.assertTrue(caught.exception.file.endswith("dog/1.ppm"), caught.exception.file)
        self.assertIsNone(caught.exception.line)
        with self.assertRaisesRegex(ReaderError, "2 folders of classes, but 1 classes are declared"):
            streams = StreamDefs(x=StreamDef("image", transforms=[]), y=StreamDef("label", 1))
            MinibatchSource(ImageDeserializer(self.folder, streams))


class Pixels(Folder):
    def test_normalized_as_torchvision_does(self):
        self.add("a/1.ppm", ppm(picture(1)))
        planes = picture(1).transpose(2, 0, 1).astype(np.float32)
        mean, std = (np.array(part, np.float32)[:, None, None] for part in (MEAN, STD))
        scaled = planes / np.float32(255)
        for options, expected in [
            ({}, scaled),
            ({"color_order": "BGR"}, scaled[::-1]),
            ({"mean": MEAN, "std": STD}, (scaled - mean) / std),
            ({"mean": 0.5}, scaled - np.float32(0.5)),
            ({"std": STD, "color_order": "BGR"}, scaled[::-1] / std),
            ({"dtype": "uint8"}, planes),
            ({"dtype": "uint8", "color_order": "BGR"}, planes[::-1]),
        ]:
            with self.subTest(options):
                pixels, _ = self.read(from_folder(self.folder, (4, 2), **options))
                self.assertEqual(pixels.dtype, np.dtype(options.get("dtype", "float32")))
                np.testing.assert_array_equal(pixels[0], expected)
        gray, _ = self.read(from_folder(self.folder, (4, 2), color_order="gray", mean=0.5, std=0.5))
        self.assertEqual(gray.shape, (1, 1, 2, 4))
        self.assertTrue(-1 <= gray.min() <= gray.max() <= 1)

    def test_library_and_numpy_agree(self):
        self.pictures()
        for normalize in (
            Normalize(),
            Normalize(MEAN, STD),
            Normalize(0.25, color_order="BGR"),
            Normalize(None, None, None),
            Normalize(std=2, divisor=None),
        ):
            pixels, _ = self.read(
                ImageDeserializer(
                    self.folder,
                    StreamDefs(x=StreamDef("image", transforms=[normalize]), y=StreamDef("label", 2)),
                    transpose=False,
                )
            )
            bgr = picture(3)[..., ::-1]
            made = normalize.apply(bgr, 0)
            info = normalize.result(ImageInfo(4, 2, 3, np.dtype(np.uint8)))
            self.assertEqual(made.dtype, info.dtype, normalize)
            np.testing.assert_array_equal(pixels[0], made.astype(np.float32), repr(normalize))

    def test_shape_is_known_before_the_first_minibatch(self):
        self.pictures()
        with MinibatchSource(from_folder(self.folder, (4, 2), features="x", labels="y")) as source:
            self.assertEqual((source.streams.x.shape, source.streams.y.shape), ((3, 2, 4), (2,)))

    def test_precisions_and_order_of_transforms(self):
        self.pictures()
        streams = {"x": StreamDef("image", transforms=[Normalize(MEAN, STD)]), "y": StreamDef("label", 2)}
        double, _ = self.read(ImageDeserializer(self.folder, streams), precision="double")
        single, _ = self.read(ImageDeserializer(self.folder, streams))
        self.assertEqual(double.dtype, np.float64)
        np.testing.assert_array_equal(double, single)
        from cntk_reader import Transpose

        streams["x"] = StreamDef("image", transforms=[Transpose(), Normalize()])
        with self.assertRaisesRegex(ReaderError, "Normalize follows Transpose"):
            self.read(ImageDeserializer(self.folder, streams, transpose=False))
        streams["x"] = StreamDef("image", transforms=[Normalize()], dtype="uint8")
        with self.assertRaisesRegex(ReaderError, "other values than uint8"):
            self.read(ImageDeserializer(self.folder, streams))

    def test_draws_and_resuming(self):
        for number in range(9):
            self.add(f"{'ab'[number % 2]}/{number}.ppm", ppm(picture(number, 12, 12)))
        crops = [Crop("RandomSide", side_ratio=(0.5, 1.0), jitter=True)]
        data = from_folder(self.folder, 6, transforms=crops, mean=MEAN, std=STD, reproducible_transforms=True)
        with MinibatchSource(data, minibatch_size=2) as source:
            expected = [minibatch["features"].packed().values.tolist() for minibatch in next_epoch(source, 2)]
            self.assertEqual(len(expected), 5)
        with MinibatchSource(data, minibatch_size=2) as source:
            source.next_minibatch(2)
            state = source.state_dict()
        with MinibatchSource(data, minibatch_size=2) as source:
            source.load_state_dict(state)
            rest = [source.next_minibatch(2)["features"].packed().values.tolist() for _ in range(3)]
        self.assertEqual(rest, expected[1:4])


if __name__ == "__main__":
    unittest.main()
