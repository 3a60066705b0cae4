"""The 64-bit Mersenne Twister, and CNTK 2.7's ways of shuffling with it."""

from __future__ import annotations

from typing import TypeVar

_MASK = 2**64 - 1
_LOW = 2**31 - 1
T = TypeVar("T")


class Twister:
    """MT19937-64. A seed is taken modulo 2^64."""

    def __init__(self, seed: int) -> None:
        state = [seed & _MASK]
        for number in range(1, 312):
            before = state[-1]
            state.append((6364136223846793005 * (before ^ (before >> 62)) + number) & _MASK)
        self._state = state
        self._at = 312

    def draw(self) -> int:
        """Returns the next 64 bits."""
        if self._at == 312:
            self._refill()
        value = self._state[self._at]
        self._at += 1
        value ^= (value >> 29) & 0x5555555555555555
        value ^= (value << 17) & 0x71D67FFFEDA60000
        value ^= (value << 37) & 0xFFF7EEE000000000
        return value ^ (value >> 43)

    def _refill(self) -> None:
        state = self._state
        for at in range(312):
            word = (state[at] & (_MASK ^ _LOW)) | (state[(at + 1) % 312] & _LOW)
            mixed = state[(at + 156) % 312] ^ (word >> 1)
            state[at] = mixed ^ 0xB5026F5AA96619E9 if word & 1 else mixed
        self._at = 0

    def within(self, begin: int, end: int) -> int:
        """Returns a number in a range. CNTK takes the remainder, with its bias."""
        return begin + self.draw() % (end - begin)

    def shuffle(self, items: list[T]) -> None:
        """Shuffles like CNTK shuffles chunks: each place is swapped with any place."""
        for at in range(len(items)):
            other = self.within(0, len(items))
            items[at], items[other] = items[other], items[at]
