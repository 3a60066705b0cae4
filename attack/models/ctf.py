"""Random text files, parsed by `rules.ctf`: values, keys, minibatches, errors and their lines."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
from cntk_reader import CTFDeserializer, MinibatchSource, ReaderError, StreamDef, StreamDefs
from harness import reading
from harness.case import Case, Difference
from harness.trace import Batch, Event, Failure, Sequence, first_difference
from rules import ctf, layout, numbers, order

_NAMES = ["x", "y", "ab", "abc", "q", "Q", "feat_1", "l"]
_DTYPES = ["uint8", "int16", "int32", "int64", "bool", "float16", "float32", "float64"]
#: Fragments that make a text malformed, or merely unusual.
_NOISE = [
    b"|#", b"|# a | b", b"|# c |# d", b"||", b"| x", b"|", b"|zz 1 2", b"|much_too_long 3", b"|x",
    b"\r", b"\v", b"\x00", b"\x80", b"\x7f", b"\t", b"  ", b"\n", b"\n\n", b"\r\n", b" \n", b"#",
    b":", b"1:", b":2", b"-", b"+", b"e", b".", b".5", b"1e", b"1.e2", b"nan", b"inf", b"0x10",
    b"--1", b"1-2", b"1,5", b"1.5.5", b"99999999999999999999", b"18446744073709551616:1", b"7 ",
    b"\xef\xbb\xbf", b"0e400", b"1e39", b"-1", b"|x 1", b"|y", b"|q 1:1", b"1e-400", b"3",
]  # fmt: skip


def number(rng: random.Random) -> bytes:
    """Returns a number that CNTK accepts."""
    sign = rng.choice(["", "", "", "-", "+"])
    form = rng.randrange(10)
    if form < 3:
        text = str(rng.randrange(300))
    elif form < 6:
        text = f"{rng.randrange(100)}.{rng.randrange(10**6):06d}"
    elif form == 6:
        text = "".join(rng.choices("0123456789", k=rng.randint(1, 45)))
        if rng.random() < 0.5:
            text += "." + "".join(rng.choices("0123456789", k=rng.randint(1, 45)))
    elif form == 7:
        text = f"{rng.randrange(1000)}e{rng.randint(-330, 330)}"
    elif form == 8:
        text = f"{rng.random()!r}e{rng.choice('+-')}{rng.randrange(45):02d}"
    else:
        text = rng.choice(["0", "0.0", "1.", "007", "1E3", "16777217.5", "1e22", "123.456e-3"])
    return (sign + text).encode()


def _integer(rng: random.Random, dtype: np.dtype[np.generic]) -> bytes:
    low, high = numbers.limits(dtype)
    if rng.random() < 0.03:
        return rng.choice([str(high + 1).encode(), str(low - 1).encode(), b"2.5", b"5e-1"])
    value = rng.choice([low, high, rng.randint(low, high), rng.randint(0, 1)])
    if value % 10 == 0 and rng.random() < 0.3:
        return f"{value // 10}e1".encode() if rng.random() < 0.5 else f"{value}0e-1".encode()
    return rng.choice([f"{value}", f"{value}", f"{value}.", f"{value}.00"]).encode()


def value(rng: random.Random, dtype: np.dtype[np.generic]) -> bytes:
    """Returns a number for a stream of a type."""
    if dtype.kind == "f":
        text = number(rng)
        # Out-of-range values only now and then, not in each file.
        far = b"e" in text.lower() and rng.random() < 0.7
        return str(rng.randrange(100)).encode() if far else text
    return _integer(rng, dtype)


def streams(rng: random.Random, has_types: bool, precision: str) -> list[ctf.Stream]:
    """Returns one to three random streams."""
    chosen = rng.sample(_NAMES, rng.randint(1, 3))
    defining = rng.randrange(len(chosen)) if rng.random() < 0.2 else -1
    made = []
    for place, alias in enumerate(chosen):
        is_sparse = rng.random() < 0.4
        dtype = np.dtype("float64" if precision == "double" else "float32")
        if has_types and not is_sparse and rng.random() < 0.7:
            dtype = np.dtype(rng.choice(_DTYPES))
        dim = rng.choice([1, 1, 2, 3, 5, 12])
        made.append(ctf.Stream(f"s{place}", alias.encode(), dim, is_sparse, dtype, place == defining))
    return made


def _sample(rng: random.Random, stream: ctf.Stream) -> bytes:
    if stream.ids is not None and rng.random() < 0.98:
        one = rng.choice([b"1", b"1", b"1.0", b"1e+0"])
        return b"|%s %d:%s" % (stream.alias, rng.randrange(stream.dim), one)
    if stream.is_sparse:
        count = rng.randint(0, min(stream.dim, 4))
        places = [rng.randrange(stream.dim) for _ in range(count)]
        values = [b"%d:%s" % (place, value(rng, stream.dtype)) for place in places]
    else:
        count = stream.dim if rng.random() < 0.95 else rng.randint(0, stream.dim)
        values = [value(rng, stream.dtype) for _ in range(count)]
    blank = rng.choice([b" ", b" ", b" ", b"\t", b"  "])
    return b"|" + stream.alias + blank + blank.join(values)


def text(rng: random.Random, chosen: list[ctf.Stream], has_ids: bool, is_clean: bool) -> bytes:
    """Returns a text file of these streams."""
    ending = rng.choice([b"\n", b"\n", b"\n", b"\r\n"])
    lines = []
    key = rng.choice([0, 0, 1, 10**6, 2**63])
    for _ in range(rng.choice([1, 3, 10, 40])):
        length = rng.choice([1, 1, 2, 3, 6]) if has_ids else 1
        for step in range(length):
            parts = [
                _sample(rng, stream)
                for stream in chosen
                # With ids, a stream may be shorter than its sequence.
                if step == 0 or not has_ids or rng.random() < 0.9 or stream is chosen[0]
            ]
            if rng.random() < 0.1:
                parts.insert(rng.randrange(len(parts) + 1), rng.choice([b"|# note ", b"|zz 7 "]))
            start = b""
            if has_ids and (step == 0 or rng.random() < 0.8):
                start = b"%d " % key if rng.random() < 0.9 else b"0%d" % key
            lines.append(start + b" ".join(parts) + ending)
        key += rng.choice([1, 1, 1, 2, 1000])
    data = b"".join(lines)
    if is_clean:
        return data
    if rng.random() < 0.3:
        data = data.rstrip(b"\r\n")
    if rng.random() < 0.2:
        data = rng.choice([b"\xef\xbb\xbf", b"\n", b" ", b"\xef\xbb", b"|# head\n"]) + data
    for _ in range(rng.choice([0, 0, 1, 1, 2, 5])):
        at = rng.randrange(len(data) + 1)
        if rng.random() < 0.2:
            data = data[:at] + data[at + rng.randint(1, 6) :]
        else:
            data = data[:at] + rng.choice(_NOISE) + data[at:]
    return data[: rng.randrange(len(data) + 1)] if rng.random() < 0.1 else data


def expected(data: bytes, chosen: list[ctf.Stream], facts: Mapping[str, object], size: int, sweeps: int) -> list[Event]:
    """Returns the trace of a source without randomization."""
    main = next((stream.alias for stream in chosen if stream.defines), None)
    try:
        entries = ctf.index(data, main, bool(facts["skip_sequence_ids"]))
    except ctf.CtfError as error:
        return [error.failure]
    if not entries:
        return []
    limit = facts["chunk_size_in_bytes"]
    assert isinstance(limit, int)
    chunks = ctf.chunks(entries, limit)
    max_errors = facts["max_errors"]
    assert isinstance(max_errors, int)
    parser = ctf.Parser(data, chosen, max_errors, bool(facts["strict_sequences"]))
    items = order.make_chunks([[entry.samples for entry in chunk] for chunk in chunks])
    total = sum(entry.samples for entry in entries)
    timeline = order.InOrder(items, order.Epoch(total * sweeps))
    held: dict[int, list[list[Sequence]]] = {}
    broken: dict[int, Failure] = {}
    events: list[Event] = []
    delivered = 0
    while True:
        part = order.read_next(timeline, size)
        if not part.items:
            events.append(Batch([], {}, part.end_of_sweep, True, timeline.position))
            return events
        before, held = held, {}
        try:
            for item in part.items:
                if item.chunk in broken:
                    # The same error prevents the next sequence of the chunk.
                    raise ctf.CtfError(broken[item.chunk])
                broken = {}
                if item.chunk not in held:
                    its = before.get(item.chunk)
                    held[item.chunk] = its or parser.chunk(chunks[item.chunk])
        except ctf.CtfError as error:
            events.append(error.failure)
            broken = {part.items[0].chunk: error.failure}
            if facts["reads_on"]:
                # The next read begins after the sequence that could not be read.
                continue
            return events
        chunk_starts = {item.chunk: items[item.chunk][0].number for item in part.items}
        sequences = [held[item.chunk][item.number - chunk_starts[item.chunk]] for item in part.items]
        kept = [number for number, sequence in enumerate(sequences) if sequence]
        delivered += len(kept)
        if part.end_of_sweep and delivered == 0:
            events.append(Failure("empty sweep"))
            if facts["reads_on"]:
                continue
            return events
        batch = Batch(
            [str(entries[part.items[number].number].key) for number in kept],
            {stream.name: [list(sequences[number][at]) for number in kept] for at, stream in enumerate(chosen) if kept},
            part.end_of_sweep,
            part.end_of_epoch,
            timeline.position,
        )
        events.append(layout.with_layouts(batch))
        for stream in chosen:
            if stream.ids is not None:
                # Class indices of whole sequences are contiguous in one lane.
                batch.layouts.pop(stream.name, None)
        if not kept and part.end_of_epoch:
            return events


def definitions(chosen: list[ctf.Stream], precision: str) -> StreamDefs:
    """Returns the streams as the package takes them."""
    standard = np.dtype("float64" if precision == "double" else "float32")
    return StreamDefs(
        **{
            stream.name: StreamDef(
                field=stream.alias.decode(),
                shape=stream.dim,
                is_sparse=stream.is_sparse,
                defines_mb_size=stream.defines,
                ids=None if stream.ids is None else stream.ids.name,
                dtype=None if stream.dtype == standard else stream.dtype.name,
            )
            for stream in chosen
        }
    )


def run(case: Case) -> None:
    """Reads one random file."""
    rng = case.rng
    precision = rng.choice(["float", "float", "double"])
    chosen = streams(rng, rng.random() < 0.4, precision)
    data = text(rng, chosen, rng.random() < 0.6, rng.random() < 0.4)
    file = case.write("input.ctf", data)
    size, sweeps = rng.choice([1, 3, 7, 20, 1000]), rng.choice([1, 1, 2])
    options = {
        "max_errors": rng.choice([0, 0, 0, 1, 2, 5, 30, 1000]),
        "chunk_size_in_bytes": rng.choice([1, 40, 200, 1000, 1 << 25]),
        "skip_sequence_ids": rng.random() < 0.15,
        "strict_sequences": rng.random() < 0.8,
    }
    # After an error, the model knows what the next minibatch needs only if each needs one chunk.
    facts = {**options, "reads_on": size == 1 and rng.random() < 0.5}
    case.facts.update(facts, streams=list(map(str, chosen)), precision=precision, size=size, sweeps=sweeps)
    want = expected(data, chosen, facts, size, sweeps)
    deserializer = CTFDeserializer(file, definitions(chosen, precision), **options)  # type: ignore[arg-type]
    try:
        source = MinibatchSource(
            deserializer,
            randomize=False,
            precision=precision,
            minibatch_size=size,
            max_sweeps=sweeps,
        )
    except ReaderError as error:
        got: list[Event] = [reading.failure_of(error)]
        if not want:
            # Data without sequences are an error here; CNTK 2.7 fails or crashes.
            return
    else:
        with source:
            got = reading.read(source, reads_on=bool(facts["reads_on"]))
    words = first_difference(want, case.observed(got))
    if words is not None:
        raise Difference(words)
