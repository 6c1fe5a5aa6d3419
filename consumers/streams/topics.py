"""The topics that a trainer writes: their settings, and what it reads back from them: head and owner."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, TypeVar

import structlog

from consumers import constants
from consumers.host.runtime import Health
from consumers.settings import Settings
from consumers.settings_sockets import added
from consumers.streams.abandonable import Aside
from streamsvm.errors import (
    ConfigurationError,
    InvalidMessage,
    StateError,
    StreamsvmError,
    TopicMissing,
    TransientError,
)
from streamsvm.kafka import Cluster, Place, Record, TopicInfo, TopicSpec
from streamsvm.model import pointers
from streamsvm.model.left_out import LeftOut, UnknownRecord, decode_left_out, left_out_key, require_read
from streamsvm.model.pointers import Alias, Head, Owner, decode_alias, decode_head, decode_owner

log = structlog.get_logger("streamsvm.topics")

BOUNDED: Final = {"compression.type": "zstd"}
"""The broker stores zstd whatever a writer sent: the only codec of which the client bounds what comes out."""
FOR_EVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
SOON: Final = {"segment.bytes": str(1 << 20), "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}
"""Only whole segments are compacted: with these a reader finds some 2 MB, however many versions there were."""
LAG: Final = "min.compaction.lag.ms"
LAG_MS: Final = 3_600_000
"""How long compaction spares records of a transaction that was aborted: a settlement may publish them again."""
READ_TIMEOUT_S: Final = 30.0
MADE: Final = ""
START_AGAIN: Final = "start this daemon again: a trainer leaves there what it has, and workers go on from it"
LETTERS_PROMISE: Final = "each rejected record can be read and sent again"

REMEDY: Final = "make it, or see how to mend it, with `streamsvm topics create` and this daemon's configuration"
LOST_REMEDY: Final = "no action needed, but what was lost does not come back: OPERATIONS.md, What may change"

Decoded = TypeVar("Decoded", Head, Owner, Alias, LeftOut | UnknownRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTopics:
    """What a branch plugs in at the socket ``topics``: what `streamsvm topics create` makes for it.

    Attributes
    ----------
    specs : callable
        Takes the settings and a cluster, which it may ask how large the input is; returns what its topics must be like.
    promise : str
        What rests on them.
    """

    specs: Callable[[Settings, Cluster], list[TopicSpec]]
    promise: str


def output_topics(settings: Settings) -> list[TopicSpec]:
    """Return what a trainer's topics must be like: one partition each, for the order is their meaning.

    Versions are compacted: each has a key of its own, so that only retired ones go. Aliases are compacted soon, so that
    readers need not read what is past. The audit trail is kept for ever, dead letters as the broker's default says.
    """
    output = settings.output
    compacted = {"cleanup.policy": "compact", LAG: str(LAG_MS)}
    return [
        TopicSpec(output.models_topic, 1, config={**compacted, **FOR_EVER, **BOUNDED}),
        TopicSpec(output.aliases_topic, 1, config={**compacted, **SOON, **BOUNDED}),
        TopicSpec(output.audit_topic, 1, config={"cleanup.policy": "delete", **FOR_EVER}),
        TopicSpec(settings.input.dead_letters, 1, config={}),
        *(TopicSpec(topic, 1, config={}) for one in added() for topic in one.dead_letters(settings)),
    ]


def written_places(settings: Settings) -> list[Place]:
    """Return every partition in which a transaction of a trainer has records; the aliases first: each has one there."""
    output = settings.output
    return [(topic, 0) for topic in (output.aliases_topic, output.models_topic, output.audit_topic)]


def check_names(settings: Settings) -> None:
    """Refuse topics of a trainer that are the same one.

    Raises
    ------
    ConfigurationError
        Naming the topic and both of its uses.
    """
    output = settings.output
    uses = {"input.topic": settings.input.topic, "the dead letters": settings.input.dead_letters}
    uses |= {"output.models_topic": output.models_topic, "the aliases": output.aliases_topic}
    uses["the audit trail"] = output.audit_topic
    for one in added():
        uses |= one.uses(settings)
    refuse_shared(uses)


def refuse_shared(uses: Mapping[str, str]) -> None:
    """Refuse one topic for two uses; see `check_names`."""
    taken: dict[str, str] = {}
    for use, topic in uses.items():
        if topic in taken:
            raise ConfigurationError(
                f"the topic {topic} is configured both for {taken[topic]} and for {use}",
                "Use a different topic for each.",
            )
        taken[topic] = use


@dataclass(frozen=True, slots=True)
class KnownPointers:
    """What the aliases topic says about a model: where it stands, whose process publishes it, and what is current.

    Rows that were erased stand there, too: None where none were.
    """

    head: Head | None
    owner: Owner | None
    current: Alias | None = None
    erased: LeftOut | None = None


def read_pointers(cluster: Cluster, settings: Settings, timeout_s: float) -> KnownPointers:
    """Return the newest head and owner records of this model, having read their topic to the end.

    Raises
    ------
    ConfigurationError
        If rows are to be left out, and this installation cannot read which.
    StateError
        If the record under either key is not one.
    TransientError
        If the end is not reached: for `timeout_s` no broker answered, or a transaction stayed open.
    """
    of_key = (pointers.head_key, pointers.owner_key, pointers.current_key, left_out_key)
    head_key, owner_key, current_key, rows_key = (key(settings.name).encode() for key in of_key)
    newest = cluster.newest(settings.output.aliases_topic, [head_key, owner_key, current_key, rows_key], timeout_s)
    return KnownPointers(
        _decoded(newest.get(head_key), decode_head, "head"),
        _decoded(newest.get(owner_key), decode_owner, "owner"),
        _current(newest.get(current_key)),
        require_read(settings.name, _decoded(newest.get(rows_key), decode_left_out, "erased rows")),
    )


def _current(record: Record | None) -> Alias | None:
    """Return what is current; None also where that cannot be read, for the next version takes its place anyway."""
    try:
        return _decoded(record, decode_alias, "current")
    except StateError:
        return None


def _decoded(record: Record | None, decode: Callable[[bytes], Decoded], what: str) -> Decoded | None:
    if record is None or record.value is None:
        return None
    try:
        return decode(record.value)
    except InvalidMessage as error:
        raise StateError(
            f"the {what} record at {record.topic}[{record.partition}]@{record.offset} cannot be read: {error}",
            "Another program or a newer streamsvm wrote it: use that version of streamsvm, or another models topic.",
        ) from None


def promises(settings: Settings) -> dict[str, str]:
    """Return what rests on each topic that must keep its records, by the topic's name."""
    output = settings.output
    return {
        output.models_topic: "every version stays until it is retired",
        output.aliases_topic: "a pin holds until it is removed, and an erased row stays erased",
        output.audit_topic: "the audit trail says which data made which model",
    }


