"""What `streamsvm model show` says of rows that a version is without."""

from __future__ import annotations

from typing import Final

from consumers.models.show import ShownFacts
from streamsvm.branches.history.without_part import WithoutRows
from streamsvm.model.version import Version


def lines(version: Version) -> list[tuple[str, str]]:
    """Return names and texts; none before rows were erased."""
    without = version.lineage.fact(WithoutRows)
    return [] if without is None else [("without", f"the rows of the record {without.sha256[:12]}, which were erased")]


SHOWN: Final = ShownFacts(lines)
