"""Reads from a deserializer in Python, and exits while the source still exists and chunks are still loaded ahead.

usage: read_python_and_exit.py FOLDER KIND

plain: one array a chunk. sequences: a list of arrays. slow: chunks take long. raise: get_chunk raises, and the program goes on.
exit: sys.exit in a function. exception: an exception ends the program. del: nothing refers to the source any more.
"""

import sys
import time

import numpy as np
from cntk.io import MinibatchSource, StreamInformation, UserDeserializer


class Chunks(UserDeserializer):
    def __init__(self, kind):
        super(Chunks, self).__init__()
        self.kind = kind

    def stream_infos(self):
        return [StreamInformation('x', 0, 'dense', np.float32, (3,))]

    def num_chunks(self):
        return 8

    def get_chunk(self, chunk_id):
        if self.kind == 'raise' and chunk_id == 3:
            raise ValueError('on purpose')
        if self.kind == 'slow':
            time.sleep(0.2)
        if self.kind == 'sequences':
            return {'x': [np.full((5, 3), i, np.float32) for i in range(100)]}
        return {'x': np.arange(300, dtype=np.float32).reshape(100, 3)}


def main(_, kind):
    source = MinibatchSource([Chunks(kind)])
    for _ in range(100 if kind == 'raise' else 1):
        try:
            minibatch = source.next_minibatch(64)
        except Exception as error:      # any class: the program goes on
            print(str(error).split('\n')[0])
            break
    else:
        print([(info.m_name, values.num_samples) for info, values in minibatch.items()])
    sys.stdout.flush()
    if kind == 'exit':
        sys.exit()
    if kind == 'exception':
        raise ValueError('on purpose')
    if kind == 'del':
        del minibatch, source


if __name__ == '__main__':
    main(*sys.argv[1:])
