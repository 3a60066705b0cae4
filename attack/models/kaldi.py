"""Random Kaldi archives and scripts: matrices, compressed or not, alignments, binary or text."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
from cntk_reader import KaldiDeserializer, StreamDef, StreamDefs
from harness.case import Case

from models import speech
from models.speech import Setting, Utterance

Frames = npt.NDArray[np.generic]


def _shape(rows: int, columns: int) -> bytes:
    return b"\x04" + struct.pack("<i", rows) + b"\x04" + struct.pack("<i", columns)


def _plain(rng: random.Random, rows: int, dim: int) -> tuple[bytes, Frames]:
    """Returns a binary matrix of floats or doubles."""
    token, dtype = rng.choice([(b"FM ", "<f4"), (b"DM ", "<f8")])
    values = np.array([[rng.gauss(0, 10) for _ in range(dim)] for _ in range(rows)]).astype(dtype)
    return b"\0B" + token + _shape(rows, dim) + values.tobytes(), values


def _text(rng: random.Random, rows: int, dim: int) -> tuple[bytes, Frames]:
    """Returns a matrix as text."""
    # Values with few digits convert exactly, whatever the algorithm.
    values = np.array([[rng.randint(-9999, 9999) / 8 for _ in range(dim)] for _ in range(rows)])
    lines = [" ".join(f"{value}" for value in row) for row in values]
    return (" [\n  " + "\n  ".join(lines) + " ]\n").encode(), values.astype("<f4")


def _compressed(rng: random.Random, rows: int, dim: int) -> tuple[bytes, Frames]:
    """Returns a matrix in one of Kaldi's three compression methods."""
    least, extent = np.float32(rng.uniform(-50, 0)), np.float32(rng.uniform(0.1, 100))
    header = struct.pack("<ffii", least, extent, rows, dim)
    method = rng.randint(1, 3)
    if method > 1:
        form, top, token = ("<u2", 65535.0, b"CM2 ") if method == 2 else ("u1", 255.0, b"CM3 ")
        numbers = np.array([[rng.randint(0, int(top)) for _ in range(dim)] for _ in range(rows)])
        step = np.float32(np.float64(extent) * (1.0 / top))
        values = least + numbers.astype(np.float32) * step
        return b"\0B" + token + header + numbers.astype(form).tobytes(), values
    columns, bodies, values = [], [], np.zeros((rows, dim), np.float32)
    for column in range(dim):
        corners = sorted(rng.sample(range(65536), 4))
        columns.append(struct.pack("<4H", *corners))
        points = [
            np.float32(least + extent * np.float32(1.52590218966964e-05) * np.float32(corner)) for corner in corners
        ]
        column_of = [rng.randint(0, 255) for _ in range(rows)]
        bodies.append(bytes(column_of))
        for row, number in enumerate(column_of):
            if number <= 64:
                low, high, steps, scale = points[0], points[1], number, 1 / 64.0
            elif number <= 192:
                low, high, steps, scale = points[1], points[2], number - 64, 1 / 128.0
            else:
                low, high, steps, scale = points[2], points[3], number - 192, 1 / 63.0
            product = np.float32(np.float32(high - low) * np.float32(steps))
            values[row, column] = np.float32(float(low) + float(product) * scale)
    return b"\0BCM " + header + b"".join(columns) + b"".join(bodies), values


def _labels(labels: list[int], is_binary: bool) -> bytes:
    if not is_binary:
        return b" ".join(b"%d" % label for label in labels) + b"\n"
    numbers = b"".join(b"\x04" + struct.pack("<i", label) for label in labels)
    return b"\0B\x04" + struct.pack("<i", len(labels)) + numbers


def _write(case: Case, name: str, items: list[tuple[str, bytes]]) -> dict[str, Any]:
    """Writes an archive, perhaps with its script. Returns the file that the stream reads."""
    rng = case.rng
    archive, script = b"", []
    for key, body in items:
        archive += key.encode() + b" "
        script.append(f"{key} {name}.ark:{len(archive)}\n")
        archive += body
    case.write(f"{name}.ark", archive)
    if rng.random() < 0.5:
        return {"ark": f"{name}.ark"}
    case.write(f"{name}.scp", "".join(script).encode())
    return {"scp": f"{name}.scp"}


def run(case: Case) -> None:
    """Reads one archive of features, with or without labels."""
    rng = case.rng
    setting = Setting.random(rng)
    dim = rng.randint(1, 5)
    # An archive is either text or binary; binary matrices may have different formats.
    is_text = rng.random() < 0.25
    utterances: list[Utterance] = []
    features: list[tuple[str, bytes]] = []
    for key in speech.keys(rng, rng.randint(1, 12)):
        rows = rng.randint(1, 15)
        make = _text if is_text else rng.choice([_plain, _plain, _compressed])
        body, frames = make(rng, rows, dim)
        labels = [rng.randrange(setting.classes) for _ in range(rows)]
        lacks = len(utterances) > 0 and rng.random() < 0.1
        utterances.append(Utterance(key, frames, None if lacks else labels))
        features.append((key, body))
    stream = StreamDef(shape=dim, context=setting.context, **_write(case, "feats", features))
    deserializers: list[Any] = [KaldiDeserializer(StreamDefs(features=stream))]
    if setting.has_labels:
        is_binary = rng.random() < 0.6
        items = [(one.key, _labels(one.labels, is_binary)) for one in utterances if one.labels is not None]
        rng.shuffle(items)
        stream = StreamDef(shape=setting.classes, is_sparse=True, ids=setting.ids, **_write(case, "ali", items))
        deserializers.append(KaldiDeserializer(StreamDefs(labels=stream)))
    speech.compare(case, utterances, setting, deserializers)
