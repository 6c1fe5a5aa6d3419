"""What `streamsvm model show` says of a version that a person requested, and of rows that one is without."""

from __future__ import annotations

from typing import Final

from consumers.host.untrusted_text import moment
from consumers.models.show import ShownFacts
from streamsvm.branches.history.built_part import Built
from streamsvm.branches.history.without_part import WithoutRows
from streamsvm.model.version import Version


def lines(version: Version) -> list[tuple[str, str]]:
    """Return names and texts; of what a trainer publishes, none before rows were erased."""
    built = version.lineage.fact(Built)
    of_built = [] if built is None else [("built", _built(built))]
    without = version.lineage.fact(WithoutRows)
    obeyed = (
        [] if without is None else [("without", f"the rows of the record {without.sha256[:12]}, which were erased")]
    )
    return of_built + obeyed


def _built(built: Built) -> str:
    """Say of which stretch."""
    since = "the beginning" if built.since_ms is None else moment(built.since_ms)
    until = "the end" if built.until_ms is None else moment(built.until_ms)
    holes = "".join(f", without {moment(first)} to {moment(last)}" for first, last in built.without_ms)
    forgotten = f", {len(built.forgotten)} rows forgotten" if built.forgotten else ""
    short = "" if built.exact else "; rows at a border are left out"
    return f"from {since} to {until}{holes}{forgotten}: {len(built.parts)} parts{short}"


SHOWN: Final = ShownFacts(lines)
