"""What the live page shows of a scorer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from consumers.page import charts
from consumers.page.cells import (
    NONE,
    age_of,
    figure_of,
    letters_of,
    looks_of,
    name_of,
    number_of,
    short_hash,
    table_of,
    verdict_of,
)
from consumers.page.markup import Child, Markup, element, join
from consumers.page.status import ScorerStatus, ScoringPart, ServingPart

MOST_LABELS = 12
"""Of more labels the rarest answers are added up."""


def scorer_part(status: ScorerStatus, now: datetime) -> list[Markup]:
    """Return the parts of a scorer's page, in their order."""
    serving = status.serving
    return [
        verdict_of(status, now),
        element(
            "section",
            element("h2", "Overview", class_="unseen"),
            element(
                "dl",
                figure_of("Serving version", number_of("serving.number", serving.number if serving else None),
                        join("for ", age_of(serving.loaded, now)) if serving else None),
                figure_of("Points scored", number_of("scored_points", status.scored_points),
                        _rate(status.scoring)),
                *_glance_of_scoring(status.scoring),
                figure_of("Batches committed", number_of("batches.committed", status.batches.get("committed")),
                        join(number_of("batches.put_back", status.batches.get("put_back")), " put back")),
                figure_of("Models refused", number_of("refused_models", status.refused_models), None),
                class_="glance",
            ),
        ),
        *([] if status.scoring is None else _scoring(status.scoring)),
        element(
            "div",
            looks_of(status.looks, None if status.scoring is None else status.scoring.labels),
            letters_of(status.dead_letters, "dead_letters", status.letters, "letters", now),
            class_="columns even",
        ),
        _serving(serving, now),
    ]  # fmt: skip


def _glance_of_scoring(scoring: ScoringPart | None) -> list[Markup]:
    if scoring is None:
        return []
    path, scores, drift = "scoring", scoring.positive + scoring.negative, scoring.drift
    share = f"{scoring.positive / scores:.1%}" if scores else NONE
    newest = scoring.history[-1].latency_s if scoring.history else None
    positive = join("of ", number_of(f"{path}.accepted", scoring.accepted), " since this start")
    return [
        figure_of("Lag", number_of(f"{path}.lag_total", scoring.lag_total), "records"),
        figure_of("Latency", NONE if newest is None else f"{newest:.3g} s",
                "record to score, longest of the newest"),
        figure_of("Positive", share, positive),
        figure_of("Rejected", number_of(f"{path}.rejected", scoring.rejected), "rows since this start"),
        figure_of("Drift of scores", number_of(f"{path}.drift.index", drift.index, ".3f"),
                join("by chance below ", number_of(f"{path}.drift.chance", drift.chance, ".3f"))),
    ]  # fmt: skip


def _rate(scoring: ScoringPart | None) -> Child:
    if scoring is None or not scoring.history:
        return None
    return f"{scoring.history[-1].points_per_s:,.0f} per second"


def _scoring(scoring: ScoringPart) -> list[Markup]:
    """Return what one watches: rate, lag, latency, share of each label and drift through time, and both histograms."""
    moments = scoring.history
    times = [moment.time for moment in moments]
    waiting = [None if moment.lag is None else float(moment.lag) for moment in moments]
    whole, seconds, share = "{:,.0f}".format, "{:.3g} s".format, "{:.1%}".format
    positive = "second label" if scoring.labels is None else scoring.labels[1]
    lines: list[tuple[str, str, Sequence[float | None], Callable[[float], str]]] = [
        ("rate", "Points scored per second", [moment.points_per_s for moment in moments], whole),
        ("lag", "Records behind the end of the input", waiting, whole),
        ("latency", "Longest time from record to score", [moment.latency_s for moment in moments], seconds),
        ("positive", f"Share of the label {positive}", [moment.positive for moment in moments], share),
        ("drift", "Drift: population stability index", [moment.drift for moment in moments], "{:.3f}".format),
    ]
    through = [
        _chart(title, charts.line(name, title, times, values, shown), _first(values, shown))
        for name, title, values, shown in lines
    ]
    drift = scoring.drift
    if drift.why:
        through[-1] = _chart("Drift: population stability index", None, drift.why)
    values = charts.histogram("values", "Scores since the process started, by decision value", scoring.values, "")
    latency = charts.histogram(
        "waited", "Records since the process started, by seconds from record to score", scoring.latency_s, " s"
    )
    return [
        element("div", *through[:3], class_="columns three"),
        element("div", *through[3:], _labels(scoring), class_="columns three"),
        element(
            "div",
            _chart("Scores by decision value", values, "No point was scored yet."),
            _chart("Seconds from record to score", latency, "No point was scored yet."),
            class_="columns",
        ),
    ]


def _first(values: Sequence[float | None], shown: Callable[[float], str]) -> str:
    """Return the one value that is no line yet."""
    for value in values:
        if value is not None:
            return f"{shown(value)} so far; the chart begins with the second value."
    return "Not available yet."


def _chart(title: str, drawing: Markup | None, empty: str) -> Markup:
    shown = element("p", empty, class_="empty") if drawing is None else element("figure", drawing)
    return element("section", element("h2", element("bdi", title)), shown)


def _labels(scoring: ScoringPart) -> Markup:
    names = scoring.labels or ("first", "second")
    rows: list[list[Child]] = [
        [name_of(names[0]), number_of("scoring.negative", scoring.negative)],
        [name_of(names[1]), number_of("scoring.positive", scoring.positive)],
    ]
    if len(names) > 2:
        often = sorted(scoring.by_label.items(), key=lambda one: -one[1])
        rows = [[name_of(label), f"{count:,}"] for label, count in often[:MOST_LABELS]]
        if len(often) > MOST_LABELS:
            rows.append([f"{len(often) - MOST_LABELS} more", f"{sum(one for _, one in often[MOST_LABELS:]):,}"])
    table = table_of("Scores since the process started, by label", ["Label", "Scores"], rows, numbers=1)
    return element("section", element("h2", "Labels"), table)


def _serving(serving: ServingPart | None, now: datetime) -> Markup:
    if serving is None:
        content = element("p", "No version was loaded yet.", class_="empty")
    else:
        published = NONE if serving.published is None else join(age_of(serving.published, now), " ago")
        content = table_of(
            "The version that scores now",
            ["", ""],
            [
                ["Number", number_of("serving.number", serving.number)],
                ["Hash", short_hash(serving.sha256)],
                ["Published", published],
                ["Points covered", number_of("serving.points", serving.points)],
                ["Support vectors", number_of("serving.support_vectors", serving.support_vectors)],
            ],
            numbers=1,
        )
    return element("section", element("h2", "The model"), content)
