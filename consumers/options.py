"""Command-line options made from the typed configuration, so that they are declared, explained and checked once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from consumers.help_texts import AllOptions
from consumers.loader import load
from consumers.settings import ENVIRONMENT_PREFIX, Settings, section_class as settings_section
from consumers.settings_sockets import added
from streamsvm.errors import ConfigurationError
from streamsvm.secrecy import is_secret

OFTEN: Final = (
    "bootstrap_servers",
    "name",
    "input__topic",
    "points__dimension",
    "points__labels",
    "checkpoint__directory",
    "scoring__topic",
)
"""What one gives at a first start: a trainer has six of them, a scorer three."""
SHORT: Final = {"scoring__reasons": "--reasons"} | {name: flag for one in added() for name, flag in one.short.items()}
"""Shorter flags, beside the full ones, of options that are given by hand."""
IN_HELP: Final = frozenset({*OFTEN, *SHORT, "config", "secrets"})
"""What `--help` shows beside a command's own options: all that it could show would be 300 lines and more."""


def fields(section: str) -> dict[str, FieldInfo]:
    """Return the options of a section by name; the empty section holds those outside one."""
    if section == "kafka":
        return {}
    if not section:
        return {name: info for name, info in Settings.model_fields.items() if name in ("name", "seed")}
    return section_class(section).model_fields


def section_class(section: str) -> type[BaseModel]:
    """Return the class of a section."""
    found = settings_section(section)
    assert found is not None, section
    return found


def sections() -> list[str]:
    """Return every section, the empty one first."""
    return ["", *(name for name in Settings.model_fields if settings_section(name) is not None)]


def flag(section: str, name: str) -> str:
    """Return the command-line flag of an option."""
    return "--" + "-".join(part for part in (section, name) if part).replace("_", "-").lower()


def variable(section: str, name: str) -> str:
    """Return the environment variable of an option."""
    return ENVIRONMENT_PREFIX + "__".join(part for part in (section, name) if part).upper()


def shown_default(info: FieldInfo) -> str:
    """Return an option's default as people read it."""
    if info.is_required():
        return "required"
    default = info.get_default()
    if default is None or default in ("", ()):
        return ""
    if isinstance(default, tuple):
        return ",".join(str(part) for part in default)
    return str(default).lower() if isinstance(default, bool) else str(default)


def shown_type(info: FieldInfo) -> str:
    """Return an option's type as people read it."""
    choices: list[str] = []
    for part in _flatten(info.annotation):
        if get_origin(part) is Literal:
            choices += [str(choice) for choice in get_args(part)]
        elif part is not NoneType:
            choices.append(_TYPE_NAMES.get(part) or _GENERIC_NAMES.get(get_origin(part), "TEXT"))
    return "|".join(dict.fromkeys(choices))


_TYPE_NAMES: dict[Any, str] = {int: "INTEGER", float: "NUMBER", bool: "BOOLEAN", str: "TEXT", Path: "PATH"}
_GENERIC_NAMES: dict[Any, str] = {tuple: "LIST", dict: "NAME=NUMBER", Mapping: "TABLE"}


