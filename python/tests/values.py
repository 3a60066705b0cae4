"""The values of a stream `x` as Python numbers."""


def sequences(minibatch):
    """Returns the values of each sequence."""
    return [tuple(int(value) for value in part.ravel()) for part in minibatch["x"].as_sequences()]


def samples(minibatches):
    """Returns the values of all samples."""
    return [value for minibatch in minibatches for sequence in sequences(minibatch) for value in sequence]
