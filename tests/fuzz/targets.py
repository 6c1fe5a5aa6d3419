"""What is fed with cases: a reader of foreign bytes, the bytes that it begins with, and the words of its format.

A target's `look` returns a word for what became of each of a few cases, for the counts. Whatever it raises is an
*escape*: an error that the reader may not raise, or an `AssertionError` where reader and reference differ.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.contract.cases import Case, cases
from tests.fuzz.mutation import Mutator

CORPUS: Final = Path(__file__).parent / "corpus"
_WORDS: Final = json.loads((Path(__file__).parent / "words.json").read_text("utf-8"))
INTEGER_DIGITS: Final = 0
"""No limit on the digits of an integer: the reference shall read what is written."""
INT64: Final = 1 << 63

with suppress(AttributeError):
    sys.set_int_max_str_digits(INTEGER_DIGITS)


@dataclass(frozen=True)
class Target:
    """A reader under attack."""

    name: str
    corpus: Callable[[], Sequence[bytes]]
    words: Sequence[bytes]
    look: Callable[[Sequence[bytes]], list[str]]

    def mutator(self) -> Mutator:
        """Return what makes its cases."""
        return Mutator(self.corpus(), self.words)


def kept(name: str, *also: Path) -> Callable[[], Sequence[bytes]]:
    """Return the kept files of a target that reads no case of `cases.json`, and others."""

    def read() -> Sequence[bytes]:
        found = [path.read_bytes() for path in (*sorted((CORPUS / name).glob("*")), *also)]
        assert found, f"there is no corpus in {CORPUS / name}"
        return found

    return read


def of_cases(
    *read: str, chosen: Callable[[Case], bool] = lambda _: True, good: int = 1
) -> Callable[[], Sequence[bytes]]:
    """Return the values of cases of `cases.json`; those that have a good row so many times."""

    def values() -> Sequence[bytes]:
        own = [case for case in cases(*read) if case.value and len(case.value) < 8_000 and chosen(case)]
        found = [case.value for case in own for _ in range(good if has_good(case) else 1) if case.value]
        assert found, f"there is no such case of {read}"
        return found

    return values


def has_good(case: Case) -> bool:
    """Return whether a case has a row that is accepted."""
    return any(isinstance(row, dict) for row in case.scored)


def words(*names: str) -> tuple[bytes, ...]:
    """Return what formats have a meaning for; a letter of a binary one is a byte."""
    codes = {"json": "utf-8", "event": "utf-8"}
    found = [word.encode(codes.get(name, "latin-1"), "surrogatepass") for name in names for word in _WORDS[name]]
    return (*found, b"9" * 5_000) if {"letter", "header"} & set(names) else tuple(found)


def messages(look: Callable[[bytes], str]) -> Callable[[Sequence[bytes]], list[str]]:
    """Look at one message after the other."""
    return lambda values: [look(value) for value in values]


def headers_of(case: bytes) -> tuple[tuple[tuple[str, bytes], ...], bytes]:
    """Return the headers of a case, its lines up to an empty one, and the rest: its value."""
    head, _, value = case.partition(b"\n\n")
    lines = [line.partition(b":")[::2] for line in head.split(b"\n")]
    return tuple((name.decode("latin-1"), content) for name, content in lines), value
