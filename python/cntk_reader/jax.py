"""A loader for JAX: minibatches as arrays, shared out among the processes of a computation, with states as Grain's iterators have.

from cntk_reader.jax import Loader

loader = Loader(source, minibatch_size=256)
for epoch in range(10):
    for minibatch in loader:
        state = step(state, minibatch["features"], minibatch["labels"])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax

from ._minibatch import Minibatch
from ._source import MinibatchSource


def to_arrays(minibatch: Minibatch) -> dict[str, Any]:
    """The streams by name, as :meth:`StreamMinibatch.to_jax` makes them: dense, or sparse as BCSR matrices."""
    return {name: stream.to_jax() for name, stream in minibatch.items()}


class Loader:
    """Minibatches of a source, each made by ``convert``. One iteration is one epoch: a sweep, or ``samples``.

    ``source`` is a :class:`MinibatchSource`, or a function without arguments that makes one, which is called by the process that
    reads. ``minibatch_size`` is in samples of all processes together; its default is the source's. The processes are those of
    ``jax.distributed`` (``jax.process_index()`` of ``jax.process_count()``), unless the source names its own ``workers``. Nothing is
    delivered twice or left out. A process may have more minibatches than another: see the guide about keeping in step.

    ``convert`` gets a :class:`Minibatch` and returns what the loop gets. Minibatches of whole sequences differ in shape; a function
    that is compiled is compiled once for each shape, so pad them to lengths of a few sizes.
    """

    def __init__(
        self,
        source: MinibatchSource | Callable[[], MinibatchSource],
        minibatch_size: int | None = None,
        *,
        samples: int | None = None,
        convert: Callable[[Minibatch], Any] = to_arrays,
    ) -> None:
        self._given = source
        self._minibatch_size = minibatch_size
        self._samples = samples
        self._convert = convert
        self._source: MinibatchSource | None = None
        self._next: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None}

    @property
    def source(self) -> MinibatchSource:
        """The source of this process, opened if need be: for its sizes, streams and progress."""
        if self._source is None or not self._source.is_of_this_process:
            given = self._given
            if not isinstance(given, MinibatchSource):
                self._source = given()
            else:
                self._source = given if given.is_of_this_process else given.reopen()
            if self._source.workers == 1:
                self._source.rank, self._source.workers = jax.process_index(), jax.process_count()
        return self._source

    def set_epoch(self, epoch: int) -> None:
        """The next iteration delivers this epoch, from 0. Without it, each delivers the one that follows."""
        self._next = epoch

    def __iter__(self) -> Iterator[Any]:
        index, self._next = self._next, None
        for minibatch in self.source.epoch(self._minibatch_size, samples=self._samples, index=index):
            yield self._convert(minibatch)

    def get_state(self) -> dict[str, Any]:
        """The state after the minibatch delivered last: see :meth:`MinibatchSource.state_dict`."""
        return {"next": self._next, "source": self.source.state_dict()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """The next iteration delivers the rest of the epoch that the state was taken in.

        A state of another number of processes loads under the conditions of :meth:`MinibatchSource.load_state_dict`.
        """
        self.source.load_state_dict(state["source"])
        self._next = state["next"]

    def state_dict(self) -> dict[str, Any]:
        """:meth:`get_state`, by the name that torchdata has for it."""
        return self.get_state()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """:meth:`set_state`, by the name that torchdata has for it."""
        self.set_state(state_dict)
