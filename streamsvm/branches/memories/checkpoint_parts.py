"""The part ``forgetful`` of a cut, and the form of the experts and shares that a memory of spans has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from streamsvm.branches.memories.shares import Shares
from streamsvm.branches.memories.voting import Expert, Voting
from streamsvm.checkpoint.forms import Form, OptionalPart, Pairs, PlacedArray, PlacedLearned, describes
from streamsvm.checkpoint.parts import PartOf
from streamsvm.coreset.structure import Learned
from streamsvm.errors import CorruptCheckpoint
from streamsvm.learning.cutting import Cut, CutCoverage, PartitionCoverage
from streamsvm.learning.memories import Horizon
from streamsvm.points import Position


def _check_expert(expert: Expert) -> None:
    if expert.coefficients.ndim != 2 or expert.intercepts.shape != (len(expert.coefficients),):
        raise CorruptCheckpoint("an expert has arrays of different lengths")


@describes(Expert, check=_check_expert)
class PlacedExpert(Form):
    """Describes the expert of one horizon."""

    border: int
    trained_at: int
    coefficients: PlacedArray
    intercepts: PlacedArray


@describes(Shares)
class PlacedShares(Form):
    """Describes the shares of horizons."""

    slots: tuple[float, ...]
    borders: tuple[int, ...]
    starts: tuple[float, ...]
    mix: tuple[float, float]


def _check_voting(voting: Voting) -> None:
    borders = len(voting.shares.borders)
    if not len(voting.experts) == borders == len(voting.shares.starts):
        raise CorruptCheckpoint(f"there are {len(voting.experts)} experts, but {borders} borders")


@describes(Voting, check=_check_voting)
class PlacedVoting(Form):
    """Describes experts and shares."""

    span: int
    experts: tuple[PlacedExpert, ...]
    shares: PlacedShares
    end: int


@describes(PartitionCoverage)
class PlacedCoverage(Form):
    """Describes what a cut is of, in one partition."""

    oldest: Position
    before: PlacedLearned
    horizons: tuple[Horizon, ...]


class CutForgetful(Form, tag_field="part", tag="forgetful"):
    """Of a cut: what it is of."""

    learned: PlacedLearned
    partitions: Pairs[PlacedCoverage]


def _of_cut(cut: Cut) -> dict[str, Any]:
    assert cut.held is not None
    return {"learned": cut.held.learned, "partitions": cut.held.partitions}


def _with_cut(cut: Cut, learned: Learned, partitions: Pairs[PartitionCoverage]) -> Cut:
    return replace(cut, held=CutCoverage(learned, dict(partitions)))


CUT: Final = OptionalPart(form=CutForgetful, has=lambda cut: cut.held is not None, of=_of_cut, joined=_with_cut)
PLUGGED: Final = PartOf("cut", CUT)
