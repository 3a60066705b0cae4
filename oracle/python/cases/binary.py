"""CNTK's binary format."""

import data
from cases.text import text
from cntk.io import CBFDeserializer, StreamDef
from recorder import case


@case
def binary_in_order(r):
    r.read(r.source([CBFDeserializer(data.binary('a.cbf'))], randomize=False, max_sweeps=2), 6)


@case(short=True)
def binary_randomized(r):
    r.read(r.source([CBFDeserializer(data.binary('a.cbf', (5, 3, 7, 2, 9)))], max_sweeps=3), 6)


@case
def binary_window(r):
    source = r.source([CBFDeserializer(data.binary('a.cbf', (5, 3, 7, 2, 9)))], randomization_window_in_chunks=2, max_sweeps=2)
    r.read(source, 6)


@case
def binary_two_workers(r):
    for rank in range(2):
        r.read(r.source([CBFDeserializer(data.binary('a.cbf', (5, 3, 7, 2, 9)))], max_sweeps=2), 8, workers=2, rank=rank)


@case
def binary_renamed(r):
    streams = {'features': StreamDef(field='f', shape=2)}
    r.read(r.source([CBFDeserializer(data.binary('a.cbf'), streams)], max_sweeps=1), 6)


@case(short=True)
def binary_checkpoint(r):
    source = r.source([CBFDeserializer(data.binary('a.cbf', (5, 3, 7, 2, 9)))], max_sweeps=3)
    r.read(source, 6, 4)
    state = r.state(source)
    r.read(source, 6, 7)
    r.restore(source, state)
    r.read(source, 6)


@case
def binary_frame_mode(r):
    r.read(r.source([CBFDeserializer(data.binary('a.cbf', longest=1))], frame_mode=True, max_sweeps=1), 4)


@case
def binary_missing(r):
    r.source([CBFDeserializer('none.cbf')])


@case
def binary_of_something_else(r):
    r.source([CBFDeserializer(data.write('text.cbf', '|x 1 2\n' * 20))])


@case(differs='CNTK takes binary data as the first deserializer only; here they may come later', line=0, ours='"streams"')
def binary_as_secondary(r):
    r.source([text(), CBFDeserializer(data.binary('a.cbf'))])
