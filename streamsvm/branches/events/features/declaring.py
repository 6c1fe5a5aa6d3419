"""From the tables `[features]` and `[events]` of a configuration to a recipe, and back."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from itertools import chain, count
from typing import Any, Final, get_args

import msgspec

from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.recipe import (
    LONGEST_TEXT,
    MISSING,
    OTHER,
    Category,
    Cross,
    Envelope,
    EventTime,
    Feature,
    Flag,
    Hash,
    Label,
    Number,
    Recipe,
    Time,
    check,
)
from streamsvm.branches.events.features.zones import UTC_NAME, Transitions
from streamsvm.field_paths import Path, path_of, shown

KINDS: Final[Mapping[str, type[Feature]]] = {
    "number": Number,
    "category": Category,
    "hash": Hash,
    "time": Time,
    "flag": Flag,
    "cross": Cross,
}
"""What a feature can be, as `as` says it."""

_ROOM: Final = 10
"""Characters of a name that are left for a number behind it."""
_OF_COLUMNS: Final = "=#.<>["
"""Characters between the name of a feature and the rest of the name of one of its columns."""

ZoneRules = Callable[[str], Transitions]
"""Returns the rules of a zone by its name; raises `ValueError` for an unknown one."""


def declared(features: Mapping[str, Any], events: Mapping[str, Any], rules_of: ZoneRules) -> Recipe:
    """Read a recipe from the tables of a configuration.

    Parameters
    ----------
    features : mapping of str to mapping or str
        Options by a feature's name; a text stands for ``{"as": text}``, and `field` is the name unless it is given.
    events : mapping
        `label`, `weight`, `id`, `time` and `envelope`, each optional.
    rules_of : callable
        Where the rules of time zones come from.

    Raises
    ------
    ValueError
        Naming the option, and saying what to do.
    """
    made = tuple(_feature(name, options) for name, options in features.items())
    time = _event_time(events.get("time"))
    timed = [feature for feature in made if isinstance(feature, Time)]
    zones = {one.zone for one in (*timed, *(() if time is None else (time,)))} - {UTC_NAME}
    recipe = Recipe(
        features=made,
        zones={zone: rules_of(zone) for zone in sorted(zones)},
        label=_label(events.get("label")),
        weight=_optional("events.weight", events.get("weight")),
        id=_optional("events.id", events.get("id")),
        time=time,
        envelope=envelope_of(events.get("envelope", "none")),
    )
    check(recipe)
    columns_of(recipe)
    return recipe


def tables(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """Return the tables, `events` and `features`, from which `declared` makes a recipe: plain values of TOML."""
    events: dict[str, Any] = {}
    if recipe.label is not None:
        label = recipe.label
        sides = {"negative": label.negative, "positive": label.positive, "labels": label.labels}
        events["label"] = {"field": written(label.field), **{side: list(of) for side, of in sides.items() if of}}
    events |= {name: written(path) for name, path in (("weight", recipe.weight), ("id", recipe.id)) if path is not None}
    if recipe.time is not None:
        events["time"] = {**msgspec.to_builtins(recipe.time), "field": written(recipe.time.field)}
    if recipe.envelope != "none":
        events["envelope"] = recipe.envelope
    features = {}
    for feature in recipe.features:
        options: dict[str, Any] = msgspec.to_builtins(feature)
        name = options.pop("name")
        for option in ("field", "since"):
            if option in options:
                options[option] = written(tuple(options[option]))
        if options.get("field") == name:
            del options["field"]
        features[name] = {key: list(one) if isinstance(one, tuple) else one for key, one in options.items()}
    return {"events": events, "features": features}


def written(path: Path) -> str | list[str | int]:
    """Return a path as a configuration has it."""
    text = shown(path)
    try:
        return text if path_of(text) == path else list(path)
    except ValueError:
        return list(path)


def name_for(path: Path, taken: Container[str]) -> str:
    """Return a name for the feature of a field, which no other feature has, and no column of another feature."""
    wanted = "_".join(map(str, path)).strip()
    kept = [one if one.isprintable() and one not in _OF_COLUMNS else "_" for one in wanted]
    name = "".join(kept)[: LONGEST_TEXT - _ROOM].strip() or "_"
    others = (f"{name}_{number}" for number in count(2))
    return next(one for one in chain((name,), others) if one not in taken)


def allowed(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options of a feature without the values that a category must not declare; empty if no value is left.

    Such a value is one of the others, whose column a category has in any case.
    """
    if options.get("as") != "category":
        return options
    values = [value for value in options["values"] if value not in (OTHER, MISSING)]
    return {**options, "values": values} if values else {}


