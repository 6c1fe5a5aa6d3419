"""Bounds of versions against what they follow from: a checker of plain values, itself held against exact fractions."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest

from streamsvm.branches.bounds import dual_solving
from streamsvm.model.kernels import LinearKernel
from streamsvm.model.machine import LinearMachine
from streamsvm.svm.block.interior_point import InteriorPointSolver
from streamsvm.svm.feasible import balanced
from streamsvm.svm.objective import primal_objective
from streamsvm.svm.problem import Problem
from tests.branches.bounds.checker import Refused, check
from tests.branches.bounds.learned import learned, stream
from tests.branches.bounds.proofs import Plain, proof_of
from tests.branches.bounds.test_standing import config, made_of, points


def refusal(proof: Any) -> str:
    """Return why a proof is refused; empty where it is accepted."""
    try:
        check(proof)
    except (Refused, LookupError, TypeError, ValueError, ArithmeticError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def proven(seed: int = 0, n: int = 3_000, **coreset: Any) -> Plain:
    """Return the proof of a small stream's version."""
    found = proof_of(made_of(points(n, seed=seed, noise=0.3), config(**coreset)))
    assert found is not None
    return found


def test_bounds_of_versions_follow() -> None:
    """Those of small streams, one or several epochs long, and of a version whose upper bound an audit estimates."""
    proofs = [proven(), proven(seed=3, structure="tree"), proven(n=400)]
    assert any(len(proof["epochs"]) > 1 for proof in proofs)
    estimated = copy.deepcopy(proofs[0])
    estimated["claim"] |= {"kind": "estimated", "upper": estimated["claim"]["lower"] * 1.001}
    assert [refusal(proof) for proof in [*proofs, estimated]] == [""] * 4


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_a_refuted_upper_bound_gives_way_to_the_proven_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Multipliers are then as good as the proven one deserves, and no dearer method is asked to improve them."""
    monkeypatch.setattr(dual_solving, "_from_inside", None)
    random, n = np.random.default_rng(seed), 8_000
    y = np.where(random.random(n) < 0.4, 1, -1).astype(np.int8)
    Z, upper = random.standard_normal((n, 6)) + 0.5 * y[:, None], np.full(n, 0.3)
    problem = Problem(Z=Z, y=y, upper=upper, kernel=LinearKernel(), tolerance=1e-9, max_iterations=100)
    best = InteriorPointSolver(1e-12).solve(problem)
    assert best.coefficients is not None
    machine = LinearMachine(best.coefficients, best.intercept)
    value = primal_objective(
        Z @ machine.coefficients + machine.intercept, y, upper, float(best.coefficients @ best.coefficients)
    )
    alpha = dual_solving.near_optimum(Z, y, upper, machine, 0.99 * value, 1.0001 * value)
    alpha = balanced(y, np.minimum(alpha, upper))
    w = np.einsum("i,ij->j", alpha * y, Z)
    assert value >= float(alpha.sum() - 0.5 * np.square(w).sum()) >= (1.0 - 2e-6) * value


def test_bounds_of_hostile_streams_follow() -> None:
    """Offsets of a million, weights of as much, collinear columns, partitions, restarts."""
    found = [proof_of(learned(stream(number))[0]) for number in range(30)]
    proofs = [proof for proof in found if proof is not None]
    assert len(proofs) > 10
    assert [why for proof in proofs if (why := refusal(proof))] == []


@pytest.mark.long(keep=("30",))
@pytest.mark.parametrize("count", [30, 200])
def test_corrupted_proofs_are_refused(count: int) -> None:
    """So many, of which exact fractions say that the claim does not follow; the others still follow."""
    small = {"leaf_rows": 60, "bucket_points": 200, "n": 1_200, "audit_points": 0}  # nothing is estimated
    whole, random = [proven(**small), proven(seed=3, structure="tree", **small)], np.random.default_rng(0)
    assert all(follows(proof) for proof in whole)
    refused: list[Plain] = []
    while len(refused) < count:
        proof = copy.deepcopy(whole[len(refused) % 2])
        corrupt(proof, random)
        if not follows(proof):
            refused.append(proof)
    assert [proof["corrupted"] for proof in refused if not refusal(proof)] == []


def test_what_is_no_proof_is_refused() -> None:
    """Numbers that are none, arrays of other lengths, claims that cannot be."""
    whole = proven()
    changed: list[Plain] = [
        {"C": "1"},
        {"C": math.nan},
        {"mean": whole["mean"][1:]},
        {"X": whole["X"][1:]},
        {"y": [0, *whole["y"][1:]]},
        {"multipliers": [0.5, *whole["multipliers"][1:]]},
        {"multipliers": [-1, *whole["multipliers"][1:]]},
        {"epochs": [{**whole["epochs"][0], "rows": 0}, *whole["epochs"][1:]]},
        {"epochs": [{**whole["epochs"][0], "factor": []}, *whole["epochs"][1:]]},
        {"X": [list(row) for row in np.reshape(whole["X"], (len(whole["mean"]), -1)).tolist()]},
        {"unit": str(whole["unit"])},
        {"claim": {**whole["claim"], "lower": math.nan}},
        {"claim": {**whole["claim"], "kind": "estimated", "lower": "0.5", "upper": "0.4"}},
        {"claim": {**whole["claim"], "kind": "certain"}},
        {"claim": {**whole["claim"], "upper": 0.0, "lower": 0.0}},
    ]
    assert [one for one in changed if not refusal({**whole, **one})] == []


@pytest.mark.parametrize(
    "told",
    [{"length": 0.0, "nearest": 0.0}, {"nearest": 1e6}, {"active": False}],
    ids=["no length", "far away", "another side"],
)
def test_totals_that_no_rows_have_are_refused(told: dict[str, float]) -> None:
    """With them nearly any upper bound would follow, down to the lower one."""
    proof = proven(leaf_rows=60, bucket_points=200, n=1_200)
    for epoch in proof["epochs"]:
        epoch |= {name: [value] * len(epoch["label"]) for name, value in told.items()}
    assert "rows with such sums" in refusal(proof)


# ---------------------------------------------------------------- the oracle


def exact(values: Any) -> Any:
    """Return exact fractions of numbers, nested as they are."""
    return [exact(one) for one in values] if isinstance(values, list) else Fraction(values)


def follows(proof: Plain) -> bool:
    """Tell by exact fractions, roots aside, whether a claim follows from a proof that is well formed."""
    claim, C = proof["claim"], Fraction(proof["C"])
    of_label = {-1: C * Fraction(proof["class_weight"][0]), 1: C * Fraction(proof["class_weight"][1])}
    mean, scale, w = exact(proof["mean"]), exact(proof["scale"]), exact(proof["coefficients"])
    b, d = Fraction(proof["intercept"]), len(mean)
    if claim["rows"] != len(proof["y"]) + sum(one["rows"] for one in proof["epochs"]):
        return False
    Z = [[(x - m) / s for x, m, s in zip(exact(row), mean, scale, strict=True)] for row in proof["X"]]
    upper = [of_label[y] * Fraction(u) for y, u in zip(proof["y"], proof["weight"], strict=True)]
    labels = list(proof["y"])
    most = sum(one * one for one in w) / 2
    most += sum(c * max(Fraction(0), slack(y, z, w, b)) for c, y, z in zip(upper, labels, Z, strict=True))
    error = [Fraction(0)] * d
    for told in proof["epochs"]:
        there = [i * s for i, s in zip(exact(told["inverse_scale"]), scale, strict=True)]
        shift = [(c - m) / s for c, m, s in zip(exact(told["centre"]), mean, scale, strict=True)]
        now = [one / t for one, t in zip(w, there, strict=True)] + [b + sum(map(lambda p, q: p * q, w, shift))]
        moved = norm(told["factor"], [p - q for p, q in zip(now, exact(told["machine"]), strict=True)])
        greatest = max(of_label.values())
        error = [e + greatest * q / t for e, q, t in zip(error, exact(told["error"]), there, strict=True)]
        if not any_rows_have(told):
            return False
        for at, y in enumerate(told["label"]):
            u = Fraction(told["weight"][at])
            z = [p + q / u / t for p, q, t in zip(shift, exact(told["sums"][at]), there, strict=True)]
            c = of_label[y] * u
            labels.append(y)
            Z.append(z)
            upper.append(c)
            most += c * slack(y, z, w, b) if told["active"][at] else 0
            excess = max(Fraction(0), moved - Fraction(told["nearest"][at]))
            most += of_label[y] * excess * Fraction(told["length"][at])
    most += sum(e * abs(one) for e, one in zip(error, w, strict=True))
    units = proof["multipliers"]
    a = [one * Fraction(proof["unit"]) for one in units]
    if sum(one * y for one, y in zip(units, labels, strict=True)) or min(units) < 0:
        return False
    if any(one > c for one, c in zip(a, upper, strict=True)):
        return False
    sums = [abs(sum(one * y * z[j] for one, y, z in zip(a, labels, Z, strict=True) if one)) for j in range(d)]
    least = sum(a) - sum((one + e) ** 2 for one, e in zip(sums, error, strict=True)) / 2
    # Arithmetic of 64 bits cannot tell what is nearer than this.
    return claim["lower"] <= least * (1 + Fraction(1, 10**9)) and claim["upper"] >= most * (1 - Fraction(1, 10**9))


def any_rows_have(told: Plain) -> bool:
    """Tell whether any rows have the sums, lengths and sides of an epoch's strata, by what convexity says of them."""
    rows, margin, lost = told["factor"], 1 + Fraction(1, 10**9), [*exact(told["error"]), Fraction(0)]
    d = len(told["centre"])
    P = [[Fraction(0)] * at + exact(rows[0][:1] if len(rows) == 1 else rows[at]) for at in range(d + 1)]
    P = [row + [Fraction(0)] * (d + 1 - len(row)) for row in P]
    for at, y in enumerate(told["label"]):
        u, length = Fraction(told["weight"][at]), Fraction(told["length"][at])
        whole = [*exact(told["sums"][at]), u]
        least = math.sqrt(sum(sum(whole[j] * P[j][k] for j in range(d + 1)) ** 2 for k in range(d + 1)))
        wide = [abs(one) / 10**9 + e for one, e in zip(whole, lost, strict=True)]
        beside = math.sqrt(sum(sum(wide[j] * abs(P[j][k]) for j in range(d + 1)) ** 2 for k in range(d + 1)))
        if length < least - beside:
            return False
        side = 1 if told["active"][at] else -1
        away = side * (u - y * sum(p * q for p, q in zip(whole, exact(told["machine"]), strict=True)))
        around = sum(p * abs(q) for p, q in zip(wide, exact(told["machine"]), strict=True))
        if Fraction(told["nearest"][at]) * length > away * (margin if away > 0 else 1 / margin) + around:
            return False
    return True