def watched_outputs(settings: Settings) -> list[tuple[TopicSpec, str]]:
    """Return what an `OutputWatch` of a trainer looks at; models and aliases first, which scorers read, too."""
    rests = promises(settings)
    return [(spec, rests.get(spec.name, LETTERS_PROMISE)) for spec in output_topics(settings)]


def check_output(settings: Settings, described: Mapping[str, TopicInfo]) -> list[tuple[str, str]]:
    """Refuse output topics on which delivery could not keep its promises; return what is unwise about the others.

    Each thing that is unwise comes with what to do.

    Parameters
    ----------
    settings : Settings
    described : mapping of str to TopicInfo
        By name; settings that the broker does not tell are not judged.

    Raises
    ------
    ConfigurationError
        If one has more than one partition, or would lose records that it must keep.
    """
    warnings = []
    for spec, promise in watched_outputs(settings):
        topic = described[spec.name]
        for fault in unfit(spec, topic):
            raise ConfigurationError(
                f"the topic {topic.name} is unfit: {fault}. It would break a promise: {promise}",
                "Change its settings (kafka-configs --alter --entity-type topics), or create it anew with "
                "`streamsvm topics create`.",
            )
        if LAG in spec.config and int(topic.config.get(LAG, LAG_MS)) < LAG_MS:
            loses = "Kafka may remove what a trainer that dies while it repairs a version leaves for its successor"
            warnings.append((f"{LAG}={topic.config[LAG]} of the topic {topic.name}", f"set it to {LAG_MS}, or {loses}"))
    return warnings


