"""How soon a reader is ready after very many versions, and how soon a pin or a rollback reaches one that runs.

``python -m tests.benchmarks.reader_start --versions 100000 --moves 60`` on a real broker: versions of two features are
written with the records that a trainer writes beside each (head, current), in transactions of 500 versions, for one a
version would take an hour; so there are fewer markers of transactions than a trainer leaves. Then, each several times:
a new subscriber until it is ready; the newest twenty versions listed; one version in the middle loaded by its number,
to which the chain of hashes leads from the newest; and moves, seen from when they are asked for, and from when their
commit was answered, until the subscriber has swapped the version in.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from consumers.models.catalogue import holds_newest, read_catalogue, read_names
from consumers.models.moving import Decide, Records, RollBack, perform, pin, unpin
from consumers.settings import OutputConfig, Settings
from consumers.streams.topics import output_topics
from streamsvm.kafka import Cluster, Connection, Message, Publisher
from streamsvm.model import message as model_codec
from streamsvm.model import pointers
from streamsvm.model.ancestry import Ancestor
from streamsvm.model.pointers import Alias, Head, current_key, encode_alias, encode_head, head_key
from streamsvm.registry.loading import Loaded, load_version
from streamsvm.registry.subscriber import ModelSubscriber
from tests.brokers import start_real_broker
from tests.test_subscriber import NAME, version_of

AT_ONCE: Final = 500
REPEATS: Final = 5
DEADLINE_S: Final = 120.0
MADE: Final = datetime(2026, 1, 1, tzinfo=UTC)


def write_versions(connection: Connection, settings: Settings, count: int) -> int:
    """Publish versions 1 to `count`, each of which names earlier ones, and return the bytes of their values."""
    output, written, chain = settings.output, 0, _Chain(settings.output.models_topic)
    with closing(Publisher(connection, f"streamsvm/{NAME}/{output.models_topic}")) as publisher:
        publisher.start()
        for first in range(1, count + 1, AT_ONCE):
            messages = [chain.next() for _ in range(first, min(first + AT_ONCE, count + 1))]
            values = [message.value or b"" for message in messages]
            hashes = [model_codec.sha256(value) for value in values]

            def pointers(offsets: Sequence[int], first: int = first, hashes: list[str] = hashes) -> list[Message]:
                return [
                    message
                    for index, (offset, sha256) in enumerate(zip(offsets, hashes, strict=True))
                    for message in _pointers(output.aliases_topic, first + index, sha256, offset)
                ]

            assert chain.offset == publisher.publish(messages, pointers)[-1] + 1
            chain.offset += 1  # the transaction's marker
            written += sum(map(len, values))
    return written


class _Chain:
    """Makes the records of versions, one after the other, for the offsets that they will have on an empty topic."""

    def __init__(self, topic: str) -> None:
        self.offset = 0
        self._topic = topic
        self._head: Head | None = None
        self._first = version_of(1)

    def next(self) -> Message:
        """Return the record of the next version."""
        head, number, extra = self._head, self._head.number + 1 if self._head else 1, dict[str, str]()
        version = replace(self._first, number=number)
        if head is not None:
            links = tuple(Ancestor(link.number, link.sha256) for link in head.links)
            lineage = msgspec.structs.replace(version.lineage, parent=head.sha256, links=links)
            version = replace(version, lineage=lineage)
            extra[model_codec.LINKS_HEADER] = ",".join(str(one.offset) for one in (head.alias, *head.links))
        value = model_codec.encode(version)
        sha256 = model_codec.sha256(value)
        links_after = pointers.links_after(head, number)
        self._head = Head(
            number=number,
            incarnation=1,
            cut=(),
            sha256=sha256,
            offset=self.offset,
            training_set_sha256="",
            build={},
            links=links_after,
        )
        self.offset += 1
        headers = model_codec.headers(sha256, MADE, extra)
        return Message(self._topic, value, version.key.encode(), headers, partition=0)


def _pointers(topic: str, number: int, sha256: str, offset: int) -> list[Message]:
    head = Head(
        number=number,
        incarnation=1,
        cut=(),
        sha256=sha256,
        offset=offset,
        training_set_sha256="0" * 64,
        build=version_of(1).lineage.build,
        links=(),
    )
    return [
        Message(topic, encode_head(head), head_key(NAME).encode(), partition=0),
        Message(
            topic,
            encode_alias(Alias(number, sha256, offset)),
            current_key(NAME).encode(),
            partition=0,
        ),
    ]


def timed(act: Callable[[], object], repeats: int = REPEATS) -> dict[str, float]:
    """Return median, least and greatest seconds."""
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - begun)
    return {"median": statistics.median(seconds), "least": min(seconds), "greatest": max(seconds)}


def start_reader(connection: Connection, settings: Settings, newest: int) -> None:
    """Start a subscriber, and wait until it serves the newest version."""
    with ModelSubscriber(connection, NAME, models_topic=settings.output.models_topic) as reader:
        assert reader.wait_ready(DEADLINE_S).version.number == newest


class Watched:
    """A subscriber whose swaps are timed."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self._swapped: dict[int, float] = {}
        self._changed = threading.Condition()
        self.reader = ModelSubscriber(
            connection, NAME, models_topic=settings.output.models_topic, callback=self._on_swap
        )

    def _on_swap(self, loaded: Loaded) -> None:
        with self._changed:
            self._swapped[loaded.version.number] = time.perf_counter()
            self._changed.notify_all()

    def move(self, number: int, act: Callable[[], object]) -> tuple[float, float]:
        """Move readers to a version; return the seconds from the asking, and those from the commit's answer, 0 if less.

        Raises
        ------
        AssertionError
            If it does not arrive.
        """
        with self._changed:
            self._swapped.pop(number, None)
        asked = time.perf_counter()
        act()
        answered = time.perf_counter()
        with self._changed:
            assert self._changed.wait_for(lambda: number in self._swapped, DEADLINE_S), f"version {number} never came"
            swapped = self._swapped[number]
        return swapped - asked, max(0.0, swapped - answered)


