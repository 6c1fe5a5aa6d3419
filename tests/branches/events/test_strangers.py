"""Columns as strangers have them: what `infer` proposes for each and says of it, which `evaluate` then accepts."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from consumers.cli.app import app
from streamsvm.branches.events import events_in, recipe_from

N: Final = 2_000
CHANCE: Final = np.random.default_rng(5)
LABELS: Final = np.random.default_rng(9).random(N) < 0.4
X: Final = CHANCE.random(N).round(6)


def texts(form: str) -> list[Any]:
    """Return texts of a form, each twice: the first place counts from 1 to 60, the second from 100 to 159."""
    return [form.format(at + 1, at + 100) for at in range(60)] * 2


def places(count: int, known: float = 0.8) -> Any:
    """Return places from 0, most of them even where the label is positive: no order knows it."""
    followed = CHANCE.random(N) < known
    return CHANCE.integers(0, count // 2, N) * 2 + np.where(followed, LABELS, ~LABELS)


def marked(mark: float, values: Any, share: float = 0.1) -> Any:
    """Return values, a share of which stands for a missing one."""
    return np.where(CHANCE.random(N) < share, mark, values)


def absent(share: Any) -> Any:
    """Return numbers, a share of which is missing."""
    return np.where(CHANCE.random(N) < share, None, NORMAL)


def moments(form: str) -> list[str]:
    """Return times of two years in a notation."""
    return [datetime.fromtimestamp(1.7e9 + 31_557 * at, UTC).strftime(form) for at in range(N)]


def hexadecimal(digits: int, count: int) -> list[str]:
    """Return texts of so many digits, one of which looks like a number with an exponent."""
    return ["7e2".rjust(digits, "1"), *(f"{at * 2_654_435_761 % 16**digits:0{digits}x}" for at in range(1, count))]


EVEN: Final = 2 * CHANCE.integers(0, 30_000, N) + LABELS
"""Of numbers whose order says nothing the parity that is the label's."""
NORMAL: Final = CHANCE.normal(20.0, 5.0, N).round(2)
HASHES: Final = CHANCE.integers(10**18, 9 * 10**18, 60)
TAIL: Final = np.exp(CHANCE.normal(4.0, 2.0, N) + 2 * LABELS)
MOMENTS: Final = 1_700_000_000 + CHANCE.integers(0, 10**7, N)
DAYS: Final = np.array([str(date(1980, 1, 1) + timedelta(at)) for at in range(N)], object)
FIRST_DAY: Final = datetime(2026, 1, 1)
NUMBER, FLAG, TIME = {"as": "number"}, {"as": "flag"}, {"as": "time"}
TEXT: Final[dict[str, Any]] = {"as": "number", "parse": "text"}
AVERAGE: Final = {"as": "number", "missing": {"constant": 49.0}}
MEAN: Final = {"missing": {"constant": 31.0}}
MAYBE: Final = {"as": "number", "missing": "indicator"}
TIME_OR_NONE: Final = {"as": "time", "missing": "indicator"}
COMMA: Final = {"decimal": ","}
BEYOND: Final = "integers beyond 2^53, of which a number loses digits"
NOT_READ: Final = "look like dates or times that `time` does not read"


def category(*values: str) -> dict[str, Any]:
    """Return the options of a category whose values come in this order."""
    return {"as": "category", "values": list(values)}


