"""`streamsvm scale refine`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from consumers.help_texts import Command
from consumers.host.untrusted_text import printable
from consumers.models.commands import NAMED, load
from consumers.on_demand import CLIENT, OptionsOnDemand, with_settings
from streamsvm.errors import ConfigurationError

if TYPE_CHECKING:
    from consumers.settings import Settings


@with_settings("output", "registry", common=CLIENT)
def refine_command(
    settings: Settings,
    as_: Annotated[str, typer.Option("--as", metavar="NAME", help="Name of the model to publish the result under.")],
    version: Annotated[str | None, typer.Option(help=NAMED)] = None,
    alias: Annotated[
        str | None, typer.Option(help="An alias of the version; default: the version that readers have.")
    ] = None,
    within: Annotated[
        float, typer.Option(min=1e-12, max=1.0, help="Gap to the best possible model that is enough.")
    ] = 1e-6,
    reads: Annotated[int, typer.Option(min=1, max=100, help="How often the log is read at most.")] = 12,
    keep: Annotated[
        int,
        typer.Option(min=64, max=1 << 24, metavar="ROWS", help="Rows that a read keeps whole; more need fewer reads."),
    ] = 10_000,
) -> None:
    """Find the best linear model over all rows of a version by reading the log again, and publish it under a new name.

    Rows count as they were learned, outliers within their bounds. Exit status: 0, published, and proven to be as near
    as --within asks over these rows; 1, published, but not proven to be so near.
    """
    from pydantic import TypeAdapter, ValidationError

    from consumers.branches.history.refining import Request, gap, refine
    from consumers.host.runtime import connect
    from consumers.models.moving import user_at_host
    from consumers.settings import ModelName
    from streamsvm.branches.history.refined_part import Refined
    from streamsvm.model.gap import learned_text, percent

    try:
        TypeAdapter(ModelName).validate_python(as_)
    except ValidationError:
        raise ConfigurationError(
            f"--as {as_} cannot be a model's name", "Take letters, digits, dots, dashes and underscores, at most 100."
        ) from None
    loaded, value = load(settings, version, alias)
    request = Request(name=as_, within=within, reads=reads, keep=keep, by=user_at_host())
    sent = refine(
        connect(settings, "refine"), settings, loaded, value, request, lambda line: typer.echo(line, err=True)
    )
    found = sent.version.lineage.fact(Refined)
    assert found is not None
    proven = gap(found)
    near = "nothing is proven of it"
    if proven is not None:
        near = f"{'' if found.bounded else 'proven '}within {percent(proven)} of the best possible model"
    rows = learned_text(sent.version.stream.points, found.bounded)
    typer.echo(printable(f"{sent.version.key}: {near} over {rows} of {loaded.version.key}"))
    raise typer.Exit(0 if proven is not None and proven <= within else 1)


REFINE: Final = Command(name="refine", run=refine_command, cls=OptionsOnDemand, group="scale")
