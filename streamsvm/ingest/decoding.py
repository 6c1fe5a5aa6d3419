"""The socket `decoders`: records that hold something other than points, and who makes rows of them.

A *recipe* says what the content of such records becomes. The trunk knows of a recipe no more than that it is an object:
each one that is plugged in names the recipes that it can decode by.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import PointsConfig
from streamsvm.errors import ConfigurationError
from streamsvm.ingest.columns import RawRecord, Run
from streamsvm.ingest.row_builder import RowsBuilder
from streamsvm.ingest.schemas import Schemas
from streamsvm.sockets import plugged

if TYPE_CHECKING:
    from streamsvm.ingest.files.source import Format, OnIncomplete, PointSource

SOCKET: Final = "decoders"
DELETE: Final = "delete"
Field = tuple[str | int, ...]
"""Where a field stands in a record: the keys and indexes that lead to it."""
Markers = dict[str, Counter[str]]
"""How often each cell that says in words that a value is missing stood in each column of a CSV."""


@dataclass(frozen=True, slots=True)
class Absences:
    """How often declared fields were absent or null.

    Attributes
    ----------
    events : int
        Number of events looked at, rejected ones included.
    by_field : mapping of str to int
        Events without each field, by its path; fields that every event had are left out.
    """

    events: int = 0
    by_field: Mapping[str, int] = field(default_factory=dict)


NO_ABSENCES: Final = Absences()


class RecordDecoder(Protocol):
    """Makes rows of the records of a topic by one recipe."""

    def ask_again(self) -> None:
        """Ask for unknown schemas once more: a batch of records begins."""
        ...

    def decode(self, format_: str, run: Run, builder: RowsBuilder) -> None:
        """Decode consecutive records of one format.

        Raises
        ------
        TransientError
            If a schema is unavailable now.
        """
        ...

    def is_array(self, format_: str, record: RawRecord) -> bool:
        """Return whether a record with a valid row is an array of rows.

        Raises
        ------
        TransientError
            If that needs a schema which is unavailable now.
        """
        ...

    def fields_of(self, format_: str, record: RawRecord, paths: Sequence[Field]) -> list[list[Any]] | None:
        """Return fields of a record's rows, for each path a value of each row; None where it cannot be read.

        Raises
        ------
        TransientError
            If that needs a schema which is unavailable now.
        """
        ...

    def take_counts(self) -> tuple[Absences, Mapping[str, int]]:
        """Return, since the last call, which declared fields were absent, and the rows passed over, by reason."""
        ...


class RejectionReason(NamedTuple):
    """Why a row is rejected: what it means, and what to do about it."""

    meaning: str
    remedy: str


@dataclass(frozen=True, slots=True)
class PointsGiven:
    """Rows that an estimator is given, as points.

    Attributes
    ----------
    X : ndarray of shape (n, d), float64
    y : array-like of shape (n,)
        As given, or read from the rows.
    weight : ndarray of shape (n,), float64
    classes : tuple or None
        The negative and the positive label, where labels were read from the rows.
    """

    X: NDArray[np.floating[Any]]
    y: Any
    weight: NDArray[np.float64]
    classes: tuple[Any, ...] | None


class Decoding(ABC):
    """What a branch plugs in.

    Attributes
    ----------
    passed_over : mapping of str to str
        Why a row is passed over, beside a deletion, with the meaning.
    reasons : mapping of str to RejectionReason
        Why a row is rejected, beside the reasons of the trunk.
    """

    passed_over: ClassVar[Mapping[str, str]]
    reasons: ClassVar[Mapping[str, RejectionReason]]

    @abstractmethod
    def decodes(self, recipe: object) -> bool:
        """Return whether a recipe is one of these."""

    @abstractmethod
    def decoder(self, recipe: Any, config: PointsConfig, *, labeled: bool, schemas: Schemas | None) -> RecordDecoder:
        """Return the decoder of a configuration; the parameters are those of `streamsvm.ingest.decoder.PointDecoder`.

        Raises
        ------
        ConfigurationError
            If a package that the records need is not installed.
        """

    @abstractmethod
    def warm_up(self, config: PointsConfig) -> None:
        """Compile, or load from numba's file cache, what a decoder of a configuration runs."""

    @abstractmethod
    def given(self, features: Any) -> Any:
        """Return the recipe that an estimator's parameter means.

        Parameters
        ----------
        features : recipe, mapping, str or Path
            A version's recipe, the table of a configuration, or the path of a configuration file.

        Raises
        ------
        ValueError
            If it is something else, or has no meaning; the message says which.
        """

    @abstractmethod
    def points_given(self, rows: Any, y: Any, recipe: Any) -> PointsGiven:
        """Return the rows that an estimator is given as points, as a trainer makes them.

        Parameters
        ----------
        rows : sequence of mappings, or data frame
        y : array-like of shape (n,) or None
            None: the labels are read from the rows.
        recipe : object

        Raises
        ------
        ValueError
            If there are no rows or no labels, or a trainer would reject a row; the message says which.
        """

    @abstractmethod
    def labels_of(self, recipe: Any) -> tuple[Any, ...] | None:
        """Return the negative and the positive label of a recipe; None if the rows have none."""

    @abstractmethod
    def without_labels(self, recipe: Any) -> Any:
        """Return a recipe of rows without labels."""

    @abstractmethod
    def model_options(self, recipe: Any) -> Mapping[str, Any]:
        """Return the options of `ModelConfig` that say a recipe."""

    @abstractmethod
    def points_options(self, recipe: Any) -> Mapping[str, Any]:
        """Return the options of `PointsConfig` that follow from a recipe."""

    @abstractmethod
    def rows_in(
        self,
        path: Path,
        format_: Format,
        recipe: Any,
        delimiter: str | None,
        markers: Markers,
        *,
        unlabeled: bool,
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a file as they would be on a topic.

        Parameters
        ----------
        path : Path
        format_ : {"csv", "jsonl", "parquet"}
        recipe : object or None
        delimiter : str or None
            Between the cells of a CSV.
        markers : dict
            Is filled.
        unlabeled : bool
            Leave out the label.

        Raises
        ------
        ConfigurationError
            If the file cannot be read, or its rows cannot be sent as they are.
        """

    @abstractmethod
    def source(
        self,
        path: Path,
        format_: Format,
        recipe: Any,
        *,
        delimiter: str | None,
        on_incomplete: OnIncomplete | None,
        dtype: Literal["float32", "float64"],
        markers: Markers,
    ) -> PointSource:
        """Return the rows of a file as points, by a recipe that has a label; as `streamsvm.ingest.files.opening`.

        `markers` is filled each time the file was read to its end.

        Raises
        ------
        ConfigurationError
            If the file cannot be read. Reading raises it too, for the first row that the recipe rejects.
        """


def decoding_of(recipe: object) -> Decoding:
    """Return what decodes by a recipe; for None the first that is plugged in.

    Raises
    ------
    ConfigurationError
        If this installation has none.
    """
    for one in plugged(SOCKET, Decoding):  # type: ignore[type-abstract]
        if recipe is None or one.decodes(recipe):
            return one
    raise ConfigurationError(
        "this installation cannot decode records that are not points",
        "Install the folder of the branch that decodes them, or remove the recipe.",
    )


def passed_over() -> Mapping[str, str]:
    """Return every reason why a row is passed over, with its meaning."""
    others = [one.passed_over for one in plugged(SOCKET, Decoding)]  # type: ignore[type-abstract]
    own = {DELETE: "a row was deleted: what was learned of it stays learned"}
    return own | {reason: why for one in others for reason, why in one.items()}


def rejected() -> Mapping[str, RejectionReason]:
    """Return the reasons for rejecting a row that are plugged in."""
    every = [one.reasons for one in plugged(SOCKET, Decoding)]  # type: ignore[type-abstract]
    return {name: reason for reasons in every for name, reason in reasons.items()}
