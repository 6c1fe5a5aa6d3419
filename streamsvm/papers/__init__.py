"""The algorithms of two papers as published: to read beside them, to call, and to compare with what the trainer runs.

- `stda`: STDA-SVM, Algorithms 1 to 4 of Liuzzi, Lucidi, Manno and Rinaldi, *A space transformation decomposition
  technique* (2015).
- `coreset`: Alg. 1 and Alg. 2 of Tukan, Baykal, Feldman and Rus, *On Coresets for Support Vector Machines* (2020).

Each module lists where it differs from its paper. `make papers` measures both papers' tables again.

STDA-SVM, then Alg. 1 in its parts, the optimum from line 1 certified by the dual:

>>> import numpy as np
>>> from streamsvm.model.kernels import LinearKernel
>>> from streamsvm.papers import PaperStdaSolver, importance_sample, sensitivities
>>> from streamsvm.points import Points
>>> from streamsvm.svm.problem import Problem, optimality
>>> random = np.random.default_rng(0)
>>> X = random.normal(size=(400, 2))
>>> y, weight = np.where(X.sum(axis=1) + random.normal(size=400) > 0, 1, -1).astype(np.int8), np.ones(400)
>>> problem = Problem(Z=X, y=y, upper=weight, kernel=LinearKernel(), tolerance=1e-3, max_iterations=100_000)
>>> found = PaperStdaSolver().solve(problem)
>>> found.converged
True
>>> _, best, _ = optimality(X, y, weight, found.alpha, found.intercept, LinearKernel())
>>> gamma = sensitivities(X, y, weight, 1.0, best, random)
>>> len(importance_sample(Points(X, y, weight), gamma, 100, random)) <= 100
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.papers.coreset import (
        coreset as coreset,
        importance_sample as importance_sample,
        lemma_bound as lemma_bound,
        sensitivities as sensitivities,
        streaming_coreset as streaming_coreset,
    )
    from streamsvm.papers.stda import PaperStdaSolver as PaperStdaSolver

__getattr__ = on_first_use(__name__, __file__)
