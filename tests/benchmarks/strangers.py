"""How near a proposal of `streamsvm features infer`, unedited, comes to a pipeline whose types a person declared.

    python -m tests.benchmarks.strangers [--tables NAMES] [--contenders NAMES] [--rounds 3] [--rows N] [--json FILE]

Six synthetic tables have what tables of strangers have: `?` and `unknown` as values, `NA` as a category, blanks where
numbers belong, codes that look like numbers, sentinels, heavy tails, times in several notations, and identifiers. Each
is drawn by the round's number, its mechanism is known, and it is written as CSV, two of them as Parquet, too.

Figures are areas under the curve, medians over the rounds; `b - a` is the median of the rounds' differences of
`pipeline` and `proposal`, wanted at most `WANTED`. Of a table that misses it, the first round's proposal is printed.

Contenders learn four fifths, and answer the same held-out fifth, which `streamsvm evaluate --seed ROUND` sets aside:

- `proposal`: what `streamsvm features infer FILE --label FIELD` prints is given to `streamsvm evaluate FILE --config`,
  both as processes. `optimum` is the row of the same name: the same features and objective, solved on all training
  rows; what it has above `proposal` is the coreset's, not the features'. Where evaluate drops rows, those held out
  are others.
- `pipeline`: scikit-learn's ColumnTransformer with the types that `Declared` names: one column for each category, the
  logarithm of heavy tails, hours as sine and cosine, means and an indicator for missing numbers, all numbers scaled;
  then LinearSVC with the C that `streamsvm evaluate` has by default, and balanced class weights.
- `lightgbm`: LightGBM with its defaults and the same types, where it can be imported.

The pipelines were written, and committed, before the first figure of a proposal was seen. `fraud` has more rows than
the others because one in 500 is positive: of 60,000 rows, 24 positive ones are held out, so that its figures are the
least certain.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from streamsvm.config import SvmConfig
from streamsvm.estimators import EmpiricalObjective, split
from streamsvm.points import Points
from tests.benchmarks.runner import Kept, aligned, known, parser_of, shown, words

Float = NDArray[np.float64]
Random = np.random.Generator

WANTED: Final = 0.01
"""Most that a proposal may lose to declared types."""
TEST_SHARE: Final = 0.2
RAREST_CATEGORY: Final = 5
"""Training rows below which values of a category share a column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """What a person who knows a table declares; fields that are not named here are left out.

    `hours`: Fields of local times as text. `sentinels`: Cells that mean a missing value, beside empty ones.
    """

    categories: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    logarithms: tuple[str, ...] = ()
    hours: tuple[str, ...] = ()
    sentinels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """How a table is drawn.

    `draw` returns the fields of n rows and the log odds of the positive label, up to a constant that makes `share` of
    the rows positive. `times`: Fields that Parquet has as timestamps; `parquet`: whether it is written as Parquet, too.
    """

    rows: int
    label: str
    labels: tuple[str | int, str | int]
    share: float
    draw: Callable[[Random, int], tuple[dict[str, Any], Float]]
    declared: Declared
    times: tuple[str, ...] = ()
    parquet: bool = False


# ----------------------------------------------------------------------------------------------------------- the tables


def effects(random: Random, names: Sequence[str], spread: float) -> dict[str, float]:
    """Return an effect on the log odds for each value of a category."""
    return dict(zip(names, random.normal(0.0, spread, len(names)).tolist(), strict=True))


def drawn(random: Random, of: Mapping[Any, float], n: int, p: Sequence[float] | None = None) -> tuple[Any, Float]:
    """Draw values of a category; return them with their effects."""
    chosen = random.choice(len(of), n, p=p)
    return np.array(list(of), object)[chosen], np.array(list(of.values()))[chosen]


def clock(random: Random, n: int, days: int) -> pd.Series:
    """Return ascending local times of some days, in whole seconds."""
    seconds = np.sort(random.integers(0, days * 86_400, n))
    return pd.Series(pd.Timestamp("2025-03-01") + pd.to_timedelta(seconds, unit="s"))


