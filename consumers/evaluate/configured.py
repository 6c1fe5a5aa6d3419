"""A trainer's configuration file as a plan: what of it an evaluation follows, and what it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from consumers.evaluate.reading import load as load_points
from consumers.host.runtime import connect
from consumers.loader import load
from consumers.settings import Settings
from streamsvm.errors import StreamsvmError
from streamsvm.ingest.files.source import PointSource
from streamsvm.kafka import Cluster
from streamsvm.supports import require

FOLLOWED: Final = frozenset({"points", "coreset", "svm", "seed", "features", "events"})
"""Sections that decide what is learned."""
LIMITS_TIMEOUT_S: Final = 3.0
"""Seconds for which a broker is asked: an evaluation needs none."""


def settings_of(file: Path, options: Mapping[str, Any]) -> Settings:
    """Read a configuration file, as `streamsvm train` does; options take precedence.

    Raises
    ------
    ConfigurationError
        If it is not valid, or a file of rows cannot give what it asks for.
    """
    settings = load(options, file=file)
    check_followable(settings)
    return settings


def check_followable(settings: Settings) -> None:
    """Refuse what the rows of a file do not have.

    Raises
    ------
    ConfigurationError
    """
    own = {f"coreset.{option}": getattr(settings.coreset, option) for option in ("window", "half_life")}
    require({"--config": True, **settings.axes, **own}, {"--config": "evaluate --config"})


def of_points(
    file: Path, options: Mapping[str, Any], settings: Settings, source: PointSource, positive: str | None = None
) -> Settings:
    """Return settings for a file of points; what `points` does not say is as the file has it.

    Raises
    ------
    ConfigurationError
        If the file is not valid.
    """
    if settings.points is not None:
        return settings
    _, labels = load_points(source, positive=positive)
    points: dict[str, Any] = {"dimension": source.dimension, "labels": labels}
    if source.feature_names:
        points["feature_names"] = source.feature_names
    return load({**options, "points": points}, file=file)


def not_followed(settings: Settings) -> list[str]:
    """Return the sections that differ from their defaults and that no evaluation looks at, in a fixed order."""
    names = [name for name in settings.differing() if not _asks(name)]
    sections = {name.partition(".")[0]: "." in name for name in names if name.partition(".")[0] not in FOLLOWED}
    return sorted(f"[{section}]" if is_table else section for section, is_table in sections.items())


def _asks(name: str) -> bool:
    """Return whether an option says whose partitions are counted."""
    return name == "input.topic" or name.startswith("kafka.")


def partitions_of(settings: Settings) -> tuple[int, str]:
    """Return how many partitions the configured input topic has, and where the number comes from; 1 if nobody knows."""
    topic = settings.input.topic
    if not any(map(_asks, settings.differing())):
        return 1, "no input.topic is configured"
    try:
        connection = replace(connect(settings, "evaluate"), request_timeout_s=LIMITS_TIMEOUT_S)
        count = len(Cluster(connection).describe(topic).partitions)
    except StreamsvmError as error:
        return 1, f"the topic {topic} cannot be asked: {error.what}"
    return count, f"as many as the topic {topic} has"
