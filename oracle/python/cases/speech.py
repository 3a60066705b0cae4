"""HTK features, MLF labels and lattices."""

import os

import data
from cntk.io import (HTKFeatureDeserializer, HTKMLFBinaryDeserializer, HTKMLFDeserializer, LatticeDeserializer, StreamDef,
                     StreamDefs)
from recorder import case


def speech(context=(0, 0), utterances=8, labels=True, name='utt%d', boundaries=False):
    scp, mlf, states = data.speech(os.getcwd(), utterances, name=name)
    result = [HTKFeatureDeserializer(StreamDefs(features=StreamDef(shape=3, context=context, scp=scp)))]
    if labels:
        streams = StreamDefs(labels=StreamDef(shape=12, mlf=mlf))
        result.append(HTKMLFDeserializer(states, streams, boundaries))
    return result


def lattices():
    return LatticeDeserializer(data.lattices(os.getcwd()), StreamDefs(lattice=StreamDef()))


def vectors(context=(0, 0)):
    scp = data.vectors(os.getcwd())
    return HTKFeatureDeserializer(StreamDefs(vector=StreamDef(shape=2, context=context, scp=scp, broadcast=True)))


@case
def speech_in_order(r):
    r.read(r.source(speech(), randomize=False, max_sweeps=2), 20)


@case(short=True)
def speech_randomized(r):
    r.read(r.source(speech(), max_sweeps=2), 20)


@case
def speech_features_only(r):
    r.read(r.source(speech(labels=False), max_sweeps=1), 15)


@case
def speech_context(r):
    r.read(r.source(speech(context=(2, 1)), max_sweeps=1), 20)


@case
def speech_frame_mode(r):
    r.read(r.source(speech(), frame_mode=True, max_sweeps=2), 16)


@case(short=True)
def speech_frame_mode_with_context(r):
    r.read(r.source(speech(context=(1, 1)), frame_mode=True, randomize=False, max_sweeps=1), 16)


@case(short=True)
def speech_truncated(r):
    r.read(r.source(speech(), truncation_length=4, max_sweeps=1), 16)


@case
def speech_two_workers(r):
    for rank in range(2):
        r.read(r.source(speech(utterances=12), max_sweeps=2), 24, workers=2, rank=rank)


@case
def speech_checkpoint(r):
    source = r.source(speech(), max_sweeps=3)
    r.read(source, 20, 3)
    state = r.state(source)
    r.read(source, 20, 4)
    r.restore(source, state)
    r.read(source, 20)


@case
def speech_window_of_samples(r):
    source = r.source(speech(utterances=20), randomization_window_in_chunks=0, randomization_window_in_samples=40,
                      max_sweeps=2)
    r.read(source, 20)


@case(short=True)
def speech_phone_boundaries(r):
    r.read(r.source(speech(boundaries=True), randomize=False, max_sweeps=1), 20)


@case
def speech_phone_boundaries_truncated(r):
    r.read(r.source(speech(boundaries=True), truncation_length=4, max_sweeps=1), 16)


@case(short=True)
def speech_vectors(r):
    r.read(r.source(speech() + [vectors()], max_sweeps=1), 20)


@case
def speech_vectors_in_frame_mode(r):
    r.read(r.source(speech(context=(1, 1)) + [vectors(context=(1, 0))], frame_mode=True, max_sweeps=1), 16)


@case
def speech_vectors_truncated(r):
    r.read(r.source(speech() + [vectors()], truncation_length=4, max_sweeps=1), 16)


@case
def speech_vectors_first(r):
    r.source([vectors()])


@case(short=True)
def speech_lattices(r):
    r.read(r.source(speech() + [lattices()], randomize=False, max_sweeps=1), 200)


@case
def speech_lattices_randomized(r):
    r.read(r.source(speech() + [lattices()], max_sweeps=2), 30)


@case
def speech_lattices_first(r):
    r.source([lattices()])


@case
def speech_binary_labels(r):
    labels = HTKMLFBinaryDeserializer(StreamDefs(labels=StreamDef(shape=12, mlf=data.binary_labels(os.getcwd()))))
    r.read(r.source(speech(labels=False) + [labels], max_sweeps=1), 20)


@case
def speech_labels_that_do_not_fit(r):
    scp, mlf, states = data.speech(os.getcwd())
    with open(mlf) as file:
        text = file.read()
    data.write(mlf, text.replace('\n100000 ', '\n200000 ', 1))
    source = r.source([HTKFeatureDeserializer(StreamDefs(features=StreamDef(shape=3, scp=scp))),
                       HTKMLFDeserializer(states, StreamDefs(labels=StreamDef(shape=12, mlf=mlf)))], randomize=False,
                      max_sweeps=1, max_errors=1)
    r.read(source, 200)


@case
def speech_missing(r):
    r.source([HTKFeatureDeserializer(StreamDefs(features=StreamDef(shape=3, scp='none.scp')))])


@case
def speech_of_wrong_dimension(r):
    scp, _, _ = data.speech(os.getcwd())
    source = r.source([HTKFeatureDeserializer(StreamDefs(features=StreamDef(shape=4, scp=scp)))], max_sweeps=1)
    r.read(source, 20, 2)


@case(dies="CNTK's module throws an exception on a thread of its own, which nothing catches")
def speech_label_without_state(r):
    scp, mlf, states = data.speech(os.getcwd())
    data.write(states, 'sil_s2\n')
    source = r.source([HTKFeatureDeserializer(StreamDefs(features=StreamDef(shape=3, scp=scp))),
                       HTKMLFDeserializer(states, StreamDefs(labels=StreamDef(shape=12, mlf=mlf)))], max_sweeps=1)
    r.read(source, 20, 2)
