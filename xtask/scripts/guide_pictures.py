"""Draws the pictures of the guide from the output of readers, so that they are correct.

PYTHONPATH=python python3 xtask/scripts/guide_pictures.py write    # docs/guide/pictures/*.svg
PYTHONPATH=python python3 xtask/scripts/guide_pictures.py check    # fails if they are different
"""

import sys
import tempfile
import weakref
from collections import Counter
from pathlib import Path

import numpy as np
from cntk_reader import (
    ComposableUserDeserializer,
    CTFDeserializer,
    MinibatchSource,
    SequenceList,
    StreamDef,
    StreamDefs,
    StreamInformation,
)

GUIDE = Path(__file__).resolve().parents[2] / "docs/guide"

# Fill colors of cells, light enough for dark text. A sequence or chunk has the color of its number.
COLORS = "#8cc8f0", "#f5c169", "#7fd6b0", "#f2a2bd", "#c9b6f2", "#e6e07a", "#f2a78c", "#a8d86e"
# For everything outside of cells: a gray with enough contrast to white and black pages.
GRAY, DARK = "#7d8590", "#1c2128"

# Size of a cell, and the distance between cells.
WIDTH, HEIGHT, SPACE = 38, 26, 3
ACROSS, DOWN = WIDTH + SPACE, HEIGHT + SPACE

GAP = 2**64 - 1


class Svg:
    """A picture under construction. Lengths are pixels."""

    def __init__(self, title, width, height):
        self.lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            "role=\"img\" font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\">",
            f"  <title>{title}</title>",
        ]

    def rectangle(self, x, y, width, height, style):
        self.lines.append(f'  <rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" {style}/>')

    def text(self, x, y, text, anchor="middle", size=13, fill=GRAY):
        style = f'text-anchor="{anchor}" font-size="{size}" fill="{fill}"'
        self.lines.append(f'  <text x="{x:g}" y="{y:g}" {style}>{text}</text>')

    def cell(self, x, y, color, text):
        """Draws a sample, a sequence or a chunk; without a color, a gap."""
        if color is None:
            style = f'rx="3" fill="none" stroke="{GRAY}" stroke-dasharray="3 3"'
            self.rectangle(x + 0.5, y + 0.5, WIDTH - 1, HEIGHT - 1, style)
        else:
            self.rectangle(x, y, WIDTH, HEIGHT, f'rx="3" fill="{COLORS[color % len(COLORS)]}"')
            self.text(x + WIDTH / 2, y + HEIGHT / 2 + 4, text, size=12, fill=DARK)

    def dot(self, x, y, color):
        style = f'fill="{COLORS[color % len(COLORS)]}" stroke="{DARK}" stroke-width="0.6"'
        self.lines.append(f'  <circle cx="{x:g}" cy="{y:g}" r="4" {style}/>')

    def axes(self, x, y, steps, lanes):
        """Numbers the steps above a grid and the lanes left of it."""
        for step in range(steps):
            self.text(x + step * ACROSS + WIDTH / 2, y - 8, step)
        for lane in range(lanes):
            self.text(x - 8, y + lane * DOWN + HEIGHT / 2 + 4, f"lane {lane}", "end")
        if lanes:
            self.text(x - 8, y - 8, "step", "end")

    def finish(self):
        return "\n".join([*self.lines, "</svg>", ""])


def pages_data():
    """Returns the file that is shown on the page about sequences."""
    return (GUIDE / "sequences.md").read_text().split("```ctf\n")[1].split("```")[0]


