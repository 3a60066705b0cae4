"""Single calls on a source in the middle of its data, with the rest before and after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cntk_reader import CTFDeserializer, MinibatchSource, ReaderError, StreamDef, StreamDefs, StreamMinibatch, mount

from .operations import STREAMS, TEXT, Place, open_text, values
from .users import Memory, Rows


def rest(source: MinibatchSource) -> list[list[list[float]]]:
    """Returns the remaining minibatches."""
    found = []
    while minibatch := source.next_minibatch():
        found.append(values(minibatch))
        if len(found) > 20:
            raise AssertionError("The data have no end.")
    return found


@dataclass
class Held:
    """A source in the middle of its data, and what else a step needs."""

    source: MinibatchSource
    extra: Any = None


@dataclass(frozen=True)
class Step:
    """A call on a source. If it fails, the rest must be that of before or after the call."""

    name: str
    begin: Callable[[Place], Held]
    call: Callable[[Held], object]
    #: The remaining minibatches before and after the call.
    before: object
    after: object

    def problem(self, place: Place) -> str | None:
        """Makes the call. Returns None if the rest is right."""
        held = self.begin(place)
        self.call(held)
        found = left(held.source)
        held.source.close()
        return None if found == self.after else f"{found!r} is left instead of {self.after!r}"


def left(source: MinibatchSource) -> object:
    """Returns the remaining minibatches, or ``"closed"``."""
    try:
        return rest(source)
    except ReaderError as error:
        if error.kind == "state" and "closed" in str(error):
            return "closed"
        raise


#: All steps by name.
STEPS: dict[str, Step] = {}


def step(begin: Callable[[Place], Held], before: object, after: object) -> Callable[..., Callable[[Held], object]]:
    """Registers a function as a step."""

    def add(call: Callable[[Held], object]) -> Callable[[Held], object]:
        name = call.__name__
        STEPS[name] = Step(name, begin, call, before, after)
        return call

    return add


#: The minibatches of the user's deserializer, of two samples.
ROWS = [[[0.0], [2.0]], [[4.0], [6.0]], [[8.0], [10.0]]]

#: The minibatches of a mounted file, of five samples.
MOUNTED = [[[float(5 * part + place)] for place in range(5)] for part in range(2)] + [[[10.0], [11.0], [12.0]]]


def at_start(place: Place) -> Held:
    """Nothing was read."""
    return Held(open_text(place))


def in_middle(place: Place) -> Held:
    """One minibatch was read."""
    source = open_text(place)
    source.next_minibatch()
    return Held(source)


def with_state(place: Place) -> Held:
    """A new source, and a state after two minibatches."""
    source = in_middle(place).source
    source.next_minibatch()
    state = source.state_dict()
    source.close()
    return Held(open_text(place), state)


def in_middle_with_state(place: Place) -> Held:
    """One minibatch was read, and the state is from after two."""
    held = with_state(place)
    held.source.next_minibatch()
    return held


def in_middle_with_first_state(place: Place) -> Held:
    """One minibatch was read, and the state is from before it."""
    source = open_text(place)
    state = source.state_dict()
    source.next_minibatch()
    return Held(source, state)


def in_middle_with_state_of_another_size(place: Place) -> Held:
    """One minibatch was read, and the state is from after a larger one."""
    with open_text(place) as source:
        source.next_minibatch(6)
        state = source.state_dict()
    return Held(in_middle(place).source, state)


def in_middle_with_restored_state_of_cntk(place: Place) -> Held:
    """One minibatch was read, and the state is from a source that has just loaded a CNTK state."""
    held = with_states_of_cntk(place)
    with open_text(place) as source:
        source.load_state_dict(held.extra)
        held.extra = source.state_dict()
    return held


def with_states_of_cntk(place: Place) -> Held:
    """One minibatch was read, and the CNTK state is from after two."""
    held = in_middle(place)
    source = in_middle(place).source
    source.next_minibatch()
    held.extra = source.cntk_state()
    source.close()
    return held


def of_user(place: Place) -> Held:
    """A user's deserializer in the middle of its data."""
    options = {"minibatch_size": 2, "randomize": False, "max_sweeps": 1}
    source = MinibatchSource(Rows(), **options)  # type: ignore[arg-type]
    source.next_minibatch()
    return Held(source)


def of_mounted_files(place: Place) -> Held:
    """A file of a user's file system in the middle of its data."""
    mount("edges-step", Memory())
    data = CTFDeserializer("edges-step://", StreamDefs(x=StreamDef(shape=1)))
    options = {"minibatch_size": 5, "randomize": False, "max_sweeps": 1}
    source = MinibatchSource(data, **options)  # type: ignore[arg-type]
    source.next_minibatch()
    return Held(source)


