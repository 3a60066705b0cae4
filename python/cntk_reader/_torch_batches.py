"""Conversion of minibatches to dictionaries of PyTorch tensors."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import torch

from ._batches import MOST_STREAMS, Converter, Padding, Sparse, parts_of
from ._minibatch import StreamInformation, StreamMinibatch
from ._types import Array


class TensorConverter(Converter[torch.Tensor]):
    """Converts minibatches to tensors. Copies in worker processes share what they have found."""

    def __init__(self, sparse: Sparse, padding: Padding, sequences: Collection[str] | None) -> None:
        padded = torch.full((MOST_STREAMS,), -1, dtype=torch.int8)
        padded.share_memory_()  # type: ignore[no-untyped-call]
        super().__init__(sparse, padding, sequences, padded)

    def from_array(self, array: Array) -> torch.Tensor:
        """Converts an array of NumPy."""
        return torch.from_numpy(array)

    def from_stream(self, stream: StreamMinibatch) -> torch.Tensor:
        """Converts a stream in the minibatch's own layout."""
        return stream.to_torch()

    def empty_matrix(self, columns: int, dtype: np.dtype[np.generic]) -> torch.Tensor:
        """Returns a sparse matrix without rows."""
        offsets, none = torch.zeros(1, dtype=torch.int32), torch.zeros(0, dtype=torch.int32)
        values = torch.from_numpy(np.zeros(0, dtype))
        return torch.sparse_csr_tensor(offsets, none, values, size=(0, columns), check_invariants=False)

    def _dense(self, name: str, stream: StreamMinibatch, is_padded: bool) -> dict[str, torch.Tensor]:
        if stream._element != "bfloat16":
            return super()._dense(name, stream, is_padded)
        # NumPy may lack the type: moves the bits.
        bits, parts = stream._bits, list(parts_of(stream))
        if not is_padded:
            begins, _, lanes = (list(column) for column in zip(*parts))
            return {name: torch.from_numpy(bits[begins, lanes]).view(torch.bfloat16)}
        mask = stream.padded_mask()
        array = np.zeros((*mask.shape, *stream.info.shape), np.int16)
        for row, (begin, end, lane) in enumerate(parts):
            array[row, : end - begin] = bits[begin:end, lane]
        return self._filled_bits(name, array, mask)

    def _truncated_dense(
        self, name: str, stream: StreamMinibatch, mask: npt.NDArray[np.bool_]
    ) -> dict[str, torch.Tensor]:
        if stream._element != "bfloat16":
            return super()._truncated_dense(name, stream, mask)
        return self._filled_bits(name, np.ascontiguousarray(stream._bits.swapaxes(0, 1)), mask)

    def _filled_bits(
        self, name: str, bits: npt.NDArray[np.int16], mask: npt.NDArray[np.bool_]
    ) -> dict[str, torch.Tensor]:
        tensor, flags = torch.from_numpy(bits).view(torch.bfloat16), torch.from_numpy(mask)
        if self._fill(name):
            tensor[~flags] = self._fill(name)
        return {name: tensor, f"{name}_mask": flags}

    def _empty(self, info: StreamInformation) -> dict[str, torch.Tensor]:
        if info.dtype != "bfloat16":
            return super()._empty(info)
        floats = StreamInformation(info.name, info.stream_id, info.storage_format, np.float32, info.shape)
        return {
            name: tensor.bfloat16() if tensor.dtype == torch.float32 else tensor
            for name, tensor in super()._empty(floats).items()
        }
