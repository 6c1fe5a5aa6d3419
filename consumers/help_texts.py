"""Help as it is written: the command line's classes, under which a help text is text and no markup.

Who prints the help takes `[features]` for a tag and leaves it out. Nothing in our help texts is meant as one. The
line breaks of a docstring are kept, too, and are not those of the terminal; so each paragraph becomes one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

import typer
from typer.core import TyperCommand, TyperGroup

HELP_FLAGS: Final = ("-h", "--help")
ALL_FLAG: Final = "--help-all"


@contextmanager
def _escaped(parts: Iterable[Any]) -> Iterator[None]:
    """Escape the help texts of commands and parameters for as long as the help is printed."""
    from rich.markup import escape

    written = [(part, part.help) for part in parts if getattr(part, "help", None)]
    for part, text in written:
        part.help = escape(_joined(text))
    try:
        yield
    finally:
        for part, text in written:
            part.help = text


def _joined(text: str) -> str:
    """Return a text with each paragraph in one line, for the terminal to wrap."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


@contextmanager
def _hidden(parts: Iterable[Any]) -> Iterator[None]:
    """Hide parameters or commands for as long as the help is printed: shell completion knows them."""
    shown = [part for part in parts if not part.hidden]
    for part in shown:
        part.hidden = True
    try:
        yield
    finally:
        for part in shown:
            part.hidden = False


class PlainCommand(TyperCommand):
    """A command whose help is printed as it is written.

    Attributes
    ----------
    seldom : frozenset of str
        Parameters that `--help` leaves to `--help-all`.
    rare : bool
        Of the class: whether its group's `--help` leaves the command to `--help-all`.
    """

    seldom: frozenset[str] = frozenset()
    rare: ClassVar[bool] = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        left_out = [] if ALL_FLAG in ctx.meta else [one for one in self.params if one.name in self.seldom]
        self.epilog = _rest(ctx.command_path, left_out) if left_out else None
        with _escaped([self, *self.params]), _hidden(left_out):
            super().format_help(ctx, formatter)


def show_all(context: typer.Context, wanted: bool) -> None:
    """Print the help of a command with every option, or of a group with every command, and exit."""
    if wanted:
        context.meta[ALL_FLAG] = True
        typer.echo(context.get_help(), color=context.color)
        raise typer.Exit


AllCommands = Annotated[
    bool, typer.Option(ALL_FLAG, is_eager=True, callback=show_all, help="Show every command and exit.")
]
"""The option of a group that has rare commands, for its callback."""


PositiveLabel = Annotated[
    str | None,
    typer.Option(
        metavar="LABEL",
        help="Of two labels, the one that precision, recall, cost and threshold are of. Default: by their names, else "
        "the rarer one.",
    ),
]
AllOptions = Annotated[
    bool, typer.Option(ALL_FLAG, is_eager=True, callback=show_all, help="Show every option and exit.")
]
"""The option of a command whose help leaves some options to `--help-all`."""


def _rest(command: str, left_out: list[Any]) -> str:
    said = f"{len(left_out)} more options: {command} {ALL_FLAG} shows them."
    if any("__" in str(one.name) for one in left_out):  # options of the settings
        said += (
            " Each may also stand in a TOML file, for --config, or in the environment: streamsvm config lists them all "
            "with their defaults."
        )
    return said


class PlainGroup(TyperGroup):
    """Commands whose help is printed as it is written.

    Attributes
    ----------
    rare : bool
        Of the class: whether the help of the group above leaves this group to `--help-all`.
    """

    rare: ClassVar[bool] = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, with that of each command in the list."""
        rare = [command for command in self.commands.values() if getattr(command, "rare", False)]
        left_out = [] if ALL_FLAG in ctx.meta else rare
        more = len(left_out)
        further = f"{more} more command{'s' * (more > 1)}: see {ctx.command_path} {ALL_FLAG}."
        self.epilog = further if more else None
        with _escaped([self, *self.params, *self.commands.values()]), _hidden(left_out):
            super().format_help(ctx, formatter)


class RareGroup(PlainGroup):
    """A group that few people need."""

    rare = True


class Commands(typer.Typer):
    """What commands are registered with, instead of `typer.Typer`."""

    def __init__(self, **options: Any) -> None:
        defaults = {"cls": PlainGroup, "no_args_is_help": True, "context_settings": {"help_option_names": HELP_FLAGS}}
        super().__init__(**{**defaults, **options})

    def command(self, name: str | None = None, *, cls: type[TyperCommand] | None = PlainCommand, **options: Any) -> Any:
        """Return what registers a command."""
        return super().command(name, cls=cls, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, of the trunk or of a branch at the socket ``commands``.

    Attributes
    ----------
    name : str
    run : callable or Commands
        The command, or a group of commands.
    cls : type of TyperCommand
        Of the command; nothing of a group.
    group : str
        Name of the trunk's group in which it stands; empty: in none. A group without a command is not listed.
    after : str
        Of a branch: name of the command behind which it is listed; empty: behind them all.
    """

    name: str
    run: Callable[..., None] | Commands
    cls: type[TyperCommand] = PlainCommand
    group: str = ""
    after: str = ""

    def register(self, groups: Mapping[str, Commands]) -> None:
        """Put it where it stands; the whole command line is the group without a name."""
        if isinstance(self.run, Commands):
            groups[self.group].add_typer(self.run, name=self.name)
        else:
            groups[self.group].command(self.name, cls=self.cls)(self.run)
