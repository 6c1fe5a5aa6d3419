"""The algorithms of two papers as published: to read beside them, to call, and to compare with what the trainer runs.

============ =======================================================================================
module       what it has
============ =======================================================================================
`stda`       STDA-SVM, Algorithms 1 to 4, with both levels of caching
`clustered`  Alg. 1, lines 2 to 10: sensitivities, by k = log n clusters of each label (`clustering`)
`sampling`   Alg. 1, lines 11 to 13: the sample, and its weights
============ =======================================================================================

Sources: Tukan, Baykal, Feldman and Rus, *On Coresets for Support Vector Machines* (2020); Liuzzi, Lucidi, Manno and
Rinaldi, *A space transformation decomposition technique* (2015). Each module lists where it differs. `make papers`
measures both papers' tables again.

STDA-SVM to the letter, then Alg. 1 with its optimum as line 1 asks, and a stream through Alg. 2:

>>> import numpy as np
>>> from streamsvm import CoresetSVC
>>> from streamsvm.model.kernels import LinearKernel
>>> from streamsvm.papers.clustered import sensitivities
>>> from streamsvm.papers.sampling import importance_sample
>>> from streamsvm.papers.stda import PaperStdaSolver
>>> from streamsvm.points import Points
>>> from streamsvm.svm.objective import optimality
>>> from streamsvm.svm.problem import Problem
>>> random = np.random.default_rng(0)
>>> X = random.normal(size=(400, 2))
>>> y, weight = np.where(X.sum(axis=1) + random.normal(size=400) > 0, 1, -1).astype(np.int8), np.ones(400)
>>> problem = Problem(Z=X, y=y, upper=weight, kernel=LinearKernel(), tolerance=1e-3, max_iterations=100_000)
>>> found = PaperStdaSolver().solve(problem)
>>> found.converged
True
>>> best = optimality(X, y, weight, found.alpha, found.intercept, LinearKernel()).dual
>>> gamma = sensitivities(X, y, weight, 1.0, best, random).gamma
>>> len(importance_sample(Points(X, y, weight), gamma, 100, random)) <= 100
True

Alg. 2 is the structure `counter` of every learner (`coreset.structure`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.papers.clustered import lemma_bound as lemma_bound, sensitivities as sensitivities
    from streamsvm.papers.sampling import (
        draws as draws,
        importance_sample as importance_sample,
        occurrences as occurrences,
    )
    from streamsvm.papers.stda import CACHE_BYTES as CACHE_BYTES, PaperStdaSolver as PaperStdaSolver

__getattr__ = on_first_use(__name__, __file__)