def at_night(times: pd.Series) -> Float:
    """Return 1 at three o'clock, -1 at fifteen o'clock, and what is between."""
    hours = (times.dt.hour + times.dt.minute / 60.0).to_numpy()
    return np.asarray(np.cos((hours - 3.0) / 24.0 * 2.0 * np.pi))


def adult(random: Random, n: int) -> tuple[dict[str, Any], Float]:
    """People and their income: `?` for what is unknown, `NA` for North America, and gains that are mostly 0."""
    classes = effects(random, ("Private", "Self-emp", "Federal-gov", "Local-gov", "State-gov", "Never-worked"), 0.4)
    work, of_work = drawn(random, classes | {"?": -1.2}, n, (0.66, 0.1, 0.04, 0.07, 0.05, 0.02, 0.06))
    names = [f"{kind}-{place}" for kind in ("Exec", "Tech", "Craft", "Sales", "Care") for place in ("a", "b", "c")]
    occupation, of_occupation = drawn(random, effects(random, names, 0.7) | {"?": -0.8}, n)
    region, of_region = drawn(random, {"EU": -0.4, "NA": 1.6, "AS": -0.6, "SA": -1.0}, n, (0.3, 0.3, 0.25, 0.15))
    marital, of_marital = drawn(random, {"Married": 1.0, "Never-married": -1.0, "Divorced": -0.4, "Widowed": -0.6}, n)
    country, _ = drawn(random, dict.fromkeys([f"Country-{k}" for k in range(40)] + ["?"], 0.0), n)
    age, education = random.integers(17, 91, n), random.integers(1, 17, n)
    gain = np.where(random.random(n) < 0.12, random.lognormal(8.0, 1.2, n), 0.0).round()
    loss = np.where(random.random(n) < 0.05, random.lognormal(7.0, 0.6, n), 0.0).round()
    hours = np.clip(random.normal(40.0, 12.0, n), 1, 99).round()
    odds = of_work + of_occupation + of_region + of_marital + 0.25 * (education - 8) + 0.03 * (hours - 40)
    odds += 0.02 * (age - 40) + 0.3 * np.log1p(gain) + 0.12 * np.log1p(loss)
    fields = {"age": age, "workclass": work, "fnlwgt": random.lognormal(12.0, 0.5, n).round().astype(np.int64)}
    fields |= {"education_num": education, "marital_status": marital, "occupation": occupation, "region": region}
    fields |= {"capital_gain": gain.astype(np.int64), "capital_loss": loss.astype(np.int64)}
    return fields | {"hours_per_week": hours.astype(np.int64), "native_country": country}, 0.8 * odds


def bank(random: Random, n: int) -> tuple[dict[str, Any], Float]:
    """Calls of a bank: `unknown` as a value, months as text, the length of the call, and days since the last one."""
    jobs = ("admin", "technician", "services", "management", "retired", "student", "self-employed", "housemaid")
    job, of_job = drawn(random, effects(random, (*jobs, "unknown"), 0.5), n)
    education, of_education = drawn(random, {"basic": -0.4, "high": 0.0, "university": 0.4, "unknown": 0.2}, n)
    contact, of_contact = drawn(random, {"cellular": 0.5, "telephone": 0.1, "unknown": -1.0}, n, (0.6, 0.1, 0.3))
    months = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
    month, of_month = drawn(random, effects(random, months, 0.8), n)
    housing, of_housing = drawn(random, {"yes": -0.4, "no": 0.4}, n)
    loan, of_loan = drawn(random, {"yes": -0.5, "no": 0.1, "unknown": 0.0}, n, (0.15, 0.8, 0.05))
    duration = random.lognormal(5.2, 1.1, n).round()
    balance = (random.lognormal(6.5, 1.6, n) - 400.0).round()
    called = random.random(n) < 0.2
    since = np.where(called, random.integers(1, 400, n), -1)
    opened = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 366, n), unit="D")
    odds = of_job + of_education + of_contact + of_month + of_housing + of_loan + 0.8 * called
    odds += 1.1 * (np.log1p(duration) - 5.2) + 0.1 * np.sign(balance) * np.log1p(np.abs(balance))
    fields = {"age": random.integers(18, 90, n), "job": job, "education": education, "housing": housing, "loan": loan}
    fields |= {"balance": balance.astype(np.int64), "contact": contact, "day": random.integers(1, 32, n)}
    fields |= {"month": month, "opened": opened.strftime("%m/%d"), "duration": duration.astype(np.int64)}
    return fields | {"campaign": random.geometric(0.4, n), "pdays": since}, odds


