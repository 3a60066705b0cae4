"""Runs programs written for CNTK's Python package: the names of ``cntk.io`` in CNTK 2.7.

```python
import cntk_reader.cntk as cntk_io                       # instead of: import cntk.io as cntk_io

source = cntk_io.MinibatchSource([deserializer], randomize=False, max_sweeps=1)
minibatch = source.next_minibatch(64)
minibatch[source.streams.features].data.asarray()
```

New programs should use :mod:`cntk_reader` itself. This is a thin layer over it, whose sources have
the same members.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _source
from .._configuration import STREAMS, CBFDeserializer, CTFDeserializer, StreamDef, StreamDefs, Value
from .._epoch import STATE
from .._explain import declares, explained
from .._images import Base64ImageDeserializer, ImageDeserializer
from .._minibatch import StreamInformation as _StreamInformation
from .._process import ERROR, INFO, WARNING
from .._recipe import DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS, AnyDeserializer
from .._rules import ERRORS, FLAG, PATH, POSITIVE, SEED, TEXT, WHOLE, Is, Maybe, Whole, Within
from .._source import State
from .._speech import HTKFeatureDeserializer, HTKMLFBinaryDeserializer, LatticeDeserializer
from .._speech import HTKMLFDeserializer as _HTKMLFDeserializer
from .._user import UserDeserializer
from . import transforms
from ._values import MinibatchData, StreamInformation

__all__ = [
    "Base64ImageDeserializer",
    "CBFDeserializer",
    "CTFDeserializer",
    "DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS",
    "FULL_DATA_SWEEP",
    "HTKFeatureDeserializer",
    "HTKMLFBinaryDeserializer",
    "HTKMLFDeserializer",
    "INFINITELY_REPEAT",
    "ImageDeserializer",
    "LatticeDeserializer",
    "MinibatchData",
    "MinibatchSource",
    "StreamDef",
    "StreamDefs",
    "StreamInformation",
    "TraceLevel",
    "UserDeserializer",
    "transforms",
]

#: For ``max_samples`` and ``max_sweeps``: no limit.
INFINITELY_REPEAT = 2**64 - 1
#: For ``max_samples``: one sweep.
FULL_DATA_SWEEP = 2**64 - 2


class TraceLevel(enum.IntEnum):
    """The verbosity of a source's log."""

    Error = ERROR
    Warning = WARNING
    Info = INFO


@explained(
    'HTKMLFDeserializer("states.txt", StreamDefs(labels=StreamDef(shape=132, mlf="train.mlf")))',
    label_mapping_file=Maybe(PATH),
    streams=STREAMS,
    phoneBoundaries=FLAG,
)
def HTKMLFDeserializer(
    label_mapping_file: str | None,
    streams: Mapping[str, StreamDef],
    phoneBoundaries: bool = False,
) -> _HTKMLFDeserializer:
    """Returns a deserializer of frame labels as text: see
    :class:`cntk_reader.HTKMLFDeserializer`."""
    return _HTKMLFDeserializer(label_mapping_file, streams, phoneBoundaries)


def _no_device(name: str, value: object) -> None:
    if value is not None:
        raise TypeError(f"{name} is {value!r}, but minibatches are in CPU memory: omit it.")


def _name(stream: str | _StreamInformation) -> str:
    return stream if isinstance(stream, str) else stream.name


def _limited(samples: int | None, sweeps: int | None) -> tuple[int | None, int | None]:
    """Converts CNTK's limits to ``max_samples`` and ``max_sweeps`` of a ``MinibatchSource``."""
    sweeps = None if sweeps == INFINITELY_REPEAT else sweeps
    if samples == FULL_DATA_SWEEP and sweeps is None:
        return None, 1
    return None if samples == INFINITELY_REPEAT else samples, sweeps


