"""Put our solver into programs that use scikit-learn's support vector machines, without a change of theirs.

>>> import streamsvm
>>> streamsvm.patch_sklearn()
('sklearn.svm.SVC', 'sklearn.svm.SVR', 'sklearn.svm.OneClassSVM', 'sklearn.svm.LinearSVC', 'sklearn.svm.LinearSVR')
>>> from sklearn.svm import SVC  # after the call: a name that was imported before it keeps scikit-learn's
>>> SVC(C=10).fit([[0.0], [1.0]], [0, 1]).predict([[0.9]])
array([1])
>>> streamsvm.unpatch_sklearn()
('sklearn.svm.SVC', 'sklearn.svm.SVR', 'sklearn.svm.OneClassSVM', 'sklearn.svm.LinearSVC', 'sklearn.svm.LinearSVR')

Invariant: a class that is put in is a subclass of the one that it replaces, with the same name and the same
parameters, so that checks by `isinstance`, names of a pipeline's steps and grids of parameters stay right.

LinearSVC with the hinge loss and LinearSVR with the epsilon-insensitive one begin with LIBLINEAR, and are ended by our
solver where LIBLINEAR takes long; the other losses are LIBLINEAR's. See `streamsvm.drop_in.linear`.
"""

from __future__ import annotations

from typing import Final

import sklearn.svm
from sklearn.svm import _classes as defining

from streamsvm.drop_in.linear import STDALinearSVC, STDALinearSVR
from streamsvm.drop_in.single import STDASVR, STDAOneClassSVM
from streamsvm.drop_in.stdasvc import STDASVC
from streamsvm.drop_in.threads import check_threads

ORIGINALS: Final = {
    name: getattr(sklearn.svm, name) for name in ("SVC", "SVR", "OneClassSVM", "LinearSVC", "LinearSVR")
}
PATCHED: Final = tuple(f"sklearn.svm.{name}" for name in ORIGINALS)
"""What is replaced, by its public name."""


class SVC(STDASVC):
    """`sklearn.svm.SVC`, trained by STDA-SVM: `streamsvm.STDASVC` with the parameters of SVC and no others."""

    alpha = None
    threads = 1

    __init__ = ORIGINALS["SVC"].__init__


class SVR(STDASVR):
    """`sklearn.svm.SVR`, trained by STDA-SVM: `streamsvm.STDASVR` with the parameters of SVR and no others."""

    threads = 1

    __init__ = ORIGINALS["SVR"].__init__


class OneClassSVM(STDAOneClassSVM):
    """`sklearn.svm.OneClassSVM`, trained by STDA-SVM: `streamsvm.STDAOneClassSVM` with its parameters and no others."""

    threads = 1

    __init__ = ORIGINALS["OneClassSVM"].__init__


class LinearSVC(STDALinearSVC):
    """`sklearn.svm.LinearSVC`, ended by our solver: `streamsvm.STDALinearSVC`."""


class LinearSVR(STDALinearSVR):
    """`sklearn.svm.LinearSVR`, ended by our solver: `streamsvm.STDALinearSVR`."""


THREADED: Final = (SVC, SVR, OneClassSVM)
REPLACEMENTS: Final[dict[str, type]] = {kind.__name__: kind for kind in (*THREADED, LinearSVC, LinearSVR)}


def patch_sklearn(*, threads: int = 1) -> tuple[str, ...]:
    """Let SVC, SVR and OneClassSVM be trained by STDA-SVM from now on; a second call changes the threads only.

    LinearSVC and LinearSVR are ended by our solver where LIBLINEAR takes long.

    Parameters
    ----------
    threads : int, default 1
        Threads of every such machine, -1: one for each processor; the same number gives the same bits.

    Returns
    -------
    tuple of str
        What was replaced.

    Raises
    ------
    ValueError
        If `threads` is neither a positive whole number nor -1.
    """
    check_threads(threads)
    for kind in THREADED:
        kind.threads = threads
    _put(REPLACEMENTS)
    return PATCHED


def unpatch_sklearn() -> tuple[str, ...]:
    """Put scikit-learn's own classes back, and return the names; objects that were made meanwhile keep our solver."""
    _put(ORIGINALS)
    return PATCHED


def _put(kinds: dict[str, type]) -> None:
    # scikit-learn's own modules take them from the one that defines them.
    for name, kind in kinds.items():
        setattr(sklearn.svm, name, kind)
        setattr(defining, name, kind)
