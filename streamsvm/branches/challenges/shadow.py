"""What another version says of the rows that are scored: in the same score, under `shadow`, served to nobody."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from streamsvm.ingest.scored import Decided, WrittenScore, decide, greatest, label_of
from streamsvm.model.version import Version
from streamsvm.points import Rows

FIELD: Final = "shadow"


class Shadow(msgspec.Struct, frozen=True, kw_only=True):
    """What another version says of the same row, which nobody is served."""

    model: str
    version: int
    score: float | list[float]
    label: bool | int | str
    probability: float | list[float] | msgspec.UnsetType = msgspec.UNSET


class ScoreInShadow(WrittenScore, frozen=True, kw_only=True):
    """A score; `shadow` is unset where that is not finite, for JSON knows no such number."""

    shadow: Shadow | msgspec.UnsetType = msgspec.UNSET


class InShadow:
    """A version beside the one that scores; see `shadow_fault`.

    Parameters
    ----------
    version : Version
    """

    shape: type[WrittenScore] = ScoreInShadow

    def __init__(self, version: Version) -> None:
        self._version = version

    def fields(self, rows: Rows) -> Sequence[Mapping[str, Any]]:
        """Return what the version says of each row; meaningless where the row was rejected."""
        return [self._said(decided) for decided in decide(self._version, rows)]

    def _said(self, decided: Decided) -> Mapping[str, Any]:
        version, (score, probability) = self._version, decided
        if not math.isfinite(greatest(score)):
            return {}
        said = Shadow(
            model=version.name,
            version=version.number,
            score=score,
            label=label_of(score, version.labels, version.model.border),
            probability=msgspec.UNSET if probability is None else probability,
        )
        return {FIELD: said}


def shadow_fault(serving: Version, shadow: Version) -> str:
    """Say why a version cannot be scored on the rows of another one; empty if it can."""
    if shadow.model.dimension != serving.model.dimension:
        return f"{shadow.key} has {shadow.model.dimension} features, {serving.key} has {serving.model.dimension}"
    if shadow.labels != serving.labels:
        return f"{shadow.key} and {serving.key} have different labels"
    if shadow.recipe != serving.recipe:
        return f"{shadow.key} and {serving.key} make different features of an event"
    return ""