def fraud(random: Random, n: int) -> tuple[dict[str, Any], Float]:
    """Payments, one of 500 a fraud: large amounts, some merchants of 300 whose codes are integers, and the night."""
    codes = np.sort(random.choice(np.arange(1_000, 10_000), 300, replace=False))
    risky = np.where(random.random(300) < 0.08, 3.0, 0.0)
    merchant, of_merchant = drawn(random, dict(zip(codes.tolist(), risky.tolist(), strict=True)), n)
    channel, of_channel = drawn(random, {"pos": -0.8, "web": 0.8, "phone": 0.3}, n, (0.6, 0.3, 0.1))
    amount, times = random.lognormal(3.3, 1.5, n).round(2), clock(random, n, 90)
    odds = of_merchant + of_channel + 0.8 * np.log1p(amount) + 1.0 * at_night(times)
    fields = {"transaction": [random.bytes(8).hex() for _ in range(n)], "time": times.dt.strftime("%Y-%m-%dT%H:%M:%SZ")}
    return fields | {"amount": amount, "merchant": merchant.astype(np.int64), "channel": channel}, odds


def churn(random: Random, n: int) -> tuple[dict[str, Any], Float]:
    """Customers: flags as text, a number that identifies, and a blank total where no month has been paid."""
    contract, of_contract = drawn(random, {"Month-to-month": 1.2, "One year": -0.4, "Two year": -1.6}, n)
    internet, of_internet = drawn(random, {"DSL": 0.0, "Fiber optic": 0.9, "No": -0.8}, n, (0.35, 0.45, 0.2))
    payment, of_payment = drawn(random, {"Electronic check": 0.5, "Mailed check": 0.0, "Bank": -0.2, "Card": -0.3}, n)
    paperless, of_paperless = drawn(random, {"Yes": 0.3, "No": -0.3}, n)
    partner, of_partner = drawn(random, {"Yes": -0.2, "No": 0.2}, n)
    support, of_support = drawn(random, {"Yes": -0.5, "No": 0.5, "No internet service": 0.0}, n)
    senior = random.integers(0, 2, n)
    tenure = np.where(random.random(n) < 0.03, 0, random.integers(1, 73, n))
    monthly = random.uniform(18.0, 119.0, n).round(2)
    total = (tenure * monthly * random.normal(1.0, 0.03, n)).round(2)
    odds = of_contract + of_internet + of_payment + of_paperless + of_partner + of_support + 0.3 * senior
    odds += np.where(tenure > 0, -0.035 * (tenure - 32), -1.5) + 0.01 * (monthly - 65.0)
    blank = np.where(tenure > 0, np.char.mod("%.2f", total), " ")
    fields = {"CustomerId": random.permutation(np.arange(15_000_000, 15_000_000 + 3 * n))[:n], "SeniorCitizen": senior}
    fields |= {"Partner": partner, "tenure": tenure, "Contract": contract, "InternetService": internet}
    fields |= {"TechSupport": support, "PaperlessBilling": paperless, "PaymentMethod": payment}
    return fields | {"MonthlyCharges": monthly, "TotalCharges": blank}, odds


