"""Deserializers of images: configurations, transforms and users' transforms."""

import os
import struct
import tempfile
import unittest
from pathlib import Path

import numpy as np
from cntk_reader import (
    Base64ImageDeserializer,
    Cast,
    Color,
    ComposableUserDeserializer,
    Crop,
    CTFDeserializer,
    Draw,
    ImageDeserializer,
    Intensity,
    Mean,
    MinibatchSource,
    ReaderError,
    Scale,
    SequenceList,
    StreamDef,
    StreamDefs,
    StreamInformation,
    Transform,
    Transpose,
)
from cntk_reader.cntk import transforms

from .loops import minibatches_of


class Sections(unittest.TestCase):
    """Objects as sections of the configuration."""

    def test_transforms(self):
        crop = Crop("RandomSide", (4, 5), side_ratio=0.5, area_ratio=(0.25, 1.0), jitter=True, flip=False, seed=3)
        expected = {
            "type": "Crop",
            "cropType": "RandomSide",
            "cropSize": "4:5",
            "sideRatio": "0.5:0.5",
            "areaRatio": "0.25:1.0",
            "jitterType": "UniRatio",
            "hflip": False,
            "seed": 3,
        }
        self.assertEqual(crop.section(), expected)
        self.assertEqual(Crop().section(), {"type": "Crop", "cropType": "Center"})
        expected = {
            "type": "Scale",
            "width": 4,
            "height": 3,
            "channels": 1,
            "interpolations": "cubic",
            "scaleMode": "pad",
            "padValue": 9,
        }
        self.assertEqual(Scale(4, 3, 1, "cubic", "pad", 9).section(), expected)
        self.assertEqual(transforms.scale(4, 3, 1, "cubic", "pad", 9), expected)
        self.assertEqual(Mean(Path("m.xml")).section(), transforms.mean("m.xml"))
        expected = {"type": "Color", "brightnessRadius": 0.1, "contrastRadius": 0.2, "saturationRadius": 0.3}
        self.assertEqual(Color(0.1, 0.2, 0.3).section(), expected)
        self.assertEqual(transforms.color(0.1, 0.2, 0.3), expected)
        expected = {"type": "Intensity", "intensityStdDev": 0.5, "intensityFile": "i.xml", "seed": 2}
        self.assertEqual(Intensity(0.5, "i.xml", 2).section(), expected)
        self.assertEqual((Transpose().section(), Cast().section()), ({"type": "Transpose"}, {"type": "Cast"}))

    def test_helpers_match_cntk(self):
        expected = {
            "type": "Crop",
            "cropType": "center",
            "cropSize": "0:0",
            "sideRatio": "0:0",
            "areaRatio": "0:0",
            "aspectRatio": "1:1",
            "jitterType": "none",
        }
        self.assertEqual(transforms.crop(), expected)
        crop = transforms.crop("randomside", 5, (0.123456789, 0.8), aspect_ratio=(0.75, 4 / 3), jitter_type="uniratio")
        self.assertEqual(
            (crop["cropSize"], crop["sideRatio"], crop["aspectRatio"]), ("5:5", "0.123457:0.8", "0.75:1.33333")
        )
        self.assertRaises(ValueError, transforms.crop, side_ratio=(0.8, 0.1))

    def test_deserializers(self):
        streams = StreamDefs(
            features=StreamDef("image", transforms=[Scale(4, 3, 1), {"type": "Mean"}]), labels=StreamDef("label", 10)
        )
        section = ImageDeserializer("train.map", streams, grayscale=True, max_pixels=7).section()
        scale = Scale(4, 3, 1).section()
        features = {"transforms": [scale, {"type": "Mean"}, {"type": "Transpose"}]}
        expected = {
            "type": "ImageDeserializer",
            "module": "ImageReader",
            "file": "train.map",
            "input": {"features": features, "labels": {"labelDim": 10}},
            "grayscale": True,
            "maxPixels": 7,
        }
        self.assertEqual(section, expected)
        section = Base64ImageDeserializer(
            "train.txt", {"x": StreamDef("image")}, multi_view_crop=True, transpose=False, cache_index=True
        ).section()
        self.assertEqual(
            (section["type"], section["multiViewCrop"], section["cacheIndex"]), ("Base64ImageDeserializer", True, True)
        )
        self.assertEqual(section["input"].pop("x"), {"transforms": []})
        ((name, labels),) = section["input"].items()
        self.assertTrue(name.startswith("_ignore_labels_"))
        self.assertEqual(labels, {"labelDim": 2**31 - 1})

    def test_field_names(self):
        with self.assertRaises(ValueError) as raised:
            ImageDeserializer("m", StreamDefs(x=StreamDef("img"))).section()
        message = "ImageDeserializer: invalid field name 'img', allowed are 'image' and 'label'"
        self.assertEqual(str(raised.exception), message)


