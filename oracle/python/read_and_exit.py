"""Reads two minibatches of frames from two deserializers of CNTK's speech module, and exits normally while the source
still exists and chunks are still loaded ahead.

usage: read_and_exit.py FOLDER
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import data     # noqa: E402
from cntk.io import (HTKFeatureDeserializer, HTKMLFDeserializer, MinibatchSource, StreamDef, StreamDefs)     # noqa: E402


def main(folder):
    # Several chunks: CNTK's module puts 90,000 frames into each.
    scp, mlf, states = data.speech(folder, utterances=1500, frames=(150, 250))
    source = MinibatchSource([
        HTKFeatureDeserializer(StreamDefs(features=StreamDef(shape=3, scp=scp))),
        HTKMLFDeserializer(states, StreamDefs(labels=StreamDef(shape=12, mlf=mlf)))], frame_mode=True)
    for _ in range(2):
        minibatch = source.next_minibatch(256)
        print(sorted((info.m_name, values.num_samples, float(values.data.asarray().sum()) if not values.is_sparse else 0)
                     for info, values in minibatch.items()))
    sys.stdout.flush()


if __name__ == '__main__':
    main(*sys.argv[1:])
