"""Times pixels as bytes beside floats, and ids beside one-hot samples: element_types.py [ROUNDS]

Generates data in a temporary folder, binds itself to one CPU, and runs each variant in a separate
process, in turn. Prints a Markdown table: the best of all first sweeps, opening included, and the
best of all later sweeps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cntk_reader
import numpy as np
from cntk_reader import CBFDeserializer, CTFDeserializer, MinibatchSource, StreamDef, StreamDefs

IMAGES, PIXELS = 20_000, 784
SEQUENCES, LONGEST, WORDS = 100_000, 60, 50_000
SWEEPS = 30

#: The variants of each kind of data. The first one is the baseline.
VARIANTS = {
    "pixels in memory": ["float32", "uint8"],
    "pixels, CBF": ["float32", "uint8"],
    "pixels, CTF": ["float32", "uint8"],
    "words, CTF": ["one-hot", "one-hot, packed_indices()", "ids int32", "ids int64"],
    "words, CBF": ["one-hot", "one-hot, packed_indices()", "ids int32", "ids int64"],
}


def pixels() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Returns images with four fifths of their pixels black."""
    random = np.random.default_rng(0)
    values = random.integers(256, size=(IMAGES, PIXELS), dtype=np.uint8)
    values[random.random(values.shape) < 0.8] = 0
    return values


def make(folder: Path) -> None:
    """Writes the data files."""
    with open(folder / "pixels.ctf", "w") as file:
        for image in pixels().tolist():
            file.write(f"|x {' '.join(map(str, image))}\n")
    random = np.random.default_rng(0)
    with open(folder / "words.ctf", "w") as file:
        for sequence in range(SEQUENCES):
            for word in random.integers(WORDS, size=random.integers(5, LONGEST)):
                file.write(f"{sequence} |x {word}:1\n")
    for dtype in ("float32", "uint8"):
        element = f'; element = "{dtype}"' if dtype == "uint8" else ""
        convert(
            folder,
            f"pixels-{dtype}.cbf",
            f'file = "pixels.ctf" ; input = [ x = [ dim = {PIXELS} ; format = "dense" {element} ] ]',
        )
    convert(folder, "words.cbf", f'file = "words.ctf" ; input = [ x = [ dim = {WORDS} ; format = "sparse" ] ]')


def convert(folder: Path, name: str, data: str) -> None:
    """Converts a CTF file to CBF."""
    (folder / "data.cntk").write_text(
        f'deserializers = ( [ type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader" ; {data} ] )'
    )
    command = [sys.executable, "-m", "cntk_reader", "convert", "data.cntk", name, "-q"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def data(folder: Path, what: str, variant: str) -> Any:
    """Returns the deserializer of a variant."""
    if what == "pixels in memory":
        return cntk_reader.from_arrays(x=pixels().astype(variant))
    if what == "pixels, CBF":
        return CBFDeserializer(folder / f"pixels-{variant}.cbf")
    if what == "pixels, CTF":
        return CTFDeserializer(folder / "pixels.ctf", StreamDefs(x=StreamDef(shape=PIXELS, dtype=variant)))
    ids = variant[4:] if variant.startswith("ids") else None
    if what == "words, CTF":
        return CTFDeserializer(folder / "words.ctf", StreamDefs(x=StreamDef(shape=WORDS, is_sparse=True, ids=ids)))
    return CBFDeserializer(folder / "words.cbf", StreamDefs(x=StreamDef(ids=ids)))


def sweeps(folder: Path, what: str, variant: str) -> dict[str, float]:
    """Returns the seconds of the first and the best later sweep, and the bytes of a sample."""
    cntk_reader.set_threads(1)
    deserializer = data(folder, what, variant)
    times, stored, samples = [], 0, 0
    size = 256 if what.startswith("pixels") else 8192
    begin = time.perf_counter()
    with MinibatchSource(deserializer, minibatch_size=size, trace_level=0) as source:
        for epoch in source.epochs(SWEEPS):
            for minibatch in epoch:
                x = minibatch["x"]
                if variant == "one-hot":
                    parts = x.sparse[:3]
                elif variant.endswith("packed_indices()"):
                    parts = x.packed_indices()[:2]
                elif variant.startswith("ids"):
                    parts = x.packed()[:2]
                else:
                    parts = (x.array,)
                if not times:
                    stored += sum(part.nbytes for part in parts)
                    samples += x.num_samples
            times.append(time.perf_counter() - begin)
            begin = time.perf_counter()
    return {"first": times[0], "later": min(times[1:]), "bytes": stored / samples}


def best(folder: Path, what: str, rounds: int) -> dict[str, dict[str, float]]:
    """Returns the best figures of each variant."""
    found: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for variant in VARIANTS[what]:
            command = [sys.executable, __file__, "sweeps", str(folder), what, variant]
            new = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            known = found.setdefault(variant, new)
            found[variant] = {name: min(value, known[name]) for name, value in new.items()}
    return found


def main() -> None:
    """Measures all variants, or only one as a subprocess."""
    if sys.argv[1:2] == ["sweeps"]:
        print(json.dumps(sweeps(Path(sys.argv[2]), *sys.argv[3:])))
        return
    rounds = int(sys.argv[1]) if sys.argv[1:] else 5
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    print("| data | delivered | first sweep, ms | times | later sweep, ms | times | bytes a sample |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        for what in VARIANTS:
            found = best(Path(folder), what, rounds)
            base = next(iter(found.values()))
            for variant, each in found.items():
                first, later = each["first"], each["later"]
                print(
                    f"| {what} | {variant} | {first * 1e3:.1f} | {base['first'] / first:.2f} | {later * 1e3:.2f} | "
                    f"{base['later'] / later:.2f} | {each['bytes']:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