class OutputWatch:
    """Looks at a daemon's topics: one that is gone, or came back unfit, makes it not ready; all else is a warning.

    Parameters
    ----------
    settings : Settings
    cluster : Cluster
    health : Health
    watched : sequence of (TopicSpec, str)
        What each topic must be like, and what rests on it.
    known : mapping of str to (str or None)
        Ids at the start; an empty one: this start had to make the topic, although it had been there before.
    """

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        health: Health,
        watched: Sequence[tuple[TopicSpec, str]],
        known: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        self._settings, self._cluster, self._health, self._watched = settings, cluster, health, watched
        self._ids = {name: topic_id for name, topic_id in known.items() if topic_id != MADE}
        # Before the first look, so that a topic that is made again before it is seen to be another one.
        for spec, _ in watched:
            if spec.name not in self._ids and not cluster.embedded:
                with suppress(StreamsvmError):
                    self._ids[spec.name] = cluster.topic_id(spec.name)
        self._changed: set[str] = set()
        self._made_again = {
            spec.name: f"the topic {spec.name} was missing, and this start made it: what was written to it before, if "
            f"anything, is gone ({promise})"
            for spec, promise in watched
            if known.get(spec.name) == MADE
        }
        for warning in self._made_again.values():
            log.warning("output_topic", what=warning, remedy=LOST_REMEDY)
        self._said = {spec.name: "" for spec, _ in watched}
        self._looking: Aside[None] | None = None
        self._looked_at = -math.inf
        for name in self._said:
            health.warns(f"topic {name}", partial(self._said.__getitem__, name))

    def turn(self, now: float) -> None:
        """Look, beside the loop, if it is time to; `now` is in monotonic seconds. It never blocks."""
        if self._looking is not None and self._looking.finished(0.0):
            self._looking = None
        due = now - self._looked_at >= constants.WATCH_INTERVAL_S and not self._cluster.embedded
        if due and self._looking is None:
            self._looked_at, self._looking = now, Aside(self.look)

    def look(self) -> None:
        """Compare what the broker says now with what must hold; from any thread, one at a time."""
        for spec, promise in self._watched:
            try:
                found = self._cluster.describe(spec.name)
                warning = self._warning(spec, promise, found)
            except TopicMissing:
                fault = warning = f"the topic {spec.name} does not exist. It breaks a promise: {promise}"
            except StreamsvmError as error:
                log.debug("outputs_unanswered", what=error.what)
                continue
            else:
                # Not an administrator's settings: a broker makes a topic with its defaults when a client asks for it.
                fault = next(iter(unfit(spec, found)), "") if spec.name in self._made_again else ""
            self._health.require(f"topic {spec.name}", fault and f"{fault}: {REMEDY}")
            if warning and warning != self._said[spec.name]:
                log.warning("output_topic", what=warning, remedy=REMEDY if fault else LOST_REMEDY)
            self._said[spec.name] = warning

    def refuse_made_again(self, name: str) -> None:
        """End a daemon that goes on from what it read in a topic, where the topic was made again meanwhile.

        Raises
        ------
        TransientError
        """
        if name in self._changed:
            raise TransientError(
                f"the topic {name} was deleted and made again: it no longer holds what was read",
                START_AGAIN,
            )

    def _warning(self, spec: TopicSpec, promise: str, found: TopicInfo) -> str:
        known = self._ids.setdefault(spec.name, found.topic_id)
        if found.topic_id != known:
            lost = self._versions() if spec.name in promises(self._settings) else "all that was written"
            self._ids[spec.name] = found.topic_id
            self._changed.add(spec.name)
            self._made_again[spec.name] = (
                f"the topic {spec.name} was deleted and made again: of {lost} it holds what came since ({promise})"
            )
        faults = unfit(spec, found)
        unkept = [f"the topic {spec.name} is unfit: {fault}. It breaks a promise: {promise}" for fault in faults[:1]]
        return "; ".join([*unkept, *filter(None, [self._made_again.get(spec.name)])])

    def _versions(self) -> str:
        try:
            head = read_pointers(self._cluster, self._settings, READ_TIMEOUT_S).head
        except TopicMissing:  # the aliases are gone as well, which their own look says
            head = None
        return f"versions up to {head.number}" if head else "all versions"


def unfit(spec: TopicSpec, found: TopicInfo) -> list[str]:
    """Say in what a topic that exists falls short of what a trainer needs of it, one thing each; nothing if it is fit.

    Settings that the broker does not tell are not judged.
    """
    faults = []
    if spec.config and found.config and len(found.partitions) != spec.partitions:
        faults.append(
            f"the topic has {len(found.partitions)} partitions; the order of its records needs exactly "
            f"{spec.partitions}"
        )
    wanted = spec.config.get("cleanup.policy", "")
    policy = found.config.get("cleanup.policy", wanted)
    if wanted and policy != wanted:
        faults.append(
            f"cleanup.policy is {policy}, not {wanted}: Kafka would remove records that are needed, or never remove any"
        )
    # Of a topic that is only compacted Kafka removes nothing for its age or size.
    if "delete" in policy and FOR_EVER.keys() <= spec.config.keys():
        limits = {name: found.config.get(name, "-1") for name in FOR_EVER}
        faults += [
            f"{name} is {limit}, not -1: Kafka would delete what must stay"
            for name, limit in limits.items()
            if limit != "-1"
        ]
    return faults


def check_input(found: TopicInfo, what: str = "input", option: str = "--input-topic") -> None:
    """Refuse a topic that cannot be a trainer's input.

    Parameters
    ----------
    found : TopicInfo
    what, option : str
        What the trainer reads there, and how another topic is named.

    Raises
    ------
    ConfigurationError
        If it is compacted: versions could not be recomputed from it, and a later start would find a gap.
    """
    for fault in unfit_input(found):
        raise ConfigurationError(
            f"the trainer cannot learn from the {what} topic {found.name}: {fault}",
            f"Set the policy: kafka-configs --alter --entity-type topics --entity-name {found.name} --add-config "
            f"cleanup.policy=delete, or use another topic with {option}.",
        )


def unfit_input(found: TopicInfo) -> list[str]:
    """Return why a topic cannot be a trainer's input; nothing if it can."""
    policy = found.config.get("cleanup.policy", "delete")
    if "compact" not in policy:
        return []
    return [f"cleanup.policy is {policy}: an input topic must keep every record, or no model can be recomputed from it"]
