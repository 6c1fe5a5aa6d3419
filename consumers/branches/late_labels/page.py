"""What the page of a trainer shows of late labels."""

from __future__ import annotations

from typing import Final

from consumers.branches.late_labels.status import JoinedLabels
from consumers.page.cells import bytes_of, number_of, table_of
from consumers.page.markup import Markup, element, join
from consumers.page.status import TrainerStatus

OUTCOMES: Final = {
    "joined": "Rows learned with their label",
    "joined_early": "Of those, label before its row",
    "absent": "Rows without a label at the end of the horizon",
    "unmatched_label": "Labels without a row",
    "doubled_row": "Rows with the key of another",
    "doubled_label": "Labels that came again",
    "changed_label": "Labels that changed",
}


def drawn(labels: JoinedLabels, status: TrainerStatus) -> Markup:  # noqa: ARG001 - others look at it
    """Show how labels of a topic of their own are joined."""
    path = "input.labels"
    decided = max(1, sum(count for name, count in labels.outcomes.items() if name != "joined_early"))
    outcomes = [
        [
            OUTCOMES.get(name, name),
            join(number_of(f"{path}.outcomes.{name}", count), element("small", f" {count / decided:.1%}")),
        ]
        for name, count in sorted(labels.outcomes.items())
    ]
    return table_of(
        f"Labels of the topic {labels.topic}",
        ["", "Count"],
        [
            ["Rows that wait for a label", number_of(f"{path}.open_rows", labels.open_rows)],
            ["Rows within the horizon", number_of(f"{path}.held_rows", labels.held_rows)],
            ["Memory of the join", bytes_of(f"{path}.bytes", labels.bytes)],
            ["Age of the oldest row, seconds", number_of(f"{path}.oldest_row_s", labels.oldest_row_s, ",.0f")],
            ["One topic has waited for the other, seconds", number_of(f"{path}.waiting_s", labels.waiting_s, ",.0f")],
            *outcomes,
        ],
        numbers=1,
    )
