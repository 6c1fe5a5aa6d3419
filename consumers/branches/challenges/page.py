"""What the page of a trainer shows of challenges."""

from __future__ import annotations

from consumers.branches.challenges.status import ChallengePart
from consumers.page.cells import NONE, number_of, table_of
from consumers.page.markup import Child, Markup, element, join
from consumers.page.status import TrainerStatus


def drawn(found: ChallengePart, status: TrainerStatus) -> Markup:
    """Show who challenges the current version, and how challenges ended."""
    current = next((version.number for version in status.versions if version.current), None)
    named = found.figure.replace("_", " ") if found.figure != "auc" else "AUC"
    rival = number_of("challenge.challenger", found.challenger) if found.challenger else join(NONE)
    rows: list[list[Child]] = [
        [
            "Champion",
            join(NONE if current is None else f"{current:,}"),
            number_of("challenge.champion_figure", found.champion_figure, ".4f"),
        ],
        ["Challenger", rival, number_of("challenge.challenger_figure", found.challenger_figure, ".4f")],
    ]
    labels = join(
        number_of("challenge.labels", found.labels), " of ", number_of("challenge.most_labels", found.most_labels)
    )
    certain = join(
        number_of("challenge.low", found.low, "+.4f"), " to ", number_of("challenge.high", found.high, "+.4f")
    )
    ended = [f"{outcome}: {count:,}" for outcome, count in sorted(found.ended.items()) if count]
    return element(
        "section",
        table_of(f"Champion and challenger, by {named} as served", ["", "Version", named], rows, numbers=2),
        element("p", "Labels of rows that both scored: ", labels, "."),
        element("p", "The challenger differs by ", certain, " (above 0: better); this holds at all looks together."),
        element("p", "Challenges that ended since this start: ", ", ".join(ended) or "none", "."),
    )
