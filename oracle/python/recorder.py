"""Prints the data that a case reads, bit for bit: one JSON line for each step."""

import json
import os

import cntk
import numpy as np
from cntk.internal.utils import _py_dict_to_cntk_dict
from cntk.io import MinibatchSource

CASES = []

# This version differs from its successors in some ways.
OLD = cntk.__version__ == '2.5.1'

# Sources are kept until the process ends: CNTK crashes if one is destroyed while it prefetches from
# Python.
KEPT = []


def case(function=None, **about):
    """Registers a case: a function that takes a Recorder.

    short=True: it belongs to the short form of the comparison. needs='images': it takes CNTK's image module.
    dies='why': CNTK's process ends or hangs; everything before is the same.
    crashes='why': a module that is CNTK's on both sides may end the process.
    differs='why': the two sides differ, deliberately, and one of these says where:
        only='state': in this member of the lines and nowhere else;
        line=1, ours='text': from this line on, the first being 0, where this project's has the text.
    """
    if about.get('differs'):
        rules = [rule for rule in ('only', 'line') if rule in about]
        assert len(rules) == 1 and ('line' in about) == ('ours' in about), 'a difference needs one rule'
    def register(function):
        CASES.append((function, about))
        return function
    return register(function) if function else register


class Ended(Exception):
    """There is nothing left to do in this case."""


def first_line(error):
    """Returns the first line of an exception's text, without the folder of the case, which differs between the sides."""
    return str(error).split('\n')[0].replace(os.getcwd() + '/', '')


class Recorder:
    """Reads for one case. Its folder is the process's, and empty at first."""

    def __init__(self, print_line):
        self._print = print_line

    def line(self, **values):
        self._print(json.dumps(values, sort_keys=True))

    def attempt(self, what, action):
        """Calls `action`; an exception becomes a line. Returns the result, or None."""
        try:
            return action()
        except Ended:
            raise
        except Exception as error:      # any class: it is compared
            self.line(step=what, error=type(error).__name__, message=first_line(error))
            return None

    def source(self, deserializers, **options):
        """Creates a source from deserializers or bare dictionaries; if that fails, the case ends."""
        made = [_py_dict_to_cntk_dict(d) if type(d) is dict else d for d in deserializers]
        source = self.attempt('create', lambda: MinibatchSource(made, **options))
        if source is None:
            raise Ended()
        KEPT.append(source)
        infos = sorted(source.stream_infos(), key=lambda info: info.m_name)
        # Generated stream names differ from process to process.
        named = [info for info in infos if not info.m_name.startswith('_ignore')]
        self.line(step='create', streams=[describe(info) for info in named])
        return source

    def read(self, source, size, count=200, workers=1, rank=0):
        """Reads at most `count` minibatches, or to the end. Returns False after an error."""
        for _ in range(count):
            read = self.attempt('read', lambda: [source.next_minibatch(
                size, num_data_partitions=workers, partition_index=rank)])
            if read is None:
                return False
            minibatch = read.pop()
            streams = {info.m_name: contents(minibatch[info], info) for info in minibatch
                       if not info.m_name.startswith('_ignore')}
            self.line(step='read', streams=streams, state=state_of(source))
            if not minibatch:
                break
            del minibatch
        return True

    def state(self, source):
        state = source.get_checkpoint_state()
        self.line(step='state', state=plain(state))
        return state

    def restore(self, source, state):
        self.attempt('restore', lambda: source.restore_from_checkpoint(state))
        self.line(step='restored', state=state_of(source))


def describe(info):
    return {'name': info.m_name, 'id': info.m_id, 'sparse': info.m_storage_format != 0,
            'shape': list(info.m_sample_layout.dimensions()) if info.m_sample_layout.rank() else [],
            'defines': info.m_defines_mb_size}


def plain(state):
    return {key: state[key] for key in state.keys()}


def state_of(source):
    return plain(source.get_checkpoint_state())


def contents(data, info):
    """Returns all contents of a minibatch in one stream."""
    result = {'sequences': data.num_sequences, 'samples': data.num_samples, 'sweep_end': bool(data.end_of_sweep),
              'shape': list(data.shape)}
    if data.num_samples == 0:
        return result
    try:
        return dict(result, **unpacked(data, info))
    except RuntimeError as error:
        if 'truncated' not in str(error):
            raise
        # CNTK cannot unpack truncated sequences, but networks accept them.
        return dict(result, sum=total(data, info))


def unpacked(data, info):
    """Returns values and the mask of gaps. The contents of gaps are undefined, so they are zeroed."""
    result = {}
    try:
        mask = np.asarray(data.mask)
        result['mask'] = mask.tolist()
    except AttributeError:      # without gaps there is no mask
        mask = None
    if data.is_sparse:
        variable = cntk.sequence.input_variable(info.m_sample_layout.dimensions(), is_sparse=True)
        result['values'] = [triplets(sequence) for sequence in data.as_sequences(variable)]
    else:
        values = np.array(data.data.asarray())
        if mask is not None and info.m_name == 'lattice':
            # The bytes of each lattice are contiguous, and the bytes between them are undefined.
            # CNTK's arrays present them as if they were steps of a minibatch: step by step, and
            # sequence by sequence within a step.
            by_step = np.ascontiguousarray(values.swapaxes(0, 1))
            by_step.reshape(mask.size, -1)[mask.reshape(-1) == 0] = 0
            values = by_step.swapaxes(0, 1)
        elif mask is not None:
            values[mask == 0] = 0
        result['values'] = values.tolist()
    return result


def total(data, info):
    """Returns the sum of all values, computed by a network."""
    variable = cntk.sequence.input_variable(info.m_sample_layout.dimensions())
    return float(cntk.reduce_sum(variable, axis=cntk.Axis.all_axes()).eval({variable: data}))


def triplets(matrix):
    matrix = matrix.tocoo()
    return sorted([int(row), int(column), float(value)]
                  for row, column, value in zip(matrix.row, matrix.col, matrix.data))


def memory():
    """Returns the resident memory of this process in bytes."""
    with open('/proc/self/statm') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


def modules():
    """Returns the files of the reader modules loaded in this process."""
    with open('/proc/self/maps') as maps:
        return sorted({line.split()[-1] for line in maps if 'Cntk.Composite' in line or 'Cntk.Deserializers' in line})
