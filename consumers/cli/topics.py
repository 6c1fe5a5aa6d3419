"""`streamsvm topics ...`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from consumers.on_demand import CLIENT, TRAINER_SECTIONS, with_settings
from streamsvm.errors import ConfigurationError, TopicMissing
from streamsvm.sockets import DAEMONS, plugged

if TYPE_CHECKING:
    from consumers.settings import Settings


@with_settings(*TRAINER_SECTIONS, "output", common=CLIENT)
def create(settings: Settings) -> None:
    """Create the output topics of a trainer, with the settings they need.

    Existing topics are not changed, but checked, the input topic too. Status 78: a topic would lose records that it
    must keep.
    """
    from consumers.host.runtime import connect
    from consumers.streams.topics import OwnTopics, check_names, output_topics, unfit, unfit_input
    from streamsvm.kafka import Cluster

    check_names(settings)
    cluster, specs = Cluster(connect(settings, "admin")), output_topics(settings)
    for own in plugged("topics", OwnTopics, DAEMONS):
        specs += own.specs(settings, cluster)
    made = set(cluster.create(specs))
    faults = {spec.name: unfit(spec, cluster.describe(spec.name)) for spec in specs}
    for name in faults:
        typer.echo(f"{'created' if name in made else 'exists '}  {name}")
    try:
        faults[settings.input.topic] = unfit_input(cluster.describe(settings.input.topic))
    except TopicMissing:
        typer.echo(f"missing  {settings.input.topic}: the producers of the input must create it")
    found = [f"{name}: {fault}" for name, several in faults.items() for fault in several]
    for line in found:
        typer.echo(f"unfit    {line}")
    if found:
        raise ConfigurationError(
            f"{found[0]}" + (f" (and {len(found) - 1} more)" if len(found) > 1 else ""),
            "Change the topic's settings (kafka-configs --alter --entity-type topics), or use another topic.",
        )
