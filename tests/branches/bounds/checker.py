"""Checks that the bounds of a version follow from its proof, with numpy and nothing of the product: an oracle.

With z = (x - mean) / scale and c_i = C weight_i k(y_i), k the
class weights, a proof claims of the machine v = (w, b), of all machines, and of all rows i of a stream:

    lower <= F(any machine),  F(v) <= upper,  F(v) = |w|^2 / 2 + sum_i c_i max(0, 1 - y_i (<w, z_i> + b)).

Some rows it holds as they are. Of the others it has strata: sets of rows of one label, all on one side of the hinge's
kink under a machine v0 of an earlier time, with their sums. It proves the claim by three facts:

1. The hinge of a stratum's mean, times its weight, is at most the sum of its rows' hinges. So the optimum over held
   rows and means is a lower bound, and every dual variable a in [0, c] with sum y a = 0 gives one:
   sum a - |sum a y z|^2 / 2.
2. |s - s0| <= |v - v0|* |row| for the slacks s, s0 of a row under v and v0, |.|* being the norm dual to the row's
   length |(z, 1) P|. Rows no nearer the kink than `nearest` lengths lose at most max(0, |v - v0|* - nearest) length by
   changing sides; all others add their slack, or nothing, as they did under v0.
3. A norm is convex, and slacks add up: the length of a stratum's sums is at most the sum of lengths, and their slack
   at least `nearest` times that.

What rounding may have moved the sums by is paid for. Arithmetic here is of 64 bits: a claim that is wrong by less than
1e-11 of its terms passes. It does not show that rows and totals are those of a log.
"""

from __future__ import annotations

from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

SLACK = 1e-11


class Refused(Exception):
    """A claim does not follow, or is not one."""


def require(holds: object, what: str) -> None:
    """Refuse where something does not hold."""
    if not holds:
        raise Refused(what)


def numbers(value: Any, *shape: int) -> NDArray[np.float64]:
    """Return finite numbers of a shape, in which -1 stands for any length."""
    array = np.array(value)
    require(array.dtype.kind in "if" and np.isfinite(array).all(), "a number is missing or not finite")
    fits = array.ndim == len(shape) and all(n in (-1, m) for n, m in zip(shape, array.shape, strict=True))
    require(fits or array.size == 0, "a number is missing")
    return array.astype(np.float64).reshape(shape)


def epoch_of(told: Any, d: int, mean: Any, scale: Any, v: Any) -> tuple[Any, ...]:
    """Return label, weight, means and sides of an epoch's strata, what their sums may be wrong by, and the excess."""
    y, weight = numbers(told["label"], -1), numbers(told["weight"], -1)
    n = len(y)
    sums, error = numbers(told["sums"], n, d), numbers(told["error"], d)
    length, nearest = numbers(told["length"], n), numbers(told["nearest"], n)
    centre, inverse = numbers(told["centre"], d), numbers(told["inverse_scale"], d)
    before, active = numbers(told["machine"], d + 1), np.array(told["active"])
    require((active.shape == (n,) and active.dtype == bool) or n == 0, "sides")
    require((weight > 0).all() and (length >= 0).all() and (error >= 0).all() and (inverse > 0).all(), "a size")
    require(type(told["rows"]) is int and told["rows"] >= n, "rows of an epoch")
    there = inverse * scale
    means = (centre - mean) / scale + sums / weight[:, None] / there
    # The version's machine over the features of then, and how far it is from the machine of then.
    now = np.append(v[:-1] / there, v[-1] + v[:-1] @ ((centre - mean) / scale))
    rows = told["factor"]
    plain = len(rows) == 1 and d > 0
    require(plain or len(rows) == d + 1, "the factor")
    P = np.eye(d + 1) * numbers(rows[0], 1) if plain else np.zeros((d + 1, d + 1))
    for at, row in enumerate([] if plain else rows):
        P[at, at:] = numbers(row, d + 1 - at)
    require((np.diag(P) > 0).all(), "the factor has no inverse")
    moved = float(np.linalg.norm(np.linalg.solve(P, now - before)))
    # Fact 3: no rows have such sums.
    whole, size = np.c_[sums, weight], np.c_[np.abs(sums) + weight[:, None] * np.abs(centre) * inverse, weight]
    wrong = SLACK * size + np.append(error, 0)
    short = np.linalg.norm(whole @ P, axis=1) - np.linalg.norm(wrong @ np.abs(P), axis=1)
    require((length >= short).all(), "lengths of rows with such sums are greater")
    away = np.where(active, 1, -1) * (weight - y * (whole @ before)) + wrong @ np.abs(before) + SLACK * weight
    require((nearest * length <= away + SLACK * np.abs(away)).all(), "rows with such sums are nearer the kink")
    return y, weight, means, active, error / there, np.maximum(0.0, moved - nearest) * length


