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

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Generic, TypeVar, Union, cast, overload

import jax
import numpy as np
from jax import numpy as jnp
from jax.experimental.sparse import BCSR

from ._batches import (
    Converter,
    Padding,
    Sparse,
    are_streams,
    check_convert,
    is_padding,
    is_sparse_form,
    unknown_numbers,
)
from ._epoch import LoaderState
from ._explain import explained
from ._given import SourceLike, given_source, is_source, opened
from ._minibatch import Minibatch, StreamMinibatch, to_jax_array
from ._rules import FLAG, FUNCTION, POSITIVE, TABLE, WHOLE, Maybe
from ._source import MinibatchSource
from ._types import Array, Json

#: The result of ``convert``, which the loop gets.
Item = TypeVar("Item")


#: An array, or a sparse matrix.
AnyArray = Union[jax.Array, BCSR]


class _ArrayConverter(Converter[AnyArray]):
    """Converts minibatches to arrays of JAX."""

    #: JAX narrows int64 by default.
    index = np.int32

    def from_array(self, array: Array) -> AnyArray:
        """Converts an array of NumPy."""
        return to_jax_array(array) if array.dtype == np.float32 and array.size else jnp.asarray(array)

    def from_stream(self, stream: StreamMinibatch) -> AnyArray:
        """Converts a stream in the minibatch's own layout."""
        return stream.to_jax()

    def empty_matrix(self, columns: int, dtype: np.dtype[np.generic]) -> AnyArray:
        """Returns a sparse matrix without rows."""
        none = jnp.zeros(0, jnp.int32)
        return BCSR((jnp.zeros(0, dtype), none, jnp.zeros(1, jnp.int32)), shape=(0, columns))


@explained(
    "Loader(source, minibatch_size=256)",
    source=is_source,
    minibatch_size=Maybe(POSITIVE),
    samples=Maybe(POSITIVE),
    sparse=is_sparse_form,
    padding=is_padding,
    sequences=Maybe(are_streams),
    convert=Maybe(FUNCTION),
)
class Loader(Generic[Item]):
    """Minibatches of a source as arrays. An iteration is an epoch.

    An epoch is a sweep, or ``samples``. ``source`` is a :class:`MinibatchSource`, a deserializer or
    a list of them, or a function without arguments that returns a source and is called by the
    reading process. ``minibatch_size`` is in samples of all processes; its default is the source's.
    The processes are those of ``jax.distributed`` (``jax.process_index()`` of
    ``jax.process_count()``), unless the source has its own ``workers``. Everything is delivered
    exactly once. A process may get more minibatches than another, unless the source has
    ``lockstep=True``: then the arrays have a batch of 0, and ``convert`` gets a minibatch without
    data, if a process's share is empty.

    An item is a dictionary of arrays by name of the stream. ``sparse``, ``padding`` and
    ``sequences`` are those of :class:`cntk_reader.torch.Dataset`, and so are the shapes; ids are
    int32, and ``"csr"`` is a ``BCSR`` matrix. ``convert`` gets a :class:`Minibatch` and returns
    another item for the loop. Minibatches of whole sequences differ in shape, and JAX compiles a
    function once per shape, so pad them to a few lengths.
    """

    @overload
    def __init__(
        self: Loader[dict[str, AnyArray]],
        source: SourceLike,
        minibatch_size: int | None = None,
        *,
        samples: int | None = None,
        sparse: Sparse = "ids",
        padding: Padding = 0,
        sequences: Collection[str] | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        source: SourceLike,
        minibatch_size: int | None = None,
        *,
        samples: int | None = None,
        convert: Callable[[Minibatch], Item],
    ) -> None: ...

    def __init__(
        self,
        source: SourceLike,
        minibatch_size: int | None = None,
        *,
        samples: int | None = None,
        sparse: Sparse = "ids",
        padding: Padding = 0,
        sequences: Collection[str] | None = None,
        convert: Callable[[Minibatch], Item] | None = None,
    ) -> None:
        self._given = given_source(source)
        self._minibatch_size = minibatch_size
        self._samples = samples
        check_convert(convert, sparse, padding, sequences)
        self._converter = _ArrayConverter(sparse, padding, sequences, unknown_numbers()) if convert is None else None
        self._convert = cast("Callable[[Minibatch], Item]", convert or self._converter)
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
            if self._converter is not None:
                self._converter.bind(self._source)
        return self._source

    @property
    def epoch(self) -> int:
        """Number of the epoch, from 0, that the next iteration delivers.

        After :meth:`set_state` it is the interrupted epoch, or the one after a finished epoch.
        """
        return self.source._next_number(self._samples) if self._next is None else self._next

    @explained("loader.set_epoch(3)", epoch=WHOLE)
    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration deliver this epoch, from 0, instead of the one that follows."""
        self._next = epoch

    def __iter__(self) -> Iterator[Item]:
        source = self.source
        index, self._next = self._next, None
        is_rest, has_data = index is None and source._is_restored, False
        epoch = source._epoch(self._samples, index)
        for minibatch in epoch:
            has_data = True
            yield self._convert(minibatch)
        if is_rest and not has_data:
            for minibatch in source._epoch(self._samples, epoch.index + 1):
                yield self._convert(minibatch)

    def get_state(self) -> dict[str, Json]:
        """Returns the state after the last minibatch: see :meth:`MinibatchSource.state_dict`."""
        return LoaderState(self._next, self.source.state_dict()).encode()

    @explained("loader.set_state(state)", state=TABLE, allow_changed_values=FLAG)
    def set_state(self, state: Mapping[str, object], *, allow_changed_values: bool = False) -> None:
        """Makes the next iteration deliver the rest of the epoch in which the state was taken.

        If nothing is left of it, the next iteration delivers the next epoch. For the state of
        another number of processes, and for ``allow_changed_values``, see
        :meth:`MinibatchSource.load_state_dict`.
        """
        decoded = LoaderState.decode(state, "Loader")
        self.source.load_state_dict(decoded.source, allow_changed_values=allow_changed_values)
        self._next = decoded.next

    def state_dict(self) -> dict[str, Json]:
        """Same as :meth:`get_state`, under torchdata's name."""
        return self.get_state()

    @explained("loader.load_state_dict(state)", state_dict=TABLE)
    def load_state_dict(self, state_dict: Mapping[str, object]) -> None:
        """Same as :meth:`set_state`, under torchdata's name."""
        self.set_state(state_dict)
