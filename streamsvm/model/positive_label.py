"""Which of two labels is the positive one: what average precision, recall, costs and thresholds are of.

A spelling decides nothing: where the words of the labels say which of them is the event, they do; otherwise the rarer
label is the event that somebody is looking for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streamsvm.model.described import Label

_EVENTS: Final = """
abnormal alarm alert anomalous anomaly attack bad bot broken cancelled churn churned click clicked closed conversion
converted death deceased default defaulted defect defective delinquent died disease event fail failed failure fake fault
faulty fraud fraudulent ill infected intrusion late leave lost malicious malignant malware outage outlier p phishing pos
positive sick signal spam suspicious t threat true unhealthy y yes
"""
_NO_EVENTS: Final = """
active alive background benign clean f false genuine good ham healthy intime legit legitimate n negative neg never no
noise none nonevent normal ok okay ontime paid passed regular retained safe stay stayed survived valid well
"""
EVENTS: Final = frozenset(_EVENTS.split())
NO_EVENTS: Final = frozenset(_NO_EVENTS.split())
_NEGATION: Final = re.compile(r"(?:no|non|not|never|without)[\s_-]+(?=\S)|un(?=(?:churned|clicked|defaulted)$)")
_PAIRS: Final = ((0, 1), (-1, 1), ("0", "1"), ("-1", "1"), (False, True))


@dataclass(frozen=True, slots=True)
class TwoLabels:
    """Two labels, and why it is the second that is positive.

    Attributes
    ----------
    negative, positive : Label
    share : float
        Of the rows with one of them, those that are positive.
    why : str
        For people.
    """

    negative: Label
    positive: Label
    share: float
    why: str

    def cost_said(self, cost: tuple[float, float]) -> str:
        """Return what each of the two mistakes costs."""
        missed, alarm = cost
        return f"a missed {self.positive!r} costs {missed:g}, a false alarm {alarm:g}"

    @property
    def said(self) -> str:
        """Which label figures are of, and how rare it is, as a sentence."""
        return f"{self.positive!r} is positive ({self.why}, {self.share:.2%}): AP, recall, cost, threshold are of it"


def two_labels(counts: Mapping[Label, int], positive: str | None = None) -> TwoLabels:
    """Return which of two labels is positive.

    Parameters
    ----------
    counts : mapping of label to int
        How many rows have each of the two labels.
    positive : str, optional
        What a person says: the positive one as it is written.

    Raises
    ------
    ValueError
        If what a person says is none of them.
    """
    first, second = sorted(counts)
    if positive is None:
        chosen, why = _chosen(first, second, counts)
    else:
        asked = [label for label in (first, second) if written(label) == positive]
        if not asked:
            raise ValueError(f"the labels are {first!r} and {second!r}: {positive!r} is none of them")
        chosen, why = asked[0], "as asked"
    other = first if chosen == second else second
    return TwoLabels(other, chosen, counts[chosen] / sum(counts.values()), why)


def written(label: Label) -> str:
    """Return a label as a person writes it."""
    return str(label).lower() if isinstance(label, bool) else str(label)


def _chosen(first: Label, second: Label, counts: Mapping[Label, int]) -> tuple[Label, str]:
    for negative, positive in ((first, second), (second, first)):
        if _is_event(positive, negative) and not _is_event(negative, positive):
            return positive, "by its name"
    if counts[first] < counts[second]:
        return first, "the rarer one"
    return second, "the rarer one" if counts[second] < counts[first] else "the one that sorts last, of equally many"


def _is_event(label: Label, other: Label) -> bool:
    """Return whether the names say that a label is the event, and the other one its absence."""
    if (other, label) in _PAIRS:
        return True
    if isinstance(label, str) and isinstance(other, str):
        return _meaning(label) > 0 or _meaning(other) < 0
    return False


def _meaning(text: str) -> int:
    """Return 1 for the name of an event, -1 for that of its absence, and 0 for others; "not" turns them round."""
    text = text.strip().lower()
    if (negation := _NEGATION.match(text)) is not None:
        return -_meaning(text[negation.end() :])
    return int(_word(text) in EVENTS) - int(_word(text) in NO_EVENTS)


def _word(text: str) -> str:
    return re.sub(r"[\s_-]", "", text)
