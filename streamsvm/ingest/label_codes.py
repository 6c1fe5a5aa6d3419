"""The labels that a configuration names, and the codes that they have in a `Points`.

Invariant: a label is one of the configured ones only if its kind is theirs, too: true is not 1, and "1" is not 1. A
number without a fraction is an integer.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import Label
from streamsvm.errors import InvalidPoint
from streamsvm.ingest.row import LARGEST_EXACT, excerpt
from streamsvm.points import NO_CODE, label_codes

_LABELS_SHOWN: Final = 8
"""Of more labels the first ones are listed in a message."""


class LabelCodes:
    """What the labels of records become.

    Parameters
    ----------
    labels : sequence of bool, int or str
        Of one kind; of two the negative one first.

    Attributes
    ----------
    numbers : NumberCodes or None
        The same for columns of numbers; None where the labels are no integers that a float holds exactly.
    """

    def __init__(self, labels: Sequence[Label]) -> None:
        codes = label_codes(len(labels))
        self._labels = tuple(labels)
        self._plain: Mapping[Any, int] = dict(zip(labels, codes, strict=True))
        self._of_kind = {(_kind(label), label): code for label, code in zip(labels, codes, strict=True)}
        self.numbers = NumberCodes.of(labels) if _are_numbers(labels) else None

    def of(self, label: Label | float | None) -> int:
        """Return the code of a label as records write it: of two labels -1 or +1.

        Raises
        ------
        InvalidPoint
            If there is none, or it is not one of the labels.
        """
        if label is None:
            raise InvalidPoint("missing_field", "y is missing")
        if isinstance(label, float) and label.is_integer():
            label = int(label)
        code = self._of_kind.get((_kind(label), label))  # type: ignore[arg-type]
        if code is None:
            labels = self._labels
            raise InvalidPoint(
                "unknown_label",
                f"y is {excerpt(repr(label))}; points.labels are {_listed(labels)}{_fitting_option(label, labels)}",
            )
        return code

    def of_column(self, labels: Sequence[object] | NDArray[Any] | None) -> NDArray[np.int8] | None:
        """Return the codes of all labels at once, shape (n,); None if any may be none of ours: `of` says which."""
        if isinstance(labels, np.ndarray):
            return self._of_array(labels)
        if labels is None or set(map(type, labels)) != {type(self._labels[0])}:
            return None
        codes = [self._plain.get(label, NO_CODE) for label in labels]
        return None if NO_CODE in codes else np.array(codes, dtype=np.int8)

    def _of_array(self, labels: NDArray[Any]) -> NDArray[np.int8] | None:
        if isinstance(self._labels[0], bool):
            return _signs(labels == self._labels[1]) if labels.dtype.kind == "b" else None
        if self.numbers is None or labels.dtype.kind == "b":
            return None
        codes, known = self.numbers.codes(labels)
        return codes if known.all() else None


@dataclass(frozen=True, slots=True)
class NumberCodes:
    """Integer labels with their codes, in ascending order.

    Attributes
    ----------
    labels : ndarray of shape (n_classes,), int64
    of_labels : ndarray of shape (n_classes,), int8
    """

    labels: NDArray[np.int64]
    of_labels: NDArray[np.int8]

    @classmethod
    def of(cls, labels: Sequence[Label]) -> NumberCodes:
        """Return those of labels in the order of the configuration."""
        numbers = np.array(labels, np.int64)
        order = np.argsort(numbers)
        return cls(numbers[order], np.array(label_codes(len(labels)), np.int8)[order])

    def codes(self, y: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
        """Return the code of each number, and which of them are labels; the codes of others mean nothing."""
        if len(self.labels) == 2:
            last = y == self.labels[1]
            return _signs(last) * self.of_labels[1], last | (y == self.labels[0])
        places = np.minimum(np.searchsorted(self.labels, y), len(self.labels) - 1)
        return self.of_labels[places], np.asarray(self.labels[places] == y, np.bool_)


def _are_numbers(labels: Sequence[Label]) -> bool:
    return all(
        isinstance(label, int) and not isinstance(label, bool) and abs(label) < LARGEST_EXACT for label in labels
    )


def _listed(labels: Sequence[Label]) -> str:
    """Return labels for a message: all of a few, else the first ones and how many there are."""
    shown = [repr(label) for label in labels[:_LABELS_SHOWN]]
    if len(labels) > _LABELS_SHOWN:
        return f"{', '.join(shown)} and {len(labels) - _LABELS_SHOWN} more"
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def _fitting_option(label: Label | float, labels: tuple[Label, ...]) -> str:
    """Name the option that fits where a label is a configured one but for its kind or its case; else nothing.

    A CSV gives the text "true" where Parquet and JSON give the boolean.
    """
    for kind in (_as_text(str), _as_text(str.capitalize), _as_text(str.upper), _as_boolean, _as_number):
        other = tuple(map(kind, labels))
        if None in other or len(set(other)) != len(labels):
            continue
        if (_kind(label), label) in [(_kind(one), one) for one in other]:
            return f", which is not the same: --points-labels {shlex.quote(json.dumps(other))} fits"
    return ""


def _as_text(write: Callable[[str], str]) -> Callable[[Label], Label | None]:
    return lambda label: write(label if isinstance(label, str) else json.dumps(label))


def _as_boolean(label: Label) -> Label | None:
    return {"true": True, "false": False, "1": True, "0": False}.get(str(label).lower())


def _as_number(label: Label) -> Label | None:
    if isinstance(label, str):
        return int(label) if label.lstrip("+-").isdecimal() and len(label) < 20 else None
    return int(label)


def _signs(positive: NDArray[np.bool_]) -> NDArray[np.int8]:
    """Return +1 and -1; `np.where` would take seven times as long."""
    return positive.view(np.int8) * np.int8(2) - np.int8(1)


def _kind(label: object) -> str:
    return "number" if isinstance(label, int | float) and not isinstance(label, bool) else type(label).__name__
