"""From a finished training to a published version: judged, assembled, and committed in one transaction.

The main loop (`consumers.trainer.trainer.Trainer._publish`) calls `VersionPublisher.begin` with each finished training,
one at a time, and then `ended` in every turn. The records are made by `streamsvm.delivery.publication` and sent by
`consumers.trainer.session`. Here the order is decided, and what became of the version is returned as an event.

What can become of a version: it was published; it was refused, by the broker or because readers would refuse it, and
the next version takes its number; it was superseded, because its cut had been published before; or nobody knows yet. In
the last case both return None, the caller keeps the result, and begins again when the session has found out. The head
on the topic then shows whether the version is there (`_after_doubt`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

import structlog
from msgspec import structs

from consumers.settings import Settings
from consumers.trainer.message_size import narrowest, way_out
from consumers.trainer.session import InDoubt, Session
from consumers.trainer.stream_quality import QualityWatch
from streamsvm.build import build
from streamsvm.delivery import publication
from streamsvm.delivery.events import Published, Refused, Superseded
from streamsvm.delivery.machine import Delivery
from streamsvm.delivery.publication import Publication, Topics
from streamsvm.errors import InvalidMessage, StreamsvmError
from streamsvm.kafka import Cluster, Message, PublishRefused
from streamsvm.learning.recipe import Made, Origin, version_of
from streamsvm.model import message as model_codec
from streamsvm.model.ancestry import Ancestor
from streamsvm.model.pointers import Gate
from streamsvm.model.version import Version
from streamsvm.points import Positions
from streamsvm.registry.signing import Signer

HEADERS_BYTES: Final = 4_096
"""Room for a version's headers, beside its value."""
UNLIMITED: Final = 1 << 62

Outcome = Published | Refused | Superseded
"""What can become of a version."""

log = structlog.get_logger("streamsvm.trainer")


