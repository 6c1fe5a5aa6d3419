"""STDASVC in SVC's place, over the whole range of settings: beside SVC, upstream LIBSVM and oneDAL, one thread and two.

    python -m tests.benchmarks.drop_in --data DIR [--sets htru2,...] [--rows 1000,5000] [--kernels rbf,linear,...]
        [--variants plain,sparse,duplicates,rare] [--gamma 0.001,1,100] [--C 0.01,1,10000]
        [--contenders ours-1,ours-2,svc,libsvm,onedal] [--peers PYTHON] [--rounds 3] [--most-s 3600] [--fresh] [--json]

Every `NAME.npz` in DIR with X and y (-1 or +1) is a set; the rows are drawn once, and standardised where a value is
beyond 10. `--gamma` is in units of 1 / d. `sparse` gives CSR rows, `duplicates` every row four times, `rare` leaves 1 %
positives. poly is of degree 3 with coef0 = 1, sigmoid has a width of 0.01 / d and coef0 = 0, precomputed is the matrix
of the RBF kernel. `--peers` is an interpreter that has `libsvm-official` and `scikit-learn-intelex`; what it does not
have is left out, and said.

Each contender is a process of its own, asked in turn; whoever does not answer within `--most-s` seconds by the clock is
stopped, and reported as slower than the CPU seconds that it had by then. A row has, of one contender, the least CPU
seconds of the rounds (`seconds`), and beside `ours-1`: `ratio`, its seconds over ours; `excess`, our dual objective (to
be minimised, from scratch in float64) less its, as a share of its: positive is worse; `peak_mb`, by how much memory
rose while it trained, and `our_peak_mb`: less than it needs where an earlier case left room, so take `--fresh` and one
round for them. For `ours-2` the ratio is that of CPU seconds of the calling thread, which takes part in the work: one
thread's over two threads', what two free cores gain. `same_bits` says whether two threads gave the dual variables of
one.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel, sigmoid_kernel

from streamsvm.model.kernels import Float
from tests.benchmarks.solver import load

CHILD: Final = Path(__file__).with_name("drop_in_child.py")
FOREIGN: Final = ("libsvm", "onedal")
OURS: Final = "ours-1"
KERNELS: Final = ("rbf", "linear", "poly", "sigmoid", "precomputed")
VARIANTS: Final = ("plain", "sparse", "duplicates", "rare")
TOLERANCE: Final = 1e-3
TIMES: Final = 4
RARE: Final = 0.01
PART: Final = 512


@dataclass(frozen=True, slots=True)
class Row:
    """One contender in one case."""

    data: str
    n: int
    d: int
    kernel: str
    gamma: float
    C: float
    variant: str
    contender: str
    seconds: float | None
    our_seconds: float
    ratio: float | None
    excess: float | None
    peak_mb: float | None
    our_peak_mb: float
    same_bits: bool | None = None
    slower_than: float | None = None


class Contender:
    """A process that trains when asked.

    Attributes
    ----------
    spent_s : float
        CPU seconds after which it was stopped.
    """

    def __init__(self, name: str, python: str) -> None:
        self.name, self._python, self.spent_s = name, python, 0.0
        self._process: subprocess.Popen[str] | None = None

    def train(self, asked: dict[str, Any], most_s: float) -> dict[str, float] | None:
        """Return what it told; None if it took too long, and was stopped.

        Raises
        ------
        RuntimeError
            If it ended, as without its library.
        """
        if self._process is None:
            # Upstream LIBSVM takes every processor by OpenMP, unless it is told.
            self._process = subprocess.Popen(
                [self._python, str(CHILD), self.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
            assert self._process.stdout is not None
            if not self._process.stdout.readline():
                raise RuntimeError(self.name)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise RuntimeError(self.name) from None
        begun = self._cpu_s()
        if not select.select([self._process.stdout], [], [], most_s)[0]:
            self.spent_s = self._cpu_s() - begun
            self.stop()
            return None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(self.name)
        told: dict[str, float] = json.loads(line)
        return told

    def _cpu_s(self) -> float:
        """Return CPU seconds of the process so far; 0 where the kernel does not tell."""
        assert self._process is not None
        file = Path(f"/proc/{self._process.pid}/stat")
        if not file.exists():
            return 0.0
        fields = file.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            with self._process:
                self._process = None


def variant_of(X: Float, y: Any, variant: str) -> tuple[Float, Any]:
    """Return the rows of a variant."""
    if variant == "duplicates":
        kept = np.repeat(np.arange(len(y) // TIMES), TIMES)
        return X[kept], y[kept]
    if variant == "rare":
        positive, negative = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
        kept = np.sort(np.concatenate((negative, positive[: max(2, int(RARE * len(negative)))])))
        return X[kept], y[kept]
    return X, y


def options_of(kernel: str, gamma: float, C: float, d: int) -> dict[str, Any]:
    """Return SVC's options."""
    options = {"kernel": kernel, "C": C, "tol": TOLERANCE}
    if kernel in ("linear", "precomputed"):
        return options
    added = {"poly": {"degree": 3, "coef0": 1.0}, "sigmoid": {"coef0": 0.0}}.get(kernel, {})
    return options | {"gamma": gamma / d * (0.01 if kernel == "sigmoid" else 1.0)} | added


