"""The records of the transaction that publishes a version: readers see all of them or none.

`consumers.trainer.publishing.VersionPublisher` sends them. They are, in the order of the transaction:

1. the version, to the models topic (`version_message`);
2. the head: the record that names the newest version, to the aliases topic (`pointers`);
3. the alias `current`, unless the quality gate refused the version (`pointers`);
4. an entry of the audit trail (`pointers`).

Head and alias name the offset of the version's record, which the broker gives when it stores the record. That is why
there are two functions, and why the second is called within the transaction, with the offsets.

Invariant: the value of a version's record depends on no clock, so that `verify` can compute the same bytes. Times, the
session and durations are in the headers (`_unhashed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from streamsvm.delivery.machine import Delivery
from streamsvm.kafka import Message
from streamsvm.learning import naming
from streamsvm.learning.recipe import Made
from streamsvm.model import deciles_header, message as model_codec, skill_header, trail
from streamsvm.model.class_skill import ClassSkill
from streamsvm.model.pointers import Gate, Head, current_key, encode_alias, encode_head, head_key, links_after
from streamsvm.model.skill import Skill
from streamsvm.model.skill_header import AnySkill
from streamsvm.model.version import Version
from streamsvm.registry.signing import Signer


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """Where the records go."""

    models: str
    aliases: str
    audit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """One version on its way to readers.

    Attributes
    ----------
    version : Version
    made : Made
    value : bytes
    digest : str
        SHA-256 of the value.
    head : Head
        Without the offset, which is known when the broker has stored the version.
    time : datetime
    skill : Skill or None
        None where quality is not measured.
    why : str
        Why it becomes current whatever the gate says; empty if the gate decides.
    """

    version: Version
    made: Made
    value: bytes
    digest: str
    head: Head
    time: datetime
    skill: AnySkill | None = None
    why: str = ""

    @property
    def gate(self) -> Gate | None:
        """The verdict of the quality gate."""
        return self.head.gate

    def head_at(self, offset: int) -> Head:
        """Return the head once the version's offset is known."""
        return msgspec.structs.replace(self.head, offset=offset)


def publication(
    version: Version,
    made: Made,
    gate: Gate | None,
    delivery: Delivery,
    time: datetime,
    skill: AnySkill | None = None,
    why: str = "",
) -> Publication:
    """Encode a version, and name it as the next head."""
    value = model_codec.encode(version)
    digest = model_codec.sha256(value)
    head = Head(
        number=version.number,
        incarnation=delivery.incarnation,
        cut=version.lineage.cut,
        sha256=digest,
        offset=-1,
        training_set_sha256=version.lineage.training_set_sha256,
        build=version.lineage.build,
        tuning=naming.in_force(made.tuning),
        gate=gate,
        links=links_after(delivery.head, version.number),
        trained_sha256=delivery.trained,
    )
    return Publication(
        version=version, made=made, value=value, digest=digest, head=head, time=time, skill=skill, why=why
    )


def version_message(
    published: Publication, topics: Topics, delivery: Delivery, signer: Signer | None = None
) -> Message:
    """Return the version's record."""
    headers = model_codec.headers(published.digest, published.time, _unhashed(published, delivery, signer))
    return replace(to(topics.models, published.version.key, published.value), headers=headers)


def _unhashed(published: Publication, delivery: Delivery, signer: Signer | None) -> dict[str, str]:
    headers = {
        "streamsvm.incarnation": str(delivery.incarnation),
        "streamsvm.session": delivery.session,
        "streamsvm.training.seconds": f"{published.made.seconds:.6f}",
    }
    gate = published.gate
    if gate is not None:
        headers[model_codec.GATE_HEADER] = gate.outcome
        if gate.candidate is not None:
            headers[model_codec.GATE_ACCURACY_HEADER] = f"{gate.candidate:.6f}"
        if gate.present is not None:
            headers[model_codec.GATE_PRESENT_HEADER] = f"{gate.present:.6f}"
    if published.skill is not None:
        headers[skill_header.HEADER] = skill_header.encode(published.skill)
    if published.made.audit_scores is not None:
        headers[deciles_header.HEADER] = deciles_header.encode(published.made.audit_scores)
    if signer is not None:
        headers[model_codec.SIGNATURE_HEADER] = signer.sign(published.version.key, published.digest)
    return headers


def pointers(published: Publication, topics: Topics, offsets: Sequence[int], by: str = "trainer") -> list[Message]:
    """Return the records that name the version's place: head, current unless it is refused, and the audit entry.

    `by` is who publishes, for the audit trail.
    """
    version, head, gate = published.version, published.head_at(offsets[0]), published.gate
    current = current_key(version.name)
    refused = gate is not None and gate.holds_back
    entry = (trail.GateRefused if refused else trail.CurrentMoved)(
        name=version.name,
        alias=current,
        to=version.number,
        sha256=head.sha256,
        by=by,
        time=published.time.isoformat(),
        gate=trail.UNSET if gate is None else gate,
        skill=published.skill if isinstance(published.skill, Skill) else trail.UNSET,
        class_skill=published.skill if isinstance(published.skill, ClassSkill) else trail.UNSET,
    )
    messages = [to(topics.aliases, head_key(version.name), encode_head(head))]
    if not refused:
        named = msgspec.structs.replace(head.alias, why=published.why)
        messages.append(to(topics.aliases, current, encode_alias(named)))
    return [*messages, to(topics.audit, version.key, trail.encode(entry))]


def refusal(version: Version, value_bytes: int, why: str, session: str, time: datetime, topics: Topics) -> Message:
    """Return the audit entry of a version that is not published."""
    entry = trail.VersionRefused(
        version=version.number,
        cut=version.lineage.cut,
        bytes=value_bytes,
        why=why,
        by="trainer",
        session=session,
        time=time.isoformat(),
    )
    return to(topics.audit, version.key, trail.encode(entry))


def to(topic: str, key: str, value: bytes) -> Message:
    """Address a record to the one partition of an output topic."""
    return Message(topic, value, key.encode(), partition=0)
