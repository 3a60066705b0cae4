"""Random HTK files, scripts and label files (MLF), written here and read by the reader."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
from cntk_reader import HTKFeatureDeserializer, HTKMLFDeserializer, StreamDef, StreamDefs
from harness.case import Case

from models import speech
from models.speech import Setting, Utterance

Floats = npt.NDArray[np.float32]
#: MFCC, FBANK, USER and PLP.
_KINDS = [6, 7, 9, 11]
_COMPRESSED = 0o2000
_CHECKSUM = 0o10000
_PERIOD = 100000


def _archive(rng: random.Random, kind: int, dim: int, count: int) -> tuple[bytes, Floats]:
    """Returns a file, and the values of its frames."""
    order = rng.choice("<>")
    is_compressed, has_checksum = rng.random() < 0.3, rng.random() < 0.3
    flags = (_COMPRESSED if is_compressed else 0) | (_CHECKSUM if has_checksum else 0)
    if is_compressed:
        numbers = np.array([[rng.randint(-32768, 32767) for _ in range(dim)] for _ in range(count)])
        scale = np.array([rng.uniform(0.5, 1000) for _ in range(dim)], np.float32)
        shift = np.array([rng.uniform(-500, 500) for _ in range(dim)], np.float32)
        values = (numbers.astype(np.float32) + shift) / scale
        body = scale.astype(order + "f4").tobytes() + shift.astype(order + "f4").tobytes()
        body += numbers.astype(order + "i2").tobytes()
        # The two vectors count as four frames.
        header = struct.pack(order + "iihh", count + 4, _PERIOD, 2 * dim, kind | flags)
    else:
        rows = [[rng.gauss(0, 100) for _ in range(dim)] for _ in range(count)]
        values = np.array(rows, np.float32)
        body = values.astype(order + "f4").tobytes()
        header = struct.pack(order + "iihh", count, _PERIOD, 4 * dim, kind | flags)
    checksum = bytes([rng.randrange(256), rng.randrange(256)]) if has_checksum else b""
    return header + body + checksum, values


def _features(case: Case, dim: int, keys: list[str]) -> list[Utterance]:
    """Writes archives with a script of ranges in any order. Returns the utterances."""
    rng = case.rng
    # All files have one kind.
    kind = rng.choice(_KINDS) | rng.choice([0, 0o100, 0o400, 0o20000])
    files = []
    for number in range(rng.randint(1, 3)):
        count = rng.randint(1, 60)
        data, values = _archive(rng, kind, dim, count)
        files.append((case.write(f"archive{number}.mfc", data), values))
    lines, utterances = [], []
    for key in keys:
        name, values = rng.choice(files)
        first = rng.randrange(len(values))
        last = rng.randrange(first, min(len(values), first + 20))
        lines.append(f"{key}.mfc={name}[{first},{last}]")
        utterances.append(Utterance(key, values[first : last + 1]))
    ending = rng.choice(["\n", "\n", "\r\n"])
    text = ending.join(lines) + rng.choice(["", ending])
    case.write("train.scp", text.encode())
    return utterances


def _runs(labels: list[int]) -> list[tuple[int, int, int]]:
    """Returns the begin, end and class of each range of equal labels."""
    runs: list[tuple[int, int, int]] = []
    for at, label in enumerate(labels):
        if runs and runs[-1][2] == label:
            runs[-1] = runs[-1][0], at + 1, label
        else:
            runs.append((at, at + 1, label))
    return runs


def _label_file(case: Case, utterances: list[Utterance], states: list[str], has_list: bool) -> str:
    rng = case.rng
    lines = ["#!MLF!#"]
    mixed = [one for one in utterances if one.labels is not None]
    rng.shuffle(mixed)
    for one in mixed:
        name = rng.choice(["*/", ""]) + one.key + rng.choice([".lab", ".rec"])
        lines.append(f'"{name}"')
        # Numbers are times in units of 100 ns, or frames if a range is shorter than a frame.
        unit = rng.choice([100000, 1])
        for begin, end, label in _runs(one.labels or []):
            line = f"{begin * unit} {end * unit} {states[label]}"
            if not has_list:
                line += f" {label}"
            elif rng.random() < 0.3:
                line += f" {rng.random():.3f} word"
            lines.append(line)
        lines.append(".")
        if rng.random() < 0.1:
            lines.append("")
    ending = rng.choice(["\n", "\n", "\r\n"])
    return case.write("train.mlf", (ending.join(lines) + ending).encode())


def run(case: Case) -> None:
    """Reads one corpus of features, with or without labels."""
    rng = case.rng
    setting = Setting.random(rng)
    dim = rng.randint(1, 5)
    keys = [key for key in speech.keys(rng, rng.randint(1, 12)) if "." not in key]
    utterances = _features(case, dim, keys)
    for number, one in enumerate(utterances):
        if number == 0 or rng.random() < 0.9:
            # Labels of neighbouring frames are often equal.
            labels: list[int] = []
            while len(labels) < len(one.frames):
                labels += [rng.randrange(setting.classes)] * rng.randint(1, 5)
            one.labels = labels[: len(one.frames)]
    # Without a context, an odd multiple of the dimension implies a window.
    is_implied = setting.context[0] == setting.context[1] and rng.random() < 0.5
    if is_implied:
        width = dim * (2 * setting.context[0] + 1)
        stream = StreamDef(shape=width, scp="train.scp")
    else:
        stream = StreamDef(shape=dim, scp="train.scp", context=setting.context)
    deserializers: list[Any] = [HTKFeatureDeserializer(StreamDefs(features=stream))]
    if setting.has_labels:
        states = [f"state_{number}" for number in range(setting.classes)]
        rng.shuffle(states)
        mapping = None
        if rng.random() < 0.6:
            mapping = case.write("states.txt", "".join(f"{one}\n" for one in states).encode())
        file = _label_file(case, utterances, states, mapping is not None)
        labels_of = StreamDef(shape=setting.classes, mlf=file, ids=setting.ids)
        deserializers.append(HTKMLFDeserializer(mapping, StreamDefs(labels=labels_of)))
    speech.compare(case, utterances, setting, deserializers)
