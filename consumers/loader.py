"""Where options come from: command line, environment, secret files, a TOML file; and what is wrong with them."""

from __future__ import annotations

import difflib
import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    NestedSecretsSettingsSource,
    PydanticBaseSettingsSource,
    SettingsError,
    TomlConfigSettingsSource,
)

from consumers.settings import ENVIRONMENT_PREFIX, Settings, dotted, section_class
from streamsvm.errors import ConfigurationError
from streamsvm.secrecy import is_secret


class _LibrdkafkaNames(PydanticBaseSettingsSource):
    """A source that spells Kafka options as librdkafka does, because merging sources compares spellings."""

    def __init__(self, source: PydanticBaseSettingsSource) -> None:
        super().__init__(source.settings_cls)
        self._source = source

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the source's value of one field."""
        return self._source.get_field_value(field, field_name)

    def __call__(self) -> dict[str, Any]:
        """Return all values of the source."""
        values = self._source()
        kafka = values.get("kafka")
        return values | {"kafka": dotted(kafka)} if isinstance(kafka, dict) else values


def load(
    options: Mapping[str, Any] | None = None, *, file: Path | None = None, secrets: Path | None = None
) -> Settings:
    """Read the configuration.

    Parameters
    ----------
    options : mapping, optional
        Nested values that take precedence over every other source, as from the command line.
    file : Path, optional
        A TOML file.
    secrets : Path, optional
        A directory with a file for each secret, named as the environment variable without its prefix, for example
        `kafka__sasl_password`.

    Raises
    ------
    ConfigurationError
        One line that names every wrong option, and the sources that were read; or the file that this user may not
        read, and the mode that it needs.
    """
    named = ((file, "configuration file"), (secrets, "secrets directory"))
    for path, kind in [(path, kind) for path, kind in named if path]:
        _refuse_unreadable(path, kind, private=path == secrets)
        if not path.exists():
            raise ConfigurationError(f"the {kind} {path} does not exist", "Correct the path, or remove the option.")
    for mounted in secrets.iterdir() if secrets and secrets.is_dir() else ():
        _refuse_unreadable(mounted, "secret", private=True)
    _refuse_unknown_environment(os.environ)

    class Bound(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            mounted = NestedSecretsSettingsSource(
                file_secret_settings, secrets_dir=secrets, secrets_prefix="", secrets_nested_delimiter="__"
            )
            strongest_first = (init_settings, env_settings, mounted, TomlConfigSettingsSource(settings_cls, file))
            return tuple(map(_LibrdkafkaNames, strongest_first))

    try:
        bound = Bound(**(options or {}))
    except ValidationError as error:
        raise ConfigurationError(f"invalid configuration: {_one_line(error)}", _sources(file)) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}", "Correct that line of the file.") from None
    except SettingsError as error:
        raise ConfigurationError(f"the configuration cannot be read: {error}", _sources(file)) from None
    values = {field: getattr(bound, field) for field in Settings.model_fields}
    for option, value in bound.kafka.items():
        if option.endswith(".location"):
            _refuse_unreadable(Path(str(value)), f"file of kafka option {option}", private="key" in option)
    if bound.registry.ca_file:
        _refuse_unreadable(bound.registry.ca_file, "file of registry.ca_file", private=False)
    return Settings.model_construct(_fields_set=set(bound.model_fields_set), **values)


def _refuse_unreadable(path: Path, kind: str, *, private: bool) -> None:
    """Refuse a file or directory that is there, and that this user may not read; say which mode it needs."""
    user = os.geteuid()
    for folder in reversed(path.resolve().parents):  # where links lead to, too
        if folder.is_dir() and not os.access(folder, os.X_OK, effective_ids=True):
            raise ConfigurationError(
                f"the {kind} {path} cannot be reached by user {user}: the directory {folder} is closed to it "
                f"{_owned(folder)}",
                f"As root: chmod a+x {folder}.",
            )
    wanted, own, all_users = (os.R_OK | os.X_OK, "500", "755") if path.is_dir() else (os.R_OK, "400", "644")
    if path.exists() and not os.access(path, wanted, effective_ids=True):
        to_all = f"chmod {all_users} {path} (keep secrets out of what every user may read)."
        to_one = (
            f"chown {user} {path}; chmod {own} {path}. A systemd unit, whose user changes, gets it by LoadCredential."
        )
        raise ConfigurationError(
            f"the {kind} {path} cannot be read by user {user} {_owned(path)}",
            f"As root: {to_one if private else to_all}",
        )


