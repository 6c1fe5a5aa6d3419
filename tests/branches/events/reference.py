"""A second evaluation of recipes, from the schema of the message alone: event by event, with the standard library only.

Numbers as text and counted times are left out: no recipe that is compared with it has them.

It takes a recipe's JSON value, as a program in another language would, and shares no code with the product.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII
)


class Rejected(Exception):
    """The recipe rejects the event."""


MISSING = object()


def columns(recipe: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, float]:
    """Return the columns of an event, by their names and in their order.

    Raises `Rejected`.
    """
    made: dict[str, dict[str, float]] = {}
    for feature in recipe["features"]:
        if feature["as"] == "cross":
            first, second = (made[name] for name in feature["of"])
            own = {f"{a} & {b}": x * y for a, x in first.items() for b, y in second.items()}
        else:
            own = of_field(feature, event, recipe.get("zones", {}))
        made[feature["name"]] = own
    return {name: value for own in made.values() for name, value in own.items()}


UNAVAILABLE = "__debezium_unavailable_value"


def follow(event: Any, path: list[str | int]) -> Any:
    """Return what stands under a path, or MISSING."""
    for step in path:
        if event is None or event is MISSING or event == UNAVAILABLE:
            return MISSING
        if isinstance(step, str):
            if not isinstance(event, dict):
                raise Rejected(path)
            event = event.get(step, MISSING)
        else:
            if not isinstance(event, list):
                raise Rejected(path)
            event = event[step] if step < len(event) else MISSING
    return MISSING if event is None or event == UNAVAILABLE else event


def of_field(feature: Mapping[str, Any], event: Mapping[str, Any], zones: Mapping[str, Any]) -> dict[str, float]:
    """Return the columns of one feature."""
    name, rule = feature["name"], feature.get("missing", "reject")
    values = [follow(event, feature["field"])]
    if feature.get("since") is not None:
        values.append(follow(event, feature["since"]))
    gone = any(value is MISSING for value in values)
    if gone and rule == "reject":
        raise Rejected(name)
    if gone and rule != "indicator":
        values = [rule["constant"]]
        gone = False
    evaluate = {"number": number, "category": category, "hash": hashed, "flag": flag, "time": time}[feature["as"]]
    if gone:
        for value in values:  # what is there must still be right
            if value is not MISSING and feature["as"] == "time":
                micros(value, feature, zones)
        own = dict.fromkeys(evaluate(feature, None, zones), 0.0)
    else:
        own = evaluate(feature, values, zones)
    if rule == "indicator":
        own[f"{name}=(missing)"] = float(gone)
    return own


def is_number(value: Any) -> bool:
    """Tell whether a value is a number of JSON, in range."""
    return not isinstance(value, bool) and isinstance(value, int | float) and abs(value) <= 1e100


def number(feature: Mapping[str, Any], values: Any, _: Any) -> dict[str, float]:
    """Return a number's columns."""
    name, borders = feature["name"], feature.get("buckets", [])
    if borders:
        texts = [str(int(b)) if float(b).is_integer() and abs(b) < 1e16 else repr(float(b)) for b in borders]
        names = [f"{name}<{texts[0]}"]
        names += [f"{name}[{low},{high})" for low, high in pairwise(texts)]
        names += [f"{name}>={texts[-1]}"]
    else:
        names = [name]
    if values is None:
        return dict.fromkeys(names, 0.0)
    (value,) = values
    if not is_number(value):
        raise Rejected(name)
    value = float(value)
    if feature.get("clip") is not None:
        value = min(max(value, feature["clip"][0]), feature["clip"][1])
    value /= feature.get("unit", 1.0)
    if borders:
        at = sum(value >= border for border in borders)
        return {own: float(index == at) for index, own in enumerate(names)}
    return {name: math.copysign(math.log1p(abs(value)), value) if feature.get("log1p") else value}


