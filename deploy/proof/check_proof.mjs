// Check that the bounds of a streamsvm version follow from its proof: node check_proof.mjs FILE...
//
// The same checks as in check_proof.py, which says what is proven and why; Node.js 18 or later and nothing else.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

const SLACK = 1e-11;

class Refused extends Error {}

function require(holds, what) {
  if (!holds) throw new Refused(what);
}

// A finite number, or an array of them of a length.
function number(value) {
  require(typeof value === "number" && Number.isFinite(value), "a number is missing or not finite");
  return value;
}

function numbers(value, length) {
  require(Array.isArray(value) && (length === undefined || value.length === length), "a number is missing");
  return value.map(number);
}

function table(value, rows, columns) {
  require(Array.isArray(value) && value.length === rows, "a row is missing");
  return value.map((row) => numbers(row, columns));
}

// A sum whose rounding does not grow with the number of terms (Neumaier).
function sum(terms) {
  let total = 0, lost = 0;
  for (const term of terms) {
    const next = total + term;
    lost += Math.abs(total) >= Math.abs(term) ? total - next + term : term - next + total;
    total = next;
  }
  return total + lost;
}

const dot = (a, b) => sum(a.map((one, j) => one * b[j]));

// P u = change, P upper triangular: its rows from the diagonal on.
function dualNorm(P, change) {
  const n = change.length, u = new Array(n).fill(0);
  for (let at = n - 1; at >= 0; at -= 1) {
    let rest = change[at];
    for (let k = at + 1; k < n; k += 1) rest -= P[at][k - at] * u[k];
    u[at] = rest / P[at][0];
  }
  return Math.sqrt(dot(u, u));
}

// u P for a row u; with `size`, its terms' magnitudes instead of the terms.
const product = (u, P, size = (one) => one) =>
  u.map((_, c) => sum(u.slice(0, c + 1).map((one, k) => one * size(P[k][c - k]))));

const norm = (u) => Math.sqrt(dot(u, u));

// Fact 3: the length of a stratum's sums is at most the sum of lengths, and their slack at least `nearest` times that.
function noRowsHaveOthers({ y, weight, length, nearest, sums, error, centre, inverse, before, active, P }) {
  sums.forEach((row, at) => {
    const whole = [...row, weight[at]];
    const wrong = row.map((one, j) => SLACK * (Math.abs(one) + weight[at] * Math.abs(centre[j]) * inverse[j]) + error[j]);
    wrong.push(SLACK * weight[at]);
    const short = norm(product(whole, P)) - norm(product(wrong, P, Math.abs));
    require(length[at] >= short, "lengths of rows with such sums are greater");
    const slack = (active[at] ? 1 : -1) * (weight[at] - y[at] * dot(whole, before));
    const away = slack + dot(wrong, before.map(Math.abs)) + SLACK * weight[at];
    require(nearest[at] * length[at] <= away + SLACK * Math.abs(away), "rows with such sums are nearer the kink");
  });
}

function epochOf(told, d, mean, scale, w, b) {
  const y = numbers(told.label), n = y.length;
  const weight = numbers(told.weight, n), length = numbers(told.length, n), nearest = numbers(told.nearest, n);
  const sums = table(told.sums, n, d), error = numbers(told.error, d);
  const centre = numbers(told.centre, d), inverse = numbers(told.inverse_scale, d);
  const before = numbers(told.machine, d + 1), active = told.active;
  require(Array.isArray(active) && active.length === n && active.every((one) => typeof one === "boolean"), "sides");
  require(weight.every((one) => one > 0) && inverse.every((one) => one > 0), "a size");
  require(length.every((one) => one >= 0) && error.every((one) => one >= 0), "a size");
  require(Number.isSafeInteger(told.rows) && told.rows >= n, "rows of an epoch");
  const there = inverse.map((one, j) => one * scale[j]);
  const shift = centre.map((one, j) => (one - mean[j]) / scale[j]);
  const means = sums.map((row, at) => row.map((one, j) => shift[j] + one / weight[at] / there[j]));
  const now = [...w.map((one, j) => one / there[j]), b + dot(w, shift)];
  const change = now.map((one, j) => one - before[j]);
  const one = told.factor.length === 1 && d > 0;
  const P = one ? change.map((_, at) => [numbers(told.factor[0], 1)[0], ...new Array(d - at).fill(0)])
    : told.factor.map((row, at) => numbers(row, d + 1 - at));
  require(P.length === d + 1 && P.every((row) => row[0] > 0), "the factor has no inverse");
  const moved = dualNorm(P, change);
  noRowsHaveOthers({ y, weight, length, nearest, sums, error, centre, inverse, before, active, P });
  const excess = length.map((one, at) => Math.max(0, moved - nearest[at]) * one);
  return { y, weight, means, active, error: error.map((one, j) => one / there[j]), excess };
}

