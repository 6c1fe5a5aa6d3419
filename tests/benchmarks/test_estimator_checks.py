"""The table of scikit-learn's checks counts what ran, and says who failed."""

from __future__ import annotations

from sklearn.svm import SVC

from streamsvm import STDASVC
from tests.benchmarks.estimator_checks import checked, listed, table

EQUIVALENCE = "check_sample_weight_equivalence_on_dense_data"


def test_a_failed_check_is_counted_and_named() -> None:
    """SVC fails equivalence of weights by its width, STDASVC with a given one nothing; both are so shown."""
    theirs, ours = checked(SVC()), checked(STDASVC(tol=1e-10, gamma=0.1))
    assert EQUIVALENCE in {verdict.check for verdict in theirs.of("failed")}
    assert ours.of("failed") == []
    assert sum(len(ours.of(status)) for status in ("passed", "failed", "skipped")) == len(ours.verdicts) > 50
    counted = table([ours, theirs]).splitlines()
    assert counted[2].split()[-3:] == [str(len(theirs.of(status))) for status in ("passed", "failed", "skipped")]
    assert f"{EQUIVALENCE}: SVC()" in listed([ours, theirs], "failed")
