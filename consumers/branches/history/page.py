"""What the page of a trainer shows of erased rows."""

from __future__ import annotations

from consumers.branches.history.status import ErasurePart
from consumers.page.cells import number_of
from consumers.page.markup import Markup, element, join
from consumers.page.status import TrainerStatus


def drawn(found: ErasurePart, status: TrainerStatus) -> Markup:  # noqa: ARG001 - others look at it
    """Show how many rows are left out, and whether the newest version is without them; nothing where none are."""
    if not found.rows:
        return join()
    rows = join(number_of("erasure.rows", found.rows), " rows of the input were erased. ")
    if not found.waits:
        return element("p", rows, "The newest version is without them.")
    return element(
        "p",
        rows,
        "The newest version may be of some of them. ",
        "The log is read again, and a version without them takes its place before anything new is learned.",
    )
