"""How often the shadow gate promotes whom it should not: `python -m tests.benchmarks.promotion`.

    python -m tests.benchmarks.promotion [--streams 400] [--figures cost_1,cost_50,cost_100,auc,log_loss,accuracy]
        [--positives 0.5,0.02,0.005] [--challenges 1,100] [--minutes 30] [--counted FILE] [--seed 0] [--json]

A stream has so many challenges in a row, numbered from 1, each looked at after every label until it is decided or its
labels are used up. A stream counts as promoted if any challenge was won. Of a *better* challenger only the last
challenge of the row is run, with what is left of the error then, and `labels` is by how many labels four in five have
won.

What was counted is kept in FILE, and the next run goes on from there, cell by cell, until each has its streams or the
minutes are over. `hours` sums the time of all runs.

**Streams.** Cost and accuracy: the champion misses a fifth of the positives and raises an alarm at a tenth of the
negatives, one in a hundred of each is answered differently by chance, and a challenger that is not better misses more
positives and raises fewer alarms, so that its rare mistakes are dear. AUC: normal scores, 0.85, correlated by 0.8; a
challenger that is not better loses one in fifty positives below all others and orders the rest better. Log loss:
probabilities of logistic scores with noise of its own each. 15 % worse means 1.15 times the cost, the errors, the log
loss or 1 - AUC.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from numba import njit
from scipy.special import expit, ndtri
from scipy.stats import beta

from streamsvm.branches.challenges.betting import BETS, BLOCK, Float, alpha_of, block_differences
from streamsvm.branches.challenges.rule import LEAST_PROBABILITY, MOST_LOSS

TRUTHS: Final = {"equal": 1.0, "5 % worse": 1.05, "7 % worse": 1.07, "15 % worse": 1.15, "15 % better": 0.85}
COSTS: Final = {"cost_1": 1.0, "cost_50": 50.0, "cost_100": 100.0, "accuracy": 1.0}
MOST_LABELS: Final = {"better": 400_000, "other": 20_000}
"""Labels of a challenge of each kind at most."""
PORTION: Final = 20_000
"""Labels that are made at once."""
AUC, CORRELATION, LOST = 0.85, 0.8, 0.02
NOISE: Final = 1.2
"""Deviation of the champion's noise of logistic scores, whose own deviation is 2."""