def minibatches(size, streams, skip_ids=False, **mode):
    """Returns the minibatches of one sweep over that file, in file order."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "steps.ctf"
        path.write_text(pages_data())
        data = CTFDeserializer(path, StreamDefs(**streams), skip_sequence_ids=skip_ids)
        with MinibatchSource(data, minibatch_size=size, randomize=False, max_sweeps=1, **mode) as source:
            return list(source)


WORDS = {"words": StreamDef(field="w", shape=100, is_sparse=True)}
LABELS = {"labels": StreamDef(field="l", shape=5, is_sparse=True)}


def columns(minibatch, stream):
    """Yields the columns of a stream: step, lane, and `(key, step of the sequence)`, or None in a gap."""
    for number, lane, begin, end in stream.records.tolist():
        for step in range(max(begin, 0), min(end, stream.steps)):
            sample = None if number == GAP else (int(minibatch.keys_of_sequences[number]), step - begin)
            yield step, lane, sample


def grid(picture, minibatch, name, x, y):
    """Draws the columns of a stream as steps and lanes."""
    for step, lane, sample in columns(minibatch, minibatch[name]):
        key, own_step = sample or (None, None)
        picture.cell(x + step * ACROSS, y + lane * DOWN, key, f"{key}.{own_step}")


def sequences():
    minibatch = minibatches(12, {**WORDS, **LABELS})[0]
    words, labels = minibatch["words"], minibatch["labels"]
    title = (
        f"The first minibatch: words with {words.steps} steps and {words.lanes} lanes, labels with {labels.steps} step "
    )
    picture = Svg(title + f"and {labels.lanes} lanes, and the words in memory", 590, 264)
    for name, x in ("words", 70), ("labels", 340):
        picture.text(x, 18, name, "start")
        picture.axes(x, 52, minibatch[name].steps, minibatch[name].lanes)
        grid(picture, minibatch, name, x, 52)
    picture.text(70, 216, "words in memory", "start")
    lines = [line.split() for line in pages_data().splitlines()]
    file = {int(key): [] for key, *_ in lines}
    for key, _, word, *_ in lines:
        file[int(key)].append(int(word.split(":")[0]))
    for step, lane, sample in columns(minibatch, words):
        column = step * words.lanes + lane
        key, own_step = sample or (None, None)
        expected = [] if sample is None else [file[key][own_step]]
        assert words.csr[column].indices.tolist() == expected, "the word in this column of memory"
        picture.cell(70 + column * ACROSS, 228, key, f"{key}.{own_step}")
    return picture


def truncation():
    # Without labels, because in this mode all streams of a sequence have the same length.
    found = minibatches(6, WORDS, truncation_length=3)
    width = 3 * ACROSS + 24
    picture = Svg(
        "Truncated minibatches one after the other: a sequence goes on in the lane where it was cut",
        66 + len(found) * width,
        116,
    )
    for number, minibatch in enumerate(found):
        x = 70 + number * width
        picture.text(x, 18, f"minibatch {number}", "start")
        picture.axes(x, 52, minibatch["words"].steps, 0 if number else minibatch["words"].lanes)
        grid(picture, minibatch, "words", x, 52)
    return picture


def frames():
    minibatch = minibatches(6, WORDS, skip_ids=True, frame_mode=True)[0]
    words = minibatch["words"]
    assert words.steps == 1
    picture = Svg("A minibatch in frame mode: one step, and a lane for each line", 84 + words.lanes * ACROSS, 68)
    picture.text(78, 18, "lane", "end")
    picture.text(78, 50, "key", "end")
    for _, lane, (key, _) in columns(minibatch, words):
        picture.text(86 + lane * ACROSS + WIDTH / 2, 18, lane)
        picture.cell(86 + lane * ACROSS, 32, key, key)
    return picture


class Chunks(ComposableUserDeserializer):
    """Chunks of numbered sequences that record which chunks are loaded and held in memory."""

    def __init__(self, count, size):
        self.count, self.size = count, size
        self.loaded, self.held = [], Counter()

    def stream_infos(self):
        return [StreamInformation("x", 0, "dense", np.float32, (1,))]

    def num_chunks(self):
        return self.count

    def get_sequences(self, chunk_id):
        return SequenceList(self.size)

    def get_chunk(self, chunk_id):
        self.loaded.append(chunk_id)
        self.held[chunk_id] += 1
        numbers = np.arange(chunk_id * self.size, (chunk_id + 1) * self.size, dtype=np.float32)
        weakref.finalize(numbers, self.held.subtract, [chunk_id])
        return {"x": numbers[:, None]}

    def homes(self, minibatch):
        """Returns the chunk of each sequence of a minibatch."""
        return (minibatch["x"].asarray().ravel() // self.size).astype(int).tolist()


def window():
    size, count, width = 8, 8, 3
    chunks = Chunks(count, size)
    found = []
    options = {"randomization_window_in_chunks": width, "options": {"prefetch": False}}
    with MinibatchSource(chunks, minibatch_size=size, max_sweeps=1, **options) as source:
        for minibatch in source:
            held = {chunk for chunk, times in chunks.held.items() if times}
            found.append((chunks.homes(minibatch), held))
    # A single worker loads chunks in the order of the sweep.
    order = chunks.loaded
    assert sorted(order) == list(range(count)), f"each chunk is loaded once a sweep: {order}"

    x, y, across = 90, 34, 66
    picture = Svg(
        "The window slides over the chunks of a sweep; sequences are drawn from the chunks in it",
        x + across * count + 10,
        y + HEIGHT * count + 34,
    )
    picture.text(x, 16, f"window: {width} chunks of {size} sequences", "start")
    for place, chunk in enumerate(order):
        picture.text(x - 10, y + HEIGHT * (place + 0.5) + 4, f"chunk {chunk}", "end")
    for number, (homes, held) in enumerate(found):
        # Minibatch `number` is drawn at chunk `number` of the order, with the window around it.
        begin = min(max(number - width // 2, 0), count - width)
        inside = set(order[begin : begin + width])
        assert set(homes) <= inside, f"minibatch {number} has sequences of {homes}, the window is {inside}"
        assert inside <= held and len(held - inside) <= 2, f"window {inside}, in memory {held}"
        left = x + across * number
        shade = f'fill="{GRAY}" fill-opacity="0.22"'
        picture.rectangle(left, y + HEIGHT * begin, across, HEIGHT * width, shade)
        picture.text(left + across / 2, y + HEIGHT * count + 22, f"mb {number}")
        for place, chunk in enumerate(homes):
            picture.dot(left + across * (place + 0.5) / size, y + HEIGHT * (order.index(chunk) + 0.5), chunk)
    return picture


def workers():
    count, size, all_workers, sweeps = 8, 4, 3, 2
    picture = Svg(f"Which of {count} chunks each of {all_workers} workers gets in {sweeps} sweeps", 580, 118)
    picture.text(90, 16, f"chunks that a worker reads in {sweeps} sweeps over {count} chunks", "start")
    seen = Counter()
    for rank in range(all_workers):
        chunks = Chunks(count, size)
        # With a window of one chunk, each chunk is read as a whole.
        options = {"minibatch_size": 6, "randomization_window_in_chunks": 1, "workers": all_workers, "rank": rank}
        with MinibatchSource(chunks, max_sweeps=sweeps, **options) as source:
            homes = [chunks.homes(minibatch) for minibatch in source]
        sequence = sum(homes, [])
        mine = sequence[::size]
        assert sequence == [chunk for chunk in mine for _ in range(size)]
        seen.update(mine)
        y = 30 + rank * DOWN
        picture.text(80, y + HEIGHT / 2 + 4, f"worker {rank}", "end")
        for place, chunk in enumerate(mine):
            picture.cell(90 + place * ACROSS, y, chunk, chunk)
        picture.text(350, y + HEIGHT / 2 + 4, f"{len(sequence)} samples, {len(homes)} minibatches", "start")
    assert seen == {chunk: sweeps for chunk in range(count)}, f"each chunk is read once a sweep: {seen}"
    return picture


def main():
    if sys.argv[1:] not in (["write"], ["check"]):
        sys.exit(__doc__)
    differs = []
    for draw in sequences, truncation, frames, window, workers:
        path, text = GUIDE / "pictures" / f"{draw.__name__}.svg", draw().finish()
        if sys.argv[1] == "write":
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            differs.append(path.name)
    if differs:
        sys.exit(f"{', '.join(differs)}: not what readers deliver. To draw them again: python3 {sys.argv[0]} write")


if __name__ == "__main__":
    main()
