"""What a certificate proves of a model of one pass: `python -m tests.benchmarks.certificate --data DIR [--json FILE]`.

A row is one stream: a set, an order, a number of partitions, a memory. `gap` is how far the model really is from the
best over all rows, which is solved to 1e-9.
`certified_gap` is what its certificate proves from one read of the rows, and `after` what it proves after the second
and later ones. `reached_gap` is how near the best machine that was met on the way is proven to be. `violated` counts
bounds that the optimum, or the model's plain objective, contradicts.

With `--hostile N` as many small streams that are made to break bounds are compared in exact fractions instead.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final, get_args

import numpy as np

from streamsvm.certificate import percent
from streamsvm.choices import Loss
from streamsvm.config import SvmConfig
from streamsvm.model import LinearMachine, Scaler
from streamsvm.points import Points
from tests.benchmarks.coreset import ORDERS, divided, ordered
from tests.benchmarks.optimum import Whole, fit, objective
from tests.benchmarks.runner import load, numbers, parser_of, sets_in, words, written
from tests.benchmarks.summaries import learned, shipped
from tests.certificate.hostile import Case, Kernel, case, violations, wild

WILD_ONE_OF: Final = 100
"""Hostile streams for each one of extreme magnitudes, over which the solver takes its time."""
WILD_READS: Final = 3
BATCH_ROWS: Final = 4_096
FINE: Final = 1e-9
"""Relative duality gap of the optimum over all rows, and of the models of what was kept."""
ROUNDING: Final = 1e-12
"""Of plain sums in float64, on either side of which a bound may lie."""


def case_of(one: Whole, kept: Points, parts: Sequence[Points]) -> tuple[Case, float]:
    """Return the partitions with the model of a summary, and that model's objective, plainly in float64."""
    scaler = Scaler(one.mean, one.scale)
    made = fit(scaler.transform(kept.X), kept.y, one.penalty * kept.weight, FINE, one.svm.margin_loss)
    machine = LinearMachine(np.asarray(made.w, np.float64), float(made.b))
    plain = objective(one.Z, one.points.y, one.penalty * one.points.weight, made.w, made.b, one.svm.margin_loss)
    batches = -(-len(parts[0]) // BATCH_ROWS)
    return Case(parts, scaler, one.penalty, (1.0, 1.0), machine, batches, one.svm.margin_loss), plain


def kept_of(one: Whole, stream: Points, trial: int, memory: int, partitions: int) -> Points:
    """Return what a chain holds of a stream."""
    kept = learned(shipped("chain", memory // partitions), one.svm, partitions)(stream, trial).kept
    assert isinstance(kept, Points)
    return kept


def measure(one: Whole, order: str, memory: int, partitions: int, trial: int, reads: int) -> dict[str, Any]:
    """Learn a stream, and certify what was learned by reading it again."""
    stream = ordered(one.points, order, trial)
    kept = kept_of(one, stream, trial, memory, partitions)
    made, plain = case_of(one, kept, [stream.take(slice(p, None, partitions)) for p in range(partitions)])
    certifier = made.certifier(max(64, memory))
    found, gaps, violated = None, [], 0
    for read in range(reads):
        found = made.read(certifier)
        gaps.append(found.gap)
        violated += found.bound > one.optimum * (1 + ROUNDING) or found.reached < found.bound * (1 - ROUNDING)
        if read == 0:
            violated += found.objective < plain * (1 - ROUNDING)
        if certifier.done:
            break
    assert found is not None
    return {
        "gap": plain / one.optimum - 1.0,
        "lower": found.bound,
        "upper": found.objective,
        "certified_gap": gaps[0],
        "after": gaps[1:],
        "reached_gap": found.reached / found.bound - 1.0 if found.bound > 0.0 else None,
        "violated": int(violated),
    }


def rows(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row for each stream: the median over the trials, violations added up."""
    svm = asked.svm.model_copy(update={"loss": asked.loss})
    for name in sets_in(asked.data, asked.sets):
        one = Whole.of(divided(load(name, asked.data))[0], svm, FINE)
        for order, memory, partitions in product(asked.order, asked.memory, asked.partitions):
            made = [measure(one, order, memory, partitions, trial, asked.reads) for trial in range(asked.rounds)]
            middle = sorted(made, key=lambda cell: cell["gap"])[len(made) // 2]
            yield {
                "set": name,
                "n": len(one.points),
                "d": one.points.dimension,
                "order": order,
                "memory": memory,
                "partitions": partitions,
                **middle,
                "violated": sum(cell["violated"] for cell in made),
            }


def line(row: dict[str, Any]) -> str:
    """Return a row for people."""

    def shown(gap: float | None) -> str:
        return "-" if gap is None else percent(gap)

    return (
        f"{row['set']:15} {row['order']:9} {row['partitions']:3} {row['memory']:7,} "
        f"true {shown(max(row['gap'], 0.0)):>10}  "
        f"certified {shown(row['certified_gap']):>10}  "
        f"after {', '.join(map(shown, row['after'])) or '-'}; refined {shown(row['reached_gap'])}; "
        f"violated {row['violated']}"
    )


def hostile(count: int, loss: Loss, kernel: Kernel) -> dict[str, Any]:
    """Compare the bounds of small hostile streams with exact objectives."""
    wrong, gaps = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(count):
            made = case(number, loss, kernel)
            found = made.proven()
            wrong += [f"case {number}: {what}" for what in violations(made)]
            gaps.append(np.inf if found.gap is None else found.gap)
        with np.errstate(all="ignore"):
            for number in range(count // WILD_ONE_OF):
                wrong += [f"wild case {number}: {what}" for what in violations(wild(number, loss, kernel), WILD_READS)]
    return {
        "cases": count,
        "wild_cases": count // WILD_ONE_OF,
        "violated": len(wrong),
        "violations": wrong[:20],
        "within_a_millionth": float(np.mean(np.array(gaps) < 1e-6)),
        "nothing_proven": float(np.mean(np.isinf(gaps))),
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure and print."""
    parser = parser_of("certificate", __doc__, data=False, rounds=3)
    parser.add_argument("--memory", default=[10_000], type=numbers, help="points of the model, and rows that are kept")
    weight = parser.add_mutually_exclusive_group()
    weight.add_argument("--C", dest="svm", type=lambda text: SvmConfig(C=float(text)), default=SvmConfig(C=1.0))
    weight.add_argument("--alpha", dest="svm", type=lambda text: SvmConfig(alpha=float(text)))
    parser.add_argument("--loss", choices=get_args(Loss), default="hinge")
    parser.add_argument("--order", type=words, default=["shuffled"], help=", ".join(ORDERS))
    parser.add_argument("--partitions", default=[1], type=numbers)
    parser.add_argument("--reads", type=int, default=3)
    parser.add_argument("--hostile", type=int, default=0, metavar="N", help="compare N hostile streams, exactly")
    parser.add_argument("--kernel", choices=get_args(Kernel), default="linear", help="of hostile streams")
    asked = parser.parse_args(arguments)
    if not asked.hostile and asked.data is None:
        parser.error("give --data DIR, or --hostile N")
    if asked.data is not None and asked.kernel != "linear":
        parser.error("sets are learned by linear machines; give --hostile N alone")
    made: dict[str, Any] = {"rows": []}
    if asked.hostile:
        made["hostile"] = hostile(asked.hostile, asked.loss, asked.kernel)
        print(json.dumps(made["hostile"], indent=1))
    for row in rows(asked) if asked.data is not None else ():
        made["rows"].append(row)
        print(line(row), flush=True)
    written(asked.json, made)
    return made


if __name__ == "__main__":
    main()