def codes(random: Random, n: int) -> tuple[dict[str, Any], Float]:
    """Accounts: zip codes with leading zeros, codes of 30 and of 300 values without an order, numbers of 19 digits."""
    zips = [f"{code:05d}" for code in random.choice(np.arange(1_001, 6_999), 120, replace=False)]
    zip_code, of_zip = drawn(random, effects(random, zips, 0.7), n)
    few = {int(code): effect for code, effect in effects(random, list(map(str, range(1, 31))), 1.0).items()}
    branch, of_branch = drawn(random, few, n)
    names = list(map(str, random.choice(np.arange(1_000, 9_999), 300, replace=False)))
    many = {int(code): effect for code, effect in effects(random, names, 1.0).items()}
    merchant, of_merchant = drawn(random, many, n)
    account = random.integers(1_000_000_000_000_000_000, 9_000_000_000_000_000_000, n)
    limit = random.lognormal(8.0, 0.6, n).round(2)
    odds = of_zip + of_branch + of_merchant - 0.8 * (np.log(limit) - 8.0)
    fields = {"account": account, "zip": zip_code, "branch": branch.astype(np.int64)}
    return fields | {"merchant": merchant.astype(np.int64), "limit": limit}, odds


def sensor(random: Random, n: int) -> tuple[dict[str, Any], Float]:
    """A log of sensors: -999 for what is missing, two notations of time, and a place with a large offset."""
    times = clock(random, n, 60)
    warm, lacks_warm = random.normal(20.0, 5.0, n).round(2), random.random(n) < 0.08
    pressure, lacks_pressure = random.normal(101.0, 2.0, n).round(2), random.random(n) < 0.05
    shaking = random.lognormal(0.0, 1.3, n).round(4)
    north, east = random.integers(0, 100, n), random.integers(0, 100, n)
    odds = np.where(lacks_warm, 0.4, 0.22 * (warm - 20.0)) + np.where(lacks_pressure, 0.0, -0.4 * (pressure - 101.0))
    odds += 0.03 * (north - 50) + 0.7 * np.log1p(shaking) + 0.8 * at_night(times)
    fields = {"ts": (times - pd.Timestamp(0)) // pd.Timedelta(seconds=1)}
    fields |= {"local": times.dt.strftime("%Y-%m-%d %H:%M:%S")}
    fields |= {"temperature": np.where(lacks_warm, -999.0, warm), "vibration": shaking}
    fields |= {"pressure": np.where(lacks_pressure, -999.0, pressure)}
    return fields | {"northing": 580_000_000 + 4 * north, "easting": 3_400_000 + 4 * east}, odds


TABLES: Final[Mapping[str, Table]] = {
    "adult": Table(
        rows=12_000,
        label="income",
        labels=("<=50K", ">50K"),
        share=0.24,
        draw=adult,
        declared=Declared(
            categories=("workclass", "marital_status", "occupation", "region", "native_country"),
            numbers=("age", "education_num", "hours_per_week"),
            logarithms=("capital_gain", "capital_loss", "fnlwgt"),
        ),
    ),
    "bank": Table(
        rows=16_000,
        label="y",
        labels=("no", "yes"),
        share=0.12,
        draw=bank,
        declared=Declared(
            categories=("job", "education", "contact", "month", "housing", "loan"),
            numbers=("age", "day", "pdays"),
            logarithms=("duration", "campaign", "balance"),
            sentinels={"pdays": "-1"},
        ),
    ),
    "fraud": Table(
        rows=60_000,
        label="outcome",
        labels=("legit", "fraud"),
        share=0.002,
        draw=fraud,
        declared=Declared(categories=("merchant", "channel"), logarithms=("amount",), hours=("time",)),
    ),
    "churn": Table(
        rows=7_000,
        label="Status",
        labels=("retained", "churned"),
        share=0.26,
        draw=churn,
        declared=Declared(
            categories=(
                *("Partner", "Contract", "InternetService", "TechSupport", "PaperlessBilling", "PaymentMethod"),
                "SeniorCitizen",
            ),
            numbers=("tenure", "MonthlyCharges", "TotalCharges"),
            sentinels={"TotalCharges": " "},
        ),
    ),
    "codes": Table(
        rows=18_000,
        label="default",
        labels=(0, 1),
        share=0.3,
        draw=codes,
        declared=Declared(categories=("zip", "branch", "merchant"), logarithms=("limit",)),
        parquet=True,
    ),
    "sensor": Table(
        rows=15_000,
        label="alarm",
        labels=(0, 1),
        share=0.15,
        draw=sensor,
        declared=Declared(
            numbers=("temperature", "pressure", "northing", "easting"),
            logarithms=("vibration",),
            hours=("local",),
            sentinels={"temperature": "-999.0", "pressure": "-999.0"},
        ),
        times=("local",),
        parquet=True,
    ),
}


def write(name: str, seed: int, rows: int | None, folder: Path) -> list[Path]:
    """Draw a table and write its files."""
    table = TABLES[name]
    random, n = np.random.default_rng(seed), min(rows or table.rows, table.rows)
    fields, odds = table.draw(random, n)
    low, high = -50.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if expit(odds + middle).mean() < table.share else (low, middle)
    positive = random.random(n) < expit(odds + high)
    frame = pd.DataFrame(fields | {table.label: np.array(table.labels, object)[positive.astype(int)]})
    files = [folder / f"{name}.csv"]
    frame.to_csv(files[0], index=False)
    if table.parquet:
        files.append(folder / f"{name}.parquet")
        typed = {time: pd.to_datetime(frame[time]) for time in table.times}
        frame.assign(**typed, **{table.label: frame[table.label].astype(np.int64)}).to_parquet(files[1], index=False)
    return files


# -------------------------------------------------------------------------------------------------------- the pipelines


@dataclass(frozen=True, slots=True)
class Rows:
    """Cells of a table as text, and whether each row is positive."""

    cells: pd.DataFrame
    positive: NDArray[np.bool_]


def read(file: Path, table: Table, seed: int) -> tuple[Rows, Rows]:
    """Return the training rows and the held-out rows, those of `streamsvm evaluate --seed`."""
    cells = pd.read_csv(file, dtype=str, keep_default_na=False)
    positive = (cells.pop(table.label) == str(table.labels[1])).to_numpy()
    places = np.arange(len(cells), dtype=np.float32)[:, None]
    parts = split(Points(places, np.where(positive, 1, -1).astype(np.int8), np.ones(len(cells))), TEST_SHARE, seed)
    chosen = [part.X[:, 0].astype(np.intp) for part in parts]
    train, test = (Rows(cells.iloc[own].reset_index(drop=True), positive[own]) for own in chosen)
    return train, test


def typed(cells: pd.DataFrame, declared: Declared) -> pd.DataFrame:
    """Return numbers as numbers, those that are missing as NaN, and times as hours."""
    found = {name: cells[name] for name in declared.categories}
    for name in (*declared.numbers, *declared.logarithms):
        found[name] = pd.to_numeric(cells[name].replace(declared.sentinels.get(name, ""), ""))
    for name in declared.hours:
        found[name] = cells[name].str[11:13].astype(float) + cells[name].str[14:16].astype(float) / 60.0
    return pd.DataFrame(found)


def logarithm(X: Float) -> Float:
    """Return sign(x) log(1 + |x|)."""
    return np.sign(X) * np.log1p(np.abs(X))


def circle(hours: Float) -> Float:
    """Return sine and cosine of an hour of the day."""
    angle = np.asarray(hours) / 24.0 * 2.0 * np.pi
    return np.hstack((np.sin(angle), np.cos(angle)))


def pipeline(train: Rows, test: Rows, declared: Declared, seed: int) -> Float:
    """Answer by a linear machine over declared types."""
    filled = SimpleImputer(strategy="mean", add_indicator=True)
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=RAREST_CATEGORY)
    columns = ColumnTransformer(
        [
            ("category", encoder, list(declared.categories)),
            ("number", make_pipeline(filled, StandardScaler()), list(declared.numbers)),
            ("log", make_pipeline(FunctionTransformer(logarithm), filled, StandardScaler()), list(declared.logarithms)),
            ("hour", make_pipeline(FunctionTransformer(circle), StandardScaler()), list(declared.hours)),
        ]
    )
    X, signs = columns.fit_transform(typed(train.cells, declared)), np.where(train.positive, 1, -1).astype(np.int8)
    counted = Points(np.zeros((len(signs), 1), np.float32), signs, np.ones(len(signs)))
    penalty = EmpiricalObjective.over(counted, SvmConfig()).penalty
    machine = LinearSVC(C=penalty, class_weight="balanced", random_state=seed, max_iter=5_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(X, signs)
    return np.asarray(machine.decision_function(columns.transform(typed(test.cells, declared))))


def lightgbm(train: Rows, test: Rows, declared: Declared, seed: int) -> Float:
    """Answer by trees over declared types."""
    from lightgbm import LGBMClassifier

    first, second = typed(train.cells, declared), typed(test.cells, declared)
    for name in declared.categories:
        kind = pd.CategoricalDtype(sorted(first[name].unique()))
        first[name], second[name] = first[name].astype(kind), second[name].astype(kind)
    machine = LGBMClassifier(random_state=seed, verbose=-1).fit(first, train.positive)
    return np.asarray(machine.predict_proba(second)[:, 1])


# --------------------------------------------------------------------------------------------------------- the proposal


def streamsvm(*words: str) -> str:
    """Run the product's command; return what it printed, or raise `ChildProcessError` with what it said instead."""
    done = subprocess.run([sys.executable, "-m", "consumers", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChildProcessError(f"streamsvm {' '.join(words[:2])}: {' '.join(done.stderr.split())}")
    return done.stdout


def proposal(file: Path, table: Table, seed: int) -> dict[str, Any]:
    """Return what `evaluate` says of an unedited proposal, and the proposal."""
    proposed = streamsvm("features", "infer", str(file), "--label", table.label)
    config = file.with_suffix(".toml")
    config.write_text(proposed)
    lines = [line for line in proposed.splitlines() if line and not line.startswith(("# Try", "# Send", "# Train"))]
    try:
        said = json.loads(
            streamsvm("evaluate", str(file), "--config", str(config), "--seed", str(seed), "--json", "--optimum")
        )
    except ChildProcessError as error:
        return {"auc": None, "error": str(error).replace(f"{file.parent}/", ""), "proposed": lines}
    auc = {row["contender"]: row["auc"] for row in said["rows"]}
    own = next(row for row in said["rows"] if row["contender"] == "streamsvm")
    return {
        "auc": auc["streamsvm"],
        "optimum": auc.get("optimum"),
        "rows": said["training_points"] + said["test_points"],
        "columns": said["dimension"],
        "note": own["note"],
        "proposed": lines,
    }


# ------------------------------------------------------------------------------------------------------------ the cells

PIPELINES: Final[Mapping[str, Callable[[Rows, Rows, Declared, int], Float]]] = {
    "pipeline": pipeline,
    "lightgbm": lightgbm,
}
CONTENDERS: Final = ("proposal", *PIPELINES)
HEADING: Final = ("file", "rows", "proposal", "optimum", "pipeline", "lightgbm", "b - a", "columns", "what")


def measured(contender: str, suffix: str, name: str, seed: int, rows: int | None) -> dict[str, Any]:
    """Return the figures of a contender on one file of a table; a contender that failed has an `error` instead."""
    table = TABLES[name]
    with TemporaryDirectory() as folder:
        try:
            files = {file.suffix: file for file in write(name, seed, rows, Path(folder))}
            if contender == "proposal":
                return proposal(files[suffix], table, seed)
            train, test = read(files[".csv"], table, seed)
            decision = PIPELINES[contender](train, test, table.declared, seed)
        except (ChildProcessError, ModuleNotFoundError) as error:
            return {"auc": None, "error": str(error).replace(f"{folder}/", "")}
    return {"auc": float(roc_auc_score(test.positive, decision)), "rows": len(train.positive) + len(test.positive)}


def median(cells: Sequence[Mapping[str, Any]], figure: str = "auc") -> float | None:
    """Return the median of a figure over the rounds that have it."""
    values = [value for cell in cells if (value := cell.get(figure)) is not None]
    return statistics.median(values) if values else None


def row_of(file: str, cells: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the figures of a file, and the first error of each contender, or what was lost."""
    of = {name: median(own) for name, own in cells.items()}
    ours, theirs = cells.get("proposal", ()), cells.get("pipeline", ())
    pairs = zip(ours, theirs, strict=False)
    lost = [b["auc"] - a["auc"] for a, b in pairs if a["auc"] is not None and b["auc"] is not None]
    said = [
        f"{name}: {errors[0]}" for name, own in cells.items() if (errors := [c["error"] for c in own if "error" in c])
    ]
    rows = max((cell["rows"] for own in cells.values() for cell in own if "rows" in cell), default=0)
    if (left := median(ours, "rows")) is not None and left < rows:
        said.append(f"{rows - left:,.0f} rows were dropped")
    return {
        "file": file,
        "rows": rows,
        **{name: of.get(name) for name in CONTENDERS},
        "optimum": median(ours, "optimum"),
        "lost": statistics.median(lost) if lost else None,
        "columns": median(ours, "columns"),
        "what": "; ".join(said),
        "proposed": ours[0].get("proposed", []) if ours else [],
    }


def lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the table, then the proposals that lost more than is wanted."""
    yield from aligned(HEADING, map(_cells, rows))
    for row in rows:
        if row["proposed"] and (row["lost"] is None or row["lost"] > WANTED):
            yield from (f"\n{row['file']}:", *row["proposed"])


def _cells(row: Mapping[str, Any]) -> list[object]:
    figures = [shown(row[name], ".4f") for name in ("proposal", "optimum", "pipeline", "lightgbm")]
    last = (shown(row["lost"], "+.4f"), shown(row["columns"], ".0f"), row["what"])
    return [row["file"], row["rows"], *figures, *last]


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Measure what is missing, and print the table."""
    parser = parser_of("strangers", __doc__, rounds=3)
    parser.add_argument("--tables", type=words, default=list(TABLES), metavar="NAMES", help="some tables, with commas")
    parser.add_argument("--contenders", type=words, default=list(CONTENDERS), metavar="NAMES")
    parser.add_argument("--rows", type=int, help="most rows of a table")
    asked = parser.parse_args(arguments)
    known(parser, "--tables", asked.tables, list(TABLES))
    known(parser, "--contenders", asked.contenders, CONTENDERS)
    kept, rows = Kept(asked.json), []
    for name in asked.tables:
        for suffix in (".csv", ".parquet") if TABLES[name].parquet else (".csv",):
            cells: dict[str, list[dict[str, Any]]] = {contender: [] for contender in asked.contenders}
            for seed, contender in product(range(asked.rounds), asked.contenders):
                file = f"{name}{suffix if contender == 'proposal' else '.csv'}"  # the pipelines read the cells as text
                key = f"{contender}/{file}/{asked.rows or 'all'}/{seed}"
                cells[contender].append(
                    kept.get(key, lambda of=(contender, suffix, name, seed): measured(*of, asked.rows))
                )
            rows.append(row_of(f"{name}{suffix}", cells))
            print(f"{name}{suffix}: measured", flush=True)
    print(*lines(rows), sep="\n")
    return rows


if __name__ == "__main__":
    main()
