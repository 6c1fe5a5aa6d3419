"""One contender of `tests.benchmarks.drop_in` in a process of its own: `python drop_in_child.py NAME`, lines on stdin.

Needs none of this project but where NAME says so; `libsvm` and `onedal` run in an environment that has them. A line is
JSON: `file` (npz with `X`, `y`), `answer` (npz to write), `sparse`, and LIBSVM's options. The answer is a line of JSON:
CPU, wall and the calling thread's CPU seconds of training, and by how many bytes memory rose above what it was before
at its highest. Reading and what a library's own format takes are outside of the clock.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

STATUS = Path("/proc/self/status")


def memory(field: str) -> int:
    """Return a number of bytes from the kernel's account of this process; 0 where there is none."""
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    found = [line.split()[1] for line in lines if line.startswith(field + ":")]
    return 1024 * int(found[0]) if found else 0


def scikit_learns(kind: Any, **added: Any) -> Callable[[Any, Any, dict[str, Any]], Callable[[], Any]]:
    """Return what makes a run of a class with SVC's interface."""

    def prepare(X: Any, y: Any, options: dict[str, Any]) -> Callable[[], Any]:
        machine = kind(cache_size=2000, **options, **added)

        def run() -> Any:
            machine.fit(X, y)
            dual = machine.dual_coef_
            dual = dual.toarray() if hasattr(dual, "toarray") else dual
            # Positive on the side of the greater label, as in scikit-learn with two classes.
            return machine.support_, dual[0], float(np.ravel(machine.intercept_)[0])

        return run

    return prepare


def libsvm(X: Any, y: Any, options: dict[str, Any]) -> Callable[[], Any]:
    """Return a run of upstream LIBSVM; its own rows are made before."""
    from libsvm.svm import svm_parameter, svm_problem
    from libsvm.svmutil import svm_train

    numbers = {"linear": 0, "poly": 1, "rbf": 2, "sigmoid": 3, "precomputed": 4}
    said = (
        f"-s 0 -t {numbers[options['kernel']]} -c {options['C']} -g {options.get('gamma', 1.0)} -d "
        f"{options.get('degree', 3)} -r {options.get('coef0', 0.0)} -e {options['tol']} -m 2000 -q"
    )
    matrix = options["kernel"] == "precomputed"
    if matrix:
        X = np.column_stack((np.arange(1, len(X) + 1), X))
    problem = svm_problem(np.asarray(y, dtype=np.float64), X, isKernel=matrix)
    parameter = svm_parameter(said)

    def run() -> Any:
        # With labels -1 and +1 it takes +1 for the positive side.
        model = svm_train(problem, parameter)
        support = np.array(model.get_sv_indices()) - 1
        return support, np.array([one[0] for one in model.get_sv_coef()]), -model.rho[0]

    return run


def contender(name: str) -> Callable[[Any, Any, dict[str, Any]], Callable[[], Any]]:
    """Return a contender by its name."""
    if name == "libsvm":
        return libsvm
    if name == "svc":
        from sklearn.svm import SVC

        return scikit_learns(SVC)
    if name == "onedal":
        from sklearnex import svm

        return scikit_learns(svm.SVC)
    from streamsvm import STDASVC

    return scikit_learns(STDASVC, threads=int(name.removeprefix("ours-")))


def warm_up(prepare: Callable[[Any, Any, dict[str, Any]], Callable[[], Any]]) -> None:
    """Load, and compile where that was not done before: every kernel, dense and sparse points."""
    random = np.random.default_rng(0)
    for d in (4, 60):
        X = random.normal(size=(700, d)) * (random.uniform(size=(700, d)) < 4 / d)
        y = np.where(X[:, 0] + 0.5 * random.normal(size=len(X)) > 0.1, 1, -1)
        for options in ({"kernel": "linear"}, {"kernel": "rbf"}, {"kernel": "poly", "coef0": 1.0}):
            prepare(X, y, options | {"C": 10.0, "gamma": 0.1, "tol": 1e-3})()


def main() -> None:
    """Say `ready`, then answer line after line."""
    warnings.simplefilter("ignore")
    prepare = contender(sys.argv[1])
    from threadpoolctl import threadpool_limits

    if sys.argv[1].startswith("ours-"):
        warm_up(prepare)
    print("ready", flush=True)
    threads = int(sys.argv[1].removeprefix("ours-")) if sys.argv[1].startswith("ours-") else 1
    with threadpool_limits(threads):
        for line in sys.stdin:
            asked = json.loads(line)
            with np.load(asked["file"]) as held:
                X, y = held["X"], held["y"]
            if asked["sparse"]:
                from scipy.sparse import csr_matrix

                X = csr_matrix(X)
            run = prepare(X, y, asked["options"])
            if STATUS.exists():
                Path("/proc/self/clear_refs").write_text("5")
            before = memory("VmRSS")
            wall, cpu, own = time.perf_counter(), time.process_time(), time.thread_time()
            support, dual, intercept = run()
            told = {
                "cpu_s": time.process_time() - cpu,
                "wall_s": time.perf_counter() - wall,
                "own_s": time.thread_time() - own,
                "bytes": max(0, memory("VmHWM") - before),
            }
            np.savez(asked["answer"], support=support, dual=dual, intercept=intercept)
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
