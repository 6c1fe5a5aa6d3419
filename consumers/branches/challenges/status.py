"""What `/status.json` says of challenges."""

from __future__ import annotations

from typing import Final

import msgspec

from consumers.branches.challenges.settings import ChallengeOptions
from consumers.metrics import Metrics
from consumers.page.blocks import STATUS, Block, count_of, counts_of
from consumers.settings import Settings
from streamsvm.sections import section


class ChallengePart(msgspec.Struct, frozen=True, kw_only=True):
    """Challenges, where output.gate is shadow.

    Attributes
    ----------
    challenger : int
        Number of the version that challenges the current one; 0 while there is none.
    figure : str
        By what they are compared.
    labels, most_labels : int
        Labels of rows that both scored so far, and after how many it is over.
    champion_figure, challenger_figure : float or None
        At the newest look, also of the challenge before; None before the first.
    low, high : float or None
        By how much the challenger does better then: an interval that holds at all looks together.
    ended : dict of str to int
        Challenges that ended since the start, by outcome.
    """

    challenger: int
    figure: str
    labels: int
    most_labels: int
    champion_figure: float | None
    challenger_figure: float | None
    low: float | None
    high: float | None
    ended: dict[str, int]


def collect(settings: Settings, metrics: Metrics) -> ChallengePart:
    """Return what there is to say of challenges."""
    output = section(settings, ChallengeOptions)
    figures = {labels[0]: value for labels, value in metrics.values("streamsvm_challenge_figure").items()}
    ends = {labels[0]: value for labels, value in metrics.values("streamsvm_challenge_difference").items()}
    return ChallengePart(
        challenger=count_of(metrics, "streamsvm_challenger_version"),
        figure=output.gate_figure,
        labels=count_of(metrics, "streamsvm_challenge_labels"),
        most_labels=output.gate_labels,
        champion_figure=figures.get("champion"),
        challenger_figure=figures.get("challenger"),
        low=ends.get("low"),
        high=ends.get("high"),
        ended=counts_of(metrics, "streamsvm_challenges"),
    )


BLOCK: Final = Block(
    part=STATUS,
    name="challenge",
    shape=ChallengePart,
    wanted=lambda settings: section(settings, ChallengeOptions).challenges,
    collect=collect,
    draw="consumers.branches.challenges.page:drawn",
)
