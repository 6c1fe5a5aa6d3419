"""The scorer on a real broker: `python -m tests.benchmarks.scorer [--partitions 1,16,64] [--other TREE] [--json FILE]`.

Rates by partitions and by the most records of a batch, each batch a transaction: single points of eight features, from
the first committed batch until the last. TREE is another checkout, whose `.venv` runs this very program: it takes turns
with this one on the same broker. `this/other` is the ratio of a round's two rates; round 0 warms up and is not counted.
Figures are of this machine and this minute.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

from consumers import constants
from streamsvm.kafka import Connection, Message
from tests.benchmarks import houses
from tests.benchmarks.runner import Child, Interval, in_turns, numbers, parser_of, written
from tests.benchmarks.trainers import serve
from tests.brokers.choice import start_real_broker
from tests.consumers.scorer.running import Running, points as made, settings_for
from tests.consumers.trainers import send
from tests.registry.test_subscriber import Trainer, version_of

DIMENSION: Final = 8
DEADLINE_S: Final = 300.0
POINTS: Final = "streamsvm_scored_points_total"
BATCHES: Final = "streamsvm_scored_batches_total"
OWN_BATCH: Final = constants.SCORED_AT_ONCE


def wait(scorer: Running, points: int) -> float:
    """Wait until a scorer has answered so many points, and return the seconds it took."""
    begun = time.monotonic()
    while scorer.value(POINTS) < points:
        assert not scorer.ended(), "the scorer ended"
        assert time.monotonic() - begun < DEADLINE_S, "it takes too long"
        time.sleep(0.002)
    return time.monotonic() - begun


def rate(connection: Connection, tree: str, partitions: int, batch: int, points: int, *_: int) -> dict[str, Any]:
    """Return the rate of the tree that this process runs; a batch of 0 is as large as the product makes it."""
    constants.SCORED_AT_ONCE = batch or OWN_BATCH
    settings = settings_for(connection, partitions)
    with closing(Trainer(connection, settings.output.models_topic)) as trainer:
        trainer.publish(version_of(1, dimension=DIMENSION))
    topic, dealt = settings.scoring.topic, enumerate(made(range(points), DIMENSION))
    send(connection, *(Message(topic, one, None, (("trace", b"t"),), partition=at % partitions) for at, one in dealt))
    with Running(settings, connection) as scorer:
        wait(scorer, 1)
        before, batches = scorer.value(POINTS), scorer.value(BATCHES, outcome="committed")
        seconds = wait(scorer, points)
        batches = scorer.value(BATCHES, outcome="committed") - batches
    return {
        "tree": tree,
        "partitions": partitions,
        "batch_records": constants.SCORED_AT_ONCE,
        "points_per_s": (points - before) / seconds,
        "ms_per_transaction": 1e3 * seconds / batches,
    }


def row(runs: list[dict[str, Any]], ours: list[dict[str, Any]]) -> dict[str, Any]:
    """Return medians of a tree's runs, the range of its rates, and the ratios of our rate to its, round by round."""
    rates = Interval.of([run["points_per_s"] for run in runs])
    ratio = Interval.of([our["points_per_s"] / run["points_per_s"] for our, run in zip(ours, runs, strict=True)])
    return {
        **runs[0],
        "points_per_s": rates.median,
        "range": [rates.least, rates.greatest],
        "ms_per_transaction": Interval.of([run["ms_per_transaction"] for run in runs]).median,
        "ratio": [ratio.median, ratio.least, ratio.greatest],
    }


def main(arguments: Sequence[str] | None = None, start: Callable[[], Any] = start_real_broker) -> list[dict[str, Any]]:
    """Measure on the broker that the tests would use, and print."""
    parser = parser_of("scorer", __doc__)
    parser.add_argument("--partitions", type=numbers, default=[1, 16, 64])
    parser.add_argument("--batches", type=numbers, default=[0], help="most records of each; 0 is the product's own")
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--other", type=Path, metavar="TREE", help="a checkout to compare this one with")
    parser.add_argument("--serve", metavar="SERVERS", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.serve:
        serve(asked.serve, rate)
        return []
    trees, rows = {"this": (Path(sys.executable), houses.ROOT)}, []
    if asked.other:
        trees["other"] = (asked.other.resolve() / ".venv/bin/python", asked.other.resolve())
    with ExitStack() as stack:
        broker, asks = start(), {}
        stack.callback(broker.stop)
        for tree, (python, root) in trees.items():
            process = houses.start(python, root, ["--serve", broker.bootstrap_servers], __file__)
            stack.callback(stack.enter_context(process).kill)
            asks[tree] = partial(Child(process).ask, tree)
        for partitions, batch in product(asked.partitions, asked.batches):
            each = {tree: partial(ask, partitions, batch, asked.points) for tree, ask in asks.items()}
            found = {tree: runs[1:] for tree, runs in in_turns(each, asked.rounds + 1).items()}
            for runs in found.values():
                rows.append(one := row(runs, found["this"]))
                print(
                    "partitions {partitions}, batches of {batch_records:,}, {tree}: {points_per_s:,.0f} points/s "
                    "({range[0]:,.0f} to {range[1]:,.0f}), {ms_per_transaction:.0f} ms a transaction".format(**one),
                    flush=True,
                )
            if asked.other:
                print("    this/other {:.3f} ({:.3f} to {:.3f})".format(*one["ratio"]), flush=True)
    written(asked.json, rows)
    return rows


if __name__ == "__main__":
    main()
