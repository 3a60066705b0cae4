#!/usr/bin/env python3
"""Creates small images for the examples and the guide: make_images.py FOLDER [COUNT]

FOLDER gets

    shapes.zip              COUNT (2000) pictures of 16 x 16 pixels, PNG: discs, rings, squares, triangles, crosses and
                            pairs of bars, rotated, moved, in any color on a darker one, with noise
    train.txt  test.txt     map files: four fifths of the pictures, and the rest, with their classes
    mean.xml                the mean of the training part, as the transform `Mean` reads it
    intensity.xml           the variation of colors in photographs, as the transform `Intensity` reads it
    scenes/  scenes.txt     six pictures of 96 x 72 pixels, PNG: a house, a tree and the sun or the moon; classes 0 to 5
    scenes.b64              the same pictures as lines of Base64

The pixels are identical on every machine. Only needs Python 3.7.
"""

from __future__ import annotations

import base64
import math
import struct
import sys
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

SHAPES = ["disc", "ring", "square", "triangle", "cross", "bars"]
SIDE = 16
COUNT = 2000
NOISE = 24


class Random:
    """Knuth's MMIX generator: the pictures do not depend on the versions of libraries."""

    def __init__(self, seed: int) -> None:
        self.state = seed
        for _ in range(4):
            self.below(1)

    def below(self, limit: int) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) * limit >> 31

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self.below(1 << 24) / (1 << 24)


def inside(shape: str, x: float, y: float) -> float:
    """Returns how far a point is within a shape of radius 1 around (0, 0); negative outside."""
    distance = math.hypot(x, y)
    if shape == "disc":
        return 1 - distance
    if shape == "ring":
        return 0.32 - abs(distance - 0.72)
    if shape == "square":
        return 0.8 - max(abs(x), abs(y))
    if shape == "triangle":
        return min(y + 0.6, 0.85 - 0.5 * y - 0.87 * abs(x))
    if shape == "cross":
        return min(1 - max(abs(x), abs(y)), 0.3 - min(abs(x), abs(y)))
    return min(1 - abs(y), 0.27 - abs(abs(x) - 0.62))  # bars


def draw_shape(shape: str, random: Random) -> list[list[list[int]]]:
    """Returns rows of pixels, each red, green, blue."""
    front = [random.uniform(120, 250) for _ in range(3)]
    back = [random.uniform(0, 90) for _ in range(3)]
    radius, angle = random.uniform(5, 7), math.pi / 2 * random.below(4) + random.uniform(-0.3, 0.3)
    center = [SIDE / 2 - 0.5 + random.uniform(-1, 1) for _ in range(2)]
    rows = []
    for row in range(SIDE):
        pixels = []
        for column in range(SIDE):
            x, y = (column - center[0]) / radius, (row - center[1]) / radius
            x, y = x * math.cos(angle) - y * math.sin(angle), x * math.sin(angle) + y * math.cos(angle)
            share = min(max(0.5 + radius * inside(shape, x, y), 0), 1)
            noise = random.uniform(-NOISE, NOISE)
            # Steps of 4 hide differences between C libraries in the last bits of sine and cosine.
            values = (4 * round((b + share * (f - b) + noise) / 4) for f, b in zip(front, back))
            pixels.append([min(max(value, 0), 255) for value in values])
        rows.append(pixels)
    return rows


def draw_scene(number: int) -> list[list[list[int]]]:
    """Draws a house left of a tree, which shows whether pictures are mirrored, under a sun or a moon."""
    random = Random(500 + number)
    night = number % 3 == 2
    sky, light = ((20, 24, 60), (235, 235, 210)) if night else ((120, 180, 235), (255, 220, 60))
    wall = [random.uniform(120, 250) for _ in range(3)]
    roof = (random.uniform(60, 200), 40, 40)
    ground = 52 + random.below(6)
    house, tree = 10 + random.below(14), 62 + random.below(18)
    sun = (44 + random.below(20), 8 + random.below(8))
    rows = []
    for y in range(72):
        pixels = []
        for x in range(96):
            shade = 0.75 if night else 1.0
            color: Sequence[float] = [value + 40 * y / 72 for value in sky]
            if (x - sun[0]) ** 2 + (y - sun[1]) ** 2 < 36:
                color, shade = light, 1
            if y >= ground:
                color = [70 + y, 150 - (x * 7 + y * 13) % 23, 60]
            if house <= x < house + 30 and ground - 22 <= y < ground + 6:
                window = house + 5 <= x < house + 12 and ground - 16 <= y < ground - 8
                door = house + 18 <= x < house + 25 and y >= ground - 12
                color = light if window else (90, 60, 40) if door else wall
            if ground - 36 <= y < ground - 22 and abs(x - house - 14.5) < (y - ground + 36) * 1.35:
                color = roof
            if abs(x - tree) < 2 and ground - 16 <= y < ground + 4:
                color = (100, 70, 40)
            if math.hypot(x - tree, y - ground + 24) < 11 + (x * 5 + y * 3) % 4:
                color = (40, 110 + (x * 11 + y * 7) % 40, 50)
            pixels.append([int(min(max(shade * value, 0), 255)) for value in color])
        rows.append(pixels)
    return rows