def _flatten(annotation: Any) -> Iterable[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _flatten(get_args(annotation)[0])
    if origin is not Literal and origin not in (tuple, dict, Mapping) and get_args(annotation):
        return [leaf for part in get_args(annotation) for leaf in _flatten(part)]
    return [annotation]


def with_options(
    command: Callable[..., None], own: Sequence[inspect.Parameter], chosen: Sequence[str]
) -> Callable[..., None]:
    """Return a function with the options of the chosen sections in its signature, which calls a command.

    Parameters
    ----------
    command : callable
        Takes the settings, and its own parameters by name.
    own : sequence of inspect.Parameter
        The command's own parameters, without the settings.
    chosen : sequence of str
        Names of sections.

    Returns
    -------
    callable
        Its attribute `seldom` has the names of the parameters that only `--help-all` shows.
    """
    chosen = [section for section in chosen if section in ("", *Settings.model_fields)]  # others are of a branch
    made = _often_first([parameter for section in chosen for parameter in _parameters(section)])

    def wrapped(**given: Any) -> None:
        given.pop(_ALL.name)
        values = {parameter.name: given.pop(parameter.name) for parameter in made}
        command(settings_from(values, chosen), **given)

    parameters = [*own, _ALL, *made]
    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.seldom = frozenset(parameter.name for parameter in made) - IN_HELP  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapped


_ALL: Final = inspect.Parameter(
    "help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=AllOptions,
)


def _often_first(made: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """Put what one needs first into a box of its own at the top of the help."""
    often = [parameter for name in OFTEN for parameter in made if parameter.name == name]
    for parameter in often:
        parameter.annotation.__metadata__[0].rich_help_panel = "needed first"
    return [*often, *(parameter for parameter in made if parameter.name not in OFTEN)]


def _parameters(section: str) -> list[inspect.Parameter]:
    if section == "kafka":
        return _kafka_parameters()
    made = [
        _parameter(
            f"{section}__{name}" if section else name,
            flag(section, name),
            (info.description or "") + (f" [default: {text}]" if (text := shown_default(info)) else ""),
            section or "model",
            shown_type(info),
        )
        for name, info in fields(section).items()
        if not is_secret(name)  # everyone who can list processes would see it
    ]
    return _source_parameters() + made if not section else made


def _source_parameters() -> list[inspect.Parameter]:
    return [
        _parameter("config", "--config", "TOML file with any of the options.", "sources", "FILE", "STREAMSVM_CONFIG"),
        _parameter(
            "secrets",
            "--secrets",
            "Directory with one file per secret, such as kafka__sasl_password.",
            "sources",
            "DIRECTORY",
            "STREAMSVM_SECRETS",
        ),
    ]


def _kafka_parameters() -> list[inspect.Parameter]:
    return [
        _parameter(
            "bootstrap_servers",
            "--bootstrap-servers",
            "Brokers to connect to first, host:port, separated by commas. [default: localhost:9092]",
            "kafka",
            "TEXT",
        ),
        inspect.Parameter(
            "kafka",
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                list[str] | None,
                typer.Option(
                    "--kafka",
                    metavar="OPTION=VALUE",
                    help="Any librdkafka option; may be repeated. Secrets only by file or environment.",
                    rich_help_panel="kafka",
                    show_default=False,
                ),
            ],
        ),
    ]


def _parameter(
    name: str, shown: str, text: str, panel: str, metavar: str, envvar: str | None = None
) -> inspect.Parameter:
    option = typer.Option(
        *(shown, *filter(None, (SHORT.get(name),))),
        help=text,
        rich_help_panel=panel,
        metavar=metavar,
        show_default=False,
        envvar=envvar,
        show_envvar=False,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, option]
    )


def settings_from(values: dict[str, Any], chosen: Sequence[str]) -> Settings:
    """Load the settings under what the command line says.

    Parameters
    ----------
    values : dict
        Each option's text by its parameter's name, None where it was not given.
    chosen : sequence of str
        The sections that the command knows.
    """
    options: dict[str, Any] = {}
    for section in chosen:
        given = {
            name: values[f"{section}__{name}" if section else name]
            for name in fields(section)
            if values.get(f"{section}__{name}" if section else name) is not None
        }
        if given:
            options |= {section: given} if section else given
    kafka = _kafka_options(values.get("kafka") or [])
    if values.get("bootstrap_servers") is not None:
        kafka["bootstrap.servers"] = values["bootstrap_servers"]
    if kafka:
        options["kafka"] = kafka
    file, secrets = values.get("config"), values.get("secrets")
    return load(options, file=Path(file) if file else None, secrets=Path(secrets) if secrets else None)


def _kafka_options(pairs: Iterable[str]) -> dict[str, str]:
    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ConfigurationError(f"--kafka {name} has no value", "Write --kafka OPTION=VALUE.")
        if is_secret(name):
            raise ConfigurationError(
                f"--kafka {name}=... would show a secret to everyone who can list processes",
                f"Put the secret into a file in --secrets, named kafka__{name.replace('.', '_')}, or into the "
                f"environment as {ENVIRONMENT_PREFIX}KAFKA__{name.replace('.', '_').upper()}.",
            )
        options[name] = value
    return options
