"""The pipeline without a broker, threads or a clock: what is learned, trained and published next."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streamsvm.checkpoint import format as checkpoint
from streamsvm.delivery import reading
from streamsvm.delivery.events import CaughtUp, CutTaken, RowsLearned
from streamsvm.delivery.pipeline import Pipeline
from streamsvm.errors import StateError
from streamsvm.learning import Cut, Learner, learner, make
from streamsvm.model import Head, partition_cuts
from streamsvm.points import Position, Rows
from tests.delivery.test_delivery import ready
from tests.streams import gaussian, head_of, rows_of, small_config

BUILD = {"numpy": "x"}
CUT_ROWS = 16
"""Two leaves of eight rows."""


def pipeline(head: Head | None = None, *, every_cut: bool = True) -> Pipeline:
    base = {0: Position(0)}
    return Pipeline(
        ready(at=head),
        Learner(small_config(), base, 2),
        small_config(),
        name="m",
        topic="t",
        topic_id="",
        base=base,
        build=BUILD,
        waits_for_training=every_cut,
    )


def stream(n: int) -> Rows:
    return rows_of(gaussian(4 * CUT_ROWS)).slice(0, n)


def kinds(events: Sequence[object]) -> list[str]:
    return [type(event).__name__ for event in events]


def first_cut() -> Cut:
    """Return the first cut of the stream."""
    held = pipeline()
    held.assign({})
    held.offer(stream(CUT_ROWS))
    (taken,) = [event.cut for event in held.learn() if isinstance(event, CutTaken)]
    return taken.make()


def head_at(cut: Cut, **changes: object) -> Head:
    where = partition_cuts(cut.positions, cut.leader_epochs)
    return head_of(1, where, **{"training_set_sha256": cut.points.sha256(), "build": BUILD, **changes})


def test_every_cut_waits_for_the_training_before_it() -> None:
    """What is due and cannot be taken stays due; nothing is learned past it, and nothing is lost."""
    held = pipeline()
    assert held.assign({}).offsets == {0: 0}
    held.offer(stream(3 * CUT_ROWS))
    assert kinds(list(held.learn())) == ["RowsLearned", "CutTaken", "RowsLearned"]
    assert len(held.backlog[0]) == CUT_ROWS
    assert list(held.learn()) == []
    first = held.next_training()
    assert first is not None
    assert held.next_training() is None
    held.trained(make(first, small_config(), None))
    assert list(held.learn()) == []
    held.settled()
    assert kinds(list(held.learn())) == ["CutTaken", "RowsLearned"]


@pytest.mark.parametrize("span", [1, 5, 8, 100])
def test_learning_may_be_left_off_after_any_step(span: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that looks at the clock after each step, of any length, takes the same cuts and holds the same."""
    plain, short = pipeline(every_cut=False), pipeline(every_cut=False)
    taken: dict[str, list[object]] = {"plain": [], "short": []}
    for held in (plain, short):
        held.assign({})
        held.offer(stream(3 * CUT_ROWS + 5))
    taken["plain"] = [event.cut.positions for event in plain.learn() if isinstance(event, CutTaken)]
    monkeypatch.setattr(reading, "SPAN_ROWS", span)
    while (step := next(short.learn(), None)) is not None:
        taken["short"] += [step.cut.positions] if isinstance(step, CutTaken) else []
        assert not isinstance(step, RowsLearned) or len(step.rows) <= span
    assert taken["short"] == taken["plain"]
    assert len(taken["plain"]) == 3
    assert checkpoint.encode(short.snapshot(1, {})) == checkpoint.encode(plain.snapshot(1, {}))


def test_a_step_takes_fewer_of_wide_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step costs grows with the features, so that they are bounded, too."""
    monkeypatch.setattr(reading, "SPAN_FEATURES", 3 * small_config().points.dimension)
    held = pipeline()
    held.assign({})
    held.offer(stream(7))
    assert [len(event.rows) for event in held.learn() if isinstance(event, RowsLearned)] == [3, 3, 1]


def test_the_newest_cut_takes_the_place_of_one_that_waits() -> None:
    """Nothing is held up where only the newest is wanted; what is in training goes on."""
    held = pipeline(every_cut=False)
    held.assign({})
    held.offer(stream(CUT_ROWS))
    assert [event.replaced for event in held.learn() if isinstance(event, CutTaken)] == [False]
    training = held.next_training()
    held.offer(rows_of(gaussian(2 * CUT_ROWS, seed=1), first_offset=CUT_ROWS))
    taken = [event for event in held.learn() if isinstance(event, CutTaken)]
    assert [event.replaced for event in taken] == [False, True]
    assert held.in_flight == [taken[-1].cut, training]


def test_a_cut_that_nobody_trains_costs_no_pilot_and_no_reduction(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one trains, newer ones are only taken; each that is trained is made once, by who trains it."""
    made = list[int]()
    make_cut = learner._cut_of
    monkeypatch.setattr(learner, "_cut_of", lambda *given: made.append(1) or make_cut(*given))
    held = pipeline(every_cut=False)
    held.assign({})
    held.offer(rows_of(gaussian(4 * CUT_ROWS)))
    taken = [event.cut for event in held.learn() if isinstance(event, CutTaken)]
    assert len(taken) == 4
    assert held.next_training() is taken[-1]
    held.offer(rows_of(gaussian(2 * CUT_ROWS, seed=1), first_offset=4 * CUT_ROWS))
    assert kinds(list(held.learn())).count("CutTaken") == 2
    assert made == []
    training = held.in_flight[-1]
    done = make(training, small_config(), None)
    assert training is taken[-1]
    assert training.make() is done.cut
    assert made == [1]


