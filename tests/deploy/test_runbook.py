"""The runbook mends: what needs a reset says so, what needs none comes first, and each section has its drill."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.deploy.files import DEPLOY
from tests.deploy.test_rules import RUNBOOK
from tests.test_promises import exists

SCENE: Final = "tests/live/test_scenarios.py::test_scenario"
DRILLS_OF: Final = "tests/deploy/test_runbook_drills.py"
RESET: Final = f"{DRILLS_OF}::test_a_reset_with_other_options_ends_it"
SLOW: Final = f"{DRILLS_OF}::test_long_trainings_need_no_reset"
TURNED: Final = f"{DRILLS_OF}::test_a_stream_that_turned_is_begun_anew_at_the_change"
LOST: Final = "tests/branches/workers/test_lost_topics.py"
OUTSIDE: Final = "what mends lies outside of the daemon: "
DEFECT: Final = "it shows a defect that nobody knows yet: "

DRILLS: Final[dict[str, tuple[str, ...] | str]] = {
    "StreamsvmTargetGone": OUTSIDE + "Prometheus's own discovery; alerts.json has that the alert ends",
    "StreamsvmTargetFlapping": OUTSIDE + "the network to Prometheus; alerts.json has that the alert ends",
    "StreamsvmNotReady": (
        f"{SCENE}[an-outage-of-the-broker-only-delays-and-is-said-once]",
        "tests/kafka/test_security.py::test_an_expired_certificate_ends_a_start_and_only_delays_a_running_trainer",
        "tests/consumers/scorer/test_scorer.py::test_points_wait_while_the_schema_registry_is_away",
        f"{LOST}::test_a_trainer_whose_topic_goes_says_so",
    ),
    "StreamsvmStandstill": DEFECT + "a restart is all that there is",
    "StreamsvmThrottled": OUTSIDE + "the quota; tests/kafka/test_connection.py has that the delay is shown and ends",
    "StreamsvmClockOff": OUTSIDE + "the host's time service",
    "StreamsvmTrainerDown": (
        f"{SCENE}[an-outage-of-the-broker-only-delays-and-is-said-once]",
        f"{SCENE}[a-topic-that-is-made-again-is-refused-or-begun-anew]",
    ),
    "StreamsvmLagGrowing": (
        SLOW,
        "tests/branches/workers/test_group_workers.py::test_a_stream_goes_on_from_one_process_to_workers_and_back",
    ),
    "StreamsvmOpenTransaction": (
        "tests/consumers/trainer/test_recovery.py::test_an_open_transaction_of_a_producer_is_shown_as_such",
    ),
    "StreamsvmRetentionNear": (f"{SCENE}[a-topic-that-is-truncated-is-refused-or-begun-anew]",),
    "StreamsvmModelStale": (SLOW,),
    "StreamsvmTrainingSaturated": (SLOW,),
    "StreamsvmLoopHeldUp": "no test has a disk that is slow and not broken",
    "StreamsvmTrainingUnfinished": (RESET,),
    "StreamsvmPublishRefused": (f"{SCENE}[a-version-that-grew-too-large-is-dropped-and-reported]",),
    "StreamsvmProducerRenewing": (f"{SCENE}[a-frozen-trainer-whose-copy-went-on-is-fenced-1-times-over]",),
    "StreamsvmReadersHeldUp": "no test runs the command of Kafka that ends a stranger's transaction",
    "StreamsvmCheckpointFailing": (f"{SCENE}[a-disk-that-is-full-delays-checkpoints-and-no-version]",),
    "StreamsvmDeadLetters": ("tests/deploy/test_pages.py::test_workers_learn_and_letters_are_mended_as_the_pages_say",),
    "StreamsvmUndecodable": DEFECT + "to report",
    "StreamsvmTimesAhead": "no test begins a join anew behind the records that moved its time",
    "StreamsvmRestarting": (f"{SCENE}[a-topic-that-is-truncated-is-refused-or-begun-anew]",),
    "StreamsvmMostlyRejected": (
        "tests/consumers/trainer/test_recovery.py::test_bad_records_do_not_stop_a_trainer_whose_input_is_proven",
        f"{DRILLS_OF}::test_a_scorer_whose_model_got_another_dimension_is_pinned",
    ),
    "StreamsvmMemoryGrowing": DEFECT + "a restart gives the memory back",
    "StreamsvmWorseThanBaseline": (TURNED,),
    "StreamsvmWorseThanMajority": (TURNED,),
    "StreamsvmNoSkill": (RESET,),
    "StreamsvmLabelsMissing": (
        RESET,
        "tests/consumers/trainer/test_classes.py::test_a_label_that_comes_late_is_told_and_then_answered",
    ),
    "StreamsvmGateHolds": (
        f"{DRILLS_OF}::test_a_gate_that_holds_lets_the_changed_stream_pass",
        "tests/consumers/trainer/test_gatekeeping.py::test_without_a_margin_there_is_no_gate",
    ),
    "StreamsvmCoresetDegraded": (RESET,),
    "StreamsvmShortHorizons": OUTSIDE + "the producer, or nothing at all",
    "StreamsvmAuditDisagrees": "no stream is known that brings it about",
    "StreamsvmManifestsLate": (
        "tests/branches/workers/test_group_workers.py::"
        "test_manifests_of_nothing_neither_stop_versions_nor_hide_a_worker_that_is_gone",
    ),
    "StreamsvmScorerDown": (
        "tests/consumers/scorer/test_identity.py::test_a_scorer_gets_past_records_that_retention_took",
    ),
    "StreamsvmScorerWithoutModel": (
        "tests/consumers/scorer/test_scorer.py::test_nothing_is_consumed_before_there_is_a_model",
    ),
    "StreamsvmModelMessageRefused": (
        "tests/consumers/scorer/test_scorer.py::test_nothing_is_consumed_before_there_is_a_model",
    ),
    "StreamsvmScoresLate": "no test has one scorer that is too slow, and a second one",
    "StreamsvmScoresDrifted": (f"{DRILLS_OF}::test_scores_that_drifted_come_back_with_the_producer",),
}
"""The tests that bring a section's state about, do what it says and end in health; or why there is none."""