def png(rows: list[list[list[int]]]) -> bytes:
    """Returns a PNG file: 8 bits, red, green and blue, no filters."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    lines = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")


def write_intensity(path: Path) -> None:
    """Writes eigenvalues and eigenvectors of pixel colors (blue, green, red) in OpenCV's XML."""
    matrices = {
        "EigVal": ["0.2175 0.0188 0.0045"],
        "EigVec": ["-0.5675 0.7192 0.4009", "-0.5808 -0.0045 -0.8140", "-0.5836 -0.6948 0.4203"],
    }
    text = '<?xml version="1.0"?>\n<opencv_storage>\n'
    for name, rows in matrices.items():
        size = f"<rows>{len(rows)}</rows><cols>3</cols><dt>f</dt>"
        text += f'<{name} type_id="opencv-matrix">{size}<data>\n{chr(10).join(rows)}</data></{name}>\n'
    path.write_text(text + "</opencv_storage>\n")


def write_mean(path: Path, pictures: list[list[list[list[int]]]]) -> None:
    """Writes the mean image in OpenCV's XML: row by row, with the blue, green and red of a pixel adjacent."""
    values = []
    for row in range(SIDE):
        for column in range(SIDE):
            for channel in (2, 1, 0):
                mean = sum(rows[row][column][channel] for rows in pictures) / len(pictures)
                values.append(f"{mean:.2f}")
    lines = [" ".join(values[first : first + 3 * SIDE]) for first in range(0, len(values), 3 * SIDE)]
    data = "\n".join(lines)
    path.write_text(
        f"""<?xml version="1.0"?>
<opencv_storage>
<Channel>3</Channel>
<Row>{SIDE}</Row>
<Col>{SIDE}</Col>
<MeanImg type_id="opencv-matrix"><rows>1</rows><cols>{len(values)}</cols><dt>f</dt><data>
{data}</data></MeanImg>
</opencv_storage>
"""
    )


def main() -> None:
    if not 2 <= len(sys.argv) <= 3:
        sys.exit((__doc__ or "").splitlines()[0])
    folder, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else COUNT
    (folder / "scenes").mkdir(parents=True, exist_ok=True)
    maps: dict[str, list[str]] = {"train": [], "test": []}
    pictures = []
    with zipfile.ZipFile(folder / "shapes.zip", "w") as archive:
        for number in range(count):
            random = Random(number + 1)
            label = random.below(len(SHAPES))
            rows = draw_shape(SHAPES[label], random)
            part = "test" if number % 5 == 4 else "train"
            if part == "train":
                pictures.append(rows)
            name = f"{part}/{number:04d}.png"
            # A fixed date, so that the zip file does not differ between runs.
            archive.writestr(zipfile.ZipInfo(name), png(rows))
            # `...` is the folder of the map file, `@` leads into the zip file.
            maps[part].append(f".../shapes.zip@/{name}\t{label}")
    for part, lines in maps.items():
        (folder / f"{part}.txt").write_text("\n".join(lines) + "\n")
        print(f"{part}: {len(lines)} pictures")
    write_mean(folder / "mean.xml", pictures)
    write_intensity(folder / "intensity.xml")
    scenes = [png(draw_scene(number)) for number in range(6)]
    for number, scene in enumerate(scenes):
        (folder / f"scenes/{number}.png").write_bytes(scene)
    lines = [f".../scenes/{number}.png\t{number}\n" for number in range(6)]
    (folder / "scenes.txt").write_text("".join(lines))
    lines = [f"{number}\t{base64.b64encode(scene).decode()}\n" for number, scene in enumerate(scenes)]
    (folder / "scenes.b64").write_text("".join(lines))


if __name__ == "__main__":
    main()