function check(proof) {
  const claim = proof.claim, C = number(proof.C), b = number(proof.intercept), unit = number(proof.unit);
  const [negative, positive] = numbers(proof.class_weight, 2);
  const mean = numbers(proof.mean), d = mean.length;
  const scale = numbers(proof.scale, d), w = numbers(proof.coefficients, d);
  const ownLabels = numbers(proof.y), held = ownLabels.length;
  const own = numbers(proof.weight, held);
  require(C > 0 && negative > 0 && positive > 0, "C, or a class weight");
  require(scale.every((one) => one > 0) && own.every((one) => one > 0), "a scale or a weight is not positive");
  const parts = proof.epochs.map((told) => epochOf(told, d, mean, scale, w, b));
  const rows = proof.epochs.reduce((total, told) => total + told.rows, held);
  const strata = parts.reduce((total, part) => total + part.y.length, 0);
  require(claim.rows === rows && claim.held === held && claim.strata === strata, "rows are missing");
  const Z = table(proof.X, held, d).map((row) => row.map((one, j) => (one - mean[j]) / scale[j]));
  const y = [...ownLabels], c = [...own], active = new Array(held).fill(true);
  const error = new Array(d).fill(0);
  for (const part of parts) {
    for (const row of part.means) Z.push(row);
    for (const one of part.y) y.push(one);
    for (const one of part.weight) c.push(one);
    for (const one of part.active) active.push(one);
    part.error.forEach((one, j) => { error[j] += C * Math.max(negative, positive) * one; });
  }
  require(y.every((one) => one === 1 || one === -1), "a label is neither -1 nor +1");
  const factor = (label) => C * (label > 0 ? positive : negative);
  y.forEach((label, at) => { c[at] *= factor(label); });

  const units = numbers(proof.multipliers, y.length);
  require(units.every((one) => Number.isSafeInteger(one) && one >= 0), "a multiplier");
  require(units.reduce((total, one, at) => total + BigInt(one) * BigInt(y[at]), 0n) === 0n, "sum y a is not 0");
  const a = units.map((one) => one * unit);
  require(a.every((one, at) => one <= c[at]), "a multiplier is above C times its weight");
  const square = sum(error.map((lost, j) => (Math.abs(sum(a.map((one, at) => one * y[at] * Z[at][j]))) + lost) ** 2));
  const least = sum(a) - square / 2;
  require(claim.lower <= least + SLACK * (sum(a) + square), `the lower bound is at most ${least}`);

  if (claim.kind === "proven") {
    const hinges = y.map((label, at) => {
      const slack = 1 - label * (dot(Z[at], w) + b);
      return active[at] ? c[at] * (at < held ? Math.max(0, slack) : slack) : 0;
    });
    const excess = sum(parts.map((part) => sum(part.excess.map((one, at) => factor(part.y[at]) * one))));
    const lost = dot(error, w.map(Math.abs));
    const most = dot(w, w) / 2 + sum(hinges) + lost + excess;
    const size = dot(w, w) + sum(hinges.map(Math.abs)) + excess;
    require(claim.upper >= most - SLACK * size, `the upper bound is at least ${most}`);
  }
  require(number(claim.lower) > 0 && claim.lower <= number(claim.upper), "the bounds");
  require(claim.kind === "proven" || claim.kind === "estimated", "the kind");
}

let refused = 0;
for (const name of process.argv.slice(2)) {
  try {
    const data = readFileSync(name), proof = JSON.parse(data);
    require(proof.format === 1, "format 1 is known only");
    check(proof);
    const claim = proof.claim, within = (claim.upper - claim.lower) / claim.lower;
    const ending = claim.kind === "proven" ? "" : ", by an estimate of the upper bound, which no proof shows";
    const hash = createHash("sha256").update(data).digest("hex");
    console.log(`${name}: ${proof.version} ${proof.sha256}: within ${within.toPrecision(2)} of the best${ending}; proof ${hash}`);
  } catch (error) {
    if (!([Refused, TypeError, SyntaxError, RangeError].some((kind) => error instanceof kind) || error.code)) throw error;
    refused = 1;
    console.log(`${name}: REFUSED: ${error.message}`);
  }
}
process.exitCode = refused;
