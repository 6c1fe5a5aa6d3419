"""Put our solver into programs that use scikit-learn's SVC, without a change of theirs.

>>> import streamsvm
>>> streamsvm.patch_sklearn()
('sklearn.svm.SVC',)
>>> from sklearn.svm import SVC  # after the call: a name that was imported before it keeps scikit-learn's
>>> SVC(C=10).fit([[0.0], [1.0]], [0, 1]).predict([[0.9]])
array([1])
>>> streamsvm.unpatch_sklearn()
('sklearn.svm.SVC',)

Invariant: the class that is put in is a subclass of the one that it replaces, with the same name and the same
parameters, so that checks by `isinstance`, names of a pipeline's steps and grids of parameters stay right.

`LinearSVC(loss="hinge")` is left alone: it also penalises the intercept, which is another problem than ours, and its
solver is fast.
"""

from __future__ import annotations

from typing import Final

import sklearn.svm
from sklearn.svm import _classes as defining

from streamsvm.estimators.stdasvc import STDASVC

ORIGINAL: Final = sklearn.svm.SVC
PATCHED: Final = ("sklearn.svm.SVC",)
"""What is replaced, by its public name."""


class SVC(STDASVC):
    """`sklearn.svm.SVC`, trained by STDA-SVM: `streamsvm.STDASVC` with the parameters of SVC and no others."""

    alpha = None
    threads = 1

    __init__ = ORIGINAL.__init__


def patch_sklearn(*, threads: int = 1) -> tuple[str, ...]:
    """Let `sklearn.svm.SVC` be trained by STDA-SVM from now on; a second call changes the number of threads only.

    Parameters
    ----------
    threads : int, default 1
        Threads of linear algebra of every such SVC; the same number gives the same bits.

    Returns
    -------
    tuple of str
        What was replaced.

    Raises
    ------
    ValueError
        If `threads` is not a positive whole number.
    """
    if not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads = {threads!r}: give a positive whole number")
    SVC.threads = threads
    _put(SVC)
    return PATCHED


def unpatch_sklearn() -> tuple[str, ...]:
    """Put scikit-learn's own SVC back, and return the names; objects that were made meanwhile keep our solver."""
    _put(ORIGINAL)
    return PATCHED


def _put(kind: type) -> None:
    # scikit-learn's own modules take it from the one that defines it.
    sklearn.svm.SVC = defining.SVC = kind
