"""`streamsvm model served`: how good the scores were that went out, by version."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from consumers.help_texts import Command
from consumers.host.untrusted_text import printable
from consumers.on_demand import CLIENT, OptionsOnDemand, with_settings

if TYPE_CHECKING:
    from consumers.branches.challenges.reading import JoinedScores
    from consumers.branches.challenges.table import Skills
    from consumers.settings import Settings, Start
    from streamsvm.kafka import Cluster


@with_settings("input", "labels", "events", "points", "svm", "output", "scoring", common=CLIENT)
def served_command(
    settings: Settings,
    since: Annotated[
        str,
        typer.Option(help="Only scores and labels since a time, 2026-01-31T12:00:00Z, or 30min, 2h, 7d."),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures, and what they are of, as JSON.")] = False,
) -> None:
    """Join the scores that went out with the labels that came, and say how good each version was as it was served.

    Give the trainer's and the scorer's configuration. Labels are those of labels.topic, or, without it, those that come
    with the scored points themselves. All scores of the range are held in memory, some 200 bytes each.
    """
    from consumers.branches.challenges.reading import read_served
    from consumers.branches.challenges.table import plain, summary, table
    from consumers.dead_letters.listing import since_ms
    from consumers.host.runtime import connect
    from streamsvm.kafka import Cluster

    at_ms = since_ms(since, datetime.now(UTC))
    start: Start = datetime.fromtimestamp(at_ms / 1_000, UTC) if at_ms else "earliest"
    cluster, costs = Cluster(connect(settings, "served")), settings.svm.cost
    with cluster.keeping():
        reading = read_served(cluster, settings, start)
        said = plain(reading, _skills(cluster, settings, reading), costs)
    if as_json:
        typer.echo(json.dumps(said, indent=2))
        return
    from rich.console import Console

    Console().print(table(settings.name, said, with_cost=costs is not None))
    typer.echo(printable(summary(said)))


def _skills(cluster: Cluster, settings: Settings, reading: JoinedScores) -> Skills:
    """Return what is known of the versions that served; nothing of those whose records cannot be read."""
    from consumers.models.catalogue import holds_all, read_catalogue, read_names
    from streamsvm.errors import StreamsvmError

    numbers = {int(one) for name in ("version", "shadow_version") for one in reading.served.column(name) if one}
    if not numbers:
        return {}
    try:
        names = read_names(cluster, settings)
        found = read_catalogue(cluster, settings, names, holds_all(numbers))
    except StreamsvmError as error:  # the figures of what was served need no version
        typer.echo(printable(f"the versions are not shown: {error.what}"), err=True)
        return {}
    return {number: entry.skill for number, entry in found.entries.items()}


SERVED: Final = Command(name="served", run=served_command, cls=OptionsOnDemand, group="model")
