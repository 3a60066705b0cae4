"""Conversions of text to binary files, arrays and compressed files, and back, by the tool."""

from __future__ import annotations

import gzip
import os
import sys
from dataclasses import replace

import numpy as np
from cntk_reader import CBFDeserializer, CTFDeserializer, MinibatchSource, StreamDef, StreamDefs
from cntk_reader import compress as compress_file
from cntk_reader._tool import main as tool
from harness import reading
from harness.case import Case, Difference
from harness.trace import Batch, Event, Sample, Sequence, first_difference
from rules import cbf, ctf

from models import ctf as texts

Streams = dict[str, list[Sequence]]


def _convert(source: str, output: str, *options: str) -> int:
    """Runs the tool in this process, with its output in a file of the case."""
    before = sys.argv, os.dup(1), os.dup(2)
    sys.argv = ["cntk-reader", "convert", "-q", source, output, *options]
    try:
        with open("tool.txt", "ab") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        return tool()
    finally:
        sys.argv = before[0]
        for number, saved in enumerate(before[1:], 1):
            os.dup2(saved, number)
            os.close(saved)


def _parse(data: bytes, streams: list[ctf.Stream]) -> tuple[list[str], Streams]:
    """Parses all sequences of a text with the model."""
    main = next((stream.alias for stream in streams if stream.defines), None)
    parser = ctf.Parser(data, streams, 0)
    entries = ctf.index(data, main, False)
    sequences = [parser.sequence(entry) for entry in entries]
    made = {stream.name: [one[at] for one in sequences] for at, stream in enumerate(streams)}
    return [str(entry.key) for entry in entries], made


def _configuration(streams: list[ctf.Stream], precision: str) -> bytes:
    sections = []
    for stream in streams:
        storage = "sparse" if stream.is_sparse else "dense"
        keys = [f'alias = "{stream.alias.decode()}"', f"dim = {stream.dim}", f'format = "{storage}"']
        if stream.dtype != np.dtype("float64" if precision == "double" else "float32"):
            keys.append(f'element = "{stream.dtype.name}"')
        if stream.ids is not None:
            keys.append(f'ids = "{stream.ids.name}"')
        if stream.defines:
            keys.append("definesMBSize = true")
        sections.append(f"{stream.name} = [ {' ; '.join(keys)} ]")
    text = f"""precision = "{precision}"
deserializers = ( [
    type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader"
    file = "input.ctf"
    input = [ {" ; ".join(sections)} ]
] )
"""
    return text.encode()


def _arrays(name: str, streams: list[ctf.Stream]) -> tuple[list[str], Streams]:
    """Returns the sequences in an archive of arrays."""
    archive = np.load(name)
    keys = list(map(str, archive["keys"].tolist()))
    made: Streams = {}
    for stream in streams:
        if stream.is_sparse:
            values, places = archive[f"{stream.name}.values"], archive[f"{stream.name}.indices"]
            bounds = archive[f"{stream.name}.offsets"].tolist()
            samples = [
                Sample(values[begin:end], tuple(places[begin:end].tolist())) for begin, end in zip(bounds, bounds[1:])
            ]
        else:
            samples = [Sample(row) for row in archive[stream.name].reshape(-1, stream.dim)]
        begins = list(range(len(samples) + 1))
        if f"{stream.name}.sequences" in archive:
            begins = archive[f"{stream.name}.sequences"].tolist()
        made[stream.name] = [samples[begin:end] for begin, end in zip(begins, begins[1:])]
    return keys, made


