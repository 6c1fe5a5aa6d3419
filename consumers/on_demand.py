"""Commands that are loaded, or given their options, only when a person asks for them.

The options come from the typed settings, so that they are declared, explained and checked once. Loading these classes
takes longer than everything else that `streamsvm --help` does, which shows no option: until a command is asked for, it
has a name and a help text only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.main import get_command

from consumers.help_texts import Command, Commands, PlainCommand
from streamsvm.sockets import DAEMONS, import_name, plugged

if TYPE_CHECKING:
    from consumers.settings import Settings

COMMON: Final = ("", "kafka", "output", "http", "log")
"""Sections that every daemon has; the empty name stands for the options outside a section."""
CLIENT: Final = ("", "kafka", "log")
"""Sections of a command that only asks the broker, or writes to it; what it has no use for would hide the rest."""

TRAINER_SECTIONS: Final = (
    "input",
    "labels",
    "events",
    "points",
    "registry",
    "coreset",
    "svm",
    "training",
    "checkpoint",
)
"""Sections of a trainer, and of a command that is given its options."""


class OptionsOnDemand(PlainCommand):
    """The class (`cls=`) of a command that is decorated by `with_settings`, or made by `on_demand`."""

    def make_context(self, *given: Any, **extra: Any) -> Any:
        """Give the command its help and its options, then read the command line by them.

        Parsing, the command's own `--help` and shell completion all begin here; the list of commands does not.
        """
        if complete := getattr(self.callback, "complete", None):
            made, completed = Commands(add_completion=False), complete()
            made.command()(completed)
            whole = get_command(made)
            self.params, self.callback, self.help = whole.params, whole.callback, whole.help
            self.seldom = getattr(completed, "seldom", frozenset())
        return super().make_context(*given, **extra)


class RareOnDemand(OptionsOnDemand):
    """The class of such a command that few people need: the help of its group leaves it to `--help-all`."""

    rare = True


def on_demand(
    name: str, where: str, summary: str, *, group: str = "", cls: type[OptionsOnDemand] = OptionsOnDemand
) -> Command:
    """Return a command whose module is loaded when the command is run.

    Parameters
    ----------
    name : str
    where : str
        Where the function is, `module:name`.
    summary : str
        The first paragraph of its docstring, for lists of commands.
    group, cls : str, type of OptionsOnDemand
        As of `Command`.
    """

    def complete() -> Callable[..., None]:
        command = import_name(where)
        assert callable(command)
        further: Callable[[], Callable[..., None]] | None = getattr(command, "complete", None)
        return command if further is None else further()

    def listed() -> None:
        raise TypeError(f"the command {name} is registered without cls={cls.__name__}")

    listed.__doc__ = summary
    listed.complete = complete  # type: ignore[attr-defined]
    return Command(name=name, run=listed, cls=cls, group=group)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFlag:
    """A flag of a branch that changes what a command does, at the socket that the command names.

    Attributes
    ----------
    name : str
        Of the command's parameter; the flag is ``--name``.
    help : str
    settle : callable
        Returns the settings as the flag makes them; raises a `ConfigurationError` if another option is against it.
    """

    name: str
    help: str
    settle: Callable[[Settings], Settings]

    @property
    def parameter(self) -> inspect.Parameter:
        """Return it as the command's."""
        option = typer.Option(f"--{self.name.replace('_', '-')}", help=self.help)
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option]
        )


def with_settings(
    *names: str, common: Sequence[str] = COMMON, flags: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, whose first parameter is `settings`, the options of the named sections, once it is run.

    Parameters
    ----------
    names : str
        Sections beside the common ones.
    common : sequence of str
        `COMMON`, or `CLIENT`, with which the log is for people and the Kafka client is quiet.
    flags : str
        The socket of the command's further flags; empty: there is none.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def complete() -> Callable[..., None]:
            from consumers.options import with_options
            from consumers.settings import Settings

            known = inspect.signature(command, eval_str=True, locals={"Settings": Settings})
            more = plugged(flags, SettingsFlag, DAEMONS)
            own = [*list(known.parameters.values())[1:], *(flag.parameter for flag in more)]
            run = _flagged(for_people if common is CLIENT else command, more)
            return with_options(run, own, [*common, *names])

        @wraps(command)
        def for_people(settings: Settings, **own: Any) -> None:
            from consumers.host.runtime import configure_logging

            configure_logging(settings.log, for_people=True)
            command(settings, **own)

        def without_options() -> None:
            raise TypeError(f"the command {command.__name__} is registered without cls=OptionsOnDemand")

        without_options.__name__, without_options.__doc__ = command.__name__, command.__doc__
        without_options.complete = complete  # type: ignore[attr-defined]
        return without_options

    return decorate


def _flagged(command: Callable[..., None], flags: Sequence[SettingsFlag]) -> Callable[..., None]:
    """Return a command that takes flags, too, and is run with the settings as those that were given make them."""

    @wraps(command)
    def run(settings: Settings, **own: Any) -> None:
        for flag in flags:
            if own.pop(flag.name):
                settings = flag.settle(settings)
        command(settings, **own)

    return run