Row = tuple[str, str, Any, dict[str, Any] | str | None, str]
ROWS: Final[dict[str, list[Row]]] = {
    # formats of the file (c: CSV, j: JSON lines, p: Parquet), name, cells, what is proposed, part of what is said
    "codes": [
        ("jc", "a", places(30), "category", "30 values; as codes they order held-out events by an AUC of 0."),
        ("j", "a", places(30) + 1_000.0, "category", "30 values"),
        ("j", "branch", places(30, 0.5), "category", "they name things"),
        ("j", "merchant", 7 * places(200) + 1_000, "category", "a vocabulary orders held-out events"),
        ("j", "merchant", places(900) + 1_000, "hash", "too many for a vocabulary"),
        ("j", "storeId", places(40, 0.5), "category", "they name things"),
        ("j", "code_of_store", places(40, 0.5), "category", "they name things"),
        ("j", "point_of_sale_id", places(40, 0.5), "category", "they name things"),
        ("j", "updated_by_user", places(40, 0.5), "category", "they name things"),
        ("jc", "zip", [f"{place:05d}" for place in places(120)], "category", "120 values; a vocabulary"),
        ("jp", "device", HASHES[places(60)], None, f"60 {BEYOND}"),
        ("c", "device", HASHES[places(40)], "category", "40 values; as codes"),
        ("c", "a", ["02134", "94110", "10001"], category("02134", "10001", "94110"), "3 values"),
        ("c", "a", ["007", "7", "12"], category("007", "12", "7"), "3 values"),
        ("c", "a", [*["94110"] * 119, "02134"], category("94110", "02134"), "2 values"),
        ("c", "a", texts("{1:04d}"), "category or hash", "60 values"),
        ("j", "a", texts("0{1}"), "category or hash", "60 values"),
        ("c", "a", ["1", "2", "R"], category("1", "2", "R"), "3 values"),
        ("c", "a", ["1.0", "1", "1.0b"], category("1", "1.0", "1.0b"), "3 values"),
        ("c", "a", ["01", "02", "NA"], category("01", "02", "NA"), "3 values"),
        ("c", "a", [f"2{at:019d}" for at in range(60)] * 2, "category or hash", "60 values"),
        ("cj", "a", [f"DE{at:020d}" for at in range(40)] * 3, "category", "40 values"),
        ("cj", "a", [f"10.0.{at}.{3 * at}" for at in range(60)] * 2, "category or hash", "60 values"),
        ("c", "a", hexadecimal(16, 60) * 2, "category or hash", "60 values"),
    ],
    "identifiers": [
        ("cj", "a", hexadecimal(16, 120), None, "identifier: no two events have the same"),
        ("j", "CustomerId", 10_000_000 + EVEN, None, "nearly an identifier: 9"),
        ("j", "ref", 10_000_000 + EVEN, None, "integers, nearly an identifier: 9"),
        ("jc", "a", CHANCE.permutation(10**6)[:N] + 15_000_000, None, "integers, perhaps an identifier"),
        ("j", "account", CHANCE.integers(10**18, 9 * 10**18, N), None, "beyond 2^53 a number loses"),
        ("cj", "a", [f"u{at}" for at in range(30)], None, "identifier: no two events have the same"),
        ("cj", "order_id", [f"{at:05d}" for at in range(0, 60, 2)], None, "identifier: no two events have the same"),
        ("c", "a", [f"9f1c-{at:04x}-4e7b" for at in range(60)], None, "identifier: no two events have the same"),
        ("cj", "review", [f"it was {at} times good" for at in range(60)], None, "perhaps an identifier: no two"),
        ("cj", "note_no", [f"it was {at} times good" for at in range(60)], None, "perhaps an identifier: no two"),
        ("cj", "phone_number", [f"+4930-{7 * at:05d}" for at in range(60)], None, "perhaps an identifier: no two"),
        ("cj", "contact", [f"+4930-{7 * at:05d}" for at in range(60)], None, "perhaps an identifier: no two"),
        ("cj", "name", ["".join("xyz"[at // 3**k % 3] for k in range(4)) for at in range(60)], None, "perhaps an id"),
        ("j", "a", [f"id{at}" for at in range(990)] + ["id0"] * 10, None, "nearly an identifier: 99.0%"),
        ("cjp", "a", range(5, 65), None, "identifier: it counts the events"),
        ("c", "Unnamed: 0", range(60), None, "pandas' index, or a column without a name"),
        ("p", "__index_level_0__", range(60), None, "pandas' index, or a column without a name"),
    ],
    "quantities": [
        ("jc", "a", [1.5, 2.5, 3.5], NUMBER, "1.5 to 3.5"),
        ("jc", "a", [1, 2, 4, 1, 2, 4], NUMBER, 'as = "category" if they are codes'),
        ("jc", "age", CHANCE.integers(17, 90, N), "number", "17 to 89"),
        ("jc", "a", places(30, 0.5), "number", "0 to 29"),
        ("j", "a", CHANCE.integers(0, 50, N) + 20 * LABELS, "number", "0 to 69"),
        ("j", "height", CHANCE.integers(1_000, 2_000, N), "number", 'have 4 digits: as = "hash" if they'),
        ("j", "amount", 10_000_000 + EVEN, "number", "1e+07"),
        ("j", "number_of_orders", 10_000_000 + EVEN, "number", "1e+07"),
        ("j", "seconds_by_device", places(30, 0.5), "number", "0 to 29"),
        ("j", "visitsPerCustomer", places(30, 0.5), "number", "0 to 29"),
        ("j", "distance_to_store", places(30, 0.5), "number", "0 to 29"),
        ("jc", "sample_weight", CHANCE.random(N), "number", 'counts: events.weight = "sample_weight", and no feature'),
        ("p", "a", [Decimal(f"{at}.25") for at in range(50)] * 2, "number", "0.25 to 49.25"),
        ("c", "a", ["1e5", "2E6", "3e-2", "-0", "-0.0"], "number", "0 to 2e+06"),
    ],
    "tails": [
        ("jc", "a", TAIL, "log", "times the median, and the logarithm says more"),
        ("j", "a", np.where(CHANCE.random(N) < 0.7, 0.0, TAIL), "log", "the logarithm says more of held-out"),
        ("j", "a", -TAIL, "log", " times the median of sizes without a sign, and the logarithm says more"),
        ("j", "a", CHANCE.exponential(1.0, N), "number", "0.0"),
        ("j", "a", CHANCE.permutation(TAIL), "log", " times the median"),
        ("j", "a", [1.0] * 9 + [2.0] * 90 + [900.0], "log", "450 times the median"),
    ],
    "markers": [
        ("jc", "a", marked(-999.0, NORMAL), "marked", "and -999 in "),
        ("j", "a", marked(-9_999, NORMAL, 0.01), "marked", "and -9999 in "),
        ("j", "a", marked(9_999, NORMAL), "marked", "and 9999 in "),
        ("j", "a", marked(-1, CHANCE.integers(1, 400, N), 0.8), "marked", "and -1 in "),
        ("j", "a", marked(-999, marked(-9_999, NORMAL)), "marked", "-9999 in "),
        ("j", "a", marked(-17.5, NORMAL), "number", "-17.5 to"),
        ("j", "a", marked(-1, CHANCE.normal(0.0, 2.0, N)), "number", " to "),
        ("j", "a", marked(99, CHANCE.integers(1, 101, N)), "number", "1 to 100"),
    ],
    "width": [
        ("jc", "northing", 580_000_000 + 4 * CHANCE.integers(0, 100, N), "wide", "float32 rounds it to"),
        ("j", "a", 1_767_225_600 + CHANCE.integers(0, 120, N), "wide", "float32 rounds it to fewer values"),
        ("j", "easting", 3_400_000 + 4 * CHANCE.integers(0, 100, N), "number", "3.4e+06"),
        ("j", "a", CHANCE.normal(0.0, 1.0, N), "number", " to "),
        ("cjp", "a", [at * 1e-320 for at in range(1, 61)], "wide", "9.99989e-321 to 5.99993e-319"),
        ("c", "a", [*(at * 1e-320 for at in range(1, 61)), 1.0], "log", "to 1, inf times the median"),
        ("cjp", "a", [1.0, 1e39, 2.0], None, "numbers beyond the range of a feature, 3.4e+38"),
        ("c", "a", [10**400 + at**2 for at in range(60)], None, "numbers beyond the range of a feature"),
        ("c", "a", texts("{1},5e{0}"), None, "numbers beyond the range of a feature"),
        ("c", "a", [*range(99), "1e400"], AVERAGE, "1 '1e400' taken as missing"),
        ("c", "a", [*range(99), "-Infinity"], AVERAGE, "1 '-Infinity' taken as missing"),
    ],
    "times": [
        ("jc", "ts", MOMENTS, "time", "counted in s"),
        ("jc", "eventTime", 1_000 * MOMENTS, "time", "counted in ms"),
        ("j", "created_at", 1_000 * MOMENTS, "time", "counted in ms"),
        ("jcp", "ts", 1_000_000 * MOMENTS, "time", "counted in us"),
        ("j", "event_ts", 10**9 * MOMENTS, None, "a time, counted in ns"),
        ("j", "t_ns", 10**9 * MOMENTS, None, "a time, counted in ns"),
        ("j", "date_of_birth", MOMENTS, "time", "counted in s"),
        ("j", "update", CHANCE.integers(0, 50, N), "number", "0 to 49"),
        ("j", "amount_at_start", MOMENTS, "number", "1.7e+09"),
        ("j", "time", CHANCE.integers(0, 50, N), "number", "0 to 49"),
        ("jc", "a", ["2026-01-31T12:00:00Z", "2026-02-01"], TIME, "without an offset: give its zone"),
        ("jc", "a", ["2026-01-31T12:00:00+01:00"] * 2 + ["2025-01-01T00:00Z"], TIME, "for local"),
        ("j", "a", [f"2026-01-0{1 + at % 4}T12:00:00Z" for at in range(9)], TIME, "covers 3.0 days, less"),
        ("j", "a", [f"2026-01-01T0{at}:00:00Z" for at in range(9)], TIME, "covers 8.0 hours, less"),
        ("cj", "a", [f"{year:04d}-05-17T10:00:00Z" for year in (1, 1600, 2300, 9999)], TIME, "a time"),
        ("c", "a", ["10000-01-01", "2026-01-01"], category("10000-01-01", "2026-01-01"), "2 values"),
        ("c", "a", ["2026-01-01", "2026-01-02", "NA"], {"as": "time", "missing": "indicator"}, "missing in 33.3%"),
        ("p", "a", [FIRST_DAY + timedelta(hours=at) for at in range(99)], TIME, "without an offset"),
        ("p", "a", [date(2026, 1, 1) + timedelta(at) for at in range(99)], TIME, "a date"),
        ("cp", "a", DAYS[CHANCE.integers(0, N, N)], {**TIME, "parts": ["weekday", "month"]}, "a date"),
        ("c", "birth", DAYS[places(N)[::-1] // 2 + 400 * LABELS], "time", "a date, whose order says something"),
        ("p", "a", [time(at % 24, at % 60) for at in range(99)], None, "cannot be read: it is a time of day"),
        ("p", "a", [timedelta(seconds=at) for at in range(99)], None, "cannot be read: it is a duration"),
    ],
    "dates": [
        *(
            ("j", "a", moments(form), None, NOT_READ)
            for form in (
                *(
                    "%m/%d/%Y",
                    "%d.%m.%Y",
                    "%d.%m.%Y %H:%M",
                    "%Y/%m/%d %H:%M:%S",
                    "%b %d, %Y %I:%M %p",
                    "%Y%m%d",
                    "%H:%M",
                ),
                *(
                    "%a, %d %b %Y %H:%M:%S +0000",
                    "%Y-%m-%d %H:%M:%S UTC",
                    "%Y-%m-%dT%H:%M:%S+00",
                    "%Y-%m",
                    "%m/%d",
                    "%H%M",
                ),
            )
        ),
        ("c", "a", moments("%d.%m.%Y"), None, NOT_READ),
        ("c", "a", moments("%d %B %Y"), None, NOT_READ),
        ("c", "a", moments("%H:%M:%S"), None, NOT_READ),
        ("jc", "a", [f"{at % 10 + 1}/10" for at in range(60)], "category", "10 values"),
        ("c", "a", [f"{at % 5 + 1}/5" for at in range(60)], "category", "5 values"),
        ("c", "a", [f"{at % 3 + 1}.5.{at % 20 + 10}" for at in range(120)], "category or hash", "60 values"),
        ("c", "a", [f"{at % 28 + 1}.{at % 12 + 1}.24" for at in range(84)], None, NOT_READ),
        ("c", "a", [f"{at % 28 + 1}/{at % 12 + 1}" for at in range(84)], None, NOT_READ),
        ("jc", "a", [f"{at % 4 + 3}:{at:02d}" for at in range(60)], None, "look like durations: send seconds"),
        ("c", "a", [f"0{at % 3}:{at:02d}:30" for at in range(60)], None, "look like durations: send seconds"),
        ("c", "a", [f"{at}:{at:02d}:30.5" for at in range(60)], None, "look like durations: send seconds"),
        ("jc", "a", [int(text) for text in moments("%Y%m%d")], None, "values such as 2023"),
        ("j", "a", [int(text) for text in moments("%H%M")], None, "look like dates or times"),
        ("jc", "a", moments("%Y-%m-%dT%H:%M:%S"), "time", "a time without an offset"),
        ("jc", "a", moments("%B"), "category", "12 values"),
        ("j", "a", [f"{one}.{two}" for one, two in CHANCE.integers(1, 40, (N, 2))], "number", "numbers as text"),
    ],
    "booleans": [
        ("jc", "a", [0, 1, 1, 0], FLAG, "0 or 1; 1 in 50.0%"),
        ("jcp", "a", [True, False, True, True], FLAG, "true in 75.0%"),
        ("c", "a", ["true", "FALSE", "True"], FLAG, "true in 66.7%"),
        ("c", "a", ["true", "false", "NA"], {"as": "flag", "missing": "indicator"}, "missing in 33.3%"),
        ("c", "a", ["true", "false", "maybe"], category("false", "maybe", "true"), "3 values"),
        ("cj", "a", ["yes", "no", "no"], category("no", "yes"), "2 values"),
        ("cj", "a", ["Y", "N"], category("N", "Y"), "2 values"),
        ("j", "a", [True, 0, 1], None, "mixed types (20 bool such as 20 'True'; 40 number): fix"),
    ],
    "missing": [
        ("c", "a", ["NA", "DE", "FR"], category("DE", "FR", "NA"), "3 values"),
        ("c", "a", ["NaN", "null", "nan", "x"], category("NaN", "nan", "null", "x"), "4 values"),
        ("c", "a", ["None", "?", "x"], category("?", "None", "x"), "3 values"),
        ("c", "a", [*["x"] * 119, "NA"], {**category("x"), "missing": "indicator"}, "1 'NA' taken as missing"),
        ("c", "a", ["1", "2.5", "NA", "7"], {"as": "number", "missing": {"constant": 3.5}}, "missing in 25.0%"),
        ("c", "a", ["1.5", " ", "4.0"], {"as": "number", "missing": {"constant": 2.75}}, "missing in 33.3%"),
        ("jp", "a", [1.0, None, 4.0], {"as": "number", "missing": {"constant": 2.5}}, "missing in 33.3%"),
        ("jcp", "a", ["a", None, "b"], {**category("a", "b"), "missing": "indicator"}, "missing in 33.3%"),
        ("j", "a", [None], None, "always missing in the sample"),
        ("c", "a", ["NA"], None, "always missing in the sample; 60 'NA' taken as missing"),
    ],
    "presence": [
        ("jcp", "a", absent(0.02 + 0.06 * LABELS), MAYBE, "which says something about the labels"),
        ("j", "a", absent(0.2 - 0.1 * LABELS), MAYBE, "which says something about the labels"),
        ("j", "a", absent(0.2), "mean", "missing in"),
        ("j", "a", absent(0.02), "mean", "missing in"),
        ("c", "a", [f"{a}%" for a in absent(0.1 + 0.1 * LABELS)], {**TEXT, "missing": "indicator"}, "'None%'"),
    ],
    "strays": [
        ("c", "a", [*range(99), "error"], AVERAGE, "1 'error' taken as missing"),
        ("c", "a", [*range(99), *["unknown"] * 4, "#DIV/0!"], AVERAGE, "1 '#DIV/0!', 4 'unknown' taken as missing"),
        ("c", "a", [*range(99), *["-"] * 90], AVERAGE, "90 '-' taken as missing"),
        ("c", "a", [*range(99), "None", "NULL"], AVERAGE, "1 'NULL', 1 'None' taken as missing"),
        ("c", "a", [*range(99), "<0", "99+"], AVERAGE, "1 '99+', 1 '<0' taken as missing"),
        ("c", "a", [*range(60), *(f"<{at}" for at in range(15))], None, "15 str such as 1 '<0', 1 '<1'"),
        ("c", "a", [*texts("{0},5"), *["n/a", "-"] * 9], {**TEXT, **COMMA, **MEAN}, "9 '-', 9"),
        (
            "c",
            "a",
            [*texts("{0},5"), "1;5"],
            {**TEXT, **COMMA, **MEAN},
            "1 '1;5' taken as missing",
        ),
        ("c", "a", [*moments("%Y-%m-%dT%H:%M:%S")[1:], "error"], TIME_OR_NONE, "1 'error' taken as missing"),
        ("c", "a", [*moments("%Y-%m-%dT%H:%M:%S")[1:], "2026-13-01"], TIME_OR_NONE, "1 '2026-13-01' taken as missing"),
        ("c", "ts", [*MOMENTS[1:], "error"], {**TIME_OR_NONE, "format": "s"}, "1 'error' taken as missing"),
        ("c", "a", [*range(1, 6), "error"], category("1", "2", "3", "4", "5", "error"), "6 values"),
        ("c", "a", ["error", *(f"{place:05d}" for place in places(120)[1:])], "category", "121 values"),
    ],
    "constants": [
        ("cj", "a", ["x"], None, "constant: every event has 'x'"),
        ("cjp", "a", [5], None, "constant: every event has 5"),
        ("cjp", "a", [1e-320, None], {"as": "number", "missing": "indicator"}, "missing in 50.0%"),
    ],
    "texts": [
        ("jc", "a", ["b", "a", "b"], category("b", "a"), "2 values"),
        ("jc", "a", [f"v{at % 200}" for at in range(400)], {"as": "hash", "bits": 7}, "too many"),
        ("j", "a", [f"v{at % 60}" for at in range(400)], "category or hash", "60 values"),
        ("j", "a", [f"v{at // 2 if at < 80 else at}" for at in range(99)], {"as": "hash", "bits": 5}, "32 columns"),
        ("c", "a", ["(other)", "(missing)", "x", "z"], category("x", "z"), "4 values; a category has a column (m"),
        ("cj", "a", ["(other)", "(missing)"], None, "2 values; a category cannot have them"),
        ("cj", "a", ["w" * 300, "v" * 300], None, "cannot be printed; a category cannot have them"),
        ("cj", "a", ["a\nb", "e"], category("e"), "2 values, 1 of which are left out, because"),
        ("cj", "a", ["\U0001f44d", "\U0001f600"], category("\U0001f44d", "\U0001f600"), "2 values"),
        ("c", "a", ['"', "'", 'a"b', "\\n", "#", "]"], category('"', "#", "'", "\\n", "]", 'a"b'), "6 values"),
        ("j", "a", ["", " ", "b"], category("", " ", "b"), "3 values"),
        ("j", "a", [1, "x", 2], None, "mixed types (40 number; 20 str such as 20 'x'): fix"),
    ],
    "nested": [
        ("jp", "a", [[1, 2], [3]], None, "declare the element that counts"),
        ("j", "a", [{"b": 1}, 5], None, "cannot be read: a is a number, not an object"),
    ],
    "notations": [
        ("jc", "a", texts("{0},{1}.5"), {**TEXT, "thousands": ","}, "thousands separators; 1100.5 to"),
        ("jc", "a", texts("{0}.{1},5"), {**TEXT, **COMMA, "thousands": "."}, "and a decimal comma; 1100.5"),
        ("c", "a", texts("{0} {1}"), {**TEXT, "thousands": " "}, "thousands separators; 1100 to 60159"),
        (
            "jc",
            "a",
            texts("{0}\u202f{1},25 €"),
            {**TEXT, **COMMA, "thousands": " ", "currency": "€"},
            "numbers as text with a currency and thousands separators and a decimal comma",
        ),
        ("jc", "a", texts("{0},5"), {**TEXT, **COMMA}, "with a decimal comma"),
        ("jc", "a", texts("{0}.5 %"), TEXT, "with a percent sign; 0.015 to 0.605"),
        ("c", "a", texts("{0},5%"), {**TEXT, **COMMA}, "a percent sign and a decimal comma; 0.015"),
        ("c", "a", texts("${0}.25"), {**TEXT, "currency": "$"}, "with a currency; 1.25 to 60.25"),
        ("j", "a", texts("{0}.5"), TEXT, "numbers as text; 1.5 to 60.5"),
        ("c", "a", ["+1.5", "+2.5", "-3"], TEXT, "numbers as text; -3 to 2.5"),
        ("j", "a", [*texts("{0}.5")[:60], 7], TEXT, "numbers as text; 1.5 to 60.5"),
        ("j", "a", [*texts("{0}.5"), *[None] * 30], {**TEXT, "missing": {"constant": 31.0}}, "in 20.0%"),
        ("j", "a", texts("0.{1}"), TEXT, "numbers as text; 0.1 to 0.159"),
        ("jc", "a", texts("1,{1}"), None, 'in 2 ways: add parse = "text", decimal = "," (1.'),
        ("jc", "a", texts("$1,{1}"), None, "can be read in 2 ways"),
        ("j", "a", texts("{0}.{1}"), None, "can be read in 2 ways"),
        (
            "jc",
            "a",
            [*texts("${0}.5")[:60], *texts("{0}.5 EUR")[:60]],
            None,
            "120 values, numbers as text in several currencies ($, EUR): convert",
        ),
        ("cj", "a", texts("{0}.5 kg"), {**TEXT, "currency": "kg"}, "numbers as text with the unit kg; 1.5 to 60.5"),
        ("c", "a", [*texts("{0},5 km/h"), "-"], {**TEXT, **COMMA, "currency": "km/h", **MEAN}, "the unit km/h and a d"),
        ("c", "a", texts("{1}ms"), {**TEXT, "currency": "ms"}, "with the unit ms; 100 to 159"),
        ("c", "a", texts("{0} \u00b0C"), {**TEXT, "currency": "\u00b0C"}, "with the unit \u00b0C; 1 to 60"),
        ("c", "a", [*texts("{0} kg"), *texts("{0}.5 lb")], None, "in several units (kg, lb): convert them to one"),
        ("c", "a", ["1", "2", "12 bis"], category("1", "12 bis", "2"), "3 values"),
        ("c", "a", texts("{0}.0b"), "category or hash", "60 values"),
        ("c", "a", texts("{0}B"), "category or hash", "60 values"),
        ("c", "a", [f"{at}{'ABCDEF'[at % 6]}" for at in range(40)] * 2, "category", "40 values"),
        ("cj", "a", [*texts("({0},{1}.50)"), "1,200.50"], None, "in parentheses, as bookkeepers write those below 0"),
        ("c", "a", [*texts("$({0}.5)"), *texts("${0}.5")], None, "in parentheses, as bookkeepers"),
        ("c", "a", [*texts("({0}.5)"), *texts("{0}.5")], None, "in parentheses, as bookkeepers"),
        ("c", "a", [f"{word} ({at})" for at, word in enumerate("abcde" * 6)] * 2, "category", "30 values"),
        ("j", "a", texts("{1}"), None, 'figures as text: as = "number", parse = "text", unless they are'),
    ],
    "leaks": [
        ("cjp", "a", np.where(LABELS, "yes", "no"), None, "leak suspected: it is a copy of the label"),
        ("cj", "a", 1 - LABELS, None, "leak suspected: it is a copy of the label; is it known"),
        ("c", "a", np.where(LABELS[:25], "b", "a"), None, "leak suspected: it is a copy of the label"),
        ("c", "a", HASHES[2 * CHANCE.integers(0, 20, N) + LABELS], None, "leak suspected: alone it separates"),
    ],
    "names": [
        *(
            ("cjp", name, ["u", "v", "w"], category("u", "v", "w"), "3 values")
            for name in (
                *("a b", 'q"q', "a'b", "a.b", "x[0]", "[a]", "a=b", "#a", "\\", "a\nb", "n" * 300, "\u65e5\u672c"),
                *("\U0001f44d", "true", "features", "events", "id", "svm", "field", "__proto__", "(other)"),
            )
        ),
    ],
}


def table(path: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    """Write columns, at least 60 rows of them, a number and a label: a CSV, lines of JSON, or arrow's types."""
    (cells, *_) = columns.values()
    rows = len(cells) if len(cells) >= 20 else -(-60 // len(cells)) * len(cells)
    whole = {name: [values[at % len(values)] for at in range(rows)] for name, values in columns.items()}
    whole |= {"x": X[:rows].tolist(), "y": LABELS[:rows].astype(int).tolist()}
    if path.suffix == ".parquet":
        pq.write_table(pa.table(whole), path)
        return path
    with path.open("w", newline="") as file:
        lines = zip(*whole.values(), strict=True)
        if path.suffix == ".csv":
            csv.writer(file).writerows([whole, *lines])
        else:
            file.writelines(json.dumps(dict(zip(whole, line, strict=True))) + "\n" for line in lines)
    return path


def proposed(path: Path, *options: str, evaluated: Sequence[str] = ()) -> str:
    """Return what is proposed for a file, which `evaluate` accepts with some options."""
    done = CliRunner().invoke(app, ["features", "infer", str(path), *options])
    assert (done.exit_code, done.stderr) == (0, ""), done.stderr
    config = path.with_name("config.toml")
    config.write_text(done.stdout)
    command = ["evaluate", str(path), "--config", str(config), "--no-optimum", *evaluated]
    assert (ran := CliRunner().invoke(app, command)).exit_code == 0, ran.exception
    return done.stdout


@pytest.mark.parametrize(
    ("form", "name", "cells", "wanted", "said"),
    [
        pytest.param({"c": "csv", "j": "jsonl", "p": "parquet"}[form], *row, id=f"{kind}-{number}{form}")
        for kind, rows in ROWS.items()
        for number, (forms, *row) in enumerate(rows)
        for form in forms
    ],
)
def test_a_column_is_what_it_looks_like(
    form: str, name: str, cells: Any, wanted: dict[str, Any] | str | None, said: str, tmp_path: Path
) -> None:
    """With the reason beside it; never as the events' id by chance."""
    cells = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
    text = proposed(table(tmp_path / f"a.{form}", {name: cells}))
    line = next(line for line in text.partition("[features]\n")[2].splitlines() if not line.startswith("x = "))
    assert said in line
    plain = tomllib.loads(text)
    features = {key: {**options} for key, options in plain["features"].items() if key != "x"}
    assert (plain.get("points") == {"dtype": "float64"}) == (wanted == "wide")
    assert plain["events"].get("id", name) == name
    assert ("id" in plain["events"]) == (": identifier: " in line)
    if wanted is None:
        assert not features
        return
    (first, options), *others = features.items()
    assert options.pop("field", first) in (name, [name])
    if isinstance(wanted, str):
        assert wanted != "mean" or "constant" in options["missing"]
        kinds = {"log": "number", "mean": "number", "marked": "number", "wide": "number"}
        assert options["as"] in kinds.get(wanted, wanted).split(" or ")
        assert ("log1p" in options, bool(others)) == (wanted == "log", wanted == "marked")
    else:
        assert (options, others) == (wanted, [])
    if form == "csv" and options["as"] in ("category", "hash") and "missing" not in options:
        events = events_in(tmp_path / "a.csv", "csv", recipe_from(plain["features"], plain["events"]))
        assert all(event[name] == str(cells[at % len(cells)]) for at, event in enumerate(events))


def test_evaluate_names_what_it_took_as_missing(tmp_path: Path) -> None:
    """As the proposal does, each cell counted once."""
    path = table(tmp_path / "a.csv", {"a": [*range(99), "error", "NULL"]})
    assert "1 'NULL', 1 'error' taken as missing" in proposed(path)
    command = ["evaluate", str(path), "--config", str(tmp_path / "config.toml"), "--no-optimum"]
    assert "\na: 1 'NULL', 1 'error' taken as missing\n" in CliRunner().invoke(app, command).stdout


def test_a_date_whose_order_counts_becomes_an_age(tmp_path: Path) -> None:
    """At the time of the event; a date that does not count stays one."""
    born, other = DAYS[places(N)[::-1] // 2 + 400 * LABELS].tolist(), DAYS[CHANCE.integers(0, N, N)].tolist()
    born[7], born[8] = "error", "1990-02-31"
    columns = {"birth": born, "other": other, "at": moments("%Y-%m-%dT%H:%M:%SZ")}
    features = tomllib.loads(proposed(table(tmp_path / "a.csv", columns)))["features"]
    assert features["birth"] == {
        "as": "time",
        "field": "at",
        "parts": ["age"],
        "since": "birth",
        "missing": "indicator",
    }
    assert features["other"] == {"as": "time", "parts": ["weekday", "month"]}


def test_fields_that_would_share_a_name_get_two(tmp_path: Path) -> None:
    """A field inside another one, and one that is called as the path of it."""
    path = table(tmp_path / "a.jsonl", {"a": [{"b": word} for word in "uvw"], "a_b": range(7)})
    assert set(tomllib.loads(proposed(path))["features"]) == {"a_b", "a_b_2", "x"}


@pytest.mark.parametrize(
    ("cells", "other"),
    [
        (["u", "v", "w"], "f=u"),
        (["u", "v", "NA"] * 20 + ["u"] * 3_000, "f=(missing)"),
        (hexadecimal(16, 60) * 2, "f#1"),
        (moments("%Y-%m-%dT%H:%M:%SZ"), "f.hour.sin"),
        ([*[-999.0] * 20, *NORMAL.tolist()], "f_missing<-500"),
    ],
)
def test_a_feature_is_not_called_as_a_column_of_another_one(cells: list[Any], other: str, tmp_path: Path) -> None:
    """Such as f=u, one of those of a category f."""
    features = tomllib.loads(proposed(table(tmp_path / "a.csv", {"f": cells[:N], other: [0.5, 0.25, 7.5]})))["features"]
    (name,) = (name for name, options in features.items() if options.get("field", name) in (other, [other]))
    assert name != other


@pytest.mark.parametrize(
    ("columns", "values", "left", "said"),
    [
        (40, 300, 41, "; hashed into 32 columns, as all fields may have 2,000"),
        (40, 50, 41, "; hashed into 32 columns, as all fields may have 2,000"),
        (2_001, 1_000, 2_000, "; left out, as all fields may have 2,000"),
        (1_100, 40, 1_000, "; hashed into 2 columns, as all fields may have 2,000"),
    ],
)
def test_a_proposal_has_as_many_columns_as_there_may_be(
    columns: int, values: int, left: int, said: str, tmp_path: Path
) -> None:
    """Texts are hashed into fewer, and the last fields are left out, which is said."""
    drawn = np.random.default_rng(0).integers(0, values, (columns, 60 if columns > 1_000 else 400)).tolist()
    wide = {f"f{at}": of if values > 400 else [f"v{one}" for one in of] for at, of in enumerate(drawn)}
    text = proposed(table(tmp_path / "a.jsonl", wide))
    assert said in text
    assert len(tomllib.loads(text)["features"]) == left


def test_a_second_column_like_the_label_is_a_copy_of_it(tmp_path: Path) -> None:
    """Which of the two is the label, by their names, is for a person to say."""
    path = table(tmp_path / "a.csv", {"label": np.where(LABELS, "bad", "good").tolist()})
    assert "# label: leak suspected: it is a copy of the label; is it known" in proposed(path, "--label", "y")
    asked = CliRunner().invoke(app, ["features", "infer", str(path)])
    assert "# Each of label, y may be the label: give --label FIELD, or write\n" in asked.stdout


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["no", "yes", "no", ""], "15 of 60 have no label: evaluate with --skip-incomplete"),
        (["no", "yes", "Yes", "NO "], "'NO', 'no': labels that differ in spelling only; spell them alike"),
    ],
)
def test_what_is_odd_about_labels_is_said(labels: list[str], said: str, tmp_path: Path) -> None:
    """The proposal runs with the option that is named."""
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "".join(f"{X[at]},{labels[at % 4]}\n" for at in range(60)))
    assert f"\n# {said}\n" in proposed(path, evaluated=["--skip-incomplete"])


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (
            "a,b,y\n" + "1,2,0\n3,4,1\n" * 9,
            "no event has a value of target: the fields are 'a', 'b', 'y'. Give the label's",
        ),
        ("a,b,target\n1,2,\n3,4,\n", "no event has a value of target: the fields are 'a', 'b'. Give the label's"),
        ("a,y\nZ\u00fcrich,0\n".encode("cp1252"), "cannot be read: 'utf-8' codec can't decode byte 0xfc"),
        ("a,a,y\n1,2,0\n3,4,1\n", "has several columns named a"),
        (",a,y\n0,2,0\n1,4,1\n", "the first line must name every column"),
        ("a,y\n", "holds no events"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(text: str | bytes, refused: str, tmp_path: Path) -> None:
    """Without a name for each column, without rows, without the label's column, or not in UTF-8."""
    path = tmp_path / "a.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    options = ["--label", "target"] if "target" in refused else []
    assert refused in str(CliRunner().invoke(app, ["features", "infer", str(path), *options]).exception)


def test_a_table_of_which_nothing_can_be_proposed_says_so(tmp_path: Path) -> None:
    """With the reason of each column."""
    path = tmp_path / "a.csv"
    path.write_text("a,y\n" + "".join(f"1e-320,{at % 2}\n" for at in range(60)))
    done = CliRunner().invoke(app, ["features", "infer", str(path)])
    assert done.stdout.endswith(
        "# a: constant: every event has 1e-320\n# No feature is proposed: declare at least one\n"
    )
    assert CliRunner().invoke(app, ["evaluate", str(path), "--no-optimum"]).exit_code == 0
