"""`streamsvm verify`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.host.untrusted_text import printable
from consumers.on_demand import CLIENT, with_settings
from streamsvm.supports import require

if TYPE_CHECKING:
    from consumers.settings import Settings


@with_settings("output", "registry", "files", common=CLIENT)
def verify_command(
    settings: Settings,
    *,
    version: Annotated[int | None, typer.Option(help="Recompute this version only.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Recompute every version; the default.")] = False,
    certificate: Annotated[
        bool,
        typer.Option(
            "--certificate",
            help="Prove how far one version, --version or the newest, can be from the best model over all its rows.",
        ),
    ] = False,
    keep: Annotated[
        int | None, typer.Option(min=64, metavar="ROWS", help="With --certificate: rows to keep whole. Default: 10000.")
    ] = None,
    reads: Annotated[
        int | None,
        typer.Option(min=1, help="With --certificate: most reads of the input; more can prove more. Default: 1."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole report as JSON.")] = False,
) -> None:
    """Recompute published versions from the input's log, and compare them byte for byte.

    Needs only the broker and the model's name: everything else is in the versions. Exit status: 0, all versions were
    checked and are correct; 1, something differs; 3, nothing differs, but not all could be checked (removed from the
    log, or made by another build or CPU and different here).
    """
    from consumers.host.runtime import connect
    from consumers.verify.verify import progress_bar, summary_line, verify
    from streamsvm.certificate import KEEP
    from streamsvm.kafka import Cluster

    which = {"--version": version, "--all": all_}
    require({**which, "--certificate": certificate, "--keep": keep, "--reads": reads})
    rows_to_keep = 0
    if certificate:
        rows_to_keep = KEEP if keep is None else keep
    with progress_bar(settings.name) as progress:
        cluster = Cluster(connect(settings, "verify"))
        with cluster.keeping():
            report = verify(cluster, settings, number=version, keep=rows_to_keep, reads=reads or 1, progress=progress)
    if as_json:
        typer.echo(json.dumps(report.plain(), indent=2))
    else:
        for line in (*report.lines(), summary_line(report)):
            typer.echo(printable(line))
    raise typer.Exit(report.exit_status)
