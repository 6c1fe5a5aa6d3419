"""How often what is said of skill is wrong: `python -m tests.benchmarks.skill`.

    python -m tests.benchmarks.skill [--streams 2000] [--versions 200] [--points 10000,2000] [--positives 0.24,0.001]
        [--balanced 0.5,0.55,0.6] [--processes 2] [--seed 0] [--json]

Each made stream has so many versions, and each version is judged on so many new points. Scores are normal, shifted so
that the balanced accuracy at 0 is exactly as asked for. A stream counts as called `some` or `none` if any of its
versions is ever called so; `unknown` is the share of versions of which nothing was said.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Final

import numpy as np
from scipy.special import ndtri

from streamsvm.quality.skill import Answered, skill_of

STREAMS_A_TASK: Final = 10


@dataclass(frozen=True, slots=True)
class Row:
    """What was said of the streams of one kind.

    Attributes
    ----------
    balanced, positives : float
        The true balanced accuracy; the share of positives.
    points, streams, versions : int
    some, none : int
        Streams of which any version was called so.
    unknown : float
        Share of the versions of which nothing was said.
    """

    balanced: float
    positives: float
    points: int
    streams: int
    versions: int
    some: int
    none: int
    unknown: float


def stream(balanced: float, positives: float, points: int, versions: int, seed: int) -> list[str]:
    """Return what is said of each version of a made stream."""
    random, shift, weight = np.random.default_rng(seed), float(ndtri(balanced)), np.ones(points)
    said = []
    for number in range(1, versions + 1):
        y = np.where(random.random(points) < positives, 1, -1).astype(np.int8)
        values = random.standard_normal(points) + shift * y
        said.append(skill_of(Answered(y=y, weight=weight, values=values), None, number).state)
    return said


def task(kind: tuple[float, float, int], versions: int, seeds: range) -> tuple[int, int, int]:
    """Return how many of these streams were ever called `some` and `none`, and how many versions neither."""
    told = [stream(*kind, versions, seed) for seed in seeds]
    return (
        sum("some" in each for each in told),
        sum("none" in each for each in told),
        sum(each.count("unknown") for each in told),
    )


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each kind of stream, or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--streams", type=int, default=2_000)
    parser.add_argument("--versions", type=int, default=200)
    parser.add_argument("--points", default="10000,2000")
    parser.add_argument("--positives", default="0.24,0.001")
    parser.add_argument("--balanced", default="0.5,0.55,0.6")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    kinds = product(
        map(float, asked.balanced.split(",")), map(float, asked.positives.split(",")), map(int, asked.points.split(","))
    )
    rows = []
    with ProcessPoolExecutor(asked.processes) as pool:
        for kind in kinds:
            tasks = [
                range(asked.seed + first, asked.seed + min(first + STREAMS_A_TASK, asked.streams))
                for first in range(0, asked.streams, STREAMS_A_TASK)
            ]
            some, none, unknown = (
                sum(each) for each in zip(*pool.map(partial(task, kind, asked.versions), tasks), strict=True)
            )
            share = unknown / (asked.streams * asked.versions)
            rows.append(Row(*kind, asked.streams, asked.versions, some, none, share))
            if not asked.json:
                print(rows[-1], flush=True)
    if asked.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}, indent=2))


if __name__ == "__main__":
    main()