def gram_of(options: dict[str, Any]) -> Callable[[Float, Float], Float]:
    """Return the kernel."""
    kernel, gamma = options["kernel"], options.get("gamma")
    if kernel == "rbf":
        return lambda A, B: rbf_kernel(A, B, gamma=gamma)
    if kernel == "poly":
        return lambda A, B: polynomial_kernel(A, B, gamma=gamma, degree=3, coef0=1.0)
    if kernel == "sigmoid":
        return lambda A, B: sigmoid_kernel(A, B, gamma=gamma, coef0=0.0)
    return linear_kernel  # type: ignore[no-any-return]


def objective(X: Float, y: Any, options: dict[str, Any], answer: Path) -> float:
    """Return the dual objective to be minimised, from scratch."""
    with np.load(answer) as held:
        support, dual = held["support"], held["dual"]
    linear = float((dual * y[support]).sum())
    if options["kernel"] == "precomputed":
        return 0.5 * float(dual @ X[np.ix_(support, support)] @ dual) - linear
    gram, points, total = gram_of(options), X[support], 0.0
    for start in range(0, len(support), PART):
        part = slice(start, start + PART)
        total += float(dual[part] @ (gram(points[part], points) @ dual))
    return 0.5 * total - linear


def cases(arguments: argparse.Namespace) -> Iterator[tuple[str, Float, Any, str, dict[str, Any], float, float]]:
    """Yield set, rows, labels, variant, options, gamma in units of 1 / d, and C."""
    for name in arguments.sets:
        for rows in arguments.rows:
            X, y, _ = load(arguments.data / f"{name}.npz", rows)
            for variant in arguments.variants:
                A, b = variant_of(X, y, variant)
                for kernel in arguments.kernels:
                    if kernel == "precomputed" and variant == "sparse":
                        continue
                    Z = rbf_kernel(A, gamma=1.0 / A.shape[1]) if kernel == "precomputed" else A
                    wide = arguments.gamma if kernel in ("rbf", "poly", "sigmoid") else arguments.gamma[:1]
                    for gamma in wide:
                        for C in arguments.C:
                            yield name, Z, b, variant, options_of(kernel, gamma, C, A.shape[1]), gamma, C


def measured(arguments: argparse.Namespace, folder: Path) -> Iterator[Row]:
    """Measure case by case; a contender that ends is left out from then on."""
    everyone = {
        name: Contender(name, arguments.peers or sys.executable) if name in FOREIGN else Contender(name, sys.executable)
        for name in arguments.contenders
        if name not in FOREIGN or arguments.peers
    }
    try:
        for name, X, y, variant, options, gamma, C in cases(arguments):
            if OURS not in everyone:
                return
            file = folder / "case.npz"
            np.savez(file, X=X, y=y)
            asked = {"file": str(file), "sparse": variant == "sparse", "options": options}
            told: dict[str, list[dict[str, float]]] = {}
            late: dict[str, float] = {}
            for turn in range(arguments.rounds):
                order = [*everyone][turn % len(everyone) :] + [*everyone][: turn % len(everyone)]
                for contender in order:
                    if contender in late:
                        continue
                    try:
                        one = everyone[contender].train(
                            asked | {"answer": str(folder / f"{contender}.npz")}, arguments.most_s
                        )
                    except RuntimeError:
                        print(f"{contender} ended and is left out: is its library installed?", file=sys.stderr)
                        del everyone[contender]
                        continue
                    if one is None:
                        late[contender] = everyone[contender].spent_s
                    else:
                        told.setdefault(contender, []).append(one)
            yield from rows_of(name, X, y, variant, options, (gamma, C), told, late, folder)
            if arguments.fresh:
                for one in everyone.values():
                    one.stop()
    finally:
        for one in everyone.values():
            one.stop()


