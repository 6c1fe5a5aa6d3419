"""Raw JSON events of 12 fields to a model, beside the same loop by hand: `python -m tests.benchmarks.events`.

Four numbers, four categories, a time, a flag, an id and a nested field. Ours: the decoder with a recipe, the learner at
default settings, and at the end one model of everything. By hand: each record parsed to a dictionary (by orjson where
it is installed, else by msgspec), a dictionary of features for each, `FeatureHasher` or `DictVectorizer`, and
`SGDClassifier.partial_fit` in batches of as many. River, where it is installed: its pipeline of the same features,
one-hot encoding, scaling and logistic regression, event by event. No broker: what is compared is work on the processor,
in one process and on one thread, in turns.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.config import ModelConfig, PointsConfig
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.learning import learner as learning
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import make
from streamsvm.points import Position
from tests.benchmarks.timing import ROUNDS_AT_LEAST, Interval, Outcome, Stopwatch, alternate
from tests.codec.rows import InColumns, Raw

BATCH: Final = 4_000
"""Records at a time, as the trainer takes them."""
COUNTRIES: Final = ("DE", "FR", "US", "BR", "JP")
CHANNELS: Final = ("web", "app", "till", "phone")
CURRENCIES: Final = ("EUR", "USD", "JPY")
BRANDS: Final = ("visa", "amex", "master", "other", "none", "gift")

FEATURES: Final[dict[str, Any]] = {
    "amount": {"as": "number", "log1p": True},
    "age": "number",
    "items": "number",
    "risk": "number",
    "country": {"as": "category", "field": "card.country", "values": COUNTRIES},
    "channel": {"as": "category", "values": CHANNELS},
    "currency": {"as": "category", "values": CURRENCIES},
    "brand": {"as": "category", "values": BRANDS},
    "plan": {"as": "category", "values": ["free", "paid"]},
    "ts": {"as": "time", "parts": ["hour", "weekday"]},
    "vip": "flag",
}
EVENTS: Final[dict[str, Any]] = {"label": {"field": "fraud", "negative": [False], "positive": [True]}, "id": "id"}


def events(count: int) -> list[bytes]:
    """Return made-up records."""
    chance = random.Random(7)
    return [
        json.dumps(
            {
                "id": f"e-{index}",
                "ts": f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}T{chance.randint(0, 23):02}:05:09Z",
                "amount": round(chance.expovariate(0.02) * (2 if (fraud := chance.random() < 0.3) else 1), 2),
                "age": chance.randint(18, 90),
                "items": chance.randint(1, 9),
                "risk": round(chance.gauss(1.0 if fraud else 0.0, 1.0), 4),
                "card": {"country": chance.choice(COUNTRIES), "issued": 2020},
                "channel": chance.choice(CHANNELS),
                "currency": chance.choice(CURRENCIES),
                "brand": chance.choice(BRANDS),
                "plan": chance.choice(("free", "paid")),
                "vip": chance.random() < 0.1,
                "fraud": fraud,
            }
        ).encode()
        for index in range(count)
    ]


def batches(values: Sequence[bytes]) -> Iterator[tuple[int, Sequence[bytes]]]:
    """Yield the records in batches, with the index of each one's first."""
    for start in range(0, len(values), BATCH):
        yield start, values[start : start + BATCH]


def ours(values: Sequence[bytes], *, learns: bool) -> list[Outcome]:
    """Decode by the recipe, and learn what comes of it."""
    recipe = recipe_from(FEATURES, EVENTS)
    config = ModelConfig(points=PointsConfig(**points_of(recipe)), features=recipe)
    records = [
        InColumns([Raw(value, start + at) for at, value in enumerate(batch)]) for start, batch in batches(values)
    ]
    watch, seen = Stopwatch(), 0
    decoder, learner = PointDecoder(config.points, recipe=recipe), Learner(config, {0: Position(0)}, sys.maxsize)
    for batch in records:
        (rows,) = decoder.decode(batch).rows
        seen += int(np.count_nonzero(rows.accepted))
        done = 0
        while learns and done < len(rows):
            done += learner.learn(rows.slice(done, len(rows)))
    if learns:
        make(learner.cut(), config)
    return [Outcome("events", "streamsvm" if learns else "streamsvm, decoding only", seen, watch.lap())]


