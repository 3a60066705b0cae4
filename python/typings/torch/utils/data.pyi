"""A stub for the real package, which is too large to install just for checking."""

from typing import Generic, TypeVar

T = TypeVar("T", covariant=True)

class IterableDataset(Generic[T]): ...

def __getattr__(name: str): ...
