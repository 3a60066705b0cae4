"""Reads a small text file with CNTK 2.1 to 2.7, and prints the module that read it and a digest of the data.

    python trial.py                        reads with the modules in CNTK's folder
    with-cntk-reader python trial.py       reads with cntk-reader's

The digest must be the same: it covers values, order, layout, ends of sweeps and checkpoint states.
"""

import hashlib
import os
import shutil
import sys
import tempfile
import warnings


def write(path):
    """Writes sequences of one to four samples, with a dense and a sparse stream."""
    with open(path, 'w') as out:
        for sequence in range(200):
            for sample in range(sequence % 4 + 1):
                out.write('%d |x %d.5 -%de-3 |s %d:1 7:0.25\n' % (sequence, sample, sequence, (sequence + sample) % 7))


def read(path):
    """Returns the number of minibatches, the number of samples, and a digest of two sweeps."""
    import cntk
    from cntk import io
    streams = io.StreamDefs(
        x=io.StreamDef('x', shape=2, is_sparse=False), s=io.StreamDef('s', shape=8, is_sparse=True))
    source = io.MinibatchSource([io.CTFDeserializer(path, streams)], randomize=True, max_sweeps=2)
    inputs = {'x': cntk.sequence.input_variable(2), 's': cntk.sequence.input_variable(8, is_sparse=True)}
    minibatches, samples, digest = 0, 0, hashlib.sha256()
    while True:
        minibatch = source.next_minibatch(32)
        if not minibatch:
            return minibatches, samples, digest.hexdigest()[:16]
        minibatches += 1
        samples += minibatch[source.streams.x].num_samples
        for name in ('x', 's'):
            data = minibatch[source.streams[name]]
            for sequence in data.as_sequences(inputs[name]):
                dense = sequence.toarray() if hasattr(sequence, 'toarray') else sequence
                digest.update(repr((name, dense.shape, data.end_of_sweep)).encode())
                digest.update(dense.astype('float32').tobytes())
        digest.update(repr(sorted(source.get_checkpoint_state().items())).encode())


def main():
    warnings.simplefilter('ignore')   # CNTK warns of newer systems
    folder = tempfile.mkdtemp(prefix='cntk-reader-trial-')
    try:
        path = os.path.join(folder, 'data.ctf')
        write(path)
        counts = read(path)
    finally:
        shutil.rmtree(folder)
    with open('/proc/self/maps') as maps:
        loaded = sorted({line.split(None, 5)[5].rstrip('\n') for line in maps if 'Cntk.Composite' in line})
    print('read by %s' % ', '.join(loaded))
    print('%d minibatches, %d samples, digest %s' % counts)


if __name__ == '__main__':
    sys.exit(main())
