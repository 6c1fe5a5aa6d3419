"""`streamsvm dead-letters`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.on_demand import CLIENT, with_settings
from streamsvm.errors import ConfigurationError, TopicMissing
from streamsvm.supports import require

if TYPE_CHECKING:
    from datetime import datetime

    from consumers.dead_letters.listing import Chosen
    from consumers.settings import Settings
    from streamsvm.kafka import Cluster


@with_settings("input", common=CLIENT)
def dead_letters_command(
    settings: Settings,
    topic: Annotated[str | None, typer.Argument(help="The dead-letter topic; default: the one of input.topic.")] = None,
    *,
    last: Annotated[int, typer.Option(min=1, help="How many of the newest letters to show.")] = 20,
    reason: Annotated[list[str] | None, typer.Option(help="Only letters with this reason; may be repeated.")] = None,
    since: Annotated[str, typer.Option(help="Only letters since a time, 2026-01-31T12:00:00Z, or 30min, 2h, 7d.")] = "",
    all_models: Annotated[
        bool, typer.Option("--all-models", help="Letters of every model, whatever --name or a configuration says.")
    ] = False,
    resend: Annotated[
        str,
        typer.Option(
            metavar="TOPIC",
            help="Send the rejected rows to this topic, having said how many they are and asked; a letter that was "
            "sent once is never sent again. Letters of several models need --name or --all-models.",
        ),
    ] = "",
    yes: Annotated[
        bool, typer.Option("--yes", help="With --resend: send without asking. Needed where nobody can answer.")
    ] = False,
    mended: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --resend: send the field `again` of these lines, as --json printed them, instead of the "
            "original rows, and no other letters. - reads standard input.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one line per letter, with complete values.")
    ] = False,
) -> None:
    """Show rejected records: where each is, why it was rejected, and what to do about it; or send them again.

    Where a model's name is configured (--name), only letters of its trainer and scorer. Without --resend nothing is
    written. With it, all matching letters are sent, regardless of --last, except those that were sent before; the
    dead-letter topic keeps a receipt of each. Exit status of --resend: 0, done; 1, nothing was sent, for want of a yes.
    """
    from datetime import UTC, datetime

    from consumers.dead_letters.listing import chosen, plain, read_letters, report
    from consumers.host.runtime import connect
    from streamsvm.kafka import Cluster

    require({"--mended": mended, "--resend": resend})
    lines = _mended(mended)
    name = settings.name if "name" in settings.model_fields_set and not all_models else ""
    now = datetime.now(UTC)
    wanted, source = chosen(reason or (), since, name, now), topic or settings.input.dead_letters
    cluster = Cluster(connect(settings, "cli"))
    if topic is None and _nobody_read(cluster, settings.input.topic, source):
        if not as_json:
            typer.echo(
                f"{source}: 0 dead letters; the topic does not exist: nothing has read {settings.input.topic} yet"
            )
        return
    if resend:
        agreed = yes or (None if str(mended) != "-" and sys.stdin.isatty() else False)
        _resend(cluster, source, resend, wanted, now, lines, agreed=agreed, all_models=all_models)
        return
    found = read_letters(cluster, source, last, wanted)
    shown = (json.dumps(plain(letter, found.receipts.get(letter.rejected.id))) for letter in found.letters)
    for line in shown if as_json else report(found):
        typer.echo(line)


def _nobody_read(cluster: Cluster, topic: str, dead_letter_topic: str) -> bool:
    """Return whether an input is there and its dead-letter topic is not; raise `TopicMissing` if neither is."""
    try:
        cluster.describe(dead_letter_topic)
    except TopicMissing:
        cluster.describe(topic)
        return True
    return False


def _resend(
    cluster: Cluster,
    source: str,
    target: str,
    wanted: Chosen,
    now: datetime,
    lines: dict[str, bytes | None] | None,
    *,
    agreed: bool | None,
    all_models: bool,
) -> None:
    """Say what would be sent, ask where nobody has agreed or refused, and send it; exit with 1 without a yes."""
    from consumers.dead_letters import resending

    planned = resending.plan(cluster, source, target, wanted, lines)
    for line in planned.counts:
        typer.echo(line)
    if not all_models:
        planned.require_one_model()
    if agreed is None and planned.ids:
        agreed = typer.confirm(f"Send {len(planned.ids):,} of them to {target}?")
    if planned.ids and not agreed:
        typer.echo("nothing was sent: give --yes to send them")
        raise typer.Exit(1)
    done = resending.resend(cluster, source, target, wanted, now, mended=lines, agreed=planned.ids)
    for line in done.lines(source, target):
        typer.echo(line)


def _mended(file: Path | None) -> dict[str, bytes | None] | None:
    from consumers.dead_letters.resending import mended_lines

    if file is None:
        return None
    if str(file) == "-":
        return mended_lines(sys.stdin.buffer, "standard input")
    try:
        with file.open("rb") as lines:
            return mended_lines(lines, str(file))
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be read: {error.strerror}", "Give a file with the lines that --json printed."
        ) from None
