"""How near the full data's optimum a summary comes, beside its peers at the same memory.

    python -m tests.benchmarks.coreset --data DIR [--sets cod_rna,...] [--memory 1000,10000] [--C 1 | --alpha 1e-4]
        [--mode offline|stream] [--structure tree|chain] [--partitions 1,8,64] [--rounds 5]
        [--peers reservoir,alg2,sgd,river,vw] [--order shuffled|given|by-class|drifting] [--outliers N] [--json FILE]
        [--kernel rbf --gamma G]

One row in five, drawn with a fixed seed, is set aside for accuracy; *the full data* is the rest. Gaps are those of
`tests.benchmarks.optimum`, certified to 1e-6; `ratio` is the peer's mean gap over ours: above 1, ours is nearer.

- `offline`: one reduction of all data to `--memory` points; peer `reservoir` is a uniform sample of as many.
- `stream`: one pass. Buckets, the open leaf and the audit sample together hold `--memory` points at most; a reservoir
  has as many. `alg2` is the paper's tree with our reduction and the largest buckets that fit. SGD, river and Vowpal
  Wabbit hold a model only, each the best of its stated settings by its own gap; the last two are left out if absent.
- `--partitions P` deals the stream to P partitions in turn; each has a P-th of the memory.
- `--C` is a number or `k/n`. `--outliers N` multiplies N rows by 1,000.
- `--order`: as given; by class (all of -1 first); drifting: sorted by the first principal component, so that each leaf
  is from a part of space that no leaf before it saw.
- `--kernel rbf` compares accuracies on the rows set aside instead of gaps: the learner and a reservoir train the same
  kernel machine (C, gamma, scaler of the full data). The optimum of a kernel problem is not certified here.

A row says what our reductions met, too (`Observed` in `streamsvm.coreset.reduce`). Rates are points a
second of CPU time: compare them within a row only.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np

from streamsvm.config import SvmConfig
from streamsvm.coreset import Moments, Observed
from streamsvm.learning import train
from streamsvm.linalg import Float
from streamsvm.points import Points
from tests.benchmarks.optimum import Whole
from tests.benchmarks.runner import Kept, known, load, numbers, parser_of, sets_in, words
from tests.benchmarks.summaries import ONLINE, Method, algorithm_1, learned, offline, reservoir, shipped, uniform
from tests.config.sizes import sized

GAP: Final = 1e-6
SPLIT_SEED: Final = 7
TEST_SHARE: Final = 0.2
OUTLIER: Final = 1_000.0
PEERS: Final = ("reservoir", "alg2", "sgd", "river", "vw")
FOREIGN: Final = {"river": "river", "vw": "vowpalwabbit"}
"""Peers that are not among the requirements, and the module each needs."""
ORDERS: Final = ("shuffled", "given", "by-class", "drifting")
Cell = dict[str, float]


def divided(points: Points, outliers: int = 0) -> tuple[Points, Points]:
    """Return the full data, `outliers` of its rows multiplied, and what is set aside."""
    random = np.random.Generator(np.random.PCG64(SPLIT_SEED))
    aside = np.zeros(len(points), np.bool_)
    aside[random.permutation(len(points))[: round(TEST_SHARE * len(points))]] = True
    full = points.take(~aside)
    full.X[random.permutation(len(full))[:outliers]] *= OUTLIER
    return full, points.take(aside)


def ordered(points: Points, order: str, trial: int) -> Points:
    """Return the stream of one trial."""
    if order == "given":
        return points
    if order == "by-class":
        return points.take(np.argsort(points.y, kind="stable"))
    if order == "drifting":
        return points.take(np.argsort(first_component(points), kind="stable"))
    return points.take(np.random.Generator(np.random.PCG64(trial)).permutation(len(points)))


def first_component(points: Points) -> Float:
    """Return each point's first principal component, shape (n,), features scaled to unit variance."""
    exact = points.X.astype(np.float64)
    deviation = exact.std(axis=0)
    Z = (exact - exact.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    axis = np.linalg.eigh(Z.T @ Z)[1][:, -1]
    return np.asarray(Z @ (axis * np.sign(axis[np.argmax(np.abs(axis))])), dtype=np.float64)


def counter_of(memory: int, n: int) -> dict[str, int]:
    """Return leaf and bucket of a binary counter that holds `memory` points at its most over n rows.

    A leaf is two buckets long. With L levels at most L buckets are held, and one full leaf.
    """
    bucket = int(memory / 3)
    while bucket > 1:
        levels, leaves = 0, n // (2 * bucket)
        while 2**levels <= leaves:
            levels += 1
        if bucket * levels + 2 * bucket <= memory:
            break
        bucket -= max(1, bucket // 100)
    return {"leaf_rows": 2 * bucket, "bucket_points": bucket}


def methods(
    whole: Whole | None, svm: SvmConfig, n: int, asked: argparse.Namespace, memory: int, partitions: int
) -> Iterator[tuple[str, Method]]:
    """Yield ours, then every peer that was asked for; without a certified optimum, a reservoir."""
    own, streaming = memory // partitions, asked.mode == "stream"
    ours = learned(shipped(asked.structure, own), svm, partitions)
    yield "ours", ours if streaming else offline(memory, svm)
    if "reservoir" in asked.peers or whole is None:
        yield "reservoir", reservoir(memory) if streaming else uniform(memory)
    if whole is None:
        return
    if "alg2" in asked.peers:
        paper = sized(structure="counter", audit_points=0, **counter_of(own, n // partitions))
        alone = algorithm_1(memory, whole.penalty, whole.mean, whole.scale, whole.full.lower_bound)
        yield "alg2", learned(paper, svm, partitions) if streaming else alone
    for peer in (name for name in ONLINE if name in asked.peers):
        settings, make = ONLINE[peer]
        for setting in range(len(settings)):
            yield f"{peer}#{setting}", make(setting, whole.penalty, whole.mean, whole.scale)


def measure(whole: Whole, test: Points, method: Method, order: str, trial: int) -> Cell:
    """Return one cell: what one method made of one stream."""
    summary = method(ordered(whole.points, order, trial), trial)
    made = whole.machine(summary.kept)
    decided = ((test.X - whole.mean) / whole.scale) @ made.w + made.b > 0
    return {
        "gap": whole.gap(made),
        "accuracy": float(np.mean(decided == (test.y > 0))),
        "held": summary.held,
        "state_bytes": summary.state_bytes,
        "seconds": summary.seconds,
        **asdict(summary.observed),
    }


def measure_rbf(full: Points, test: Points, svm: SvmConfig, method: Method, order: str, trial: int) -> Cell:
    """Return one cell of a kernel machine, trained under the moments of the full data."""
    summary = method(ordered(full, order, trial), trial)
    assert isinstance(summary.kept, Points)
    trained = train(summary.kept, Moments.zero(full.dimension).add(full), svm)
    right = trained.model.predict_sign(test.X) == test.y
    return {"accuracy": float(np.mean(right)), "held": summary.held, "seconds": summary.seconds}


def run(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure what is not kept yet; return the rows."""
    kept, rows = Kept(asked.json), list[dict[str, Any]]()
    for name in sets_in(asked.data, asked.sets):
        full, test = divided(load(name, asked.data), asked.outliers)
        svm = SvmConfig(C=asked.svm / len(full)) if isinstance(asked.svm, float) else asked.svm
        if asked.kernel == "rbf":
            svm = kernel_of(svm, asked.gamma)
            whole, judge = None, partial(measure_rbf, full, test, svm)
        else:
            whole = Whole.of(full, svm, GAP)
            judge = partial(measure, whole, test)
        for memory, partitions in product(asked.memory, asked.partitions):
            if memory >= len(full):
                continue
            label = label_of(name, svm.penalty(float(len(full))), asked, memory, partitions)
            found = {
                peer: [
                    kept.get(f"{label}/{peer}/{trial}", partial(judge, method, asked.order, trial))
                    for trial in range(asked.rounds)
                ]
                for peer, method in methods(whole, svm, len(full), asked, memory, partitions)
            }
            for row in rows_of(label, full, found):
                rows.append(row)
                print(line(row), flush=True)
    return rows


def kernel_of(svm: SvmConfig, gamma: float | str) -> SvmConfig:
    """Return the options of a kernel machine of the same C, with the hinge, as the papers have it."""
    return SvmConfig(**svm.model_dump(exclude={"kernel", "gamma", "loss"}), kernel="rbf", gamma=gamma, loss="hinge")


def label_of(name: str, penalty: float, asked: argparse.Namespace, memory: int, partitions: int) -> str:
    """Return what a row is called, by which its cells are kept."""
    kernel = "" if asked.kernel == "linear" else f"/rbf/gamma={asked.gamma}"
    structure = f"/{asked.structure}" if asked.mode == "stream" else ""
    shared = f"/{partitions}-partitions" if partitions > 1 else ""
    outliers = f"/{asked.outliers}-outliers" if asked.outliers else ""
    return f"{name}{kernel}/{asked.mode}{structure}{shared}/{asked.order}/C={penalty:.4g}{outliers}/{memory}"


def rows_of(label: str, full: Points, found: Mapping[str, Sequence[Cell]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each peer, of its best setting."""
    ours, peers = found["ours"], dict[str, Sequence[Cell]]()
    for name, cells in found.items():
        peer = name.split("#")[0]
        if peer != "ours" and (peer not in peers or mean(cells, "gap") < mean(peers[peer], "gap")):
            peers[peer] = cells
    for peer, cells in peers.items():
        row: dict[str, Any] = {"case": label, "n": len(full), "d": full.dimension, "peer": peer}
        for prefix, own in (("", ours), ("peer_", cells)):
            row |= {f"{prefix}{figure}": mean(own, figure) for figure in ("gap", "accuracy") if figure in own[0]}
            row[f"{prefix}memory_points"] = max(int(cell["held"]) for cell in own)
            row[f"{prefix}points_per_s"] = len(full) / max(mean(own, "seconds"), 1e-9)
        if "gap" in row:
            row["gap_max"], row["ratio"] = max(cell["gap"] for cell in ours), row["peer_gap"] / row["gap"]
            row |= {name: max(cell[name] for cell in ours) for name in ("state_bytes", *asdict(Observed()))}
        yield row


def mean(cells: Sequence[Cell], figure: str) -> float:
    """Return the mean of a figure over the trials."""
    return float(np.mean([cell[figure] for cell in cells]))


def line(row: Mapping[str, Any]) -> str:
    """Return a row for people."""
    gaps = observed = ""
    if "gap" in row:
        gaps = f"gap {row['gap']:.2e} (max {row['gap_max']:.2e}) {row['peer_gap']:.2e} ratio {row['ratio']:7.2f} "
        observed = " | " + ", ".join(f"{name} {row[name]:.4g}" for name in asdict(Observed()))
    return (
        f"{row['case']:<58} held {row['memory_points']:>7,} {row['peer']:<9} {gaps}accuracy {row['accuracy']:.4f} "
        f"{row['peer_accuracy']:.4f} points/s {row['points_per_s']:,.0f} {row['peer_points_per_s']:,.0f}{observed}"
    )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a run; a peer that cannot be imported is left out, and said so."""
    parser = parser_of("coreset", __doc__, data=True)
    parser.add_argument("--memory", type=numbers, default=[1_000, 10_000])
    weight = parser.add_mutually_exclusive_group()
    weight.add_argument("--C", dest="svm", type=_penalty, default=SvmConfig(C=1.0), help="a number, or k/n")
    weight.add_argument("--alpha", dest="svm", type=lambda text: SvmConfig(alpha=float(text)))
    parser.add_argument("--mode", choices=("offline", "stream"), default="stream")
    parser.add_argument("--structure", choices=("tree", "chain"), default="chain")
    parser.add_argument("--partitions", type=numbers, default=[1])
    parser.add_argument("--peers", type=words, default=["reservoir"])
    parser.add_argument("--order", choices=ORDERS, default="shuffled")
    parser.add_argument("--outliers", type=int, default=0)
    parser.add_argument("--kernel", choices=("linear", "rbf"), default="linear")
    parser.add_argument("--gamma", type=lambda text: text if text in ("scale", "auto") else float(text), default="auto")
    asked = parser.parse_args(arguments)
    known(parser, "--peers", asked.peers, PEERS)
    absent = {peer: module for peer, module in FOREIGN.items() if not importlib.util.find_spec(module)}
    for peer in absent.keys() & set(asked.peers):
        print(f"{peer} is left out: no module {absent[peer]}", file=sys.stderr, flush=True)
        asked.peers.remove(peer)
    if not asked.peers:
        parser.error("no peer is left to compare with")
    return asked


def _penalty(text: str) -> SvmConfig | float:
    return float(text.removesuffix("/n")) if text.endswith("/n") else SvmConfig(C=float(text))


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Measure and print."""
    return run(parse(arguments))


if __name__ == "__main__":
    main()