@explained(
    "MinibatchSource([deserializer], randomize=False, max_sweeps=1)",
    deserializers=Within("in compose"),
    max_samples=Maybe(WHOLE),
    max_sweeps=Maybe(WHOLE),
    randomization_window_in_chunks=Maybe(WHOLE),
    randomization_window_in_samples=WHOLE,
    randomization_seed=SEED,
    trace_level=Whole(0, 2),
    multithreaded_deserializer=Maybe(FLAG),
    frame_mode=FLAG,
    truncation_length=WHOLE,
    randomize=FLAG,
    max_errors=ERRORS,
)
class MinibatchSource(_source.MinibatchSource):
    """Delivers minibatches like ``cntk.io.MinibatchSource``, with its arguments in its order."""

    _stream_class = StreamInformation

    def __init__(
        self,
        deserializers: AnyDeserializer | Sequence[AnyDeserializer],
        max_samples: int | None = INFINITELY_REPEAT,
        max_sweeps: int | None = INFINITELY_REPEAT,
        randomization_window_in_chunks: int | None = None,
        randomization_window_in_samples: int = 0,
        randomization_seed: int = 0,
        trace_level: int = WARNING,
        multithreaded_deserializer: bool | None = None,
        frame_mode: bool = False,
        truncation_length: int = 0,
        randomize: bool = True,
        max_errors: int = 0,
    ) -> None:
        samples, sweeps = _limited(max_samples, max_sweeps)
        options: dict[str, Value] = {}
        if multithreaded_deserializer is not None:
            options["multiThreadedDeserialization"] = multithreaded_deserializer
        super().__init__(
            deserializers,
            max_samples=samples,
            max_sweeps=sweeps,
            randomization_window_in_chunks=randomization_window_in_chunks,
            randomization_window_in_samples=randomization_window_in_samples,
            randomization_seed=randomization_seed,
            trace_level=int(trace_level),
            frame_mode=frame_mode,
            truncation_length=truncation_length,
            randomize=randomize,
            max_errors=max_errors,
            options=options,
        )

    def stream_infos(self) -> list[StreamInformation]:
        """Returns the streams, by number."""
        return [info for info in self.streams.values() if isinstance(info, StreamInformation)]

    @explained("source.stream_info('features')", name=TEXT)
    def stream_info(self, name: str) -> StreamInformation:
        """Returns the stream of this name."""
        return self[name]

    def __getitem__(self, name: str) -> StreamInformation:
        info = self.streams[name]
        assert isinstance(info, StreamInformation)
        return info

    @declares(
        minibatch_size_in_samples=POSITIVE,
        input_map=Maybe(Is((Mapping,), "a dictionary")),
        device=_no_device,
        num_data_partitions=Maybe(POSITIVE),
        partition_index=Maybe(WHOLE),
    )
    def next_minibatch(  # type: ignore[override]
        self,
        minibatch_size_in_samples: int,
        input_map: Mapping[Any, str | _StreamInformation] | None = None,
        device: None = None,
        num_data_partitions: int | None = None,
        partition_index: int | None = None,
    ) -> dict[Any, MinibatchData]:
        """Returns the next minibatch: its data by stream, or by the keys of ``input_map``.

        At the end of the data it is empty.
        """
        _no_device("device", device)
        if input_map is not None and not isinstance(input_map, Mapping):
            raise TypeError(f"input_map must be a dictionary, not {input_map!r}.")
        keys = {key: self.streams[_name(stream)].name for key, stream in (input_map or {}).items()}
        minibatch = super().next_minibatch(minibatch_size_in_samples, workers=num_data_partitions, rank=partition_index)
        if input_map is None:
            return _Minibatch({part.info: MinibatchData(part) for part in minibatch.values()})
        return {key: MinibatchData(minibatch[name]) for key, name in keys.items()} if minibatch else {}

    def get_checkpoint_state(self) -> dict[str, int]:
        """Returns CNTK's state: see :meth:`cntk_reader.MinibatchSource.cntk_state`."""
        return self.cntk_state()

    @explained("source.restore_from_checkpoint(state)", checkpoint=STATE)
    def restore_from_checkpoint(self, checkpoint: State) -> None:
        """Restores a state: see :meth:`cntk_reader.MinibatchSource.load_state_dict`."""
        self.load_state_dict(checkpoint)

    @property
    def current_position(self) -> dict[str, int]:
        """The state, to be read and to be set."""
        return self.get_checkpoint_state()

    @current_position.setter
    def current_position(self, state: State) -> None:
        self.restore_from_checkpoint(state)

    def is_infinite(self) -> bool:
        """Returns whether the delivered data are unlimited."""
        return not self._limits.has_end


class _Minibatch(dict[Any, MinibatchData]):
    """Data by stream. A stream whose shape was not known when it was described is looked up by
    name."""

    def __missing__(self, stream: Any) -> MinibatchData:
        name = getattr(stream, "name", stream)
        for info, data in self.items():
            if info.name == name:
                return data
        raise KeyError(stream)