# --------------------------------------------------------------------- reading


def _feature(name: str, given: object) -> Feature:
    options = {"as": given} if isinstance(given, str) else given
    if not isinstance(options, Mapping):
        raise ValueError(f'features.{name} is {given!r}: write {name} = {{as = "number"}}, or another kind')
    kind = KINDS.get(options.get("as", ""))
    if kind is None:
        raise ValueError(f"features.{name}.as is {options.get('as', 'not given')!r}: give one of {', '.join(KINDS)}")
    if options.get("parse") == "decimal":
        raise ValueError(
            f'features.{name}.parse is "decimal", which is not supported: let the connector send numbers (Debezium: '
            "decimal.handling.mode = double; Connect: decimal.format = NUMERIC), or send the schema with the "
            'event and set events.envelope = "connect"'
        )
    known = [option for option in kind.__struct_fields__ if option != "name"]
    if unknown := [option for option in options if option not in (*known, "as")]:
        raise ValueError(
            f"features.{name}.{unknown[0]}: there is no such option; a {options['as']} has {', '.join(sorted(known))}"
        )
    plain = {**options, "name": name}
    if kind is not Cross:
        plain["field"] = _path(f"features.{name}.field", options.get("field", name))
    if kind is Category:
        plain["values"] = [_value(name, value) for value in _listed(f"features.{name}.values", options.get("values"))]
    if kind is Time:
        plain |= _time_options(name, options)
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"features.{name}: {_in_words(error)}") from None


def _time_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if options.get("since") is not None:
        made["since"] = _path(f"features.{name}.since", options["since"])
    if "parts" not in options:
        made["parts"] = ["hour", "weekday", *(["age"] if made else [])]
    return made


def _in_words(error: msgspec.ValidationError) -> str:
    what, _, where = str(error).partition(" - at `$.")
    return f"{where.rstrip('`')}: {what}" if where else what


def _listed(where: str, value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{where} is {'not given' if value is None else repr(value)}: give a list of values")
    return list(value)


def _value(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"features.{name}.values holds {value!r}: give text, integers or booleans")
    return value


def _path(where: str, written: object) -> Path:
    try:
        return path_of(written)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _optional(where: str, written: object) -> Path | None:
    return None if written is None else _path(where, written)


def _event_time(given: object) -> EventTime | None:
    if given is None:
        return None
    options = {"field": given} if isinstance(given, str) else given
    known = EventTime.__struct_fields__
    if not isinstance(options, Mapping) or "field" not in options or not options.keys() <= set(known):
        raise ValueError(
            f'events.time is {given!r}: write {{field = "created_at"}}, with format = "ms" and zone = "Europe/Berlin" '
            "where they are needed"
        )
    try:
        return msgspec.convert({**options, "field": _path("events.time.field", options["field"])}, EventTime)
    except msgspec.ValidationError as error:
        raise ValueError(f"events.time: {_in_words(error)}") from None


def envelope_of(given: object) -> Envelope:
    """Return what is said to stand around an event.

    Raises
    ------
    ValueError
        If nothing of this name can; the message says what to do.
    """
    if given == "cloudevents":
        raise ValueError(
            "events.envelope is 'cloudevents', which is not supported: send binary CloudEvents, whose value is the "
            "event, and leave the option out"
        )
    for envelope in get_args(Envelope):
        if given == envelope:
            found: Envelope = envelope
            return found
    raise ValueError(f"events.envelope is {given!r}: give one of {', '.join(get_args(Envelope))}")


def _label(given: object) -> Label | None:
    if given is None:
        return None
    where = "events.label"
    forms = ({"field", "negative", "positive"}, {"field", "labels"})
    if not isinstance(given, Mapping) or given.keys() not in forms:
        raise ValueError(
            f'{where} is {given!r}: write {{field = "is_fraud", negative = [false], positive = [true]}}, or of more '
            'than two labels {field = "outcome", labels = ["ok", "review", "fraud"]}'
        )
    sides = {side: _literals(f"{where}.{side}", given[side]) for side in given if side != "field"}
    return Label(field=_path(f"{where}.field", given["field"]), **sides)


def _literals(where: str, given: object) -> tuple[bool | int | str, ...]:
    values = given if isinstance(given, list | tuple) else [given]
    for value in values:
        if not isinstance(value, bool | int | str):
            raise ValueError(f"{where} holds {value!r}: give text, integers or booleans")
    return tuple(values)
