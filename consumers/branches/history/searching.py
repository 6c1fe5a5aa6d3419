"""`streamsvm history search`: whether anything of some rows is left, in every store that may carry rows.

What is looked for stands in `streamsvm.branches.history.traces`, where it is looked for in
`consumers.streams.row_stores`. Of a topic every record that the log still holds is looked at, aborted ones too: key,
value and headers. A version's support vectors are scaled, so each version is searched for the rows as it scales them,
and its ONNX copy for these as that graph keeps them: twice their distance from the mean support vector.

Invariant: it only reads. Nothing of what is found is shown, only where it is and in which form.
"""

from __future__ import annotations

import gzip
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from consumers.branches.history.erased_rows import shown
from consumers.settings import Settings
from consumers.streams.row_stores import RowStore, every_store
from streamsvm.branches.history.traces import Content, Found, Traces
from streamsvm.config import ModelConfig
from streamsvm.errors import ConfigurationError, InvalidMessage, TopicMissing
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.kafka import Cluster, Record, SchemaRegistry
from streamsvm.model import message as model_codec
from streamsvm.model.classes import AnyModel
from streamsvm.model.machine import KernelMachine, Scaler
from streamsvm.model.packing import Grid
from streamsvm.points import Position

INPUT: Final = "input"
MOST_PLACES: Final = 20
"""Of one store and form, so many are named."""
PIECE_BYTES: Final = 1 << 23
"""Of a file at once. Looking through a piece takes some 20 times its bytes of memory."""
OVERLAP_BYTES: Final = 1 << 20
"""Pieces of a file overlap by more than any trace is long, but that of a record of more than a megabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Something of a row that was met.

    Attributes
    ----------
    store : str
    where : str
        Topic, partition and offset, or file.
    row : str
    form : str
        Of the trace.
    """

    store: str
    where: str
    row: str
    form: str


