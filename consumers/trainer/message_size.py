"""What the broker and the client take in one message, beside what a version needs: which limit, and which options."""

from __future__ import annotations

from streamsvm.config import ModelConfig
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import TopicInfo
from streamsvm.learning import naming


def check_message_size(config: ModelConfig, topic: TopicInfo, client_bytes: int, partitions: int) -> None:
    """Refuse a configuration whose largest model exceeds the message size limit of the topic or the client.

    Raises
    ------
    ConfigurationError
        The remedy names the number of training points that would fit.
    """
    largest = naming.largest_bytes(config, partitions)
    limit, who = narrowest(topic, client_bytes, largest)
    if largest > limit:
        raise ConfigurationError(
            f"a model may take {largest} bytes, but {who} allows only {limit}",
            way_out(config, limit, largest, partitions),
        )


def narrowest(topic: TopicInfo, client_bytes: int, unknown: int) -> tuple[int, str]:
    """Return the least of the limits, and whose it is; `unknown` stands for one that the broker does not return."""
    takes = {f"the topic {topic.name} (max.message.bytes)": int(topic.config.get("max.message.bytes", unknown))}
    takes["the client (message.max.bytes)"] = client_bytes
    who, limit = min(takes.items(), key=lambda one: one[1])
    return limit, who


def way_out(config: ModelConfig, limit: int, needed: int, partitions: int) -> str:
    """Return which option makes versions small enough, if one does, and what the limit would have to be."""
    fewer = naming.terms_within(config, limit, partitions)
    option = "coreset.train_points" if config.svm.landmarks is None else "svm.landmarks"
    instead = f"Lower {option} to {fewer}, or raise" if fewer else "Raise"
    svm = config.svm.model_copy(update={"multiclass": "one_vs_rest"})
    a_label = naming.largest_bytes(config.model_copy(update={"svm": svm}), partitions)
    if config.svm.multiclass == "one_vs_one" and a_label <= limit:
        instead = f"Set svm.multiclass = one_vs_rest, which takes fewer machines. Or: {instead}"
    return f"{instead} that limit to {needed} or more."