def slack(y: int, z: list[Fraction], w: list[Fraction], b: Fraction) -> Fraction:
    return 1 - y * (sum(p * q for p, q in zip(z, w, strict=True)) + b)


def norm(factor: list[list[float]], change: list[Fraction]) -> Fraction:
    """Return |P^-1 change|, the root rounded."""
    n = len(change)
    rows = [[Fraction(factor[0][0])] + [Fraction(0)] * (n - 1 - at) for at in range(n)] if len(factor) == 1 else None
    P = rows or exact(factor)
    found = [Fraction(0)] * n
    for at in reversed(range(n)):
        rest = change[at] - sum(P[at][k - at] * found[k] for k in range(at + 1, n))
        found[at] = rest / P[at][0]
    return Fraction(math.sqrt(sum(one * one for one in found)))


# ---------------------------------------------------------------- corruptions


def corrupt(proof: Plain, random: np.random.Generator) -> None:
    """Change one thing of a proof; `corrupted` names it."""
    names = sorted(CORRUPT)
    proof["corrupted"] = name = names[int(random.integers(len(names)))]
    CORRUPT[name](proof, random)


def _claims_more_from_below(proof: Plain, random: np.random.Generator) -> None:
    proof["claim"]["lower"] *= 1.0 + 10.0 ** random.uniform(-6, 0)


