#!/usr/bin/env python3
"""Creates a small corpus of artificial speech: make_speech.py FOLDER [UTTERANCES]

FOLDER gets, for the 160 utterances of the training part and the 40 of the test part (or four fifths and one fifth of
UTTERANCES):

    train.mfc  test.mfc     HTK archives, big-endian, kind FBANK: all utterances of a part
    train.scp  test.scp     script files: the frames of each utterance in the archive
    train.mlf  test.mlf     labels: the frames of each phone, in units of 100 ns
    phones.list             the phones; the line number, from 0, is the class

A frame is 10 ms: 20 logarithmic energies of a filter bank. A phone has up to three formants, each of which is one
half-wave of a sine over some filters. Speakers differ in the positions of formants and in loudness, phones blend into
each other, and there is noise. The files are identical on every machine. Only needs Python 3.7.
"""

from __future__ import annotations

import math
import struct
import sys
from pathlib import Path

FILTERS = 20
UTTERANCES = 200
FRAME = 100_000  # 10 ms in units of 100 ns
FBANK = 7

# Phones with the positions (in filters) and loudness of their formants. Silence has none;
# fricatives are wide.
PHONES: dict[str, list[tuple[float, float]]] = {
    "sil": [],
    "aa": [(6.0, 1.0), (8.5, 0.9), (14.5, 0.5)],
    "iy": [(2.5, 1.0), (14.0, 0.8), (16.5, 0.6)],
    "uw": [(2.5, 1.0), (6.5, 0.7), (13.5, 0.3)],
    "eh": [(5.0, 1.0), (12.0, 0.8), (15.0, 0.5)],
    "ow": [(4.5, 1.0), (7.0, 0.9), (14.0, 0.3)],
    "m": [(1.5, 0.8), (8.0, 0.3)],
    "n": [(1.5, 0.8), (11.0, 0.4)],
    "s": [(18.0, 1.0), (19.5, 0.9)],
    "sh": [(14.5, 0.9), (16.5, 1.0)],
}
NAMES = list(PHONES)
HALF_WIDTH = 2.5  # of a formant, in filters
BLEND = 2  # frames before and after a boundary in which phones blend
NOISE = 0.45


class Random:
    """Knuth's MMIX generator: the files do not depend on the versions of libraries."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, limit: int) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % limit

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self.below(1 << 24) / (1 << 24)

    def noise(self) -> float:
        """Returns an approximately normal number with mean 0 and variance 1."""
        return sum(self.uniform(-1, 1) for _ in range(3))


def spectrum(phone: str, shift: float, loudness: float) -> list[float]:
    """Returns the 20 logarithmic energies of a phone, from 0 to about 4."""
    energies = [0.0] * FILTERS
    for place, level in PHONES[phone]:
        for index in range(FILTERS):
            distance = index - (place + shift)
            if abs(distance) < HALF_WIDTH:
                energies[index] += 4 * level * loudness * math.cos(math.pi / 2 * distance / HALF_WIDTH)
    return energies


def utterance(random: Random, shift: float) -> tuple[list[list[float]], list[tuple[str, int]]]:
    """Returns frames, and phones with their numbers of frames. Begins and ends with silence; no phone is repeated."""
    names = ["sil"]
    for _ in range(8 + random.below(7)):
        others = [name for name in NAMES[1:] if name != names[-1]]
        names.append(others[random.below(len(others))])
    names.append("sil")
    phones = [(name, 6 + random.below(10)) for name in names]
    loudness = random.uniform(0.7, 1.0)
    targets = [spectrum(name, shift, loudness) for name, _ in phones]
    frames = []
    for number, (_, length) in enumerate(phones):
        for frame in range(length):
            # The share of the neighbour: half at the boundary, 0 from BLEND frames on.
            before, after = BLEND - frame - 0.5, BLEND - (length - 1 - frame) - 0.5
            neighbour, share = (number - 1, before) if before > after else (number + 1, after)
            share = max(share, 0.0) / (2 * BLEND) if 0 <= neighbour < len(phones) else 0.0
            own, other = targets[number], targets[neighbour if share > 0 else number]
            values = ((1 - share) * a + share * b + NOISE * random.noise() for a, b in zip(own, other))
            # Multiples of 1/256 hide differences between C libraries in the last bit of the cosine.
            frames.append([round(256 * value) / 256 for value in values])
    return frames, phones


def write(folder: Path, part: str, first: int, last: int) -> None:
    """Writes the utterances from `first` to `last` - 1."""
    archive, labels, begin = bytearray(), ["#!MLF!#"], 0
    script = []
    for number in range(first, last):
        # Each speaker has ten utterances.
        speaker, random = number // 10, Random(number + 1)
        key = f"speaker{speaker:02d}_{number:03d}"
        frames, phones = utterance(random, Random(1000 + speaker).uniform(-0.7, 0.7))
        for frame in frames:
            archive += struct.pack(f">{FILTERS}f", *frame)
        # The range includes the last frame. `...` is the folder of the script file.
        script.append(f"{key}.mfc=.../{part}.mfc[{begin},{begin + len(frames) - 1}]")
        begin += len(frames)
        labels.append(f'"*/{key}.lab"')
        time = 0
        for name, length in phones:
            labels.append(f"{time} {time + length * FRAME} {name}")
            time += length * FRAME
        labels.append(".")
    header = struct.pack(">iihh", begin, FRAME, 4 * FILTERS, FBANK)
    (folder / f"{part}.mfc").write_bytes(header + archive)
    (folder / f"{part}.scp").write_text("\n".join(script) + "\n")
    (folder / f"{part}.mlf").write_text("\n".join(labels) + "\n")
    print(f"{part}: {last - first} utterances, {begin} frames")


def main() -> None:
    if not 2 <= len(sys.argv) <= 3:
        sys.exit((__doc__ or "").splitlines()[0])
    folder, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else UTTERANCES
    folder.mkdir(parents=True, exist_ok=True)
    train = count * 4 // 5
    write(folder, "train", 0, train)
    write(folder, "test", train, count)
    (folder / "phones.list").write_text("\n".join(NAMES) + "\n")


if __name__ == "__main__":
    main()
