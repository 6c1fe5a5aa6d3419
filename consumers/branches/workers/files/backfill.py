"""`streamsvm scale backfill PATH...`: files are looked at, their cut is recorded, and their rows are learned.

The record of the cut goes first, because it says where learning begins: a trainer that begins an incarnation finds it
in the coresets topic. One that has begun elsewhere is not changed under its feet: that is refused, and it can begin
anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import structlog

from consumers.branches.workers.backfill import Task, learn, processors, shown
from consumers.branches.workers.coresets_topic import CoresetsWriter, check_topic, files_of, read_partition, topic_spec
from consumers.branches.workers.files.plan import FilesPlan, FoundFile
from consumers.branches.workers.files.survey import Survey, found_in, opened, survey
from consumers.branches.workers.metrics import WORKER
from consumers.branches.workers.settings import coresets_topic
from consumers.host.exit_codes import EXIT_RETRYABLE
from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.streams.identity import identity_of
from consumers.streams.ports import Stop
from consumers.streams.topics import check_input
from streamsvm.branches.workers.files_part import FORMAT, FilesCut, FilesOfPartition, Layout, changed_file
from streamsvm.delivery.decision import reset_token
from streamsvm.errors import ConfigurationError, StateError
from streamsvm.ingest.files.faults import listed
from streamsvm.ingest.files.roles import LABEL_NAMES
from streamsvm.kafka import Cluster, TopicInfo
from streamsvm.places import ROWS

log = structlog.get_logger("streamsvm.backfill")

AWAIT_S: Final = 0.5
"""Between two looks whether a trainer has opened the partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What a person gave.

    Attributes
    ----------
    paths : sequence of Path
    columns : mapping of str to str
        Of `layout_of`.
    in_topic : bool
        Whether the topic holds the same rows from its first record on, one a record.
    dead_letters : Path
        Folder of rejected rows.
    """

    paths: Sequence[Path]
    columns: Mapping[str, str]
    in_topic: bool
    dead_letters: Path


def task_of(settings: Settings, cluster: Cluster, given: Files, stop: Stop) -> Task | None:
    """Look at files, record them, and wait for a trainer; return what is then to be learned, None if `stop` was set.

    Parameters
    ----------
    settings : Settings
    cluster : Cluster
    given : Files
    stop : Stop

    Raises
    ------
    ConfigurationError
        If files or topics cannot be used.
    StateError
        If a file was changed, or the trainer began elsewhere.
    TransientError
        If the broker does not answer.
    """
    if settings.models().recipe is not None:
        raise ConfigurationError(
            "files of raw events cannot be backfilled, and [features] is configured",
            "Send them to the topic: streamsvm replay FILE --events.",
        )
    identity = identity_of(cluster, settings.input.topic, remedy="Let the trainer begin anew, then start it again.")
    source = cluster.describe(settings.input.topic)
    check_input(source)
    partitions = len(source.partitions)
    cluster.create([topic_spec(settings, partitions)])
    check_topic(cluster.describe(coresets_topic(settings)), partitions, cluster.max_message_bytes)
    files = found_in(given.paths)
    layout = layout_of(files, settings, given.columns, partitions)
    _say(layout, partitions, files)
    with shown(sum(file.size for file in files), "bytes") as show:
        found = survey(files, layout, partitions, show)
    cut = _cut_of(settings, cluster, source, found, layout, in_topic=given.in_topic)
    cut = _recorded(settings, cluster, cut)
    begun = _begun(settings, cluster, cut, stop)
    if begun is None:
        return None
    plan = FilesPlan(
        origin=cut.origin, files=tuple(files), parts=found.parts, dead_letters=str(given.dead_letters.absolute())
    )
    return Task(settings, cluster, begun, cut.rows, lambda: identity.confirm({}), plan)


def backfill_files(
    settings: Settings,
    cluster: Cluster,
    given: Files,
    stop: Stop,
    *,
    engine: str,
    master: str | None,
    processes: int | None,
) -> int:
    """Learn files by an engine; return the exit status, as `consumers.branches.workers.backfill.backfill` does."""
    if engine == "spark":
        from consumers.branches.workers.files.spark import learn_by_spark, require_spark

        master = require_spark(master)
        task = task_of(settings, cluster, given, stop)
        return EXIT_RETRYABLE if task is None else learn_by_spark(task, master, stop, tasks=processes)
    task = task_of(settings, cluster, given, stop)
    return EXIT_RETRYABLE if task is None else learn(task, processes or processors(), stop)


def layout_of(files: Sequence[FoundFile], settings: Settings, columns: Mapping[str, str], partitions: int) -> Layout:
    """Return what the columns are: as given, else as their names say.

    Parameters
    ----------
    files : sequence of FoundFile
    settings : Settings
    columns : mapping of str to str
        Any of ``label``, ``features`` (separated by commas), ``weight``, ``key``, ``partition``, ``time`` and
        ``partitioner``.
    partitions : int
        Of the topic.

    Raises
    ------
    ConfigurationError
        If a column cannot be found, or nothing says in which partition a row lies.
    """
    points, table = settings.models().points, opened(files[0])
    given = {name: value for name, value in columns.items() if value}
    label = given.pop("label", "") or _guessed_label(files[0], table.names)
    named = given.pop("features", "")
    other = {label, *(given.get(name, "") for name in ("weight", "key", "partition", "time"))}
    features = tuple(named.split(",")) if named else points.feature_names
    if not features:
        features = ("x",) if "x" in table.names else tuple(name for name in table.names if name not in other)
    layout = Layout.of(label=label, features=features, **given)
    table.kinds(layout)  # refuses what is not there
    if len(features) > 1 and len(features) != points.dimension:
        raise ConfigurationError(
            f"{files[0].name} has {len(features)} feature columns ({listed(features)}), but points.dimension is "
            f"{points.dimension}",
            "Give --features, or correct points.dimension.",
        )
    if partitions > 1 and not (layout.key or layout.partition):
        raise ConfigurationError(
            f"nothing says in which of the {partitions} partitions of {settings.input.topic} a row lies",
            "Give --key, the column whose bytes are the record's key; or --partition-column, which holds the number.",
        )
    return layout


def _guessed_label(file: FoundFile, names: Sequence[str]) -> str:
    found = [name for name in names if name.lower() in LABEL_NAMES]
    if len(found) != 1:
        raise ConfigurationError(
            f"{file.name} has {'several columns' if found else 'no column'} named y, label, class or target",
            f"Give --label, one of: {listed(names)}.",
        )
    return found[0]


def _say(layout: Layout, partitions: int, files: Sequence[FoundFile]) -> None:
    by = f"the number in {layout.partition}" if layout.partition else "there is one partition"
    if layout.key and not layout.partition:
        how = "Kafka's murmur2, as of Java clients and of partitioner=murmur2_random"
        if layout.partitioner == "crc32":
            how = "CRC-32, librdkafka's own default"
        by = f"{how}, of the bytes of {layout.key} modulo {partitions}"
    log.info("files_found", files=len(files), label=layout.label, features=listed(layout.features), partition=by)


def _cut_of(
    settings: Settings, cluster: Cluster, source: TopicInfo, found: Survey, layout: Layout, *, in_topic: bool
) -> FilesCut:
    """Return the cut, or refuse one that has no place in the topic.

    Raises
    ------
    ConfigurationError
    """
    ranges = {partition: cluster.log_range(source.name, partition) for partition in source.partitions}
    for partition, rows in enumerate(found.rows):
        first, end = ranges[partition]
        if in_topic and first + rows > end:
            raise ConfigurationError(
                f"the files hold {rows:,} rows of partition {partition}, but {source.name}[{partition}] holds "
                f"{end - first:,} records: it does not hold the same rows",
                "Leave out --in-topic: then the files go before the topic's first record.",
            )
        if not in_topic and rows and not first:
            raise ConfigurationError(
                f"{source.name}[{partition}] begins at offset 0, so nothing can go before it",
                "Give --in-topic if it holds the same rows, one a record. Else make room for one record: write one, "
                "and delete it with kafka-delete-records, in every partition; or send the files with streamsvm replay.",
            )
        if rows >= ROWS:
            raise ConfigurationError(
                f"the files hold {rows:,} rows of partition {partition}; possible are {ROWS - 1:,}",
                "Give the topic more partitions.",
            )
    parts = tuple(
        FilesOfPartition(partition, rows, ranges[partition][0] + (rows if in_topic else 0))
        for partition, rows in enumerate(found.rows)
    )
    return FilesCut(
        format=FORMAT,
        name=settings.name,
        topic=source.name,
        topic_id=source.topic_id or "",
        files=found.named,
        layout=layout,
        in_topic=in_topic,
        partitions=parts,
    )


def _recorded(settings: Settings, cluster: Cluster, cut: FilesCut) -> FilesCut:
    """Return the cut that is in force, written if it was not there: a trainer that goes on from one keeps it.

    Raises
    ------
    StateError
        If that is another one, naming the first file that differs.
    """
    known = files_of(cluster, settings)
    if known is not None and (known.topic, known.topic_id) == (cut.topic, cut.topic_id):
        # Where the stream goes on was decided at the first look: retention may have moved the beginning since.
        if msgspec.structs.replace(known, partitions=cut.partitions) == cut and known.rows == cut.rows:
            return known
        opening = read_partition(cluster, settings, 0)[0].opening
        if opening is not None and opening.topic_id == cut.topic_id and (*opening.base,) == (*known.base[0],):
            raise StateError(
                f"the trainer of {cut.name} began with other files: {_difference(known, cut)}",
                "Restore the files. To learn these instead, remove the record of the others (a tombstone of the key "
                f"{cut.name}/f in every partition of {coresets_topic(settings)}), start the backfill again, and let "
                f"the trainer begin anew with --reset {reset_token(cut.name, opening.incarnation)}.",
            )
    with closing(cluster.outbox()) as outbox:
        CoresetsWriter(coresets_topic(settings), outbox, Metrics(WORKER)).put_files(cut)
    log.info("files_recorded", files=len(cut.files), rows=sum(cut.rows.values()), goes_on_at=cut.next)
    return cut


def _difference(known: FilesCut, cut: FilesCut) -> str:
    """Say in what two cuts differ, for people."""
    changed = changed_file(known.files, cut.files)
    if changed:
        return changed
    if known.layout != cut.layout:
        return f"columns were read as {known.layout}, and are now {cut.layout}"
    return "--in-topic was given then, and not now, or the other way round; or the topic has other partitions"


def _begun(settings: Settings, cluster: Cluster, cut: FilesCut, stop: Stop) -> dict[int, int] | None:
    """Return how many rows of each partition are learned, having waited for a trainer; None if `stop` was set.

    Raises
    ------
    StateError
        If a trainer began elsewhere.
    """
    waits = False
    while True:
        found = {partition: read_partition(cluster, settings, partition)[0] for partition in cut.base}
        openings = {partition: one.opening for partition, one in found.items()}
        begun = {
            partition: (*opening.base,) == (*cut.base[partition],) and opening.topic_id == cut.topic_id
            for partition, opening in openings.items()
            if opening is not None
        }
        if len(begun) == len(cut.base):
            break
        if not waits:
            log.info(
                "trainer_awaited",
                remedy="start `streamsvm train --from-coresets` with the same configuration: it begins with these "
                "files. It may go on running",
            )
        waits = True
        if stop.wait(AWAIT_S):
            return None
    wrong = next((partition for partition, right in begun.items() if not right), None)
    if wrong is not None:
        opening = openings[wrong]
        assert opening is not None
        raise StateError(
            f"the trainer of {cut.name} began partition {wrong} at offset {opening.base[0]} row {opening.base[1]}, "
            f"without these files, which begin at offset {cut.base[wrong].offset}",
            f"Let it begin anew, with --from-coresets --reset {reset_token(cut.name, opening.incarnation)}: version "
            "numbers go on, and this command then learns the files.",
        )
    learned = {}
    for partition, one in found.items():
        highest = one.highest()
        learned[partition] = 0 if highest is None else cut.row_at(partition, highest.manifest.at)
    return learned