class VersionPublisher:
    """Publishes the versions of one incarnation.

    Parameters
    ----------
    settings : Settings
    writer : Session
        Ready.
    delivery : Delivery
        Has the next number, and decides which cuts are admitted.
    gate : QualityWatch
        Decides which version becomes current, and measures its skill.
    now : callable
        The time of day, for headers.
    signer : Signer, optional
        Signs every version; by default none is signed.
    origin : callable, optional
        Adds to a version's origin what branches contribute.
    cluster : Cluster
        Where the limits of topics and broker are read if the broker refuses a version.
    """

    def __init__(
        self,
        settings: Settings,
        writer: Session,
        delivery: Delivery,
        gate: QualityWatch,
        now: Callable[[], datetime],
        signer: Signer | None = None,
        origin: Callable[[Origin], Origin] = lambda origin: origin,
        *,
        cluster: Cluster,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._config = settings.models()
        self._topics = topics_of(settings)
        self._build = build()
        self._writer = writer
        self._delivery = delivery
        self._gate = gate
        self._now = now
        self._signer = signer
        self._origin = origin
        self._in_doubt: Publication | None = None
        self._pending_entries: list[Message] = []

    def begin(self, made: Made, topic_id: str, base: Positions) -> Outcome | None:
        """Begin to publish a finished training as the next version, unless its cut was published before.

        A version that the broker, or any reader, refuses is dropped, and its audit entry waits for `write_pending`; the
        next one takes its number. One whose outcome is in doubt gives None: offer it again once the writer is renewed,
        and the head read then says whether it was published.

        Parameters
        ----------
        made : Made
        topic_id : str
            Of the input; empty if the broker does not report topic ids.
        base : mapping of partition to Position
            Where the incarnation began.

        Returns
        -------
        Published, Refused, Superseded or None
            None where that is not known yet: `ended` will say.

        Raises
        ------
        StreamsvmError
            If nothing more can be published.
        """
        # After a doubt in which the version was published, its own cut is the head's, and not admitted a second time.
        if not self._delivery.admits(made.cut.positions):
            return self._after_doubt(made)
        version = self._version(made, topic_id, base)
        verdict, why = self._gate.judge(version, made.cut), self._delivery.replaces
        if why:
            verdict = nevertheless(verdict, why)
        skill = self._gate.skill(version, made.cut, verdict)
        sent = publication.publication(version, made, verdict, self._delivery, self._now(), skill, why)
        # Set before sending: if the outcome becomes doubtful, whatever the reason, this is the version that was sent.
        self._in_doubt = sent
        try:
            # Decoded as a reader does it: a version that readers would refuse, such as one with NaN, is never sent.
            model_codec.decode(sent.value)
        except InvalidMessage as refusal:
            self._in_doubt = None
            return self._refused(sent, refusal)
        self._writer.begin(
            [publication.version_message(sent, self._topics, self._delivery, self._signer)],
            lambda offsets: publication.pointers(sent, self._topics, offsets),
            lambda offsets: sent.head_at(offsets[0]),
        )
        return None

    def ended(self, timeout_s: float) -> Outcome | None:
        """Wait at most `timeout_s` for what was begun, and return what became of it; None if that is not known.

        Raises
        ------
        StreamsvmError
            If nothing more can be published.
        """
        sent = self._in_doubt
        assert sent is not None
        try:
            if not self._writer.ended(timeout_s):
                return None
        except InDoubt:
            return None
        except PublishRefused as refusal:
            self._in_doubt = None
            return self._refused(sent, refusal)
        self._in_doubt = None
        return self._published(sent)

    def _published(self, sent: Publication, *, after_doubt: bool = False) -> Published:
        head = self._delivery.head
        assert head is not None
        self._gate.published(sent.version, sent.gate, head.alias)
        return Published(
            version=sent.version,
            made=sent.made,
            head=head,
            gate=sent.gate,
            skill=sent.skill,
            time=self._now() if after_doubt else sent.time,
            value_bytes=len(sent.value),
            after_doubt=after_doubt,
        )

    def _after_doubt(self, made: Made) -> Published | Superseded:
        """Return whether the head read after a doubt shows this one to be published."""
        doubted, self._in_doubt = self._in_doubt, None
        # The head that was read decides: the version was published if, and only if, the head is at this very cut.
        if doubted is None or dict(made.cut.positions) != self._delivery.published_cut:
            return Superseded(made=made)
        return self._published(doubted, after_doubt=True)

    def _refused(self, sent: Publication, why: StreamsvmError) -> Refused:
        """Let its entry in the audit trail wait for `write_pending`."""
        size, session = len(sent.value), self._delivery.session
        if isinstance(why, PublishRefused):
            why = self._with_limit(why, size, len(sent.version.lineage.cut))
        entry = publication.refusal(sent.version, size, why.what, session, sent.time, self._topics)
        # Not in the transaction that was refused, which is aborted; and not at once, because the session may be in
        # doubt.
        self._pending_entries.append(entry)
        return Refused(version=sent.version, made=sent.made, value_bytes=size, why=why)

    def _with_limit(self, why: PublishRefused, size: int, partitions: int) -> PublishRefused:
        """Return a refusal with the limit that a version passes, as a start names it; as it is where it passes none."""
        try:
            topic = self._cluster.describe(self._settings.output.models_topic)
        except StreamsvmError:  # without the limits the message of the refusal has to be enough
            return why
        limit, who = narrowest(topic, self._cluster.max_message_bytes, UNLIMITED)
        if size + HEADERS_BYTES <= limit:
            return why
        return PublishRefused(
            f"{why.what}: the version takes {size} bytes, and its headers, and {who} allows only {limit}",
            way_out(self._config, limit, size + HEADERS_BYTES, partitions),
        )

    @property
    def has_pending_entries(self) -> bool:
        """Whether something is still to be written to the audit trail."""
        return bool(self._pending_entries)

    def write_pending(self) -> None:
        """Write the pending entries to the audit trail; after a doubt they may be written twice. The session is ready.

        Raises
        ------
        StreamsvmError
            If nothing more can be published.
        """
        if not self._pending_entries:
            return
        try:
            self._writer.publish(self._pending_entries)
        except InDoubt:
            return
        # An audit entry that the broker refuses for good would be refused at every attempt: it is logged, and dropped.
        except PublishRefused as refusal:
            log.error("audit_refused", entries=len(self._pending_entries), what=str(refusal))
        self._pending_entries.clear()

    def _version(self, made: Made, topic_id: str, base: Positions) -> Version:
        delivery = self._delivery
        origin = Origin(
            name=self._settings.name,
            number=delivery.next_number,
            parent=delivery.parent,
            links=tuple(Ancestor(link.number, link.sha256) for link in delivery.links),
            topic=self._settings.input.topic,
            topic_id=topic_id,
            base=base,
            build=self._build,
        )
        return version_of(made, self._config, self._origin(origin))


def nevertheless(verdict: Gate | None, why: str) -> Gate | None:
    """Return the verdict on a version that becomes current whatever the gate says, with both reasons."""
    if verdict is None:
        return None
    if not verdict.holds_back:
        return structs.replace(verdict, why=f"{why}; {verdict.why}" if verdict.why else why)
    held_back = f"{verdict.outcome}: {verdict.why}" if verdict.why else verdict.outcome
    return structs.replace(verdict, outcome="passed", why=f"{why}; else it would have been {held_back}")


def topics_of(settings: Settings) -> Topics:
    """Return where the records of versions go."""
    output = settings.output
    return Topics(
        models=output.models_topic,
        aliases=output.aliases_topic,
        audit=output.audit_topic,
    )
