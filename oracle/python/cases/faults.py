"""Errors: of configurations, of data, of callers."""

import data
from cases.text import text
from cntk.io import CTFDeserializer, StreamDef, StreamDefs
from recorder import case


def of(text):
    path = data.write('data.ctf', text)
    return CTFDeserializer(path, StreamDefs(x=StreamDef('x', 2)))


@case(short=True)
def fault_no_file(r):
    r.source([CTFDeserializer('none.ctf', StreamDefs(x=StreamDef('x', 2)))])


@case
def fault_empty_file(r):
    r.read(r.source([of('')], randomize=False, max_sweeps=1), 4, 2)


@case
def fault_too_many_values(r):
    r.read(r.source([of('|x 1 2\n|x 1 2 3\n|x 3 4\n')], randomize=False, max_sweeps=1), 1, 4)


@case
def fault_not_a_number(r):
    r.read(r.source([of('|x 1 2\n|x 1 b\n|x 3 4\n')], randomize=False, max_sweeps=1), 1, 4)


@case
def fault_errors_that_are_allowed(r):
    data.write('data.ctf', '|x 1 2\n|x 1 b\n|x 3 4\n|x 5\n|x 6 7\n')
    section = {'type': 'CNTKTextFormatDeserializer', 'file': 'data.ctf', 'maxErrors': 10,
               'input': {'x': {'dim': 2, 'format': 'dense'}}}
    r.read(r.source([section], randomize=False, max_sweeps=1), 1)


@case
def fault_without_dim(r):
    data.samples('data.ctf')
    r.source([{'type': 'CNTKTextFormatDeserializer', 'file': 'data.ctf', 'input': {'x': {'format': 'dense'}}}])


@case
def fault_unknown_format(r):
    data.samples('data.ctf')
    r.source([{'type': 'CNTKTextFormatDeserializer', 'file': 'data.ctf', 'input': {'x': {'dim': 2, 'format': 'thin'}}}])


@case
def fault_unknown_type(r):
    r.source([{'type': 'NoSuchDeserializer', 'file': 'data.ctf'}])


@case
def fault_unknown_module(r):
    r.source([{'type': 'Mine', 'module': 'NoSuchModule', 'file': 'data.ctf'}])


@case(short=True)
def fault_size_zero(r):
    source = r.source([text()])
    r.read(source, 0, 1)
    r.read(source, 4, 1)


@case
def fault_sweeps_and_samples(r):
    r.source([text()], max_sweeps=1, max_samples=10)


@case
def fault_both_windows(r):
    r.source([text()], randomization_window_in_chunks=3, randomization_window_in_samples=10)


@case
def fault_frames_and_truncation(r):
    r.source([text()], frame_mode=True, truncation_length=3)


@case
def fault_max_samples_zero(r):
    r.read(r.source([text()], max_samples=0), 4, 2)


@case
def fault_max_sweeps_zero(r):
    r.read(r.source([text()], max_sweeps=0), 4, 2)


@case(short=True)
def fault_state_without_position(r):
    source = r.source([text()], max_sweeps=1)
    r.read(source, 8, 2)
    r.attempt('restore', lambda: source.restore_from_checkpoint({'position': 3}))
    r.read(source, 8, 2)


@case(differs='CNTK does not check the rank', line=1, ours='"error": "ValueError"')
def fault_rank_too_large(r):
    r.read(r.source([text()], max_sweeps=1), 8, 2, workers=2, rank=2)


@case
def fault_view_of_the_last_minibatch(r):
    source = r.source([text()], max_sweeps=1)
    minibatch = source.next_minibatch(8)
    view = minibatch[source.streams.x].as_sequences()
    r.line(step='view', first=view[0].tolist())
    del minibatch
    r.read(source, 8, 2)
