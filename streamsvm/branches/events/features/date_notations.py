"""Recognises dates and times that are not in the notation that a `time` feature reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from streamsvm.branches.events.features.text_numbers import MOSTLY

_MONTH: Final = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DAY_NAME: Final = "(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*[,.]? +)?"
_MM: Final = "(?:0?[1-9]|1[0-2])"
_DD: Final = "(?:0?[1-9]|[12][0-9]|3[01])"
_YYYY: Final = "(?:19|20)[0-9]{2}"
_CLOCK: Final = r"(?:[01]?[0-9]|2[0-3])[:.h][0-5][0-9](?:[:.][0-5][0-9](?:[.,][0-9]+)?)?(?: ?[ap]\.?m\.?)?"
_OFFSET: Final = " ?(?:z|utc|gmt|[a-z]{3,4}|[+-][0-9]{2}(?::?[0-9]{2})?)"
_BEHIND: Final = rf"(?:(?:,? +|t){_CLOCK}(?:{_OFFSET})?)?"
_DATES: Final = (
    rf"{_MM}(?P<a>[/.-]){_DD}(?:(?P=a)(?:{_YYYY}|[0-9]{{2}}))",
    rf"{_DD}(?P<b>[/.-]){_MM}(?P=b)(?:{_YYYY}|[0-9]{{2}})?",
    rf"{_YYYY}(?P<c>[/.-]){_MM}(?P=c){_DD}",
    rf"{_YYYY}[/-]{_MM}",
    rf"{_MM}/(?:{_DD}|{_YYYY})",
    rf"{_DD}/{_MM}",
    rf"{_DAY_NAME}{_MONTH}\.?[ -]{_DD}(?:st|nd|rd|th)?(?:,? +{_YYYY})?",
    rf"{_DAY_NAME}{_DD}(?:st|nd|rd|th|\.)?[ -]{_MONTH}\.?(?:[ -](?:{_YYYY}|[0-9]{{2}}))?",
    rf"{_MONTH}[ -]{_YYYY}",
    rf"{_YYYY}-?w[0-5][0-9](?:-?[1-7])?",
)
_TEXTS: Final = tuple(
    re.compile(form, re.IGNORECASE | re.ASCII)
    for form in (
        *(date + _BEHIND for date in _DATES),
        rf"{_DAY_NAME}{_MONTH} +{_DD} {_CLOCK}(?:{_OFFSET})? {_YYYY}",
        r"(?:[01]?[0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.,][0-9]+)?)?(?: ?[ap]\.?m\.?)?",
        r"(?:0?[1-9]|1[0-2]) ?[ap]\.?m\.?",
    )
)
_COMPACT: Final = re.compile(
    r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:[t ]?(?:[01][0-9]|2[0-3])[0-5][0-9](?:[0-5][0-9])?z?)?)?",
    re.IGNORECASE | re.ASCII,
)
_DURATION: Final = re.compile(r"([0-9]+):[0-5][0-9](?::[0-5][0-9](?:[.,][0-9]+)?)?", re.ASCII)
_RATIO: Final = re.compile(r"[0-9]+/([0-9]+)", re.ASCII)
_VERSION: Final = re.compile(r"([1-9][0-9]?)\.[1-9][0-9]?\.[0-9]{1,2}", re.ASCII)
_LATEST_MONTH: Final = 12
"""Largest number that may be a month, or an hour before the afternoon: days of many dates, and hours, go beyond."""
_HHMM: Final = re.compile("(?:[01]?[0-9]|2[0-3])?[0-5]?[0-9]", re.ASCII)
_FIRST: Final = 100
"""Values that are looked at before all are, to save time."""
_LATEST_HOUR: Final = 23
_LATEST_MINUTES: Final = 1_259
"""Largest number that may be a time of twelve hours, or of minutes."""
_LEAST_MINUTES: Final = 30
"""Different minutes of the hour without which numbers up to 2359 are no times of day."""


def looks_like_durations(values: Iterable[Any]) -> bool:
    """Return whether nearly all of some distinct values are like 4:35 or 00:20:30, but no times of day.

    Times of day include some of the afternoon. Durations do without them, or some are longer than a day.
    """
    texts = [_text(value) for value in values]
    if not _mostly(_DURATION, texts):
        return False
    largest = max(_firsts(_DURATION, texts))
    return largest < _LATEST_MONTH or largest > _LATEST_HOUR


def looks_like_dates(values: Iterable[Any]) -> bool:
    """Return whether nearly all of some distinct values, texts or integers, are dates or times of day.

    ISO 8601 in full is recognised, too, with what `time` does not read behind it; a year alone is a number.
    """
    texts = [_text(value) for value in values]
    if not texts or None in texts:
        return False
    if _mostly(_RATIO, texts) and len(set(_firsts(_RATIO, texts))) == 1:  # 4/5, 7/10
        return False
    if _mostly(_VERSION, texts) and max(_firsts(_VERSION, texts)) <= _LATEST_MONTH:  # 2.5.27
        return False
    if any(_mostly(form, texts[:_FIRST]) and _mostly(form, texts) for form in (*_TEXTS, _COMPACT)):
        return True
    if not _mostly(_HHMM, texts):
        return False
    hours = [int(text) for text in texts if text and _HHMM.fullmatch(text)]
    return len({hour % 100 for hour in hours}) >= _LEAST_MINUTES and max(hours) > _LATEST_MINUTES


def _mostly(form: re.Pattern[str], texts: Sequence[str | None]) -> bool:
    return sum(text is not None and form.fullmatch(text) is not None for text in texts) >= MOSTLY * len(texts)


def _firsts(form: re.Pattern[str], texts: Sequence[str | None]) -> list[int]:
    """Return the numbers that the first group of a form has in texts."""
    return [int(found[1]) for text in texts if text is not None and (found := form.fullmatch(text)) is not None]


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int | float) and float(value).is_integer() and value >= 0:
        return str(int(value))
    return None
