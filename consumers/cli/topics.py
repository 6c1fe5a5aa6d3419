"""`streamsvm topics ...`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from consumers.on_demand import CLIENT, TRAINER_SECTIONS, with_settings
from streamsvm.errors import ConfigurationError, TopicMissing
from streamsvm.sockets import DAEMONS, plugged

if TYPE_CHECKING:
    from consumers.settings import Settings


@with_settings(*TRAINER_SECTIONS, "scoring", "output", common=CLIENT)
def create(settings: Settings) -> None:
    """Create the topics that a trainer writes, and a scorer if `scoring` is configured, as they need them.

    Existing topics are not changed, but checked, those that are read, too. Status 78: a topic would lose records that
    it must keep.
    """
    from consumers.host.runtime import connect
    from consumers.streams.scored_progress import check_scorer_names, scorer_topics
    from consumers.streams.topics import OwnTopics, check_names, output_topics, unfit, unfit_input
    from streamsvm.kafka import Cluster

    check_names(settings)
    cluster, specs = Cluster(connect(settings, "admin")), output_topics(settings)
    for own in plugged("topics", OwnTopics, DAEMONS):
        specs += own.specs(settings, cluster)
    missing, scoring = [], settings.scoring
    if "scoring" in settings.model_fields_set:
        check_scorer_names(settings)
        try:
            specs += scorer_topics(settings, len(cluster.describe(scoring.topic).partitions))
        except TopicMissing:
            missing.append(
                f"{scoring.topic}: the producers of the points must create it; then run this again, for "
                f"{scoring.output_topic} and {scoring.progress} get as many partitions"
            )
    made, faults = set(cluster.create(specs)), {}
    for name, spec in {spec.name: spec for spec in specs}.items():
        found = cluster.describe(name)
        # Progress may lie in any number of partitions.
        wanted = replace(spec, partitions=len(found.partitions)) if name == scoring.progress else spec
        faults[name] = unfit(wanted, found)
        typer.echo(f"{'created' if name in made else 'exists '}  {name}")
    for topic, what in ((settings.input.topic, "input"), (settings.labels_topic, "labels")):
        try:
            faults[topic] = unfit_input(cluster.describe(topic)) if topic else []
        except TopicMissing:
            missing.append(f"{topic}: the producers of the {what} must create it")
    for line in missing:
        typer.echo(f"missing  {line}")
    found_unfit = [f"{name}: {fault}" for name, several in faults.items() for fault in several]
    for line in found_unfit:
        typer.echo(f"unfit    {line}")
    if found_unfit:
        raise ConfigurationError(
            f"{found_unfit[0]}" + (f" (and {len(found_unfit) - 1} more)" if len(found_unfit) > 1 else ""),
            "Change the topic's settings (kafka-configs --alter --entity-type topics), or use another topic.",
        )
