"""Cases from a corpus: a value of it, damaged, joined with another, or with words of its format put in.

Invariant: a case is a pure function of the target's corpus and words, the seed and its index.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

MOST_CHANGES: Final = 4
LARGEST: Final = 8_192
"""Bytes of a case: the bounds on size are tested elsewhere, here is looked for what breaks."""
_BYTES: Final = (0, 1, 0x22, 0x2C, 0x30, 0x5C, 0x7F, 0x80, 0xC3, 0xED, 0xFE, 0xFF)
_INTEGERS: Final = tuple(
    struct.pack(form, number)
    for form, numbers in {
        "<i": (0, 1, -1, 8, 1 << 20, (1 << 31) - 1, -(1 << 31)),
        "<q": (0, 1, -1, 8, 1 << 40, (1 << 63) - 1, -(1 << 63)),
        ">I": (0, 1, 2, 3, 255, (1 << 32) - 1),
    }.items()
    for number in numbers
)

Change = Callable[[random.Random, bytearray], None]


@dataclass(frozen=True)
class Mutator:
    """Makes cases of a corpus that is not empty, and of the words that the format has a meaning for."""

    corpus: Sequence[bytes]
    words: Sequence[bytes]

    def case(self, seed: int, index: int) -> bytes:
        """Return a case."""
        chance = random.Random(seed << 40 | index)
        value = bytearray(chance.choice(self.corpus))
        changes = (_replace, _replace, _number, self._word, self._word, self._over, _cut, _double, self._splice)
        for _ in range(int(chance.random() ** 2 * MOST_CHANGES) + 1):
            changes[int(chance.random() * len(changes))](chance, value)
        return bytes(value[:LARGEST])

    def _word(self, chance: random.Random, value: bytearray) -> None:
        at = int(chance.random() * (len(value) + 1))
        value[at:at] = chance.choice(self.words)

    def _over(self, chance: random.Random, value: bytearray) -> None:
        at, word = int(chance.random() * (len(value) + 1)), chance.choice(self.words)
        value[at : at + int(chance.random() * 2 * len(word))] = word

    def _splice(self, chance: random.Random, value: bytearray) -> None:
        other = chance.choice(self.corpus)
        at, start = int(chance.random() * (len(value) + 1)), int(chance.random() * (len(other) + 1))
        value[at:] = other[start:]


def _replace(chance: random.Random, value: bytearray) -> None:
    if value:
        at = int(chance.random() * len(value))
        value[at] = chance.choice(_BYTES) if chance.random() < 0.5 else value[at] ^ 1 << int(chance.random() * 8)


def _number(chance: random.Random, value: bytearray) -> None:
    number = chance.choice(_INTEGERS)
    at = int(chance.random() * (len(value) + 1))
    at -= at % 4 if chance.random() < 0.7 else 0
    value[at : at + len(number)] = number


def _cut(chance: random.Random, value: bytearray) -> None:
    at = int(chance.random() * (len(value) + 1))
    del value[at : at + int(chance.random() ** 2 * 64) + 1]


def _double(chance: random.Random, value: bytearray) -> None:
    at = int(chance.random() * (len(value) + 1))
    value[at:at] = value[at : at + int(chance.random() ** 2 * 64) + 1]
