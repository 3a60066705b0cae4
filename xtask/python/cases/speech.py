"""HTK features and MLF labels."""

import os

import data
from cntk.io import HTKFeatureDeserializer, HTKMLFDeserializer, StreamDef, StreamDefs
from recorder import case


def speech(context=(0, 0), utterances=8, labels=True, name='utt%d'):
    scp, mlf, states = data.speech(os.getcwd(), utterances, name=name)
    result = [HTKFeatureDeserializer(StreamDefs(features=StreamDef(shape=3, context=context, scp=scp)))]
    if labels:
        result.append(HTKMLFDeserializer(states, StreamDefs(labels=StreamDef(shape=12, mlf=mlf))))
    return result


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


@case
def speech_missing(r):
    r.source([HTKFeatureDeserializer(StreamDefs(features=StreamDef(shape=3, scp='none.scp')))])


@case
def speech_of_wrong_dimension(r):
    scp, _, _ = data.speech(os.getcwd())
    source = r.source([HTKFeatureDeserializer(StreamDefs(features=StreamDef(shape=4, scp=scp)))], max_sweeps=1)
    r.read(source, 20, 2)


@case(crashes="CNTK's module throws an exception on a thread of its own, which nothing catches")
def speech_label_without_state(r):
    scp, mlf, states = data.speech(os.getcwd())
    data.write(states, 'sil_s2\n')
    source = r.source([HTKFeatureDeserializer(StreamDefs(features=StreamDef(shape=3, scp=scp))),
                       HTKMLFDeserializer(states, StreamDefs(labels=StreamDef(shape=12, mlf=mlf)))], max_sweeps=1)
    r.read(source, 20, 2)
