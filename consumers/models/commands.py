"""`streamsvm model ...`: every command in a few lines."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from consumers.help_texts import AllCommands, Commands
from consumers.host.untrusted_text import json_for, printable
from consumers.on_demand import CLIENT, OptionsOnDemand, RareOnDemand, with_settings
from streamsvm.errors import ConfigurationError
from streamsvm.supports import require

if TYPE_CHECKING:
    from consumers.models.moving import Records
    from consumers.settings import Settings
    from streamsvm.registry.loading import Loaded

app = Commands(help="Show published models, and choose which version readers get.")

OFFSETS_A_VERSION: Final = 3
"""About; a version and its transaction's marker take two."""

NAMED: Final = "The version's number, or its SHA-256: the first 12 or more hexadecimal digits."
Version = Annotated[str, typer.Argument(help=NAMED)]
Reason = Annotated[str, typer.Option(help="The reason, for the audit trail.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def _group(help_all: AllCommands = False) -> None:
    pass


@app.command("show", cls=OptionsOnDemand)
@with_settings("output", "checkpoint", common=CLIENT)
def show(
    settings: Settings,
    version: Annotated[str | None, typer.Option(help=NAMED)] = None,
    alias: Annotated[
        str | None, typer.Option(help="An alias of the version; default: the version that readers have.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the message itself.")] = False,
    points: Annotated[
        bool, typer.Option("--points", help="Print, as CSV, the rows of the input that stand for all it learned.")
    ] = False,
    shapes: Annotated[
        bool, typer.Option("--shapes", help="Print what each feature adds to a score; with --json as arrays.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Draw the same into this HTML file.")] = None,
    png: Annotated[Path | None, typer.Option(help="Draw the strongest 60 into this PNG file (extra `plot`).")] = None,
) -> None:
    """Show a published version: what it is, what it was made from, and how good the fit is.

    With --points the trainer's newest checkpoint is read, in checkpoint.directory: points of later rows may have taken
    the place of some that the version was made from. --shapes, --html and --png are of additive versions.
    """
    from streamsvm.model import message as model_codec

    drawn = shapes or html is not None or png is not None
    require({"--points": points, "--shapes": drawn})
    loaded, _ = load(settings, version, alias)
    if drawn:
        from consumers.models.shapes import show_shapes

        show_shapes(loaded.version, shapes=shapes, as_json=as_json, html=html, png=png)
        return
    if points:
        from consumers.models.show import newest_checkpoint, write_kept_points

        found = newest_checkpoint(settings.checkpoint.directory, settings.name)
        write_kept_points(found, loaded.version, sys.stdout)
        return
    if as_json:
        typer.echo(json_for(model_codec.encode(loaded.version).decode()))
        return
    from rich.console import Console

    from consumers.models.show import describe

    Console().print(describe(loaded))


@app.command("list", cls=OptionsOnDemand)
@with_settings("output", common=CLIENT)
def list_versions(
    settings: Settings,
    last: Annotated[int, typer.Option(min=1, help="How many of the newest versions to show.")] = 20,
    all_: Annotated[bool, typer.Option("--all", help="Show all versions.")] = False,
    as_json: AsJson = False,
) -> None:
    """List versions, the newest last: the aliases that name them, time, points, balanced accuracy, objective, gap.

    The accuracies are those that the quality gate measured: of the version, and on the same points of the one that was
    current before it. The points were read after the version's cut, or are those of its audit sample or training set.
    """
    from consumers.host.runtime import connect
    from consumers.models.catalogue import holds_newest, read_catalogue, read_names
    from consumers.models.version_tables import doubts, head_line, list_table, listed
    from streamsvm.kafka import Cluster

    cluster = Cluster(connect(settings, "cli"))
    enough = holds_newest(sys.maxsize if all_ else last)
    span = sys.maxsize if all_ else OFFSETS_A_VERSION * last
    with cluster.keeping():
        names = read_names(cluster, settings)
        catalogue = read_catalogue(cluster, settings, names, enough, figures=True, span=span)
    chosen = catalogue.standing if all_ else catalogue.standing[-last:]
    rows = listed([catalogue.entries[number] for number in chosen], names, settings.name)
    for warning in doubts(catalogue):
        typer.echo(warning, err=True)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console

    console = Console()
    console.print(list_table(settings.name, rows, console.width))
    typer.echo(printable(head_line(names, settings.name)))


@app.command("diff", cls=OptionsOnDemand)
@with_settings("output", common=CLIENT)
def diff(settings: Settings, before: Version, after: Version, as_json: AsJson = False) -> None:
    """Compare two versions: figures, lineage, configuration, coefficients or curves."""
    import msgspec

    from consumers.models.version_tables import diff_table
    from streamsvm.model.comparison import Hashed, compare

    hashed = [Hashed(loaded.version, loaded.sha256) for loaded, _ in (load(settings, n, None) for n in (before, after))]
    found = compare(*hashed)
    if as_json:
        typer.echo(json_for(msgspec.json.format(msgspec.json.encode(found)).decode()))
        return
    from rich.console import Console

    Console().print(diff_table(found))


@app.command("train-again", cls=OptionsOnDemand)
@with_settings("checkpoint", "svm", common=CLIENT)
def train_again(settings: Settings, as_json: AsJson = False) -> None:
    """Show what other options of [svm] are worth: train again what the newest checkpoint holds, and publish nothing.

    The trainer's newest checkpoint is read, in checkpoint.directory. Figures are of its audit sample.
    """
    from consumers.models.again import table_of, trained_again
    from consumers.models.show import newest_checkpoint

    found = trained_again(newest_checkpoint(settings.checkpoint.directory, settings.name), settings.svm)
    typer.echo(json.dumps(found, indent=2) if as_json else table_of(found))


@app.command("export", cls=RareOnDemand)
@with_settings("output", common=CLIENT)
def export(
    settings: Settings,
    version: Annotated[str | None, typer.Option(help=NAMED)] = None,
    alias: Annotated[
        str | None, typer.Option(help="An alias of the version; default: the version that readers have.")
    ] = None,
    format_: Annotated[
        Literal["json", "onnx"],
        typer.Option("--format", help="json: the message itself; onnx: a graph for ONNX runtimes."),
    ] = "json",
    out: Annotated[Path | None, typer.Option(help="File to write; default: standard output.")] = None,
) -> None:
    """Write a published version to a file. JSON: exactly the record's bytes, with the version's SHA-256."""
    loaded, value = load(settings, version, alias)
    if format_ == "onnx":
        from streamsvm.registry.onnx_export import export as export_onnx

        value = export_onnx(loaded.version, loaded.sha256)
    if out is None:
        typer.echo(value, nl=False)
        return
    try:
        out.write_bytes(value)
    except OSError as error:
        raise ConfigurationError(f"{out} cannot be written: {error.strerror}") from None
    typer.echo(printable(f"{loaded.version.key}: {len(value):,} bytes to {out}"))


@app.command("pin", cls=OptionsOnDemand)
@with_settings("output", common=CLIENT)
def pin_command(
    settings: Settings,
    version: Annotated[str | None, typer.Argument(help=NAMED)] = None,
    alias: Annotated[
        str | None,
        typer.Option(help="Name the version by this alias, any name you choose, such as stable; pin nothing."),
    ] = None,
    remove: Annotated[
        bool,
        typer.Option(
            "--remove", help="Remove the pin, so that readers of `current` follow the trainer; with --alias the alias."
        ),
    ] = False,
    reason: Reason = "",
) -> None:
    """Hold the readers of `current` at a version until the pin is removed, even if newer versions are published.

    With --alias an alias of your own names the version instead; readers follow it with alias="...".
    """
    from consumers.models.moving import perform, pin, remove_alias, set_alias, unpin
    from streamsvm.registry.anchoring import reference

    if remove == (version is not None):
        raise ConfigurationError(
            "a pin needs a version, or --remove", "For example: streamsvm model pin 7, or streamsvm model pin --remove"
        )
    records = _records(settings, reason)
    if version is None:
        decide = unpin(records) if alias is None else remove_alias(records, alias)
    elif alias is None:
        decide = pin(records, reference(version))
    else:
        decide = set_alias(records, alias, reference(version))
    typer.echo(printable(perform(records.cluster, settings, decide)))


@app.command("rollback", cls=OptionsOnDemand)
@with_settings("output", common=CLIENT)
def rollback_command(settings: Settings, reason: Reason = "") -> None:
    """Pin the version before the readers' one; skip versions that are retired or that the gate refused."""
    from consumers.models.moving import RollBack, perform

    records = _records(settings, reason)
    typer.echo(printable(perform(records.cluster, settings, RollBack(records))))


@app.command("retire", cls=OptionsOnDemand)
@with_settings("output", common=CLIENT)
def retire_command(
    settings: Settings,
    versions: Annotated[list[int], typer.Argument(min=1, help="Numbers of the versions to retire.")],
    reason: Reason = "",
) -> None:
    """Retire versions for good. Refused for the newest version, and for versions that an alias or a pin names."""
    from consumers.models.moving import perform, retire

    records = _records(settings, reason)
    typer.echo(printable(perform(records.cluster, settings, retire(records, versions))))


def load(settings: Settings, version: str | None, alias: str | None) -> tuple[Loaded, bytes]:
    """Return a version and the bytes of its record."""
    from consumers.host.runtime import connect
    from streamsvm.registry.loading import load_record
    from streamsvm.registry.signing import TrustedKeys

    require({"--version": version, "--alias": alias})
    return load_record(
        connect(settings, "cli"),
        settings.name,
        models_topic=settings.output.models_topic,
        number=version,
        alias=alias or "current",
        trusted=TrustedKeys.of(settings.output.trusted_keys_file),
    )


def _records(settings: Settings, reason: str) -> Records:
    from consumers.host.runtime import connect
    from consumers.models.moving import Records, user_at_host
    from streamsvm.kafka import Cluster

    return Records(Cluster(connect(settings, "moves")), settings, user_at_host(), reason, datetime.now(UTC))