def features_by_hand(event: dict[str, Any]) -> dict[str, Any]:
    """Return what FEATURES makes of an event, as one writes it."""
    time = datetime.fromisoformat(event["ts"])
    minute, day = 2 * math.pi * (time.hour * 60 + time.minute) / 1440, 2 * math.pi * time.weekday() / 7
    return {
        "amount": math.log1p(event["amount"]),
        "age": event["age"],
        "items": event["items"],
        "risk": event["risk"],
        "country": event["card"]["country"],
        "channel": event["channel"],
        "currency": event["currency"],
        "brand": event["brand"],
        "plan": event["plan"],
        "hour.sin": math.sin(minute),
        "hour.cos": math.cos(minute),
        "weekday.sin": math.sin(day),
        "weekday.cos": math.cos(day),
        "vip": float(event["vip"]),
    }


def by_hand(values: Sequence[bytes], *, hashed: bool) -> list[Outcome]:
    """Parse, make a dictionary for each event, encode, and learn by SGD."""
    watch, seen = Stopwatch(), 0
    machine = SGDClassifier()
    decode = parser()
    encoder = FeatureHasher(n_features=32) if hashed else DictVectorizer(sparse=False)
    for start, batch in batches(values):
        parsed = [decode(value) for value in batch]
        made = [features_by_hand(event) for event in parsed]
        X = encoder.transform(made) if hashed or start else encoder.fit_transform(made)
        machine.partial_fit(X, [event["fraud"] for event in parsed], classes=[False, True])
        seen += len(parsed)
    return [Outcome("events", "FeatureHasher + SGD" if hashed else "DictVectorizer + SGD", seen, watch.lap())]


def parser() -> Callable[[bytes], dict[str, Any]]:
    """Return what parses a record to a dictionary."""
    if importlib.util.find_spec("orjson") is None:
        return msgspec.json.decode
    loads: Callable[[bytes], dict[str, Any]] = importlib.import_module("orjson").loads
    return loads


def by_river(values: Sequence[bytes]) -> list[Outcome]:
    """Let River's pipeline learn event by event."""
    compose, linear_model, preprocessing = (
        importlib.import_module(f"river.{name}") for name in ("compose", "linear_model", "preprocessing")
    )
    watch, decode = Stopwatch(), parser()
    pipeline = (
        compose.FuncTransformer(features_by_hand)
        | (compose.SelectType(str) | preprocessing.OneHotEncoder())
        + (compose.SelectType((int, float)) | preprocessing.StandardScaler())
        | linear_model.LogisticRegression()
    )
    for value in values:
        event = decode(value)
        pipeline.learn_one(event, event["fraud"])
    return [Outcome("events", "River", len(values), watch.lap())]


CONTENDERS: Final[tuple[Callable[[Sequence[bytes]], list[Outcome]], ...]] = (
    partial(ours, learns=True),
    partial(ours, learns=False),
    partial(by_hand, hashed=True),
    partial(by_hand, hashed=False),
    *([by_river] if importlib.util.find_spec("river") else []),
)


def measure(count: int, runs: int) -> list[dict[str, Any]]:
    """Return a row for each contender: its time on the processor, and its speed to that of FeatureHasher and SGD.

    Raises
    ------
    AssertionError
        If a contender did not see every event.
    """
    values = events(count)
    with threadpool_limits(1):
        learning.warm_up(ModelConfig(points=PointsConfig(dimension=2)))
        outcomes = alternate([partial(contender, values) for contender in CONTENDERS], runs)
    times: dict[str, list[float]] = {}
    for outcome in outcomes:
        assert outcome.seen == count, f"{outcome.contender} saw {outcome.seen} of {count} events"
        times.setdefault(outcome.contender, []).append(1e6 * outcome.lap.cpu_s / count)
    figures = {name: Interval.of(found) for name, found in times.items()}
    reference = figures["FeatureHasher + SGD"].median
    return [
        {
            "contender": name,
            "events": count,
            "cpu_us_per_event": round(figure.median, 2),
            "least": round(figure.least, 2),
            "greatest": round(figure.greatest, 2),
            "ratio_to_by_hand": round(reference / figure.median, 2),
        }
        for name, figure in figures.items()
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=ROUNDS_AT_LEAST)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows = measure(options.events, options.runs)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    print(f"{options.events:,} events of 12 fields, median of {options.runs} runs (least to greatest), one thread")
    for row in rows:
        print(
            f"{row['contender']:26} {row['cpu_us_per_event']:7.2f} us an event "
            f"({row['least']:.2f} to {row['greatest']:.2f})  {row['ratio_to_by_hand']:5.2f}"
        )


if __name__ == "__main__":
    main()
