"""The values of a stream `x` as numbers of Python."""


def sequences(minibatch):
    """The values of each sequence."""
    return [tuple(int(value) for value in part.ravel()) for part in minibatch["x"].as_sequences()]


def samples(minibatches):
    """The values of all samples."""
    return [value for minibatch in minibatches for sequence in sequences(minibatch) for value in sequence]