class Shift(Transform):
    """Adds 100 to each value, and drops one row."""

    def __init__(self, error=None):
        self.error = error
        self.randoms = []

    def result(self, image):
        return image._replace(height=image.height - 1)

    def apply(self, image, random):
        self.randoms.append(random)
        if self.error is not None:
            raise self.error
        return image[:-1] + np.float32(100)


class Squares(ComposableUserDeserializer):
    """Two sequences of one image each, with 2 rows, 2 columns and 1 channel."""

    def stream_infos(self):
        return [StreamInformation("squares", 0, "dense", np.float32, (2, 2, 1))]

    def num_chunks(self):
        return 1

    def get_sequences(self, chunk_id):
        return SequenceList(2)

    def get_chunk(self, chunk_id):
        return {"squares": np.arange(8, dtype=np.float32).reshape(2, 2, 2, 1)}


class UserTransforms(unittest.TestCase):
    """Users' transforms of users' streams and of text streams."""

    def test_user_streams(self):
        shift = Shift()
        squares = Squares()
        squares.transforms = {"squares": [shift]}
        with MinibatchSource(squares, randomize=False, max_sweeps=1) as source:
            array = source.next_minibatch(10)["squares"].array
            self.assertEqual(array.reshape(2, 2).tolist(), [[100, 101], [104, 105]])
            self.assertFalse(source.next_minibatch(10))
        self.assertEqual(len(set(shift.randoms)), 2)

    def test_text_streams(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a.ctf")
            path.write_text("|x 0 1 2 3\n|x 4.5 5 6 7\n")
            stream = StreamDef(shape=(2, 2, 1), transforms=[Shift(), Transpose()])
            with MinibatchSource(CTFDeserializer(path, {"x": stream}), randomize=False, max_sweeps=1) as source:
                array = source.next_minibatch(10)["x"].array
                self.assertEqual(array.reshape(2, 2).tolist(), [[100, 101], [104.5, 105]])
                self.assertEqual(source.streams.x.shape, source.streams["x"].shape)

    def test_exceptions_propagate(self):
        squares = Squares()
        squares.transforms = {"squares": [Shift(KeyError("no shift today"))]}
        with MinibatchSource(squares, randomize=False, max_sweeps=1) as source:
            with self.assertRaises(ReaderError) as raised:
                source.next_minibatch(10)
            self.assertEqual((raised.exception.kind, raised.exception.stream), ("user", "squares"))
            self.assertIsInstance(raised.exception.__cause__, KeyError)

    def test_images_may_be_kept(self):
        class Keep(Shift):
            images = []

            def apply(self, image, random):
                self.images.append(image)
                return super().apply(image, random)

        squares = Squares()
        squares.transforms = {"squares": [Keep()]}
        with MinibatchSource(squares, randomize=False, max_sweeps=1) as source:
            source.next_minibatch(10)
        kept = sorted(image.ravel().tolist() for image in Keep.images)
        self.assertEqual(kept, [[0, 1, 2, 3], [4, 5, 6, 7]])
        self.assertFalse(any(image.flags.writeable for image in Keep.images))

    def test_results_are_checked(self):
        class Wrong(Shift):
            def apply(self, image, random):
                return image

        squares = Squares()
        squares.transforms = {"squares": [Wrong()]}
        with MinibatchSource(squares, randomize=False, max_sweeps=1) as source:
            self.assertRaisesRegex(ReaderError, "but result announced", source.next_minibatch, 10)


def bitmap(pixels):
    """Returns the file of an image of 3 channels: rows of blue, green, red."""
    height, width, _ = pixels.shape
    rows = b"".join(row.tobytes() + bytes(-3 * width % 4) for row in pixels[::-1])
    head = struct.pack("<2sIHHI", b"BM", 54 + len(rows), 0, 0, 54)
    return head + struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(rows), 0, 0, 0, 0) + rows