def check(proof: Any) -> None:
    """Refuse a proof whose claim does not follow; numbers that are none or do not fit raise other errors, too."""
    claim, C = proof["claim"], float(numbers(proof["C"]))
    negative, positive = numbers(proof["class_weight"], 2)
    mean, y = numbers(proof["mean"], -1), numbers(proof["y"], -1)
    d, held = len(mean), len(y)
    scale, w, b = numbers(proof["scale"], d), numbers(proof["coefficients"], d), float(numbers(proof["intercept"]))
    Z, weight = (numbers(proof["X"], held, d) - mean) / scale, numbers(proof["weight"], held)
    require(min(C, negative, positive, *scale, *weight) > 0, "C, a scale or a weight is not positive")
    parts = [epoch_of(told, d, mean, scale, np.append(w, b)) for told in proof["epochs"]]
    require(claim["rows"] == held + sum(told["rows"] for told in proof["epochs"]), "rows are missing")
    require(claim["held"] == held and claim["strata"] == sum(len(part[0]) for part in parts), "rows are missing")
    y = np.concatenate([y, *(part[0] for part in parts)])
    require((np.abs(y) == 1).all(), "a label is neither -1 nor +1")
    c = C * np.where(y > 0, positive, negative) * np.concatenate([weight, *(part[1] for part in parts)])
    Z = np.concatenate([Z, *(part[2] for part in parts)])
    active = np.concatenate([np.ones(held, bool), *(part[3] for part in parts)])
    error = C * max(negative, positive) * sum((part[4] for part in parts), np.zeros(d))

    units = proof["multipliers"]
    require(len(units) == len(y) and all(type(one) is int and one >= 0 for one in units), "a multiplier")
    require(sum(units[at] * int(y[at]) for at in range(len(y))) == 0, "sum y a is not 0")
    a = np.array(units, dtype=np.float64) * float(numbers(proof["unit"]))
    require((a <= c).all(), "a multiplier is above C times its weight")
    terms = (a * y)[:, None] * Z
    square = sum((abs(fsum(terms[:, j])) + error[j]) ** 2 for j in range(d))
    least = fsum(a) - square / 2
    require(claim["lower"] <= least + SLACK * (fsum(a) + square), f"the lower bound is at most {least!r}")

    if claim["kind"] == "proven":
        slack = 1.0 - y * (Z @ w + b)
        slack[:held] = np.maximum(0.0, slack[:held])
        hinges = np.where(active, c * slack, 0.0)
        excess = sum(fsum(C * np.where(part[0] > 0, positive, negative) * part[5]) for part in parts)
        most = w @ w / 2 + fsum(hinges) + error @ np.abs(w) + excess
        size = w @ w + fsum(np.abs(hinges)) + excess
        require(claim["upper"] >= most - SLACK * size, f"the upper bound is at least {most!r}")
    require(0 < numbers(claim["lower"]) <= numbers(claim["upper"]), "the bounds")
    require(claim["kind"] in ("proven", "estimated"), "the kind")