def _owned(path: Path) -> str:
    found = path.stat()
    return f"(mode {stat.S_IMODE(found.st_mode):04o}, of user {found.st_uid}, group {found.st_gid})"


def _sources(file: Path | None) -> str:
    where = f"{file}, " if file else ""
    return (
        f"Sources read: the command line, {ENVIRONMENT_PREFIX}* variables, {where}and the defaults; `streamsvm "
        "config` lists every option."
    )


def _refuse_unknown_environment(environment: Mapping[str, str]) -> None:
    known = {field.upper() for field in Settings.model_fields} | {"CONFIG", "SECRETS", "RESET", "RESET_SCORES", "TEST"}
    for variable in environment:
        if variable.startswith(ENVIRONMENT_PREFIX):
            first = variable.removeprefix(ENVIRONMENT_PREFIX).split("__")[0]
            if first.upper() not in known and not first.upper().startswith("TEST_"):
                raise ConfigurationError(
                    f"the environment variable {variable} does not name an option",
                    f"The sections are {', '.join(sorted(Settings.model_fields))}; an example is "
                    "STREAMSVM_INPUT__TOPIC.",
                )


def _known_names() -> list[str]:
    """Return every section and option, dotted."""
    sections = {section: section_class(section) for section in Settings.model_fields}
    options = ((section, name) for section, kind in sections.items() if kind for name in kind.model_fields)
    return [*sections, *map(".".join, options)]


def _meant(where: str) -> str:
    """Suggest an option for an unknown name: an option of that name in another section, or one spelled similarly."""
    names = _known_names()
    namesakes = [name for name in names if name.rpartition(".")[2] == where.rpartition(".")[2]]
    likely = namesakes or difflib.get_close_matches(where, names, 1)
    return f" (did you mean {' or '.join(likely)}?)" if likely else ""


def _one_line(error: ValidationError) -> str:
    """Return what is wrong with each option, in one line; alternatives of one option are joined by `or`."""
    faults: dict[str, list[str]] = {}
    shown: dict[str, str] = {}
    for fault in sorted(error.errors(include_url=False), key=_place):
        where = ".".join(str(part) for part in _option_of(fault["loc"]))
        faults.setdefault(where, []).append(_in_words(fault, where))
        hidden = fault["type"] in ("missing", "value_error", "extra_forbidden") or is_secret(where) or where == "kafka"
        shown[where] = "" if hidden else f" (got {fault['input']!r})"
    said = {
        where: " or ".join([one, *(other.removeprefix("must be ") for other in others)]) + shown[where]
        for where, (one, *others) in faults.items()
    }
    return "; ".join(f"{where}: {what}" if where else what for where, what in said.items())


def _place(fault: ErrorDetails) -> int:
    """Return where the section of a fault stands among the sections; faults of the whole come last."""
    sections, of = list(Settings.model_fields), fault["loc"][:1]
    return next((place for place, name in enumerate(sections) if (name,) == of), len(sections))


def _option_of(place: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return the option of a fault, without the types that pydantic tried there."""
    section, *rest = place or ("",)
    kind = section_class(section) if section in Settings.model_fields else None
    if kind is None or not rest or rest[0] not in kind.model_fields:
        return place
    return (section, rest[0], *(part for part in rest[1:] if isinstance(part, int)))


def _in_words(fault: ErrorDetails, where: str) -> str:
    kind = fault["type"]
    if kind == "extra_forbidden":
        return "there is no such option" + _meant(where)
    demand = _DEMANDS.get(kind)
    if demand is None:
        return fault["msg"].removeprefix("Value error, ").removesuffix(".")
    return demand.format_map(fault.get("ctx", {}))


_DEMANDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "must be an integer"),
    **dict.fromkeys(("float_parsing", "float_type"), "must be a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
    **dict.fromkeys(
        ("datetime_parsing", "datetime_from_date_parsing", "datetime_type"),
        "must be a time such as 2026-01-31T12:00:00Z",
    ),
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be at least {ge:g}",
    "greater_than": "must be above {gt:g}",
    "less_than_equal": "must be at most {le:g}",
    "less_than": "must be below {lt:g}",
    "too_long": "must have at most {max_length} entries, but has {actual_length}",
    "too_short": "must have at least {min_length} entries, but has {actual_length}",
    "string_pattern_mismatch": "must begin with a letter or a digit and contain only letters, digits, dots, "
    "underscores and hyphens, at most 100 characters",
    "missing": "is not given",
}
"""Messages for people instead of pydantic's, by type of error."""