class Images(unittest.TestCase):
    """Images in files."""

    def test_arrays_are_channels_rows_columns(self):
        pixels = np.arange(2 * 3 * 5 * 3, dtype=np.uint8).reshape(2, 3, 5, 3)
        with tempfile.TemporaryDirectory() as folder:
            for number, image in enumerate(pixels):
                Path(folder, f"{number}.bmp").write_bytes(bitmap(image))
            listed = Path(folder, "a.map")
            listed.write_text("".join(f"{folder}/{number}.bmp\t{7 - number}\n" for number in range(2)))
            # Images of one size need no transform.
            cases = [(scale, transpose) for scale in ([Scale(5, 3, 3)], []) for transpose in (True, False)]
            for scale, transpose in cases:
                streams = StreamDefs(x=StreamDef("image", transforms=scale), y=StreamDef("label", 10))
                images = ImageDeserializer(listed, streams, transpose=transpose)
                with MinibatchSource(images, randomize=False, max_sweeps=1) as source:
                    minibatch = source.next_minibatch(2)
                    if scale:
                        self.assertEqual(source.streams["x"].shape, (3, 3, 5) if transpose else (3, 5, 3))
                    expected = pixels.transpose(0, 3, 1, 2) if transpose else pixels
                    np.testing.assert_array_equal(minibatch["x"].array.reshape(expected.shape), expected)
                    self.assertEqual(minibatch["y"].csr.indices.tolist(), [7, 6])


