"""Which of two labels is positive: by its name, or the rarer one; never by its spelling."""

from __future__ import annotations

import pytest

from streamsvm.model.described import Label
from streamsvm.model.positive_label import two_labels

EVENTS: list[tuple[Label, Label]] = [
    ("legit", "fraud"),
    ("retained", "churned"),
    ("normal", "attack"),
    ("no", "yes"),
    ("N", "Y"),
    ("good", "bad"),
    ("ham", "spam"),
    ("not fraud", "fraud"),
    ("non-event", "event"),
    ("No churn", "Churn"),
    ("healthy", "not healthy"),
    ("Ok", "Not ok"),
    ("normal", "not-normal"),
    ("paid", "not paid"),
    ("on time", "not_on_time"),
    ("unchurned", "churned"),
    ("not late", "late"),
    ("without_defect", "defect"),
    ("benign", "malignant"),
    ("on time", "late"),
    ("paid", "default"),
    ("noise", "pulsar"),
    ("false", "true"),
    ("0", "1"),
    (0, 1),
    (-1, 1),
    (False, True),
]


@pytest.mark.parametrize(("none", "event"), EVENTS)
@pytest.mark.parametrize("events", [50, 950])
def test_words_decide(none: Label, event: Label, events: int) -> None:
    """However rare the event is, and in whichever order its label sorts."""
    found = two_labels({none: 1_000 - events, event: events})
    assert (found.negative, found.positive, found.why) == (none, event, "by its name")
    assert found.share == events / 1_000
    assert repr(event) in found.said


@pytest.mark.parametrize(
    "labels",
    [
        ("a", "b"),
        ("M", "B"),
        ("show", "no-show"),
        ("no-show", "show"),
        ("delivered", "not delivered"),
        ("non smoker", "smoker"),
        ("legit", "not fraud"),
        ("<=50K", ">50K"),
        (1, 2),
        ("good", "excellent"),
    ],
)
def test_the_rarer_one_is_the_event_where_no_word_says_it(labels: tuple[Label, Label]) -> None:
    """Names that say nothing, or the same of both."""
    first, second = labels
    if labels != ("good", "excellent"):
        assert two_labels({first: 1, second: 9}).positive == first
    assert two_labels({first: 9, second: 1}).positive == second


def test_a_person_says_it() -> None:
    """As the label is written; another word is refused."""
    assert two_labels({False: 1, True: 9}, "false").positive is False
    assert two_labels({1: 9, 2: 1}, "1").positive == 1
    assert two_labels({"fraud": 1, "legit": 9}, "legit").cost_said((50.0, 1.0)) == (
        "a missed 'legit' costs 50, a false alarm 1"
    )
    with pytest.raises(ValueError, match="'frod' is none of them"):
        two_labels({"fraud": 1, "legit": 9}, "frod")