def _claims_more_from_above(proof: Plain, random: np.random.Generator) -> None:
    proof["claim"]["upper"] *= 1.0 - 10.0 ** random.uniform(-6, -1)


def _another(proof: Plain, name: str, random: np.random.Generator) -> None:
    """Change one number of a list, or of a list of lists."""
    values = proof[name]
    at = int(random.integers(len(values)))
    if isinstance(values[at], list):
        values, at = values[at], int(random.integers(len(values[at])))
    values[at] = values[at] + random.choice([-1.0, 1.0]) * 10.0 ** random.uniform(-3, 2) * max(1.0, abs(values[at]))


def _flips_a_label(proof: Plain, random: np.random.Generator) -> None:
    at = int(random.integers(len(proof["y"])))
    proof["y"][at] *= -1


def _drops_a_row(proof: Plain, random: np.random.Generator) -> None:
    at = int(random.integers(len(proof["y"])))
    for name in ("X", "y", "weight", "multipliers"):
        proof[name].pop(at)
    proof["claim"]["held"] -= 1


def _drops_an_epoch(proof: Plain, _: np.random.Generator) -> None:
    told = proof["epochs"].pop()
    proof["claim"]["strata"] -= len(told["label"])
    proof["multipliers"] = proof["multipliers"][: len(proof["multipliers"]) - len(told["label"])]


