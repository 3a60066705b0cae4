#!/usr/bin/env python3
"""Writes digits.train.ctf and digits.test.ctf next to this script.

The data are the 1797 images of handwritten digits in scikit-learn: 8x8 pixels with values from 0 to 16.
Needs: python3 -m pip install scikit-learn
"""

from __future__ import annotations

from pathlib import Path

from sklearn.datasets import load_digits

TRAIN_SAMPLES = 1437


def shuffled(count: int) -> list[int]:
    """Returns the numbers below `count` in a fixed random order, independent of the versions of libraries.

    Fisher-Yates with Knuth's MMIX generator, `x = x * 6364136223846793005 + 1442695040888963407`.
    """
    order = list(range(count))
    state = 1
    for last in range(count - 1, 0, -1):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        other = (state >> 33) % (last + 1)
        order[last], order[other] = order[other], order[last]
    return order


def main() -> None:
    digits = load_digits()
    lines = []
    for index in shuffled(len(digits.target)):
        pixels = " ".join(str(int(pixel)) for pixel in digits.data[index])
        lines.append(f"|labels {digits.target[index]}:1 |features {pixels}\n")
    folder = Path(__file__).resolve().parent
    for name, part in (("digits.train.ctf", lines[:TRAIN_SAMPLES]), ("digits.test.ctf", lines[TRAIN_SAMPLES:])):
        (folder / name).write_bytes("".join(part).encode("ascii"))
        print(f"{name}: {len(part)} samples")


if __name__ == "__main__":
    main()
