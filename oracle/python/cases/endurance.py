"""Long runs, sources that are destroyed while they read, and several sources at a time."""

import gc

import data
from cases.sequences import sequences
from cases.text import text
from cases.user import Rows
from cntk.io import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs
from recorder import case, memory


def grow(r, source, size):
    """Reads 10,000 minibatches; memory must not grow with their number."""
    at = {}
    samples = 0
    for count in range(1, 10001):
        minibatch = source.next_minibatch(size)
        samples += sum(data.num_samples for data in minibatch.values())
        if count % 1000 == 0:
            minibatch = None
            gc.collect()
            at[count] = memory()
            r.line(step='progress', minibatches=count, samples=samples)
    grown = at[10000] - at[1000]
    r.line(step='memory', bounded=grown < 32 << 20)


@case
def endurance_samples(r):
    grow(r, r.source([text(500)]), 16)


@case
def endurance_sequences(r):
    grow(r, r.source([sequences(300)]), 40)


@case
def endurance_user(r):
    grow(r, r.source([Rows(chunks=(40, 30, 50))], randomization_window_in_chunks=2), 8)


@case(short=True)
def endurance_changes_of_size(r):
    source = r.source([text(200)])
    samples = 0
    for count in range(300):
        minibatch = source.next_minibatch(5 + count % 7)
        samples += minibatch[source.streams.x].num_samples
    r.line(step='sum', samples=samples)
    r.state(source)


@case(short=True)
def endurance_destroyed_while_reading_ahead(r):
    path = data.samples('large.ctf', 3000, 9)
    total = 0
    for count in range(60):
        source = MinibatchSource([CTFDeserializer(path, StreamDefs(x=StreamDef('x', 2)))])
        for _ in range(count % 3):
            total += source.next_minibatch(500)[source.streams.x].num_samples
        del source
    r.line(step='sum', samples=total)


@case(dies='CNTK crashes now and then where a source is destroyed while it reads a deserializer written in Python ahead')
def endurance_user_destroyed_while_reading_ahead(r):
    total = 0
    for count in range(30):
        source = MinibatchSource([Rows()], randomization_window_in_chunks=2)
        for _ in range(count % 3):
            total += source.next_minibatch(3)[source.streams.x].num_samples
        del source
    r.line(step='sum', samples=total)


@case(short=True)
def endurance_two_at_once(r):
    first, second = r.source([text()], max_sweeps=2), r.source([sequences()], max_sweeps=2)
    for size in range(3, 13):
        r.read(first, 8, 1)
        r.read(second, size, 1)


@case
def endurance_user_and_text_at_once(r):
    first, second = r.source([Rows()], randomize=False), r.source([text()])
    for size in range(3, 9):
        r.read(first, size, 1)
        r.read(second, size, 1)


@case
def endurance_forty_sources(r):
    sources = [r.source([text(20 + i, seed=20 + i)], max_sweeps=1) for i in range(40)]
    for source in sources:
        r.read(source, 16, 1)