def rows_of(
    name: str,
    X: Float,
    y: Any,
    variant: str,
    options: dict[str, Any],
    setting: tuple[float, float],
    told: dict[str, list[dict[str, float]]],
    late: dict[str, float],
    folder: Path,
) -> Iterator[Row]:
    """Yield a row for every contender but `OURS`."""
    mine = told[OURS]
    seconds, peak = min(one["cpu_s"] for one in mine), max(one["bytes"] for one in mine) / 2**20
    ours = objective(X, y, options, folder / f"{OURS}.npz")
    head = (name, len(y), X.shape[1], options["kernel"], *setting, variant)
    for contender, laps in told.items():
        if contender == OURS or contender in late:
            continue
        theirs, same = objective(X, y, options, folder / f"{contender}.npz"), None
        their_seconds = min(one["cpu_s"] for one in laps)
        ratio = their_seconds / seconds
        if contender.startswith("ours-"):
            same = bytes_of(folder / f"{OURS}.npz") == bytes_of(folder / f"{contender}.npz")
            ratio = min(one["own_s"] for one in mine) / min(one["own_s"] for one in laps)
        excess = (ours - theirs) / max(abs(theirs), 1e-300)
        their_peak = max(one["bytes"] for one in laps) / 2**20
        yield Row(*head, contender, their_seconds, seconds, ratio, excess, their_peak, peak, same)
    for contender, spent in late.items():
        yield Row(*head, contender, None, seconds, spent / seconds, None, None, peak, slower_than=spent)


def bytes_of(answer: Path) -> bytes:
    """Return the dual variables' bytes."""
    with np.load(answer) as held:
        return bytes(held["dual"].tobytes())


def line(row: Row) -> str:
    """Return a row as one line of text."""
    more = ">" if row.slower_than else " "
    seconds = f"{row.seconds:9.4f}" if row.seconds is not None else f">{row.slower_than:8g}"
    excess = f"{row.excess:+9.1e}" if row.excess is not None else f"{'-':>9}"
    peak = f"{row.peak_mb:7.0f}" if row.peak_mb is not None else f"{'-':>7}"
    same = "" if row.same_bits is None else ("  same bits" if row.same_bits else "  OTHER BITS")
    gamma = f"{row.gamma:7g}" if row.kernel in ("rbf", "poly", "sigmoid") else f"{'-':>7}"
    return (
        f"{row.data:<14} {row.n:>6} {row.kernel:<11} {row.variant:<10} {gamma} {row.C:>7g} {row.contender:<7}"
        f"{row.our_seconds:9.4f} {seconds} {more}{row.ratio:7.2f} {excess} {row.our_peak_mb:7.0f} {peak}{same}"
    )


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="STDASVC in SVC's place, over the range of settings.")
    names, numbers = (lambda said: said.split(",")), (lambda said: [float(one) for one in said.split(",")])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", type=names, default=["htru2"])
    parser.add_argument("--rows", type=lambda said: [int(one) for one in said.split(",")], default=[1_000, 5_000])
    parser.add_argument("--kernels", type=names, default=["rbf", "linear"], help=", ".join(KERNELS))
    parser.add_argument("--variants", type=names, default=["plain"], help=", ".join(VARIANTS))
    parser.add_argument("--gamma", type=numbers, default=[1.0], help="in units of 1 / d")
    parser.add_argument("--C", type=numbers, default=[1.0])
    parser.add_argument("--contenders", type=names, default=[OURS, "svc", "libsvm"])
    parser.add_argument("--peers", help="interpreter that has libsvm-official and scikit-learn-intelex")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most-s", type=float, default=3_600.0, help="seconds of one training")
    parser.add_argument("--fresh", action="store_true", help="new processes for each case: for figures of memory")
    parser.add_argument("--json", action="store_true", help="a line of JSON a row")
    options = parser.parse_args(arguments)
    known = {"kernels": KERNELS, "variants": VARIANTS}
    for option, allowed in known.items():
        if unknown := set(getattr(options, option)) - set(allowed):
            parser.error(f"--{option} {','.join(sorted(unknown))}: give of {', '.join(allowed)}")
    if missing := [name for name in options.sets if not (options.data / f"{name}.npz").exists()]:
        parser.error(f"no {missing[0]}.npz in {options.data}")
    if OURS not in options.contenders:
        parser.error(f"--contenders: {OURS} must be among them")
    if not options.json:
        print(
            f"{'data':<14} {'n':>6} {'kernel':<11} {'variant':<10} {'gamma d':>7} {'C':>7} {'peer':<7}{'ours, s':>9} "
            f"{'peer, s':>9} {'ratio':>8} {'excess':>9} {'our MB':>7} {'peer MB':>7}"
        )
    with tempfile.TemporaryDirectory() as folder:
        for row in measured(options, Path(folder)):
            print(json.dumps(asdict(row)) if options.json else line(row), flush=True)


if __name__ == "__main__":
    main()
