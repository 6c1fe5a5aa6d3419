"""What this room adds to the options of the trunk; see `streamsvm.sockets`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGS: Final[Mapping[str, Mapping[str, str] | tuple[str, ...]]] = {
    "svm.solver": {
        "stda-paper": "streamsvm.papers.stda_solver:PaperStdaSolver",
        "libsvm": "streamsvm.papers.foreign:LibsvmSolver",
        "liblinear": "streamsvm.papers.foreign:LiblinearSolver",
        "pegasos": "streamsvm.papers.foreign:PegasosSolver",
    },
    "coreset.reducer": {"sensitivity": "streamsvm.papers.reducers:sensitivity_reducer"},
    "coreset.reducer of several labels": {"sensitivity": "streamsvm.papers.reducers:shared_sensitivity_reducer"},
    "coreset.structure": {"counter": "streamsvm.papers.counter:counter"},
    "descriptions": {
        "svm.solver": "Experimental: `stda-paper` follows the paper to the letter and is far slower; `libsvm` is "
        "scikit-learn's SVC. `liblinear` (LinearSVC) and `pegasos` (SGDClassifier) support the linear kernel only, and "
        "give no bound on the distance to the optimum.",
        "coreset.reducer": "Experimental: `sensitivity` is Alg. 1 of the paper on coresets.",
        "coreset.clusters": "Experimental: of `sensitivity` only.",
        "coreset.structure": "Experimental: `counter` is Alg. 2 of the paper on coresets: buckets merge like the "
        "digits of a binary counter. It is the default of other reducers than `calibrated`.",
    },
    "supports": ("streamsvm.papers.combinations:ROWS",),
}
