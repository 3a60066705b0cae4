"""Text data, sample by sample: sizes, order, workers, epochs, checkpoints."""

import cntk
import data
from cntk.io import CTFDeserializer, INFINITELY_REPEAT, FULL_DATA_SWEEP, StreamDef, StreamDefs
from recorder import case


def text(count=50, seed=1):
    """A deserializer of generated samples: x and y dense, s sparse."""
    path = data.samples('samples%d.ctf' % seed, count, seed)
    return CTFDeserializer(path, StreamDefs(
        x=StreamDef('x', 2), y=StreamDef('y', 3), s=StreamDef('s', 11, is_sparse=True)))


@case
def text_in_order(r):
    r.read(r.source([text()], randomize=False, max_sweeps=1), 7)


@case(short=True)
def text_in_order_two_sweeps(r):
    r.read(r.source([text(23)], randomize=False, max_sweeps=2), 5)


@case(short=True)
def text_randomized(r):
    r.read(r.source([text()], max_sweeps=3), 8)


@case
def text_seed(r):
    r.read(r.source([text()], randomization_seed=12345, max_sweeps=2), 16)


@case(short=True)
def text_window_of_samples(r):
    source = r.source([text(90)], randomization_window_in_chunks=0, randomization_window_in_samples=20, max_sweeps=2)
    r.read(source, 9)


@case
def text_window_of_chunks(r):
    r.read(r.source([text(90)], randomization_window_in_chunks=1, max_sweeps=2), 9)


@case
def text_small_chunks(r):
    data.samples('small.ctf', 120, 7)
    section = {'type': 'CNTKTextFormatDeserializer', 'file': 'small.ctf', 'chunkSizeInBytes': 512,
               'input': {'x': {'dim': 2, 'format': 'dense'}, 's': {'dim': 11, 'format': 'sparse'}}}
    r.read(r.source([section], randomization_window_in_chunks=2, max_sweeps=2), 10)


@case
def text_minibatch_of_one(r):
    r.read(r.source([text(12)], max_sweeps=1), 1)


@case
def text_minibatch_of_more_than_all(r):
    r.read(r.source([text(12)], max_sweeps=2), 1000)


@case(short=True)
def text_max_samples(r):
    r.read(r.source([text(20)], max_samples=47), 6)


@case
def text_one_sweep_by_samples(r):
    r.read(r.source([text(20)], max_samples=FULL_DATA_SWEEP), 6)


@case
def text_endless(r):
    r.read(r.source([text(9)], max_samples=INFINITELY_REPEAT), 4, 20)


@case
def text_two_workers(r):
    for rank in range(2):
        r.read(r.source([text()], max_sweeps=2), 10, workers=2, rank=rank)


@case(short=True)
def text_three_workers(r):
    for rank in range(3):
        r.read(r.source([text(41)], max_sweeps=1), 8, workers=3, rank=rank)


@case
def text_three_workers_in_order(r):
    for rank in range(3):
        r.read(r.source([text(41)], randomize=False, max_sweeps=2), 8, workers=3, rank=rank)


@case
def text_change_of_size(r):
    source = r.source([text()], max_sweeps=3)
    for size in (4, 9, 2, 30):
        r.read(source, size, 3)
    r.read(source, 7)


@case(short=True)
def text_change_of_partition(r):
    source = r.source([text()], max_sweeps=3)
    r.read(source, 8, 3, workers=1)
    r.read(source, 8, 3, workers=2, rank=1)
    r.read(source, 8, 3, workers=2, rank=0)
    r.read(source, 8, 3, workers=3, rank=2)
    r.read(source, 8)


@case(short=True)
def text_checkpoint(r):
    source = r.source([text()], max_sweeps=3)
    r.read(source, 8, 4)
    state = r.state(source)
    r.read(source, 8, 5)
    r.restore(source, state)
    r.read(source, 8)


@case
def text_checkpoint_at_end(r):
    source = r.source([text(20)], max_sweeps=2)
    r.read(source, 8, 2)
    state = r.state(source)
    r.read(source, 8)
    r.restore(source, state)
    r.read(source, 8)


@case
def text_checkpoint_of_another_source(r):
    first = r.source([text()], max_sweeps=3)
    r.read(first, 8, 9)
    second = r.source([text()], max_sweeps=3)
    r.read(second, 8, 1)
    r.restore(second, r.state(first))
    r.read(second, 8)


@case(short=True)
def text_restore_before_reading(r):
    first = r.source([text()], max_sweeps=3)
    r.read(first, 8, 5)
    second = r.source([text()], max_sweeps=3)
    second.restore_from_checkpoint(first.get_checkpoint_state())
    r.read(second, 8)


@case
def text_restore_with_other_workers(r):
    first = r.source([text()], max_sweeps=3)
    r.read(first, 8, 5)
    state = r.state(first)
    for rank in range(2):
        second = r.source([text()], max_sweeps=3)
        second.restore_from_checkpoint(state)
        r.read(second, 8, 6, workers=2, rank=rank)


@case
def text_current_position(r):
    source = r.source([text()], max_sweeps=2)
    r.read(source, 8, 3)
    source.current_position = {'minibatchSourcePosition': 70}
    r.read(source, 8)


@case(short=True)
def text_frame_mode(r):
    r.read(r.source([text()], frame_mode=True, max_sweeps=2), 9)


@case
def text_renamed_streams(r):
    path = data.samples('samples.ctf')
    streams = StreamDefs(b=StreamDef('x', 2), A=StreamDef('y', 3), c=StreamDef('s', 11, is_sparse=True))
    r.read(r.source([CTFDeserializer(path, streams)], max_sweeps=1), 9)


@case
def text_one_stream_of_three(r):
    path = data.samples('samples.ctf')
    r.read(r.source([CTFDeserializer(path, StreamDefs(y=StreamDef('y', 3)))], max_sweeps=1), 9)


@case(short=True)
def text_numbers(r):
    values = ['0', '-0', '+1', '1.', '-0.25', '1e3', '1E-3', '1e+2', '123456789', '0.000001234', '3.4e38', '1e-40',
              '16777217', '0.1', '2.5e-45', '99999999999999999999', '0.30000001192092896', '-7.125e-2']
    path = data.write('numbers.ctf', ''.join('|x %s\n' % value for value in values))
    r.read(r.source([CTFDeserializer(path, StreamDefs(x=StreamDef('x', 1)))], randomize=False, max_sweeps=1), 4)


@case
def text_comments_and_line_ends(r):
    path = data.write('odd.ctf', '|x 1 2 |# a comment\r\n|x 3 4\t|# another |y 1\n|x 5 6 |unknown 7\n|x 7 8')
    r.read(r.source([CTFDeserializer(path, StreamDefs(x=StreamDef('x', 2)))], randomize=False, max_sweeps=1), 2)


@case(short=True)
def text_input_map(r):
    source = r.source([text()], max_sweeps=1)
    x, s = cntk.input_variable(2), cntk.input_variable(11, is_sparse=True)
    dense = cntk.element_times(x, 2)
    for _ in range(3):
        minibatch = source.next_minibatch(8, input_map={x: source.streams.x, s: source.streams.s})
        r.line(step='eval', values=dense.eval({x: minibatch[x]}).tolist(), samples=minibatch[s].num_samples)
