"""What `streamsvm model show` says of a version that a person requested, and of rows that one is without."""

from __future__ import annotations

from typing import Final

from consumers.models.show import ShownFacts
from streamsvm.branches.history.refined_part import Refined
from streamsvm.branches.history.without_part import WithoutRows
from streamsvm.model.gap import learned_text
from streamsvm.model.version import Version


def lines(version: Version) -> list[tuple[str, str]]:
    """Return names and texts; of what a trainer publishes, none before rows were erased."""
    refined = version.lineage.fact(Refined)
    of_refined = [] if refined is None else [("refined", _refined(refined, version.stream.points))]
    without = version.lineage.fact(WithoutRows)
    obeyed = (
        [] if without is None else [("without", f"the rows of the record {without.sha256[:12]}, which were erased")]
    )
    return of_refined + obeyed


def _refined(refined: Refined, rows: int) -> str:
    """Say from which version, and how near it is."""
    proof = f"its objective is at most {refined.objective:.9g}, and that of no model is below {refined.bound:.9g}"
    over = learned_text(rows, refined.bounded)
    return f"from {refined.name}@{refined.number} ({refined.sha256[:12]}), over {over}: {proof}"


SHOWN: Final = ShownFacts(lines)