def test_behind_the_newest_version_rows_are_read_again_up_to_its_cut() -> None:
    """Its cut is declined, as it is published; reading goes on there, and what was read past it comes again."""
    cut = first_cut()
    held = pipeline(head_at(cut))
    assigned = held.assign({})
    assert (assigned.again, assigned.at_newest, held.reads_again) == (True, False, True)
    held.offer(stream(2 * CUT_ROWS))
    held.note_read({0: 2 * CUT_ROWS})
    steps = held.learn()
    events: list[object] = [next(steps), held.take_due_cut(), held.take_due_cut()]
    assert events.pop() is None
    events += steps
    assert kinds(events) == ["RowsLearned", "CutDeclined", "CaughtUp"]
    assert isinstance(events[0], RowsLearned)
    assert (len(events[0].rows), events[0].again) == (CUT_ROWS, True)
    assert events[-1] == CaughtUp(1)
    assigned = held.assign({0: 2 * CUT_ROWS})
    assert (assigned.offsets, assigned.again, assigned.at_newest) == ({0: CUT_ROWS}, False, True)
    assert not held.backlog


def test_another_training_set_at_the_newest_cut_is_refused_unless_another_build_made_it() -> None:
    """The log no longer holds what the version was made from; of another build only the difference is told."""
    cut = first_cut()
    for build, refused in ((BUILD, True), ({"numpy": "y"}, False)):
        held = pipeline(head_at(cut, training_set_sha256="cd" * 32, build=build))
        held.assign({})
        held.offer(stream(CUT_ROWS))
        assert kinds(list(held.learn()))[-1] == "CaughtUp"
        if refused:
            with pytest.raises(StateError, match="replaying the log gave a different training set for m@1"):
                held.assign({})
        else:
            assert "replaying the log gave a different training set for m@1" in held.assign({}).differs


def test_a_log_that_passes_the_newest_cut_without_standing_at_it_is_refused() -> None:
    """Records were removed in between: what is left cannot give that training set."""
    cut = first_cut()
    held = pipeline(head_at(cut))
    held.assign({})
    rows = stream(3 * CUT_ROWS)
    held.offer(rows.slice(0, CUT_ROWS - 4))
    assert kinds(list(held.learn())) == ["RowsLearned"]
    held.offer(rows.slice(2 * CUT_ROWS, 3 * CUT_ROWS))
    with pytest.raises(StateError, match=r"m@1 was made from t\[0\] up to offset 16 .* the log continues at offset 32"):
        list(held.learn())


def test_a_log_that_ends_without_the_newest_cut_is_refused() -> None:
    """It would be waited for for ever."""
    held = pipeline(head_at(first_cut()))
    held.assign({})
    held.offer(stream(CUT_ROWS - 4))
    assert kinds(list(held.learn())) == ["RowsLearned"]
    held.refuse_missing_end({0: None})
    held.refuse_missing_end({0: CUT_ROWS - 4})
    with pytest.raises(StateError, match="the log ends at offset 16"):
        held.refuse_missing_end({0: CUT_ROWS})


def test_reading_passes_markers_and_takes_up_partitions() -> None:
    """Where all of a partition is learned reading goes on at its end; a new one begins at its first offset."""
    held = pipeline()
    held.assign({})
    held.offer(stream(10))
    list(held.learn())
    held.note_read({0: 10})
    assert held.reading({0: None}) == {0: Position(10)}
    held.pass_markers({0: 10})
    assert held.snapshot(1, {}).read_to == {}, "which says nothing at the position itself"
    held.pass_markers({0: 12})
    assert held.ahead == {0: 12}
    held.extend({3: 7})
    assert held.base == {0: Position(0), 3: Position(7)}
    assert held.assign({0: 12}).offsets == {0: 12, 3: 7}


def test_all_is_read_where_no_record_before_a_known_end_is_left() -> None:
    """An end that is not known may be far away."""
    held = pipeline()
    held.assign({})
    held.note_read({0: 10})
    assert [held.has_read({0: end}) for end in (9, 10, 11, None)] == [True, True, False, False]
