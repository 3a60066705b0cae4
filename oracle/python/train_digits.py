"""Trains a dense network on handwritten digits.

usage: train_digits.py FOLDER EPOCHS DIGITS     DIGITS: the file of the project's examples

Continues from the checkpoint in FOLDER if there is one, and ends after EPOCHS epochs.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import cntk     # noqa: E402
import training     # noqa: E402
from cntk.io import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs     # noqa: E402

PIXELS, DIGITS, EPOCH = 64, 10, 1500


def main(folder, epochs, path):
    training.prepare()
    streams = StreamDefs(features=StreamDef('features', PIXELS), labels=StreamDef('labels', DIGITS, is_sparse=True))
    source = MinibatchSource([CTFDeserializer(path, streams)])
    pixels, labels = cntk.input_variable(PIXELS), cntk.input_variable(DIGITS, is_sparse=True)
    hidden = cntk.layers.Dense(48, cntk.relu)(pixels / 16)
    model = cntk.layers.Dense(DIGITS)(hidden)
    loss, errors = cntk.cross_entropy_with_softmax(model, labels), cntk.classification_error(model, labels)
    training.train(model, loss, errors, {pixels: source.streams.features, labels: source.streams.labels}, source, 64, EPOCH,
                   int(epochs), os.path.join(folder, 'digits'))


if __name__ == '__main__':
    main(*sys.argv[1:])