def with_minibatch(place: Place) -> Held:
    """One minibatch was read and kept."""
    source = open_text(place, *STREAMS)
    return Held(source, source.next_minibatch())


@step(at_start, TEXT, TEXT[1:])
def first_minibatch(held: Held) -> object:
    return held.source.next_minibatch()


@step(in_middle, TEXT[1:], TEXT[2:])
def next_minibatch(held: Held) -> object:
    return held.source.next_minibatch()


@step(in_middle, TEXT[1:], [TEXT[3][1:]])
def minibatch_of_another_size(held: Held) -> object:
    return held.source.next_minibatch(6)


@step(in_middle, TEXT[1:], TEXT[2:])
def minibatch_of_a_worker(held: Held) -> object:
    return held.source.next_minibatch(3, workers=1, rank=0)


@step(of_user, ROWS[1:], ROWS[2:])
def minibatch_of_a_user(held: Held) -> object:
    return held.source.next_minibatch()


@step(at_start, TEXT, TEXT)
def beginning_of_a_loop(held: Held) -> object:
    return iter(held.source)


@step(in_middle, TEXT[1:], TEXT[2:])
def step_of_a_loop(held: Held) -> object:
    return next(iter(held.source))


@step(at_start, TEXT, TEXT)
def first_epoch(held: Held) -> object:
    return next(held.source.epochs(3))


@step(in_middle, TEXT[1:], TEXT)
def certain_epoch(held: Held) -> object:
    return next(held.source.epochs(3, start=1))


@step(in_middle, TEXT[1:], TEXT[1:])
def state_dict(held: Held) -> object:
    return held.source.state_dict()


@step(of_mounted_files, MOUNTED[1:], MOUNTED[1:])
def state_dict_of_mounted_files(held: Held) -> object:
    return held.source.state_dict()


@step(of_mounted_files, MOUNTED[1:], "closed")
def close_mounted_files(held: Held) -> object:
    return held.source.close()


@step(in_middle, TEXT[1:], TEXT[1:])
def checkpoint(held: Held) -> object:
    return [held.source.checkpoint(), held.source.cntk_state()]


@step(with_state, TEXT, TEXT[2:])
def load_state_dict(held: Held) -> object:
    return held.source.load_state_dict(held.extra)


@step(in_middle_with_state, TEXT[1:], TEXT[2:])
def load_state_dict_in_the_middle(held: Held) -> object:
    return held.source.load_state_dict(held.extra)


@step(with_states_of_cntk, TEXT[1:], TEXT[2:])
def load_state_of_cntk(held: Held) -> object:
    return held.source.load_state_dict(held.extra)


@step(in_middle_with_first_state, TEXT[1:], TEXT)
def load_state_of_the_start(held: Held) -> object:
    return held.source.load_state_dict(held.extra)


@step(in_middle_with_state_of_another_size, TEXT[1:], TEXT[2:])
def load_state_of_another_size(held: Held) -> object:
    return held.source.load_state_dict(held.extra)


@step(in_middle_with_restored_state_of_cntk, TEXT[1:], TEXT[2:])
def load_state_with_state_of_cntk(held: Held) -> object:
    return held.source.load_state_dict(held.extra)


@step(in_middle, TEXT[1:], [[sequence for part in TEXT[1:] for sequence in part]])
def set_size(held: Held) -> object:
    held.source.minibatch_size = 100
    return held.source.minibatch_size


@step(in_middle, TEXT[1:], TEXT[1:])
def figures(held: Held) -> object:
    source = held.source
    return [source.sizes, source.members, source.progress, source.memory, source.has_numeric_keys]


@step(in_middle, TEXT[1:], TEXT[1:])
def reopen(held: Held) -> object:
    with held.source.reopen() as source:
        return source.next_minibatch()


@step(with_minibatch, TEXT[1:], TEXT[1:])
def forms(held: Held) -> object:
    minibatch = held.extra
    x: StreamMinibatch = minibatch["x"]
    return [x.padded(), x.as_list(), x.as_sequences(), minibatch["y"].indices(), repr(minibatch), "w" in minibatch]


@step(in_middle, TEXT[1:], "closed")
def close(held: Held) -> object:
    return held.source.close()


@step(of_user, ROWS[1:], "closed")
def close_with_user(held: Held) -> object:
    return held.source.close()


@step(in_middle, TEXT[1:], "closed")
def with_statement(held: Held) -> object:
    with held.source as source:
        return source.minibatch_size
