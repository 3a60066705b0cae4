"""Trains an LSTM that tags words.

usage: train_tagger.py FOLDER EPOCHS [TRUNCATION]

Continues from the checkpoint in FOLDER if there is one, and ends after EPOCHS epochs.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import cntk     # noqa: E402
import data     # noqa: E402
import training     # noqa: E402
from cntk.io import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs     # noqa: E402

WORDS, TAGS, EPOCH = 20, 5, 1200


def main(folder, epochs, truncation=0):
    training.prepare()
    path = data.tagged(os.path.join(folder, 'words.ctf'), 200)
    streams = StreamDefs(w=StreamDef('w', WORDS, is_sparse=True), t=StreamDef('t', TAGS, is_sparse=True))
    source = MinibatchSource([CTFDeserializer(path, streams)], truncation_length=truncation)
    words = cntk.sequence.input_variable(WORDS, is_sparse=True)
    tags = cntk.sequence.input_variable(TAGS, is_sparse=True)
    if truncation:      # packing truncated sequences makes them dense
        words, tags = cntk.sequence.input_variable(WORDS), cntk.sequence.input_variable(TAGS)
    model = cntk.layers.Sequential([
        cntk.layers.Embedding(16), cntk.layers.Recurrence(cntk.layers.LSTM(24)), cntk.layers.Dense(TAGS)])(words)
    loss, errors = cntk.cross_entropy_with_softmax(model, tags), cntk.classification_error(model, tags)
    training.train(model, loss, errors, {words: source.streams.w, tags: source.streams.t}, source, 60, EPOCH, epochs,
                   os.path.join(folder, 'tagger'))


if __name__ == '__main__':
    main(sys.argv[1], *map(int, sys.argv[2:]))
