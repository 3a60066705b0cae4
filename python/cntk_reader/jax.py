"""A loader for JAX: minibatches as arrays, distributed among processes.

```python
from cntk_reader.jax import Loader

loader = Loader(source, minibatch_size=256)
for epoch in range(10):
    for minibatch in loader:
        state = step(state, minibatch["features"], minibatch["labels"])
```

Its state methods are those of Grain's iterators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar, cast, overload

import jax

from ._epoch import LoaderState
from ._explain import explained
from ._minibatch import Minibatch
from ._rules import FLAG, FUNCTION, POSITIVE, TABLE, WHOLE, Is, Maybe
from ._source import MinibatchSource, SourceOrFactory, is_source, opened
from ._types import Json

if TYPE_CHECKING:
    from jax.experimental.sparse import BCSR

#: The result of ``convert``, which the loop gets.
Item = TypeVar("Item")


@explained("to_arrays(minibatch)", minibatch=Is((Minibatch,), "a Minibatch"))
def to_arrays(minibatch: Minibatch) -> dict[str, jax.Array | BCSR]:
    """Returns the streams by name, converted by :meth:`StreamMinibatch.to_jax`.

    Dense streams are arrays, sparse ones BCSR matrices.
    """
    return {name: stream.to_jax() for name, stream in minibatch.items()}


@explained(
    "Loader(source, minibatch_size=256)",
    source=is_source,
    minibatch_size=Maybe(POSITIVE),
    samples=Maybe(POSITIVE),
    convert=FUNCTION,
)
class Loader(Generic[Item]):
    """Minibatches of a source, each converted by ``convert``. An iteration is an epoch.

    An epoch is a sweep, or ``samples``. ``source`` is a :class:`MinibatchSource`, or a function
    without arguments that returns one and is called by the reading process. ``minibatch_size`` is
    in samples of all processes; its default is the source's. The processes are those of
    ``jax.distributed`` (``jax.process_index()`` of ``jax.process_count()``), unless the source has
    its own ``workers``. Everything is delivered exactly once. A process may get more minibatches
    than another, unless the source has ``lockstep=True``: then ``convert`` gets a minibatch without
    data if a process's share is empty.

    ``convert`` gets a :class:`Minibatch` and returns the item for the loop. Minibatches of whole
    sequences differ in shape, and JAX compiles a function once per shape, so pad them to a few
    lengths.
    """

    @overload
    def __init__(
        self: Loader[dict[str, jax.Array | BCSR]],
        source: SourceOrFactory,
        minibatch_size: int | None = None,
        *,
        samples: int | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        source: SourceOrFactory,
        minibatch_size: int | None = None,
        *,
        samples: int | None = None,
        convert: Callable[[Minibatch], Item],
    ) -> None: ...

    def __init__(
        self,
        source: SourceOrFactory,
        minibatch_size: int | None = None,
        *,
        samples: int | None = None,
        convert: Callable[[Minibatch], Item] | Callable[[Minibatch], dict[str, jax.Array | BCSR]] = to_arrays,
    ) -> None:
        self._given = source
        self._minibatch_size = minibatch_size
        self._samples = samples
        self._convert = cast("Callable[[Minibatch], Item]", convert)
        self._source: MinibatchSource | None = None
        self._next: int | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_source": None}

    @property
    def source(self) -> MinibatchSource:
        """The source of this process, opened on first use: for its sizes, streams and progress."""
        if self._source is None or not self._source.is_of_this_process:
            self._source = opened(self._given)
            if self._source.workers == 1:
                self._source.rank, self._source.workers = jax.process_index(), jax.process_count()
            if self._minibatch_size is not None:
                self._source.minibatch_size = self._minibatch_size
        return self._source

    @explained("loader.set_epoch(3)", epoch=WHOLE)
    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration deliver this epoch, from 0, instead of the one that follows."""
        self._next = epoch

    def __iter__(self) -> Iterator[Item]:
        index, self._next = self._next, None
        for minibatch in self.source._epoch(self._samples, index):
            yield self._convert(minibatch)

    def get_state(self) -> dict[str, Json]:
        """Returns the state after the last minibatch: see :meth:`MinibatchSource.state_dict`."""
        return LoaderState(self._next, self.source.state_dict()).encode()

    @explained("loader.set_state(state)", state=TABLE, allow_changed_values=FLAG)
    def set_state(self, state: Mapping[str, object], *, allow_changed_values: bool = False) -> None:
        """Makes the next iteration deliver the rest of the epoch in which the state was taken.

        For the state of another number of processes, and for ``allow_changed_values``, see
        :meth:`MinibatchSource.load_state_dict`.
        """
        decoded = LoaderState.decode(state)
        self.source.load_state_dict(decoded.source, allow_changed_values=allow_changed_values)
        self._next = decoded.next

    def state_dict(self) -> dict[str, Json]:
        """Same as :meth:`get_state`, under torchdata's name."""
        return self.get_state()

    @explained("loader.load_state_dict(state)", state_dict=TABLE)
    def load_state_dict(self, state_dict: Mapping[str, object]) -> None:
        """Same as :meth:`set_state`, under torchdata's name."""
        self.set_state(state_dict)