def sections() -> dict[str, str]:
    """Return what each section of the page says is to be done, by its alert."""
    found = re.findall(r"(?ms)^### (\w+)\n.*?^\*\*Do\.\*\* (.*?)(?=^#{2,3} |\Z)", RUNBOOK.read_text())
    return dict(found)


def options() -> dict[str, bool]:
    """Return every option by its name on the page, and whether it decides what is learned."""
    text = (DEPLOY / "CONFIGURATION.md").read_text().partition("\n## Experimental")[0]
    headed = re.findall(r"(?ms)^## \[(\w+)\]( \(decides the model\))?\n(.*?)(?=^## |\Z)", text)
    return {
        f"{section}.{name}": bool(decides) and section != "svm"
        for section, decides, body in headed
        for name in re.findall(r"(?m)^- `(\w+)`", body)
    }


def faults(do: str) -> list[str]:
    """Return the options of a section that need `--reset` without a word of it, or stand before what needs none."""
    named = {name: match.start() for name in options() if (match := re.search(rf"\b{re.escape(name)}\b", do))}
    deciding = {name: at for name, at in named.items() if options()[name]}
    free = [at for name, at in named.items() if name not in deciding and not name.startswith(("input.", "svm."))]
    silent = list(deciding) if "--reset" not in do else []
    return silent + [name for name, at in deciding.items() if any(at < other for other in free)]


@pytest.mark.parametrize("alert", sorted(sections()))
def test_what_needs_a_reset_says_so_and_comes_last(alert: str) -> None:
    """A start refuses another model under the same name; an option that costs nothing is tried before one that does."""
    assert faults(sections()[alert]) == []


@pytest.mark.parametrize(
    ("do", "wrong"),
    [
        ("Lower `coreset.points`.", ["coreset.points"]),
        ("With `--reset`, lower `coreset.points`, or raise `training.every_leaves`.", ["coreset.points"]),
        ("Raise `training.every_leaves`; else, with `--reset`, lower `coreset.points`.", []),
    ],
)
def test_a_section_that_leads_into_a_refusal_is_found(do: str, wrong: list[str]) -> None:
    assert faults(do) == wrong


def test_each_section_has_a_drill_that_exists_or_a_reason() -> None:
    """A section without an entry, or a test that was renamed, is named here."""
    assert DRILLS.keys() == sections().keys()
    named = {test for tests in DRILLS.values() if not isinstance(tests, str) for test in tests}
    assert [test for test in sorted(named) if not exists(test)] == []
