"""Kernel machines as they are published: bytes of the message against accuracy, log loss and time of scoring.

    python -m tests.benchmarks.published --data DIR [--sets ijcnn1,cod_rna,skin] [--rows 60000] [--gamma 2] [--C 10]
        [--landmarks 64,256,1024,2048,4096] [--trials 2] [--json]

Each trial shuffles a set, trains on `--rows` of it (fewer where a fifth of the set is left: that is held out) and
writes the one machine down in several ways, none of which sees the held-out rows. gamma is in units of 1 / d.

- `double`: all support vectors, 64 bits a number. `half`: `svm.precision = half`, 16 bits a feature, 32 a coefficient.
  `eight bits`: 256 steps from each feature's least to its greatest value, 32 bits a coefficient.
- `landmarks M`: over M support vectors, refitted (`svm.landmarks`), 64 bits a number; `half M`: the same in half
  precision. `random M`: over M of them drawn at random, their coefficients multiplied so that each label keeps its sum.

`bytes` are those of the numbers in base64, as in a message. The sigmoid of `log_loss` is fitted to a tenth of the
training rows that the machine was not trained on. `us_a_row` is the CPU time of `KernelMachine.decide`, blocks of 1,024
rows, one thread. Figures are means over trials.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from streamsvm.config import support_vector_bytes
from streamsvm.estimators import STDASVC
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.model.machine import KernelMachine
from streamsvm.svm.fit_landmarks import decisions, fewer_terms
from streamsvm.svm.fit_probability import fit_probability

SIGMOID_SHARE: Final = 0.1
STEPS: Final = 255
LAPS: Final = 3


def forms(machine: KernelMachine, Z: Float, y: Any, counts: list[int], seed: int) -> Iterator[tuple[str, Any, int]]:
    """Yield a name, a machine and the bytes of a support vector."""
    d = Z.shape[1]
    double, half = support_vector_bytes(d), support_vector_bytes(d, precision="half")
    yield "double", machine, double
    yield "half", machine.halved(), half
    least, greatest = machine.support.min(axis=0), machine.support.max(axis=0)
    step = np.where(greatest > least, (greatest - least) / STEPS, 1.0)
    rounded = np.round((machine.support - least) / step) * step + least
    yield "eight bits", KernelMachine(machine.kernel, rounded, machine.dual, machine.intercept), (d + 4) * 4 // 3
    random = np.random.default_rng(seed)
    for count in counts:
        if count >= len(machine.dual):
            continue
        fewer = fewer_terms(machine, Z, y, np.ones(len(y)), count)
        yield f"landmarks {count}", fewer, double
        yield f"half {count}", fewer.halved(), half
        drawn = np.sort(random.choice(len(machine.dual), count, replace=False))
        dual = machine.dual[drawn]
        for sign in (-1, 1):
            own, whole = dual * sign > 0, machine.dual * sign > 0
            dual[own] *= machine.dual[whole].sum() / dual[own].sum() if own.any() else 1.0
        yield f"random {count}", KernelMachine(machine.kernel, machine.support[drawn], dual, machine.intercept), double


def trial(X: Float, y: Any, options: argparse.Namespace, seed: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each form."""
    order = np.random.default_rng(seed).permutation(len(y))
    held = len(y) // 5
    train, test = order[held : held + options.rows], order[:held]
    mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
    Z, T = ((X[rows] - mean) / np.where(scale > 0.0, scale, 1.0) for rows in (train, test))
    own, answers = y[train], y[test]
    fitted = int(SIGMOID_SHARE * len(train))
    machine = STDASVC(kernel="rbf", gamma=options.gamma / X.shape[1], C=options.C).fit(Z[fitted:], own[fitted:])
    kernel = RbfKernel(options.gamma / X.shape[1])
    support = np.ascontiguousarray(machine.support_vectors_, dtype=np.float64)
    whole = KernelMachine(kernel, support, np.ravel(machine.dual_coef_), float(machine.intercept_[0]))
    rows = np.ascontiguousarray(Z[fitted:])
    for name, one, size in forms(whole, rows, own[fitted:].astype(np.int8), options.landmarks, seed):
        decision = decisions(one, np.ascontiguousarray(T))
        beside = decisions(one, np.ascontiguousarray(Z[:fitted]))
        sigmoid = fit_probability("sigmoid", beside, own[:fitted].astype(np.int8), np.ones(fitted))
        laps = []
        for _ in range(LAPS):
            begun = time.thread_time()
            one.decide(T[:4_096])
            laps.append((time.thread_time() - begun) / len(T[:4_096]))
        yield {
            "form": name,
            "support": len(one.dual),
            "bytes": len(one.dual) * size,
            "accuracy": float(np.mean(np.where(decision > 0.0, 1, -1) == answers)),
            "log_loss": float(log_loss(answers, sigmoid.of(decision))),
            "us_a_row": 1e6 * min(laps),
        }


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Kernel machines as they are published.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", type=lambda said: said.split(","), default=["ijcnn1", "cod_rna", "skin"])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--gamma", type=float, default=2.0, help="in units of 1 / d")
    parser.add_argument("--C", type=float, default=10.0)
    parser.add_argument(
        "--landmarks", type=lambda said: [int(one) for one in said.split(",")], default=[64, 256, 1_024, 2_048, 4_096]
    )
    parser.add_argument("--trials", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if missing := [name for name in options.sets if not (options.data / f"{name}.npz").exists()]:
        parser.error(f"no {missing[0]}.npz in {options.data}")
    if not options.json:
        print(f"{'set':<12} {'form':<15} {'support':>8} {'kB':>8} {'accuracy':>9} {'log loss':>9} {'us a row':>9}")
    with threadpool_limits(1):
        for name in options.sets:
            with np.load(options.data / f"{name}.npz") as held:
                X, y = held["X"].astype(np.float64), np.where(held["y"] > 0, 1, -1)
            found: dict[str, list[dict[str, Any]]] = {}
            for seed in range(options.trials):
                for row in trial(X, y, options, seed):
                    found.setdefault(row.pop("form"), []).append(row)
            for form, rows in found.items():
                row = {key: float(np.mean([one[key] for one in rows])) for key in rows[0]}
                if options.json:
                    print(json.dumps({"set": name, "form": form, "trials": len(rows), **row}), flush=True)
                    continue
                print(
                    f"{name:<12} {form:<15} {row['support']:>8,.0f} {row['bytes'] / 1e3:>8,.0f} "
                    f"{100 * row['accuracy']:>9.3f} {row['log_loss']:>9.4f} {row['us_a_row']:>9.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
