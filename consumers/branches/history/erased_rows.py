"""Which rows of an input a version must not be of, and which versions are of rows that were erased since.

A version that was published before a row was erased stays what it is, and cannot be made again: that would take the
row. Versions after that are made again without the row.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamsvm.branches.history.erased import Erased
from streamsvm.branches.history.without_part import WithoutRows
from streamsvm.errors import TopicMissing
from streamsvm.kafka import Cluster
from streamsvm.model.left_out import Places
from streamsvm.model.version import Version, positions
from streamsvm.points import Position
from streamsvm.registry.aliases import read_aliases
from streamsvm.verification.recomputation import RowsLeftOut


class ErasedRows:
    """Reads the erased rows of each model once.

    Parameters
    ----------
    cluster : Cluster
    aliases_topic : str
    timeout_s : float
    """

    def __init__(self, cluster: Cluster, aliases_topic: str, timeout_s: float) -> None:
        self._cluster, self._topic, self._timeout_s = cluster, aliases_topic, timeout_s
        self._found: dict[str, Erased | None] = {}

    def of(self, name: str) -> Erased | None:
        """Return the record of a model; None where nothing was erased."""
        if name not in self._found:
            try:
                found = read_aliases(self._cluster, name, self._topic, self._timeout_s).left_out
            except TopicMissing:  # versions alone can be verified, too
                found = None
            assert found is None or isinstance(found, Erased)
            self._found[name] = found
        return self._found[name]

    def of_input(self, name: str, topic: str, topic_id: str) -> Erased | None:
        """Return the record of a model; None where nothing of this topic was erased."""
        erased = self.of(name)
        return erased if erased is not None and erased.is_of(topic, topic_id) else None

    def left_out(self, version: Version) -> Places:
        """Return the rows that a version was made without.

        Raises
        ------
        RowsLeftOut
            If it is of rows that were erased since.
        """
        lineage = version.lineage
        erased = self.of_input(version.name, lineage.topic, lineage.topic_id)
        if erased is None:
            return {}
        rows = of_rows(version, erased.since(version.number))
        if rows:
            named = ", ".join(shown(*row) for row in rows[:5]) + (", ..." if len(rows) > 5 else "")
            raise RowsLeftOut(f"{len(rows):,} of its rows were erased after it was published: {named}")
        return erased.places(version.number)

    def facts(self, version: Version) -> tuple[WithoutRows, ...]:
        """Return under which record a version of a trainer must have been made.

        Of one that was published before rows were erased once more, only its own word is left of the record of then.
        """
        lineage = version.lineage
        erased = self.of_input(version.name, lineage.topic, lineage.topic_id)
        if erased is None:
            return ()
        if not erased.since(version.number):
            return (WithoutRows(sha256=erased.sha256),)
        said = lineage.fact(WithoutRows)
        return () if said is None or not erased.places(version.number) else (said,)


def of_rows(version: Version, places: Mapping[int, frozenset[Position]]) -> list[tuple[int, Position]]:
    """Return those of some rows that a version is of."""
    lineage = version.lineage
    base, cut = positions(lineage.base), positions(lineage.cut)
    return [
        (partition, at)
        for partition, own in sorted(places.items())
        for at in sorted(own)
        if partition in base and base[partition] <= at < cut[partition]
    ]


def shown(partition: int, at: Position) -> str:
    """Write a row as `--position` takes it."""
    return f"{partition}:{at.offset}" + (f".{at.row}" if at.row else "")