@dataclass(kw_only=True)
class Row:
    """What was counted in a cell.

    Attributes
    ----------
    figure, truth : str
    positives, cost : float
        Share of positives; of a missed one, where a false alarm costs 1.
    challenges, streams, promoted : int
    upper : float
        Of the share promoted: 95 %, one-sided (Clopper and Pearson 1934).
    labels : int or None
        Of a better challenger, by how many labels four in five streams have won.
    """

    figure: str
    positives: float
    cost: float
    truth: str
    challenges: int
    streams: int = 0
    promoted: int = 0
    upper: float = 1.0
    labels: int | None = None
    won_at: list[int] = field(default_factory=list)

    def add(self, won_at: int) -> None:
        """Count a stream: at which label the challenger won, 0 if never."""
        self.streams += 1
        if won_at:
            self.promoted += 1
            self.won_at.append(won_at)
        self.upper = upper(self.promoted, self.streams)
        if self.truth.endswith("better"):
            need = -(-4 * self.streams // 5)
            self.labels = sorted(self.won_at)[need - 1] if self.promoted >= need else None


def upper(promoted: int, streams: int) -> float:
    """Return the 95 % upper bound of a share."""
    return 1.0 if promoted == streams else float(beta.ppf(0.95, promoted + 1, streams - promoted))


@njit(cache=True)
def decide(at, differences, bets, need, better, worse):  # type: ignore[no-untyped-def]
    """Add differences, one after another; return the label at which it is won, minus it if lost, or 0.

    Wealths are multiplied and not their logarithms added, which takes a tenth of the time. One that is too small for a
    number stays 0: it would have to grow by e^700 to matter.
    """
    enough, of_better, of_worse = np.exp(need) * len(bets), np.exp(better), np.exp(worse)
    for i in range(len(differences)):
        win, loss = 0.0, 0.0
        for k in range(len(bets)):
            step = bets[k] * differences[i]
            of_better[k] *= 1.0 + step
            of_worse[k] *= 1.0 - step
            win += of_better[k]
            loss += of_worse[k]
        if win >= enough:
            return at[i] + 1
        if loss >= enough:
            return -(at[i] + 1)
    better[:], worse[:] = np.log(of_better), np.log(of_worse)
    return 0


def challenge(cell: Row, number: int, random: np.random.Generator, most: int) -> int:
    """Return the label at which a made challenge of this number was won; 0 if it was not."""
    better, worse, need = np.zeros(len(BETS)), np.zeros(len(BETS)), -np.log(alpha_of(number))
    for begin in range(0, most, PORTION):
        at, differences = DIFFERENCES.get(cell.figure, of_answers)(cell, random)
        decided = decide(at, differences, BETS, need, better, worse)
        if decided:
            return begin + decided if decided > 0 else 0
    return 0


def of_answers(cell: Row, random: np.random.Generator) -> tuple[Any, Float]:
    """Return where the two answer differently, and what that saved, of the greater cost."""
    share, cost, truth = cell.positives, cell.cost, TRUTHS[cell.truth]
    mean = share * 0.2 * cost + (1.0 - share) * 0.1
    if truth < 1.0:
        missed, saved = 0.2 * (truth - 1.0), 0.1 * (1.0 - truth)
    else:
        missed = min(0.4, (0.03 * (1.0 - share) + (truth - 1.0) * mean) / (share * cost))
        saved = (missed * share * cost - (truth - 1.0) * mean) / (1.0 - share)
    return answers(random, PORTION, share, cost, missed, -saved)


@njit(cache=True)
def answers(random, n, share, cost, missed, alarmed):  # type: ignore[no-untyped-def]
    """Return the rows that differ: one in a hundred by chance, half of them to either side, and what makes the truth.

    Only these are drawn: the gap to the next one is geometric.
    """
    apart = 0.01 + abs(missed), 0.01 + abs(alarmed)
    of_positive = share * apart[0]
    most = of_positive + (1.0 - share) * apart[1]
    at, differences = np.empty(n, np.int64), np.empty(n)
    count, row = 0, random.geometric(most) - 1
    while row < n:
        positive = random.random() * most < of_positive
        lost, u = (missed, random.random() * apart[0]) if positive else (alarmed, random.random() * apart[1])
        sign = 1.0 if u < 0.005 else -1.0 if u < 0.01 else -np.sign(lost)
        at[count], differences[count] = row, sign * (cost if positive else 1.0) / cost
        count += 1
        row += random.geometric(most)
    return at[:count], differences[:count]


def of_orders(cell: Row, random: np.random.Generator) -> tuple[Any, Float]:
    """Return where blocks end, and their differences."""
    truth = TRUTHS[cell.truth]
    area = 1.0 - truth * (1.0 - AUC)
    lost = LOST if truth >= 1.0 else 0.0
    apart = np.array([ndtri(AUC), ndtri(area / (1.0 - lost))]) * np.sqrt(2.0)
    positive, old, new = scores(random, PORTION, cell.positives, apart, lost)
    found = np.empty(PORTION)
    count = block_differences(np.zeros(PORTION, np.int64), positive, old, new, BLOCK, found)
    return (np.arange(1, count + 1) * PORTION) // (count + 1), found[:count]


@njit(cache=True)
def scores(random, n, share, apart, lost):  # type: ignore[no-untyped-def]
    """Return labels, and normal scores of two machines; `lost` positives stand below all others in the second."""
    positive, old, new = np.empty(n, np.bool_), np.empty(n), np.empty(n)
    alike, own = np.sqrt(CORRELATION), np.sqrt(1.0 - CORRELATION)
    for i in range(n):
        positive[i] = random.random() < share
        shared = alike * random.standard_normal()
        old[i] = shared + own * random.standard_normal() + apart[0] * positive[i]
        new[i] = shared + own * random.standard_normal() + apart[1] * positive[i]
        if positive[i] and random.random() < lost:
            new[i] = -99.0
    return positive, old, new


def of_probabilities(cell: Row, random: np.random.Generator) -> tuple[Any, Float]:
    """Return every row, and its differences of clipped log losses."""
    noise = noise_of(cell.positives, TRUTHS[cell.truth])
    return np.arange(PORTION), loss_differences(random, PORTION, float(ndtri(cell.positives)) * 2.5, noise)


@njit(cache=True)
def loss_differences(random, n, middle, noise):  # type: ignore[no-untyped-def]
    """Return the differences of clipped log losses of two machines whose logits have noise of their own."""
    differences = np.empty(n)
    for i in range(n):
        logit = middle + 2.0 * random.standard_normal()
        sign = 1.0 if random.random() * (1.0 + np.exp(-logit)) < 1.0 else -1.0
        old = clipped_loss(sign * (logit + NOISE * random.standard_normal()))
        new = clipped_loss(sign * (logit + noise * random.standard_normal()))
        differences[i] = (old - new) / MOST_LOSS
    return differences


@njit(cache=True)
def clipped_loss(margin):  # type: ignore[no-untyped-def]
    """Return the log loss of a logit, positive towards the truth."""
    return -np.log(min(max(1.0 / (1.0 + np.exp(-margin)), LEAST_PROBABILITY), 1.0 - LEAST_PROBABILITY))


def losses(positive: Any, logits: Float) -> Float:
    """Return clipped log losses."""
    of_truth = np.where(positive, expit(logits), expit(-logits))
    return np.asarray(-np.log(np.clip(of_truth, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)))


_NOISES: dict[tuple[float, float], float] = {}


def noise_of(share: float, truth: float) -> float:
    """Return the noise with which the mean loss is `truth` times the champion's, by bisection over fixed quantiles."""
    if truth == 1.0:
        return NOISE
    if (share, truth) not in _NOISES:
        grid = ndtri((np.arange(400) + 0.5) / 400)
        logits, noise = ndtri(share) * 2.5 + 2.0 * grid[:, None], grid[None, :]

        def mean(deviation: float) -> float:
            said, true = logits + deviation * noise, expit(logits)
            return float((true * losses(True, said) + (1.0 - true) * losses(False, said)).mean())

        low, high, wanted = 0.0, 4.0, truth * mean(NOISE)
        for _ in range(50):
            middle = (low + high) / 2.0
            low, high = (middle, high) if mean(middle) < wanted else (low, middle)
        _NOISES[share, truth] = high
    return _NOISES[share, truth]


DIFFERENCES: Final = {"auc": of_orders, "log_loss": of_probabilities}


def stream(cell: Row, seed: int) -> int:
    """Return the label at which a challenge of a made stream was won; 0 if none was."""
    random = np.random.default_rng([seed, cell.streams, *cell_key(cell).encode()])
    if cell.truth.endswith("better"):
        return challenge(cell, cell.challenges, random, MOST_LABELS["better"])
    for number in range(1, cell.challenges + 1):
        if won := challenge(cell, number, random, MOST_LABELS["other"]):
            return won
    return 0


def cell_key(cell: Row) -> str:
    """Return a cell's name."""
    return f"{cell.figure} {cell.positives} {cell.truth} {cell.challenges}"


def counted(cells: list[Row], streams: int, minutes: float, seed: int, keep: Path | None) -> float:
    """Count streams, one of each cell in turn; return the hours of all runs."""
    before = json.loads(keep.read_text()) if keep is not None and keep.exists() else {"hours": 0.0, "cells": {}}
    for index, cell in enumerate(cells):
        if kept := before["cells"].get(cell_key(cell)):
            cells[index] = Row(**kept)
    began = time.monotonic()
    hours = before["hours"]
    while any(cell.streams < streams for cell in cells) and time.monotonic() - began < 60.0 * minutes:
        for cell in cells:
            until = time.monotonic() + 1.0
            while cell.streams < streams and time.monotonic() < until:
                cell.add(stream(cell, seed))
        hours = before["hours"] + (time.monotonic() - began) / 3_600.0
        if keep is not None:
            before["cells"].update({cell_key(cell): asdict(cell) for cell in cells})
            keep.write_text(json.dumps({"hours": hours, "cells": before["cells"]}))
    return float(hours)


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each cell, or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--streams", type=int, default=400)
    parser.add_argument("--figures", default=",".join([*COSTS, *DIFFERENCES]))
    parser.add_argument("--positives", default="0.5,0.02,0.005")
    parser.add_argument("--challenges", default="1,100")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--counted", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    cells = [
        Row(figure=figure, positives=float(share), cost=COSTS.get(figure, 1.0), truth=truth, challenges=int(number))
        for number, figure, share, truth in product(
            asked.challenges.split(","), asked.figures.split(","), asked.positives.split(","), TRUTHS
        )
    ]
    hours = counted(cells, asked.streams, asked.minutes, asked.seed, asked.counted)
    wrong = [cell for cell in cells if not cell.truth.endswith("better") and cell.streams]
    promoted, streams = sum(cell.promoted for cell in wrong), sum(cell.streams for cell in wrong)
    rows = [{name: value for name, value in asdict(cell).items() if name != "won_at"} for cell in cells]
    pooled = {"promoted": promoted, "streams": streams, "upper": upper(promoted, streams) if streams else 1.0}
    if asked.json:
        print(json.dumps({"rows": rows, "pooled": pooled, "hours": hours}, indent=2))
        return
    print(f"{'figure':9}{'positives':>10}{'cost':>6}  {'truth':12}{'challenges':>10}{'streams':>8}{'promoted':>9}"
          f"{'upper':>8}{'labels':>9}")  # fmt: skip
    for row in rows:
        print(f"{row['figure']:9}{row['positives']:>10}{row['cost']:>6.0f}  {row['truth']:12}{row['challenges']:>10}"
              f"{row['streams']:>8,}{row['promoted']:>9,}{row['upper']:>8.4f}{row['labels'] or '-':>9}")  # fmt: skip
    print(
        f"pooled, equal and worse: {promoted:,} of {streams:,} promoted, at most {pooled['upper']:.4f}; {hours:.2f} h"
    )


if __name__ == "__main__":
    main()
