"""Random PNG, BMP and JPEG images, decoded by OpenCV, which CNTK used too.

JPEG is compared bit by bit: OpenCV's packages contain libjpeg-turbo, whose accurate inverse
transform and chroma interpolation are the same as in CNTK 2.7's version. Only 4:4:0 chroma depends
on the version, and is not generated.
"""

from __future__ import annotations

import base64
import random
import struct
import zipfile
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
from cntk_reader import (
    Base64ImageDeserializer,
    Crop,
    ImageDeserializer,
    MinibatchSource,
    Scale,
    StreamDef,
    StreamDefs,
)
from harness import reading
from harness.case import Case, Difference
from harness.trace import Batch, Event, dense, first_difference, sparse
from rules import layout, order

from models.data import Limits, Order

#: The reason why this kind cannot run; None if it can.
UNAVAILABLE: str | None = None
try:
    import cv2
except ImportError as error:
    UNAVAILABLE = f"it needs OpenCV (pip install opencv-python-headless): {error}"

Pixels = npt.NDArray[np.uint8]


def _pixels(rng: random.Random, rows: int, columns: int, channels: int) -> Pixels:
    """Returns noise, stripes, or a gradient with some noise."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    shape = rows, columns, channels
    form = rng.randrange(3)
    if form == 0:
        return numbers.integers(0, 256, shape, np.uint8)
    if form == 1:
        ramp = np.add.outer(np.arange(rows) * rng.randint(0, 9), np.arange(columns) * rng.randint(0, 9))
        noise = numbers.integers(0, 8, shape)
        return (ramp[:, :, None] + noise).astype(np.uint8)
    stripes = (np.arange(columns) // rng.randint(1, 4)) % 2 * 255
    return np.broadcast_to(stripes[None, :, None], shape).astype(np.uint8)


def _filtered(row: bytes, above: bytes, width: int, method: int) -> bytes:
    """Returns a row of a PNG, encoded with one of the five filters."""
    made = bytearray([method])
    for at, value in enumerate(row):
        left = row[at - width] if at >= width else 0
        up = above[at]
        corner = above[at - width] if at >= width else 0
        guess = left + up - corner
        distances = abs(guess - left), abs(guess - up), abs(guess - corner)
        nearest = (left, up, corner)[distances.index(min(distances))]
        made.append((value - (0, left, up, (left + up) // 2, nearest)[method]) % 256)
    return bytes(made)


def _png(rng: random.Random, rows: int, columns: int) -> bytes:
    """Returns a PNG of any color type, with 8 or 16 bits."""
    color, channels = rng.choice([(0, 1), (2, 3), (3, 1), (4, 2), (6, 4)])
    depth = 8 if color == 3 else rng.choice([8, 8, 16])
    pixels = _pixels(rng, rows, columns, channels * depth // 8)
    width = channels * depth // 8
    body, above = b"", bytes(columns * width)
    for row in pixels:
        line = row.tobytes()
        body += _filtered(line, above, width, rng.randrange(5))
        above = line

    def chunk(name: bytes, data: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(name + data))
        return struct.pack(">I", len(data)) + name + data + checksum

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, depth, color, 0, 0, 0))
    palette = chunk(b"PLTE", rng.randbytes(768)) if color == 3 else b""
    packed = zlib.compress(body, rng.randrange(10))
    cut = rng.randrange(len(packed) + 1)
    data = chunk(b"IDAT", packed[:cut]) + chunk(b"IDAT", packed[cut:])
    return b"\x89PNG\r\n\x1a\n" + header + palette + data + chunk(b"IEND", b"")


def _jpeg(rng: random.Random, rows: int, columns: int) -> bytes:
    """Returns a JPEG with any chroma subsampling except 4:4:0."""
    channels = rng.choice([1, 3, 3, 3])
    samplings = ["411", "420", "422", "444"]
    sampling = getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{rng.choice(samplings)}")
    options = [cv2.IMWRITE_JPEG_QUALITY, rng.choice([1, 10, 50, 75, 90, 95, 100])]
    options += [cv2.IMWRITE_JPEG_PROGRESSIVE, rng.randrange(2)]
    options += [cv2.IMWRITE_JPEG_OPTIMIZE, rng.randrange(2)]
    options += [cv2.IMWRITE_JPEG_RST_INTERVAL, rng.choice([0, 0, 1, 7])]
    options += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, sampling]
    return bytes(cv2.imencode(".jpg", _pixels(rng, rows, columns, channels), options)[1])


def _image(rng: random.Random, rows: int, columns: int) -> tuple[bytes, str]:
    """Returns the bytes of an image file, and its extension."""
    form = rng.choice(["png", "bmp", "jpg"])
    if form == "png":
        return _png(rng, rows, columns), form
    if form == "jpg":
        return _jpeg(rng, rows, columns), form
    channels = rng.choice([1, 3])
    return bytes(cv2.imencode(".bmp", _pixels(rng, rows, columns, channels))[1]), form


def _expected(data: bytes, steps: list[Any], is_transposed: bool, is_gray: bool) -> Pixels:
    mode = cv2.IMREAD_GRAYSCALE if is_gray else cv2.IMREAD_COLOR
    image = cv2.imdecode(np.frombuffer(data, np.uint8), mode)
    image = image.reshape(*image.shape[:2], -1)
    for step in steps:
        if step[0] == "scale":
            image = cv2.resize(image, step[1:], interpolation=cv2.INTER_NEAREST)
            image = image.reshape(*image.shape[:2], -1)
        else:
            width, height = min(step[1], image.shape[1]), min(step[2], image.shape[0])
            left, top = (image.shape[1] - width) // 2, (image.shape[0] - height) // 2
            image = image[top : top + height, left : left + width]
    if is_transposed:
        image = image.transpose(2, 0, 1)
    return np.ascontiguousarray(image).reshape(-1)


def _deserializer(
    case: Case, images: list[tuple[bytes, str]], labels: list[int], keys: list[int], streams: StreamDefs, is_gray: bool
) -> tuple[Any, bool]:
    """Returns a deserializer of files, a zip file or Base64 lines, and whether it transposes."""
    rng = case.rng
    has_keys = rng.random() < 0.5
    # Without any transform the package creates no stream of images.
    is_transposed = not streams["features"].transforms or rng.random() < 0.5
    if not has_keys:
        keys[:] = range(len(keys))
    places = []
    form = rng.choice(["files", "zip", "base64"])
    case.facts.update(form=form, has_keys=has_keys, transposed=is_transposed)
    container = zipfile.ZipFile("images.zip", "w") if form == "zip" else None
    for number, (data, extension) in enumerate(images):
        name = f"{number}.{extension}"
        if container is not None:
            method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
            container.writestr(name, data, method)
            places.append(f"images.zip@/{name}")
        elif form == "files":
            places.append(case.write(name, data))
        else:
            places.append(base64.b64encode(data).decode())
    if container is not None:
        container.close()
    lines = []
    for key, place, label in zip(keys, places, labels):
        fields = [str(label), place] if form == "base64" else [place, str(label)]
        lines.append("\t".join([str(key), *fields] if has_keys else fields) + "\n")
    file = case.write("images.txt", "".join(lines).encode())
    make = Base64ImageDeserializer if form == "base64" else ImageDeserializer
    return make(file, streams, grayscale=is_gray, transpose=is_transposed), is_transposed


def run(case: Case) -> None:
    """Reads one set of images."""
    rng = case.rng
    count = rng.randint(1, 6)
    is_scaled, is_gray = rng.random() < 0.4, rng.random() < 0.2
    rows, columns = rng.randint(1, 40), rng.randint(1, 40)
    images = []
    for _ in range(count):
        if is_scaled:
            rows, columns = rng.randint(1, 40), rng.randint(1, 40)
        images.append(_image(rng, rows, columns))
    classes = rng.randint(1, 9)
    labels = [rng.randrange(classes) for _ in images]
    keys = rng.sample(range(1000), count)
    steps: list[Any] = []
    transforms: list[Any] = []
    if rng.random() < 0.4:
        steps.append(("crop", rng.randint(1, 30), rng.randint(1, 30)))
        transforms.append(Crop("Center", size=steps[-1][1:]))
    if is_scaled:
        steps.append(("scale", rng.randint(1, 30), rng.randint(1, 30)))
        _, width, height = steps[-1]
        transforms.append(Scale(width, height, 1 if is_gray else 3, interpolation="nearest"))
    dtype = rng.choice(["float32", "float32", "float64", "uint8"])
    case.facts.update(grayscale=is_gray, steps=steps, labels=labels, dtype=dtype)
    streams = StreamDefs(
        features=StreamDef("image", transforms=transforms, dtype="uint8" if dtype == "uint8" else None),
        labels=StreamDef("label", classes),
    )
    deserializer, is_transposed = _deserializer(case, images, labels, keys, streams, is_gray)
    how, size = Order.random(rng, count), rng.choice([1, 2, 4, 100])
    # The model knows only the order of files: chunk sizes depend on the format.
    how.is_random = False
    limits = Limits(sweeps=rng.randint(1, 2))
    timeline = how.timeline(order.make_chunks([[1]] * count), limits.epoch(count))
    values = [_expected(data, steps, is_transposed, is_gray) for data, _ in images]
    precision = "double" if dtype == "float64" else "float"
    want: list[Event] = []
    while True:
        part = order.read_next(timeline, size)
        numbers = [item.number for item in part.items]
        made = {
            "features": [[dense(values[number].astype(dtype), dtype)] for number in numbers],
            "labels": [
                [sparse([labels[number]], [1], "float64" if precision == "double" else "float32")] for number in numbers
            ],
        }
        batch = Batch(
            [str(keys[number]) for number in numbers],
            made if numbers else {},
            part.end_of_sweep,
            part.end_of_epoch,
            timeline.position,
        )
        want.append(layout.with_layouts(batch) if numbers else batch)
        if not numbers:
            break
    with MinibatchSource(
        [deserializer], minibatch_size=size, precision=precision, **how.settings(), **limits.settings()
    ) as source:
        got = reading.read(source)
    words = first_difference(want, case.observed(got))
    if words is not None:
        raise Difference(words)
