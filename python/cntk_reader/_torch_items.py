"""The items of a PyTorch dataset: sending them to another process, and copying them to a device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from multiprocessing.reduction import ForkingPickler
from typing import Any, cast

import numpy as np
import torch

from ._minibatch import Minibatch

#: Types that every worker can send.
_SENDABLE = (torch.Tensor, np.ndarray, np.generic, int, float, complex, str, bytes, type(None))


def check_sendable(value: object) -> None:
    """Refuses an item that a DataLoader worker cannot send.

    The worker would drop it on its sending thread, and the trainer would wait for it forever.
    """
    if isinstance(value, _SENDABLE) and not (isinstance(value, np.ndarray) and value.dtype.hasobject):
        return
    if isinstance(value, Mapping) and type(value) is dict:
        for key, item in value.items():
            check_sendable(key)
            check_sendable(item)
    elif type(value) in (list, tuple):
        for item in cast("list[object]", value):
            check_sendable(item)
    else:
        try:
            ForkingPickler.dumps(value)
        except Exception as error:
            raise TypeError(
                f"'convert' returned an object of type {type(value).__name__}, which a DataLoader worker cannot send: {error}"
            ) from error


#: Maximum number of minibatches that wait for the GPU to copy them; enough to keep it busy.
_MOST_COPIES = 8
#: Maximum number of unused pinned buffers: those of the tensors of a few minibatches.
_MOST_BUFFERS = 64


def number_of(device: torch.device) -> int:
    """Returns the number of a CUDA device."""
    number: int = torch.cuda.current_device() if device.index is None else device.index
    return number


def new_pinned(size: int) -> torch.Tensor:
    """Returns new pinned memory."""
    return torch.empty(size, dtype=torch.uint8, pin_memory=True)


class PinnedPool:
    """Pinned buffers, used again once the GPU has copied from them.

    Pinning memory takes longer than copying a minibatch, so buffers are kept from minibatch to
    minibatch and from epoch to epoch.
    """

    def __init__(self) -> None:
        self._free: list[torch.Tensor] = []

    def take(self, size: int) -> torch.Tensor:
        """Returns a buffer of at least this many bytes: the smallest free one that fits, unless it
        is four times as large."""
        fitting = [buffer for buffer in self._free if size <= buffer.numel() <= 4 * size]
        if not fitting:
            return new_pinned(max(512, size + size // 4))
        best = min(fitting, key=torch.Tensor.numel)
        self._free = [buffer for buffer in self._free if buffer is not best]
        return best

    def give_back(self, buffers: list[torch.Tensor]) -> None:
        """Takes buffers that the GPU no longer reads. The buffers unused for longest are freed."""
        self._free = (self._free + buffers)[-_MOST_BUFFERS:]


class Copies:
    """Copies to a device.

    Minibatches and pinned buffers are kept until a GPU has copied them; then they are used again.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = PinnedPool()
        self._pending: deque[tuple[torch.cuda.Event, object, list[torch.Tensor]]] = deque()

    def start(self, minibatch: Minibatch, converted: object) -> object:
        """Returns the result of ``convert``, with its tensors on the device."""
        buffers: list[torch.Tensor] = []
        try:
            return copied(converted, self._device, lambda tensor: self._pinned(tensor, buffers))
        finally:
            # After an error too: some copies may be in progress.
            if self._device.type == "cuda":
                self._keep(buffers, minibatch, converted)

    def _pinned(self, tensor: torch.Tensor, buffers: list[torch.Tensor]) -> torch.Tensor:
        """Returns a copy of the tensor in pinned memory."""
        buffer = self._pool.take(tensor.numel() * tensor.element_size())
        buffers.append(buffer)
        place = buffer[: tensor.numel() * tensor.element_size()].view(tensor.dtype).view(tensor.shape)
        return place.copy_(tensor)

    def _keep(self, buffers: list[torch.Tensor], *memory: object) -> None:
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self._device))
        self._pending.append((event, memory, buffers))
        while self._pending and (len(self._pending) > _MOST_COPIES or self._pending[0][0].query()):
            self._finish_first()

    def _finish_first(self) -> None:
        event, _, buffers = self._pending[0]
        event.synchronize()
        self._pending.popleft()
        self._pool.give_back(buffers)

    def wait(self) -> None:
        """Waits until all copies have finished."""
        while self._pending:
            self._finish_first()


def copied(value: Any, device: torch.device, pin: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Returns the value with its tensors on the device. ``pin`` copies a tensor to pinned memory."""
    if isinstance(value, torch.Tensor):
        is_strided = value.layout == torch.strided
        if device.type == "cuda" and not value.is_cuda and not (is_strided and value.is_pinned()):
            # Other layouts are rare, and consist of several tensors.
            value = pin(value) if is_strided and value.numel() else value.pin_memory()
        return value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {key: copied(item, device, pin) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[copied(item, device, pin) for item in value])
    if isinstance(value, (list, tuple)):
        return type(value)([copied(item, device, pin) for item in value])
    return value