def _read(
    name: str, streams: list[ctf.Stream], precision: str, aliases: dict[str, str]
) -> tuple[list[str] | None, Streams]:
    """Reads all sequences of a file with the reader. Binary files have no keys."""
    deserializer: CBFDeserializer | CTFDeserializer
    if ".cbf" in name:
        # Streams of a single float type must have the reader's precision, whatever the text had.
        types = {stream.dtype for stream in streams}
        if types <= {np.dtype("float32"), np.dtype("float64")} and len(types) == 1:
            precision = "float" if types == {np.dtype("float32")} else "double"
        deserializer = CBFDeserializer(name, StreamDefs(**{one.name: StreamDef() for one in streams}))
    else:
        renamed = list(texts.definitions(streams, precision).items())
        made = {
            key: StreamDef(aliases[key], value.shape, value.is_sparse, value.defines_mb_size, dtype=value.dtype)
            for key, value in renamed
        }
        deserializer = CTFDeserializer(name, StreamDefs(**made))
    with MinibatchSource(
        deserializer, randomize=False, precision=precision, minibatch_size=10**6, max_sweeps=1
    ) as source:
        events = reading.read(source)
    batches = list(reading.with_data(events))
    if len(batches) != 1 or not isinstance(events[-1], Batch):
        raise Difference(f"{name}: expected one minibatch, got {events}")
    keys = None if ".cbf" in name else batches[0].keys
    return keys, batches[0].streams


def run(case: Case) -> None:
    """Converts a text file through a random chain of formats."""
    rng = case.rng
    os.environ["CNTK_READER_CACHE"] = str(case.folder / "cache")
    precision = rng.choice(["float", "double"])
    streams = texts.streams(rng, rng.random() < 0.4, precision)
    data = texts.text(rng, streams, rng.random() < 0.6, True)
    case.write("input.ctf", data)
    case.write("input.cntk", _configuration(streams, precision))
    case.facts.update(streams=list(map(str, streams)), precision=precision)
    try:
        keys, want = _parse(data, streams)
    except ctf.CtfError as error:
        code = _convert("input.cntk", "output.cbf")
        case.check(code == 1, f"{error.failure}: expected the exit code 1, got {code}")
        case.check(not os.path.exists("output.cbf"), "there is an output despite an error")
        return
    # In the tool's output each stream has its own name, and none defines lengths.
    plain = [replace(one, alias=one.name.encode(), defines=False) for one in streams]
    steps = rng.sample(["ctf", "cbf", "npz", "ctf.zst", "cbf.zst"], rng.randint(1, 3))
    case.facts["steps"] = steps
    source, has_keys = "input.cntk", True
    for number, form in enumerate(steps):
        output = f"step{number}.{form}"
        code = _convert(source, output, *(["--level", "3"] if form.endswith("zst") else []))
        case.check(code == 0, f"{source} to {output}: the exit code is {code}")
        got_keys, got = _contents(output, form, plain, precision)
        numbered = [str(at) for at in range(len(keys))]
        its = None if got_keys is None else keys if has_keys else numbered
        _compare(case, output, its, want, got_keys, got)
        # Unlike text, a binary file contains the types and dimensions of its streams.
        if form.startswith("cbf") and rng.random() < 0.8:
            source, has_keys = output, False
    names = {stream.name: stream.alias.decode() for stream in streams}
    if rng.random() < 0.5:
        with gzip.open("input.ctf.gz", "wb") as file:
            file.write(data)
        _compare(case, "gzip", keys, want, *_read("input.ctf.gz", streams, precision, names))
    else:
        compress_file("input.ctf", "input.ctf.zst")
        _compare(case, "zstd", keys, want, *_read("input.ctf.zst", streams, precision, names))


def _contents(output: str, form: str, streams: list[ctf.Stream], precision: str) -> tuple[list[str] | None, Streams]:
    if form == "npz":
        return _arrays(output, streams)
    if form == "ctf":
        with open(output, "rb") as file:
            return _parse(file.read(), streams)
    if form == "cbf":
        with open(output, "rb") as file:
            data = file.read()
        if cbf.version(data) == 1:
            return None, cbf.read(data)
    return _read(output, streams, precision, {stream.name: stream.name for stream in streams})


def _compare(
    case: Case,
    name: str,
    keys: list[str] | None,
    want: Streams,
    got_keys: list[str] | None,
    got: Streams,
) -> None:
    expected: list[Event] = [Batch(keys, want)]
    observed = [Batch(got_keys, {stream: list(got[stream]) for stream in want})]
    words = first_difference(expected, case.observed(list(observed)))
    if words is not None:
        raise Difference(f"{name}: {words}")
