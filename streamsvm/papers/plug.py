"""What this room adds to the options of the trunk; see `streamsvm.plugs`."""

from __future__ import annotations

from typing import Final

from streamsvm.plugs import Plug, Refusal

PLUG: Final = Plug(
    adds={
        "svm.solver": {
            "stda-paper": "streamsvm.papers.stda_solver:PaperStdaSolver",
            "libsvm": "streamsvm.papers.foreign:LibsvmSolver",
            "liblinear": "streamsvm.papers.foreign:LiblinearSolver",
            "pegasos": "streamsvm.papers.foreign:PegasosSolver",
        },
        "coreset.reducer": {"sensitivity": "streamsvm.papers.reducers:sensitivity_reducer"},
        "coreset.reducer of several labels": {"sensitivity": "streamsvm.papers.reducers:shared_sensitivity_reducer"},
        "coreset.structure": {"counter": "streamsvm.papers.counter:counter"},
        "sizes of coreset.structure": {"counter": "streamsvm.papers.counter_sizes:SIZES"},
    },
    says={
        "svm.solver": "`stda-paper` follows the paper to the letter and is far slower; `libsvm` is scikit-learn's SVC. "
        "`liblinear` (LinearSVC) and `pegasos` (SGDClassifier) support the linear kernel only, and give no bound on "
        "the distance to the optimum.",
        "coreset.reducer": "`sensitivity` is Alg. 1 of the paper on coresets.",
        "coreset.clusters": "`sensitivity` is such a reducer.",
        "coreset.structure": "`counter` is Alg. 2 of the paper on coresets, and what a `tree` without `buckets` is: "
        "buckets merge like the digits of a counter of base `fan_in`.",
    },
    refusals=(
        Refusal(
            option="svm.solver",
            choices=("liblinear", "pegasos"),
            other="svm.kernel",
            only=("linear",),
            why="this solver supports the linear kernel only",
            remedy="Give svm.solver = stda or libsvm.",
        ),
    ),
)
