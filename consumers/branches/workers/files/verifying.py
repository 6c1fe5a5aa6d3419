"""What `verify` knows of files: versions that were made of them name them, and are made again from them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from consumers.branches.workers.files.plan import FilesPlan
from consumers.branches.workers.files.rows import Stretch, rows_in
from consumers.branches.workers.files.survey import found_in, survey
from consumers.branches.workers.settings import FilesConfig
from consumers.settings import Settings
from consumers.verify.source import InputSource, ReplaySource
from consumers.verify.verifier import Verifier, Verifies
from streamsvm.branches.workers.files_part import FilesOrigin, changed_file, with_files
from streamsvm.errors import StateError
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.model.left_out import Places, masked
from streamsvm.model.version import Version
from streamsvm.points import Position, Positions
from streamsvm.sections import section
from streamsvm.verification.recomputation import NotRecomputable, Recomputation


class FilesVerifier(Verifier):
    """The branch's own.

    Parameters
    ----------
    cluster : Cluster
    settings : Settings
    timeout_s : float
    schemas : SchemaRegistry, optional
    """

    def __init__(
        self, cluster: Cluster, settings: Settings, timeout_s: float, schemas: SchemaRegistry | None = None
    ) -> None:
        self._cluster, self._timeout_s, self._schemas = cluster, timeout_s, schemas
        self._paths = tuple(map(Path, section(settings, FilesConfig).paths))
        self._plan = cache(self._planned)

    def facts(self, version: Version) -> tuple[msgspec.Struct, ...]:
        """Return the files that a version names."""
        origin = version.lineage.fact(FilesOrigin)
        return () if origin is None else (origin,)

    def held(self, version: Version, log: Mapping[int, tuple[int, int]]) -> Mapping[int, tuple[int, int]]:
        """Return what log and files hold together.

        Raises
        ------
        NotRecomputable
            If files are needed, and none is given.
        StateError
            If others are given.
        """
        origin = version.lineage.fact(FilesOrigin)
        if origin is None:
            return log
        if not self._paths:
            raise NotRecomputable(
                f"the version begins with {len(origin.files):,} files, such as {origin.files[0].name}: give them with "
                "--files"
            )
        self._plan(origin)
        return with_files(origin, log)

    def source(self, version: Version, recomputation: Recomputation, without: Places) -> ReplaySource | None:
        """Return what reads a version's files, and then its topic; None where it has none."""
        origin = version.lineage.fact(FilesOrigin)
        if origin is None:
            return None
        plan = self._plan(origin)
        return _FilesThenTopic(self._cluster, recomputation, plan, self._timeout_s, self._schemas, without)

    def _planned(self, origin: FilesOrigin) -> FilesPlan:
        files = found_in(self._paths)
        found = survey(files, origin.layout, len(origin.partitions))
        changed = changed_file(origin.files, found.named)
        if changed:
            raise StateError(
                f"these are not the files that the version was made of: {changed}",
                "Restore the files, and give --files as the backfill was given them.",
            )
        if found.rows != tuple(origin.rows.values()):
            raise StateError(
                f"the files have {found.rows} rows of the partitions, but the version says "
                f"{tuple(origin.rows.values())}",
                "The version was not made from these files by this program: do not trust it.",
            )
        return FilesPlan(origin=origin, files=tuple(files), parts=found.parts, dead_letters="")


class _FilesThenTopic(InputSource):
    """Reads each partition's rows from files, and from where the stream goes on from the topic.

    Of several partitions each is read by itself, so that none has to wait in memory for another.

    Parameters
    ----------
    cluster, recomputation, timeout_s, schemas, without
        As of `InputSource`.
    plan : FilesPlan
    """

    def __init__(
        self,
        cluster: Cluster,
        recomputation: Recomputation,
        plan: FilesPlan,
        timeout_s: float,
        schemas: SchemaRegistry | None,
        without: Places,
    ) -> None:
        super().__init__(cluster, recomputation, timeout_s, schemas, without)
        self._plan, self._points = plan, recomputation.config.points
        self._next = {partition: Position(offset) for partition, offset in plan.origin.next.items()}
        self._stretches: dict[int, Iterator[Stretch]] = {}

    def _read(self, behind: Positions, positions: Positions) -> None:
        in_files = {partition: at for partition, at in behind.items() if self._is_in_files(partition, at)}
        for partition, at in in_files.items():
            if partition not in self._stretches:
                learned = self._plan.origin.row_at(partition, at)
                self._stretches[partition] = rows_in(self._plan, self._points, {partition: learned})
            stretch = next(self._stretches[partition], None)
            if stretch is not None:
                self._backlog.setdefault(partition, deque()).append(masked(stretch.rows, self._without))
        if in_files.keys() != behind.keys():
            super()._read({p: at for p, at in behind.items() if p not in in_files}, positions)

    def _assign(self, positions: Positions) -> None:
        super()._assign({p: at for p, at in positions.items() if not self._is_in_files(p, at)})
        self._stretches = {}  # what they have read is forgotten with the backlog

    def _is_in_files(self, partition: int, at: Position) -> bool:
        return at < self._next.get(partition, at)


VERIFIES: Final = Verifies(FilesVerifier)
