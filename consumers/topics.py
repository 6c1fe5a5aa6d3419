"""The topics that a trainer writes: their settings, and the head record read back from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from consumers.ports import Cluster
from streamsvm.codec import model as model_codec
from streamsvm.codec.model import Head
from streamsvm.config import Settings
from streamsvm.errors import ConfigurationError, InvalidMessage, StateError
from streamsvm.kafka import TopicSpec

FOR_EVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
READ_TIMEOUT_S: Final = 30.0


def output_topics(settings: Settings) -> list[TopicSpec]:
    """Return what a trainer's topics must be like: one partition each, for the order is their meaning.

    Versions and the audit trail are kept for ever, dead letters as the broker's default says; aliases are compacted.
    """
    output = settings.output
    return [
        TopicSpec(output.models_topic, 1, config={"cleanup.policy": "delete", **FOR_EVER}),
        TopicSpec(output.aliases_topic, 1, config={"cleanup.policy": "compact"}),
        TopicSpec(output.audit_topic, 1, config={"cleanup.policy": "delete", **FOR_EVER}),
        TopicSpec(settings.input.dead_letters, 1, config={}),
    ]


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
    refuse_shared(uses)


def refuse_shared(uses: Mapping[str, str]) -> None:
    """Refuse one topic for two uses; see `check_names`."""
    taken: dict[str, str] = {}
    for use, topic in uses.items():
        if topic in taken:
            raise ConfigurationError(
                f"the topic {topic} is named both for {taken[topic]} and for {use}", "Give each a topic of its own."
            )
        taken[topic] = use


def read_head(cluster: Cluster, settings: Settings, timeout_s: float = READ_TIMEOUT_S) -> Head | None:
    """Return the newest head record of this model, having read its topic to the end.

    Raises
    ------
    StateError
        If the record under the head's key is not one.
    TransientError
        If the end is not reached: for `timeout_s` no broker answered, or a transaction stayed open.
    """
    topic, key = settings.output.aliases_topic, model_codec.head_key(settings.name).encode()
    newest = cluster.newest(topic, [key], timeout_s).get(key)
    if newest is None or newest.value is None:
        return None
    try:
        return model_codec.decode_head(newest.value)
    except InvalidMessage as error:
        raise StateError(
            f"the head record at {topic}[0]@{newest.offset} cannot be read: {error}",
            "Another program wrote it, or a newer streamsvm did: use that one, or another models topic.",
        ) from None