def text(value: Any) -> str:
    """Return the text by which a value is compared."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float) and value == value // 1 and abs(value) < 2**53:
        return str(int(value))
    raise Rejected(value)


def category(feature: Mapping[str, Any], values: Any, _: Any) -> dict[str, float]:
    """Return a category's columns."""
    known = [*feature["values"], "(other)"]
    chosen = None if values is None else text(values[0])
    if chosen is not None and chosen not in feature["values"]:
        chosen = "(other)"
    return {f"{feature['name']}={one}": float(one == chosen) for one in known}


def hashed(feature: Mapping[str, Any], values: Any, _: Any) -> dict[str, float]:
    """Return a hash's columns."""
    own = {f"{feature['name']}#{index}": 0.0 for index in range(2 ** feature["bits"])}
    if values is not None:
        digest = hashlib.sha256(f"{feature.get('seed', 0)}:{text(values[0])}".encode()).hexdigest()
        column = int(digest[:8], 16) % 2 ** feature["bits"]
        own[f"{feature['name']}#{column}"] = -1.0 if int(digest[8:10], 16) & 1 else 1.0
    return own


def flag(feature: Mapping[str, Any], values: Any, _: Any) -> dict[str, float]:
    """Return a flag's column."""
    if values is None:
        return {feature["name"]: 0.0}
    if not isinstance(values[0], bool | int | float) or values[0] not in (0, 1):
        raise Rejected(values[0])
    return {feature["name"]: float(values[0])}


def offset(table: list[list[int]], seconds: int) -> int:
    """Return a zone's offset at a time."""
    found = table[0][1]
    for since, shift in table:
        if since <= seconds:
            found = shift
    return found


def micros(value: Any, feature: Mapping[str, Any], zones: Mapping[str, Any]) -> int:
    """Return a time in microseconds since the epoch."""
    parts = ISO.fullmatch(value) if isinstance(value, str) else None
    if parts is None:
        raise Rejected(value)
    year, month, day, hour, minute, second, fraction, zone = parts.groups()
    try:
        local = datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=UTC
        )
    except ValueError:
        raise Rejected(value) from None
    whole = (local - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    rest = int(Decimal(f"0.{fraction or 0}") * 10**6)
    if zone is None:
        table = [[0, 0]] if feature.get("zone", "UTC") == "UTC" else zones[feature["zone"]]
        whole -= offset(table, whole - offset(table, whole))
    elif zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        if hours > 23 or minutes > 59:
            raise Rejected(value)
        whole -= (1 if zone[0] == "+" else -1) * (hours * 3600 + minutes * 60)
        if not -62_135_596_800 <= whole < 253_402_300_800:
            raise Rejected(value)
    return whole * 10**6 + rest


def time(feature: Mapping[str, Any], values: Any, zones: Mapping[str, Any]) -> dict[str, float]:
    """Return a time's columns."""
    name = feature["name"]
    own: dict[str, float] = {}
    at = None if values is None else micros(values[0], feature, zones)
    for part in feature["parts"]:
        if part == "age":
            own[f"{name}.age"] = 0.0 if at is None else (at - micros(values[1], feature, zones)) / 86_400_000_000
            continue
        turn = 0.0
        if at is not None:
            table = [[0, 0]] if feature.get("zone", "UTC") == "UTC" else zones[feature["zone"]]
            seconds = at // 10**6
            seconds += offset(table, seconds)
            days, of_day = divmod(seconds, 86_400)
            if part == "hour":
                turn = of_day // 60 / 1_440
            elif part == "weekday":
                turn = (days + 3) % 7 / 7
            else:
                turn = (month_of(days) - 1) / 12
        own[f"{name}.{part}.sin"] = 0.0 if at is None else math.sin(2 * math.pi * turn)
        own[f"{name}.{part}.cos"] = 0.0 if at is None else math.cos(2 * math.pi * turn)
    return own


def month_of(days: int) -> int:
    """Return the month of a day since the epoch, in the Gregorian calendar without an end."""
    of_era = (days + 719_468) % 146_097
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    return month + 3 if month < 10 else month - 9
