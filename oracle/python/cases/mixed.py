"""Deserializers of different modules in one source, joined by key."""

import base64

import data
from cases.image import SMALL, images
from cases.sequences import stream_defs
from cases.speech import speech
from cntk.io import Base64ImageDeserializer, CBFDeserializer, CTFDeserializer, ImageDeserializer, StreamDef, StreamDefs
from recorder import case


def words(keys, streams='s'):
    path = data.sequences('words.ctf', 0, 21, streams, keys=keys)
    return CTFDeserializer(path, StreamDefs(**stream_defs(streams)))


@case(short=True)
def mixed_speech_and_text(r):
    r.read(r.source(speech(name='%d') + [words(range(7, -1, -1))], max_sweeps=2), 20)


@case
def mixed_text_and_speech(r):
    r.read(r.source([words([5, 2, 9, 0, 7, 1])] + speech(name='%d'), randomize=False, max_sweeps=2), 20)


@case
def mixed_speech_and_text_two_workers(r):
    for rank in range(2):
        source = r.source(speech(name='%d', labels=False) + [words(range(1, 8), 'x')], max_sweeps=2)
        r.read(source, 20, workers=2, rank=rank)


@case
def mixed_speech_and_text_checkpoint(r):
    source = r.source(speech(name='%d', context=(1, 1)) + [words(range(8))], max_sweeps=3)
    r.read(source, 16, 3)
    state = r.state(source)
    r.read(source, 16, 4)
    r.restore(source, state)
    r.read(source, 16)


@case
def mixed_speech_and_text_of_other_lengths(r):
    r.read(r.source(speech(name='%d') + [words(range(8), 'x')], truncation_length=4, max_sweeps=1), 16, 3)


@case
def mixed_speech_and_text_with_nothing_in_common(r):
    r.source(speech(name='%d') + [words(range(20, 28))])


@case
def mixed_speech_and_binary(r):
    r.source([CBFDeserializer(data.binary('a.cbf'))] + speech(name='%d'))


@case(needs='images')
def mixed_images_and_text(r):
    r.read(r.source([images([SMALL]), words(range(12), 'w')], max_sweeps=2), 5)


@case(needs='images')
def mixed_text_and_images(r):
    lines = ['%d\t%s\t%d\n' % (key, data.bitmap('%d.bmp' % key, 9, 7, key), key % 4) for key in (1, 2, 3, 9)]
    keyed = data.write('keyed.map', ''.join(lines))
    streams = StreamDefs(features=StreamDef(field='image', transforms=[SMALL]), labels=StreamDef(field='label', shape=4))
    source = r.source([words([3, 1, 7, 2]), ImageDeserializer(keyed, streams)], randomize=False, max_sweeps=2)
    r.read(source, 6)


@case(needs='images')
def mixed_encoded_images_and_text(r):
    lines = []
    for number in range(6):
        with open(data.bitmap('image.bmp', 8 + number, 6, number), 'rb') as image:
            lines.append('%d\t%s\n' % (number % 4, base64.b64encode(image.read()).decode('ascii')))
    path = data.write('encoded.txt', ''.join(lines))
    streams = StreamDefs(features=StreamDef(field='image', transforms=[SMALL]), labels=StreamDef(field='label', shape=4))
    r.read(r.source([Base64ImageDeserializer(path, streams), words(range(6), 'w')], max_sweeps=2), 4)