def moves_of(connection: Connection, settings: Settings) -> Records:
    """Return what makes the moves."""
    return Records(Cluster(connection), settings, "benchmark@here", "", MADE)


def move_about(connection: Connection, settings: Settings, newest: int, moves: int) -> list[tuple[str, float, float]]:
    """Pin an old version, roll back from it, unpin, again and again; each of another version than before."""
    records = moves_of(connection, settings)
    watched, found = Watched(connection, settings), list[tuple[str, float, float]]()
    with watched.reader:
        watched.reader.wait_ready(DEADLINE_S)
        for index in range(moves):
            old = max(2, newest - 10 * (index // 3 + 1))
            kinds: list[tuple[str, int, Callable[[], Decide]]] = [
                ("pin", old, lambda old=old: pin(records, old)),
                ("rollback", old - 1, lambda: RollBack(records)),
                ("unpin", newest, lambda: unpin(records)),
            ]
            kind, number, decide = kinds[index % 3]
            made = decide()
            asked, answered = watched.move(number, lambda made=made: perform(Cluster(connection), settings, made))
            found.append((kind, asked, answered))
    return found


def spread(seconds: list[float]) -> dict[str, float]:
    """Return quantiles of a distribution, in seconds."""
    ordered = sorted(seconds)
    at = {share: ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.95, 0.99)}
    return {"p50": at[0.5], "p95": at[0.95], "p99": at[0.99], "greatest": ordered[-1]}


def measure(connection: Connection, versions: int, moves: int) -> dict[str, Any]:
    """Write the versions and measure everything."""
    settings = Settings(
        name=NAME, kafka={"bootstrap.servers": "unused:1"}, output=OutputConfig(models_topic=f"models-{versions}")
    )
    Cluster(connection).create(output_topics(settings))
    value_bytes = write_versions(connection, settings, versions)
    topic, aliases = settings.output.models_topic, settings.output.aliases_topic
    names = read_names(Cluster(connection), settings)
    alias_records = sum(1 for _ in Cluster(connection).read_to_end(aliases, 0, timeout_s=DEADLINE_S))
    figures: dict[str, Any] = {
        "versions": versions,
        "value_bytes": value_bytes,
        "models_offsets": Cluster(connection).log_range(topic, 0)[1],
        "alias_offsets": Cluster(connection).log_range(aliases, 0)[1],
        "alias_records_left": alias_records,
        "ready_s": timed(lambda: start_reader(connection, settings, versions)),
        "list_newest_20_s": timed(
            lambda: read_catalogue(Cluster(connection), settings, names, holds_newest(20), figures=True, span=60)
        ),
        "load_by_number_s": timed(
            lambda: load_version(connection, NAME, models_topic=topic, number=versions // 2), repeats=1
        ),
        "pin_decided_by_number_s": timed(pin(moves_of(connection, settings), versions // 2)),
    }
    found = move_about(connection, settings, versions, moves)
    figures["moves"] = len(found)
    figures["from_asking_s"] = spread([asked for _, asked, _ in found])
    figures["from_commit_s"] = spread([answered for _, _, answered in found])
    return figures


def report(figures: dict[str, Any]) -> str:
    """Return the figures as lines."""
    ready, listed, loaded = figures["ready_s"], figures["list_newest_20_s"], figures["load_by_number_s"]
    asking, commit = figures["from_asking_s"], figures["from_commit_s"]
    mb = figures["value_bytes"] / 1e6
    return "\n".join(
        [
            f"{figures['versions']:,} versions, {mb:,.0f} MB of values; {figures['alias_records_left']:,} of "
            f"{figures['alias_offsets']:,} records of the aliases left by compaction",
            f"a new subscriber is ready after   {ready['median']:.2f} s (from {ready['least']:.2f} to "
            f"{ready['greatest']:.2f})",
            f"the newest 20 are listed after    {listed['median']:.2f} s",
            f"one is loaded by its number after {loaded['median']:.2f} s",
            f"and is found for a pin after      {figures['pin_decided_by_number_s']['median']:.2f} s",
            f"{figures['moves']} moves reach a running subscriber, from the asking: p50 {asking['p50']:.3f} s, p95 "
            f"{asking['p95']:.3f} s, greatest {asking['greatest']:.3f} s",
            f"  from the answer to their commit: p50 {commit['p50']:.3f} s, p95 {commit['p95']:.3f} s, greatest "
            f"{commit['greatest']:.3f} s",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run on the broker that the tests would use, and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.reader_start", description=__doc__)
    parser.add_argument("--versions", type=int, default=100_000)
    parser.add_argument("--moves", type=int, default=60)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--into", type=Path, help="write the lines to this file, too")
    asked = parser.parse_args(arguments)
    broker = start_real_broker()
    try:
        figures = measure(
            Connection(options={"bootstrap.servers": broker.bootstrap_servers}), asked.versions, asked.moves
        )
    finally:
        broker.stop()
    sys.stdout.write(json.dumps(figures, indent=2) + "\n" if asked.json else report(figures) + "\n")
    if asked.into is not None:
        asked.into.write_text(report(figures) + "\n")


if __name__ == "__main__":
    main()