class Bytes(unittest.TestCase):
    """Streams of uint8."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.map = Path(folder.name, "a.map")
        random = np.random.default_rng(5)
        lines = []
        for number in range(20):
            pixels = random.integers(256, size=(9 + number % 3, 8, 3), dtype=np.uint8)
            path = Path(folder.name, f"{number}.bmp")
            path.write_bytes(bitmap(pixels))
            lines.append(f"{path}\t{number % 7}\n")
        self.map.write_text("".join(lines))

    def source(self, dtype, *transforms):
        streams = StreamDefs(x=StreamDef("image", transforms=transforms, dtype=dtype), y=StreamDef("label", 7))
        source = MinibatchSource(
            ImageDeserializer(self.map, streams, reproducible_transforms=True), minibatch_size=6, max_sweeps=2
        )
        self.addCleanup(source.close)
        return source

    def test_pixels_stay_bytes(self):
        crop = Crop("RandomSide", side_ratio=(0.5, 1.0), jitter=True)
        for scale in (Scale(5, 4, 3, "cubic"), Scale(5, 4, 3, "linear", "pad", 9)):
            floats, found = (self.source(dtype, crop, scale) for dtype in (None, "uint8"))
            self.assertEqual((found.streams["x"].dtype, found.streams["y"].dtype), (np.uint8, np.float32))
            count = 0
            for one, other in zip(floats, found):
                self.assertEqual(other["x"].array.dtype, np.uint8)
                np.testing.assert_array_equal(one["x"].array, other["x"].array)
                np.testing.assert_array_equal(one["y"].indices(), other["y"].indices())
                count += other["x"].num_samples
            self.assertEqual(count, 40)

    def test_transforms_with_fractions_are_refused(self):
        self.source("uint8", Color(), Scale(4, 4, 3))
        with self.assertRaisesRegex(ReaderError, "The transform 'Color' makes fractions .* 'dtype' to float32"):
            self.source("uint8", Color(brightness=0.2), Scale(4, 4, 3))

    def test_user_transforms(self):
        class Invert(Transform):
            def apply(self, image, random):
                return 255 - image

        class Halve(Transform):
            def result(self, image):
                return image._replace(dtype=np.dtype(np.float32))

            def apply(self, image, random):
                return image.astype(np.float32) / 2

        plain, inverted = self.source("uint8", Scale(4, 4, 3)), self.source("uint8", Scale(4, 4, 3), Invert())
        for one, other in zip(plain, inverted):
            np.testing.assert_array_equal(255 - one["x"].array, other["x"].array)
        with self.assertRaisesRegex(ReaderError, "The transform .* makes other values than uint8"):
            list(self.source("uint8", Scale(4, 4, 3), Halve()))

    def test_other_streams_have_no_dtype(self):
        for stream in (StreamDef("label", 7, dtype="uint8"), StreamDef("draw", dtype="uint8")):
            with self.assertRaisesRegex(ValueError, "dtype='uint8', which only streams of images support"):
                ImageDeserializer("m", {"x": StreamDef("image"), "y": stream}).section()
        with self.assertRaisesRegex(ReaderError, "not a value type.*Expected one of the words uint8, float32"):
            self.source("int16", Scale(4, 4, 3))

    def test_text(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a.ctf")
            path.write_text("|x 0 1 2 3 4 5\n|x 250 251 252 253 254 255\n")
            stream = StreamDef(shape=(1, 2, 3), dtype="uint8", transforms=[Transpose()])
            with MinibatchSource(CTFDeserializer(path, {"x": stream}), randomize=False, max_sweeps=1) as source:
                array = source.next_minibatch(10)["x"].array
            expected = np.array([[0, 3, 1, 4, 2, 5], [250, 253, 251, 254, 252, 255]], np.uint8)
            self.assertEqual(array.dtype, np.uint8)
            np.testing.assert_array_equal(array.reshape(2, 6), expected)


class Follow(Transform):
    """Records its arguments, and changes nothing."""

    def __init__(self, notes):
        self.notes = notes

    def apply_drawn(self, image, random, draw):
        self.notes.append((random, draw))
        return image


class DrawTest(unittest.TestCase):
    """Crops and flips, as users' transforms and a stream receive them."""

    def test_image_and_mask(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = os.path.join(folder, "i.pgm")
            with open(picture, "wb") as file:
                file.write(b"P5 20 10 255\n" + bytes(column for _ in range(10) for column in range(20)))
            for name, keys in (("image", range(12)), ("mask", reversed(range(12)))):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.writelines(f"{key}\t{picture}\t0\n" for key in keys)
            crop, notes, masks = Crop("RandomSide", side_ratio=0.5), [], []
            image = StreamDefs(
                image=StreamDef("image", transforms=[crop, Color(brightness=0.1), Scale(5, 5, 1)]),
                crops=StreamDef("draw"),
            )
            mask = StreamDefs(mask=StreamDef("image", transforms=[Follow(notes), crop, Follow(masks), Scale(5, 5, 1)]))
            members = [
                ImageDeserializer(os.path.join(folder, name), streams, grayscale=True, reproducible_transforms=True)
                for name, streams in (("image", image), ("mask", mask))
            ]
            crops, values = [], []
            with MinibatchSource(members, max_sweeps=1, randomize=False) as source:
                for minibatch in minibatches_of(source, 5):
                    crops.extend(Draw(*numbers) for numbers in minibatch["crops"].array.reshape(-1, 7).tolist())
                    values.extend(np.array(minibatch["mask"].array).reshape(-1, 5, 5))
            self.assertEqual(len(crops), 12)
            self.assertLessEqual({draw.is_mirrored for draw in crops}, {0.0, 1.0})
            for draw, value in zip(crops, values):
                first, last = (value[0, -1], value[0, 0]) if draw.is_mirrored else (value[0, 0], value[0, -1])
                self.assertEqual((first, last), (draw.left, draw.left + draw.width - 1))
                self.assertEqual(draw.place(draw.left, draw.top), (float(draw.is_mirrored), 0.0))
            self.assertEqual(sorted(crops), sorted(Draw(*map(float, draw)) for _, draw in masks))
            whole = Draw(0.0, 0.0, 20.0, 10.0, 0, 20, 10)
            self.assertEqual([draw for _, draw in notes], [whole] * 12)


if __name__ == "__main__":
    unittest.main()
