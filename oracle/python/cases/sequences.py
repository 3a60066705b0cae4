"""Sequences in text data: lengths, the stream that defines the minibatch's size, truncation."""

import data
from cntk.io import CTFDeserializer, StreamDef, StreamDefs
from recorder import case


def sequences(count=40, seed=2, streams='xs', defining=None, **options):
    """A deserializer of generated sequences: x dense, s sparse, w one number a sequence."""
    path = data.sequences('sequences%d.ctf' % seed, count, seed, streams, **options)
    return CTFDeserializer(path, StreamDefs(**stream_defs(streams, defining)))


def stream_defs(streams, defining=None):
    sizes = {'x': (2, False), 's': (11, True), 'w': (1, False)}
    return {name: StreamDef(name, sizes[name][0], is_sparse=sizes[name][1], defines_mb_size=name == defining)
            for name in streams}


@case
def sequences_in_order(r):
    r.read(r.source([sequences()], randomize=False, max_sweeps=2), 15)


@case(short=True)
def sequences_randomized(r):
    r.read(r.source([sequences()], max_sweeps=2), 15)


@case
def sequences_and_one_number(r):
    r.read(r.source([sequences(streams='xsw')], max_sweeps=1), 25)


@case(short=True)
def sequences_counted_by_number(r):
    r.read(r.source([sequences(streams='xsw', defining='w')], max_sweeps=1), 4)


@case
def sequences_counted_by_sparse(r):
    r.read(r.source([sequences(defining='s')], max_sweeps=1), 9)


@case
def sequences_window_of_samples(r):
    source = r.source([sequences(70)], randomization_window_in_chunks=0, randomization_window_in_samples=30, max_sweeps=2)
    r.read(source, 20)


@case
def sequences_three_workers(r):
    for rank in range(3):
        r.read(r.source([sequences()], max_sweeps=2), 20, workers=3, rank=rank)


@case
def sequences_max_samples(r):
    r.read(r.source([sequences()], max_samples=101), 20)


@case(short=True)
def sequences_checkpoint(r):
    source = r.source([sequences()], max_sweeps=3)
    r.read(source, 20, 3)
    state = r.state(source)
    r.read(source, 20, 12)
    r.restore(source, state)
    r.read(source, 31, 4)
    r.read(source, 20)


@case(short=True)
def sequences_truncated(r):
    r.read(r.source([sequences(streams='x')], truncation_length=4, max_sweeps=2), 12)


@case
def sequences_truncated_in_order(r):
    r.read(r.source([sequences(streams='x')], randomize=False, truncation_length=3, max_sweeps=1), 9)


@case
def sequences_truncated_two_workers(r):
    for rank in range(2):
        r.read(r.source([sequences(streams='x')], truncation_length=4, max_sweeps=1), 24, workers=2, rank=rank)


@case
def sequences_truncated_words(r):
    path = data.tagged('tagged.ctf')
    streams = StreamDefs(w=StreamDef('w', 20, is_sparse=True), t=StreamDef('t', 5, is_sparse=True))
    r.read(r.source([CTFDeserializer(path, streams)], truncation_length=5, max_sweeps=1), 20)


@case
def sequences_truncated_checkpoint(r):
    source = r.source([sequences(streams='x')], truncation_length=4, max_sweeps=2)
    r.read(source, 12, 4)
    state = r.state(source)
    r.read(source, 12, 4)
    r.restore(source, state)
    r.read(source, 12)


@case
def sequences_truncated_of_unequal_streams(r):
    r.read(r.source([sequences()], randomize=False, truncation_length=3, max_sweeps=1), 12, 6)


@case
def sequences_in_frame_mode(r):
    r.read(r.source([sequences(streams='x')], frame_mode=True, max_sweeps=1), 10, 4)


@case
def sequences_of_sparse_keys(r):
    keys = [3 * i * i + 7 for i in range(30)]
    r.read(r.source([sequences(keys=keys)], max_sweeps=2), 18)