@dataclass(frozen=True, slots=True)
class Looked:
    """What came of a store.

    Attributes
    ----------
    store : str
    where : str
    items, bytes : int
        Records and files that were looked at.
    unread : int
        Files, directories and topics of it that could not be read: nothing is known of them.
    skipped : str
        Why it, or a part of it, was not looked at; empty if all was.
    """

    store: str
    where: str
    items: int = 0
    bytes: int = 0
    unread: int = 0
    skipped: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What a search came to.

    Attributes
    ----------
    rows : tuple of str
        What was looked for.
    traces : int
    untold : tuple of str
        Rows that have no trace of some form, since their values are few or round.
    looked : tuple of Looked
    left : tuple of Leftover
    """

    rows: tuple[str, ...]
    traces: int
    untold: tuple[str, ...]
    looked: tuple[Looked, ...]
    left: tuple[Leftover, ...]

    @property
    def unread(self) -> int:
        """How many files, directories and topics could not be read."""
        return sum(one.unread for one in self.looked)

    def lines(self, missing: Sequence[str]) -> list[str]:
        """Return it for people; `missing` are rows that could not be read."""
        lines = [f"looked for {len(self.rows):,} rows by {self.traces:,} traces"]
        lines += [f"{one} could not be looked for: the log does not hold it" for one in missing]
        lines += [f"{one}: the values are too few or too round for a trace of this form" for one in self.untold]
        for one in self.looked:
            skipped = f"; {one.skipped}" if one.skipped else ""
            lines.append(f"{one.store}: {one.items:,} items, {one.bytes:,} bytes, {one.where}{skipped}")
        lines += [f"FOUND {one.row} in {one.store}, {one.where}: {one.form}" for one in self.left]
        lines += [f"{self.unread:,} places could not be read: nothing is known of them"] if self.unread else []
        return [*lines, f"{len(self.left):,} leftovers were found" if self.left else "nothing was found"]


def search(
    cluster: Cluster,
    settings: Settings,
    contents: Sequence[Content],
    given: Mapping[str, Sequence[Path]],
    timeout_s: float,
) -> Search:
    """Look for rows in every store.

    Parameters
    ----------
    cluster : Cluster
    settings : Settings
    contents : sequence of Content
        Of the rows.
    given : mapping of str to sequence of Path
        Files and directories of stores, by name, besides those that the options tell.
    timeout_s : float
        Seconds to wait without progress.

    Raises
    ------
    TransientError
        If the broker does not answer.
    """
    searching = _Searching(cluster, settings, Traces(contents), timeout_s)
    looked, left = [], []
    for store in every_store():
        found, of_store = searching.through(store, given.get(store.name, ()))
        looked.append(found)
        left += of_store
    traces = searching.traces
    return Search(
        rows=tuple(content.place for content in contents),
        traces=len(traces),
        untold=tuple(f"{place}: {form}" for place, form in sorted(traces.untold)),
        looked=tuple(looked),
        left=tuple(left),
    )


@dataclass(frozen=True, slots=True)
class _Item:
    """Where something is; how many records or files, and bytes; what was met; or why nothing was looked at."""

    place: str
    items: int = 0
    size: int = 0
    met: Found = frozenset()
    skipped: bool = False
    is_there: bool = True


def _unread(why: str) -> _Item:
    return _Item(why, skipped=True)


class _Searching:
    def __init__(self, cluster: Cluster, settings: Settings, traces: Traces, timeout_s: float) -> None:
        self._cluster, self._settings, self.traces, self._timeout_s = cluster, settings, traces, timeout_s
        self._kept: dict[bytes, _Kept] = {}

    def through(self, store: RowStore, given: Sequence[Path]) -> tuple[Looked, list[Leftover]]:
        """Look through one store."""
        where = store.where(self._settings)
        if store.part_of:
            return Looked(store=store.name, where=where, skipped=f"looked at with {store.part_of}"), []
        if store.name == INPUT:
            return Looked(store=store.name, where=where, skipped="it is what the rows were read from"), []
        met: dict[tuple[str, str], list[str]] = defaultdict(list)
        items, size, unread, skipped = 0, 0, 0, list[str]()
        for one in self._items(store, given):
            if one.skipped:
                unread += one.is_there
                skipped.append(one.place)
                continue
            items, size = items + one.items, size + one.size
            for pair in one.met:
                if len(met[pair]) < MOST_PLACES:
                    met[pair].append(one.place)
        if store.given and not given:
            skipped.append(f"give its files with --also {store.name.replace(' ', '-')}=PATH")
        left = [
            Leftover(store=store.name, where=place, row=row, form=form)
            for (row, form), places in sorted(met.items())
            for place in places
        ]
        return (
            Looked(store.name, where, items, size, unread, "; ".join(skipped)),
            left,
        )

    def _items(self, store: RowStore, given: Sequence[Path]) -> Iterator[_Item]:
        """Yield what was looked at, and what cannot be."""
        for topic in store.topics(self._settings):
            yield from self._records(topic)
        for files in store.files(self._settings):
            yield from self._directory(files.directory, files.pattern)
        for path in given:
            yield from self._directory(path, "**/*") if path.is_dir() else self._file(path)

    def _directory(self, directory: Path, pattern: str) -> Iterator[_Item]:
        if not directory.is_dir():
            yield _unread(f"{directory} is not there")
            return
        for path in sorted(directory.glob(pattern)):
            if path.is_file():
                yield from self._file(path)

    def _file(self, path: Path) -> Iterator[_Item]:
        met, size, kept = set[tuple[str, str]](), 0, b""
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                while piece := file.read(PIECE_BYTES):
                    met |= self.traces.met(kept + piece)
                    size, kept = size + len(piece), piece[-OVERLAP_BYTES:]
        except (OSError, EOFError, zlib.error) as error:
            yield _unread(f"{path} cannot be read: {error}")
            return
        yield _Item(str(path), 1, size, frozenset(met))

    def _records(self, topic: str) -> Iterator[_Item]:
        try:
            partitions = self._cluster.describe(topic).partitions
        except TopicMissing:
            yield _Item(f"there is no topic {topic}", skipped=True, is_there=False)
            return
        found, items, size = list[_Item](), 0, 0

        def look(record: Record) -> bool:
            nonlocal items, size
            content = b"\0".join(
                (record.key or b"", record.value or b"", *(bytes(value or b"") for _, value in record.headers))
            )
            items, size = items + 1, size + len(content)
            met = self.traces.met(content) | self._as_scaled(record, content)
            if met:  # the others are many, and nothing is said of one
                found.append(_Item(f"{topic}[{record.partition}]@{record.offset}", 0, 0, met))
            return False

        for partition in partitions:
            self._cluster.stored([(topic, partition)], look, timeout_s=self._timeout_s)
            yield from found
            found.clear()
        yield _Item(topic, items, size, frozenset())

    def _as_scaled(self, record: Record, content: bytes) -> Found:
        """Return what is met of the rows as a version scales them, in the version and in its copies."""
        key = record.key or b""
        if record.value is None or b"@" not in key:
            return frozenset()
        if key not in self._kept:
            try:
                self._kept[key] = _kept(model_codec.decode(record.value).model)
            except InvalidMessage:
                return frozenset()
        return Traces(self._kept[key].of(self.traces.contents)).met(content)


@dataclass(frozen=True, slots=True)
class _Kept:
    """How a version and its ONNX copy keep rows: all that is remembered of it until its copy comes."""

    dimension: int
    scaler: Scaler
    centre: NDArray[np.float64] | None
    grid: Grid | None

    def of(self, contents: Sequence[Content]) -> Iterator[Content]:
        """Yield rows as they are kept."""
        for content in contents:
            if len(content.values) != self.dimension:
                continue
            scaled = content.scaled(self.scaler, self.grid)
            yield scaled
            if self.centre is not None:
                yield Content(place=content.place, values=2.0 * (scaled.values - self.centre))


def _kept(model: AnyModel) -> _Kept:
    machine = model.machine
    centre = machine.support.mean(axis=0) if isinstance(machine, KernelMachine) and len(machine.support) else None
    packing = machine.packing if isinstance(machine, KernelMachine) else None
    return _Kept(model.dimension, model.scaler, centre, None if packing is None else packing.grid)


def contents_in_log(
    cluster: Cluster,
    topic: str,
    config: ModelConfig,
    places: Mapping[int, Sequence[Position]],
    schemas: SchemaRegistry | None,
    timeout_s: float,
) -> tuple[list[Content], list[str]]:
    """Return what stands at some places of a topic, and which of them the log does not hold."""
    decoder = PointDecoder(config.points, labeled=False, schemas=schemas, recipe=config.recipe)
    found, missing = [], []
    for partition, own in sorted(places.items()):
        first, end = cluster.log_range(topic, partition)
        for offset in sorted({at.offset for at in own}):
            wanted = [at for at in own if at.offset == offset]
            record = None
            if first <= offset < end:
                record = next(
                    (
                        one
                        for one in cluster.read_to_end(topic, partition, start=offset, timeout_s=timeout_s)
                        if one.offset >= offset
                    ),
                    None,
                )
            if record is None or record.offset != offset:
                missing += [shown(partition, at) for at in wanted]
                continue
            of_record = contents_of(decoder, record)
            for at in wanted:
                if at.row in of_record:
                    found.append(of_record[at.row])
                else:
                    missing.append(shown(partition, at))
    return found, missing


def contents_in_file(path: Path, topic: str, config: ModelConfig, schemas: SchemaRegistry | None) -> list[Content]:
    """Return the rows of records whose values stand in a file, one a line.

    Raises
    ------
    ConfigurationError
        If the file cannot be read.
    """
    decoder, found = PointDecoder(config.points, labeled=False, schemas=schemas, recipe=config.recipe), []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            record = Record(topic, 0, number, None, line, (), -1, None)
            rows = contents_of(decoder, record)
            found += [replace(content, place=f"{path.name}:{number}.{row}") for row, content in rows.items()]
    return found


def contents_of(decoder: PointDecoder, record: Record) -> dict[int, Content]:
    """Return the rows of a record, by their numbers in it."""
    decoded = decoder.decode([record])
    names, found = iter(decoded.ids), {}
    for rows in decoded.rows:
        for at, row in enumerate(rows.row.tolist()):
            name = next(names, None)
            found[row] = Content(
                place=shown(record.partition, Position(record.offset, row)),
                values=np.array(rows.points.X[at]),
                id="" if name is None else str(name),
                key=record.key or b"",
                record=record.value or b"",
            )
    return found