def _turns_a_side(proof: Plain, random: np.random.Generator) -> None:
    told = proof["epochs"][int(random.integers(len(proof["epochs"])))]
    at = int(random.integers(len(told["active"])))
    told["active"][at] = not told["active"][at]


def _of_an_epoch(name: str) -> Callable[[Plain, np.random.Generator], None]:
    def change(proof: Plain, random: np.random.Generator) -> None:
        told = proof["epochs"][int(random.integers(len(proof["epochs"])))]
        _another(told, name, random)
        if name in ("weight", "length", "error", "inverse_scale"):
            told[name] = [max(1e-9, abs(one)) for one in told[name]]

    return change


def _turns_all_sides(proof: Plain, random: np.random.Generator) -> None:
    for told in proof["epochs"]:
        told["active"] = [False] * len(told["active"])
    proof["claim"]["upper"] *= 1.0 - 10.0 ** random.uniform(-6, -1)


def _moves_all_away(proof: Plain, random: np.random.Generator) -> None:
    for told in proof["epochs"]:
        told["nearest"] = [one + 10.0 ** random.uniform(-2, 3) for one in told["nearest"]]


def _shortens_all(proof: Plain, random: np.random.Generator) -> None:
    for told in proof["epochs"]:
        told["length"] = [one * 10.0 ** random.uniform(-3, -1) for one in told["length"]]


def _moves_a_multiplier(proof: Plain, random: np.random.Generator) -> None:
    units = proof["multipliers"]
    used = [at for at, one in enumerate(units) if one]
    units[used[int(random.integers(len(used)))]] += int(random.integers(1, 2**40))


def _scales_all_multipliers(proof: Plain, random: np.random.Generator) -> None:
    proof["unit"] *= 1.0 + 10.0 ** random.uniform(-4, 0)


def _another_machine(proof: Plain, random: np.random.Generator) -> None:
    proof["intercept"] += random.choice([-1.0, 1.0]) * 10.0 ** random.uniform(-2, 1)


CORRUPT: Final[dict[str, Callable[[Plain, np.random.Generator], None]]] = {
    "a greater lower bound": _claims_more_from_below,
    "a smaller upper bound": _claims_more_from_above,
    "a label": _flips_a_label,
    "a row": _drops_a_row,
    "an epoch": _drops_an_epoch,
    "a side": _turns_a_side,
    "all sides": _turns_all_sides,
    "all distances": _moves_all_away,
    "all lengths": _shortens_all,
    "a multiplier": _moves_a_multiplier,
    "all multipliers": _scales_all_multipliers,
    "the intercept": _another_machine,
    "a feature": lambda proof, random: _another(proof, "X", random),
    "a coefficient": lambda proof, random: _another(proof, "coefficients", random),
    "a mean": lambda proof, random: _another(proof, "mean", random),
    **{f"{name} of an epoch": _of_an_epoch(name) for name in ("sums", "weight", "machine", "centre", "length")},
}
