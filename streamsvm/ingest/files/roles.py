"""Which column of a table is the label, the weight, the id, and which are features."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamsvm.errors import ConfigurationError
from streamsvm.ingest.files.faults import listed, refuse_repeated
from streamsvm.ingest.files.source import Column, OnIncomplete

LABEL_NAMES: Final = frozenset({"y", "label", "class", "target"})
"""Names, in lower case, by which a column of labels is recognised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a file is to be read: those of `open_source`."""

    labeled: bool
    label_column: Column | None
    weight_column: Column | None
    id_column: Column | None
    columns: tuple[Column, ...] | None
    header: bool | None
    delimiter: str | None
    on_incomplete: OnIncomplete | None


@dataclass(frozen=True, slots=True)
class Roles:
    """Which columns, by index, are the features, the label, the weight and the identifier."""

    features: tuple[int, ...]
    label: int | None
    weight: int | None
    id: int | None

    @property
    def used(self) -> list[int]:
        """All of them."""
        return [index for index in (*self.features, self.label, self.weight, self.id) if index is not None]


def roles_of(path: Path, names: Sequence[str], options: ReadOptions, *, last_is_label: bool) -> Roles:
    """Find the columns that the options name, and the label where they name none."""
    refuse_repeated(path, [name for name in names if name])

    def find(column: Column | None) -> int | None:
        return None if column is None else _find(path, names, column)

    weight, mark = find(options.weight_column), find(options.id_column)
    label = find(options.label_column)
    if options.labeled and label is None:
        label = _guess_label(path, names, last_is_label=last_is_label)
    if options.columns is None:
        features = tuple(index for index in range(len(names)) if index not in (label, weight, mark))
        _refuse_unnamed(path, names, features)
    else:
        features = tuple(_find(path, names, column) for column in options.columns)
    roles = Roles(features, label, weight, mark)
    for index, times in Counter(roles.used).items():
        if times > 1:
            raise ConfigurationError(
                f"{path}: column {names[index]} is used twice",
                "Use each column once: as a feature, the label, the weight or the id.",
            )
    if not features:
        raise ConfigurationError(f"{path} has no feature column", f"The columns are {listed(names)}.")
    return roles


def _find(path: Path, names: Sequence[str], column: Column) -> int:
    if isinstance(column, str) and column in names:
        return names.index(column)
    if isinstance(column, int) or re.fullmatch(r"-?\d+", column):
        index = int(column)
        if -len(names) <= index < len(names):
            return index % len(names)
    raise ConfigurationError(f"{path} has no column {column}", f"The columns are {listed(names)}.")


def _guess_label(path: Path, names: Sequence[str], *, last_is_label: bool) -> int:
    named = [index for index, name in enumerate(names) if name.lower() in LABEL_NAMES]
    if len(named) == 1:
        return named[0]
    if last_is_label:
        return len(names) - 1
    raise ConfigurationError(
        f"{path} has {'several columns' if named else 'no column'} named y, label, class or target",
        f"Give the label_column, one of: {listed(names)}.",
    )


def _refuse_unnamed(path: Path, names: Sequence[str], features: Iterable[int]) -> None:
    for index in features:
        if not names[index]:
            raise ConfigurationError(
                f"{path}: column {index} has no name, so it may be a row index and not a feature",
                "List the feature columns, or pass this column as the id_column.",
            )
