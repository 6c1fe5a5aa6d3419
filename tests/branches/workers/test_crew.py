"""The trainer's side of its workers, without processes: what it asks, when it adopts, and what it refuses to save."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

import msgspec
import pytest

from consumers.branches.workers.crew import Crew, Hands
from consumers.branches.workers.messages import Assign, Failed, FromWorker, Handed, Late, Progress, Report, States
from consumers.host.runtime import Health
from consumers.metrics import TRAINER, Metrics
from streamsvm.branches.workers.combiner import Combiner
from streamsvm.branches.workers.handing import Sender
from streamsvm.coreset.outliers import Tally
from streamsvm.coreset.reducers.base import Observed
from streamsvm.delivery.pipeline import Pipeline
from streamsvm.errors import LogGap, StateError, TransientError
from streamsvm.learning.learner import Learner
from streamsvm.points import Position
from tests.consumers.trainers import settings_for
from tests.delivery.test_pipeline import BUILD, ready
from tests.streams import gaussian, rows_of

PARTITIONS = 2
NEVER = 1 << 30


class Written(Hands):
    """Workers whose messages a test writes."""

    def __init__(self) -> None:
        self.count = PARTITIONS
        self.inbox: queue.SimpleQueue[tuple[int, bytes | None]] = queue.SimpleQueue()
        self.sent: list[tuple[int, Any]] = []
        self.all = [Silent(self, number) for number in range(PARTITIONS)]  # type: ignore[misc]

    def say(self, number: int, message: FromWorker | None) -> None:
        self.inbox.put((number, None if message is None else msgspec.msgpack.encode(message)))


class Silent:
    """One of them."""

    pid = 4711

    def __init__(self, hands: Written, number: int) -> None:
        self.number = number
        self._hands = hands

    def send(self, message: Any) -> None:
        self._hands.sent.append((self.number, message))

    def ended(self) -> str:
        return "was ended by SIGKILL"


class Scene:
    """A crew, and a learner in the place of each worker."""

    def __init__(self) -> None:
        self.settings = settings_for("x", Path("c"), policy="latest", workers=PARTITIONS, every_leaves=2)
        self.config = self.settings.models()
        base = {partition: Position(0) for partition in range(PARTITIONS)}
        self.hands = Written()
        delivery = ready()
        self.pipeline = Pipeline(
            delivery,
            Combiner(self.config, base, 2),
            self.config,
            name="m",
            topic="t",
            topic_id="",
            base=base,
            build=BUILD,
            waits_for_training=False,
        )
        self.now = 0.0
        self.noted: list[int] = []
        self.crew = Crew(
            self.settings,
            self.pipeline,
            delivery,
            self.hands,
            left_out={},
            note=lambda rows: self.noted.append(len(rows)),
            metrics=Metrics(TRAINER),
            health=Health(stuck_after_s=60.0),
            monotonic=lambda: self.now,
        )
        self.learners = [Learner(self.config, {partition: Position(0)}, NEVER) for partition in range(PARTITIONS)]
        self.senders = [Sender() for _ in self.learners]
        self.pipeline.assign(self.crew.ends)
        self.crew.assign({})

    def learn(self, number: int, rows: int) -> None:
        self.learners[number].learn(rows_of(gaussian(500, seed=number), number).slice(0, rows))

    def tell(self, number: int) -> None:
        learner = self.learners[number]
        self.hands.say(
            number,
            Progress(
                positions={number: (*learner.position(number),)},
                ahead={number: learner.position(number).offset},
                fetched={},
                watermarks={number: 500},
                leaves=learner.leaves_since_cut,
                rows=learner.rows,
                points_held=learner.points_held,
                idle=True,
                waiting_for={},
                counted=[],
                newest=[],
                rejected=None,
            ),
        )

    def hand_over(self, number: int, ticket: int) -> None:
        learner = self.learners[number]
        buckets, value = self.senders[number].encode(number, learner.state().partitions[number])
        leaves = learner.leaves_since_cut
        learner.decline_cut()
        self.hands.say(
            number,
            States(
                ticket=ticket,
                partitions=[Handed(partition=number, buckets=buckets, value=value)],
                leaves=leaves,
                read_to={},
                observed=Observed(),
                outliers=Tally(),
                clipped=0,
            ),
        )

    def asked(self) -> list[tuple[int, bool]]:
        """Return ticket and whether to settle of what each worker was asked, and forget it."""
        found = [(message.ticket, message.settle) for _, message in self.hands.sent if isinstance(message, Report)]
        self.hands.sent.clear()
        return found


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_states_are_asked_for_when_a_cut_may_be_trained_and_adopted_together(scene: Scene) -> None:
    """One worker's answer alone changes nothing; with the last one the cut is due."""
    assert [message.bases for _, message in scene.hands.sent if isinstance(message, Assign)] == [
        {0: (0, 0)},
        {1: (0, 0)},
    ]
    scene.asked()
    for number in range(PARTITIONS):
        scene.learn(number, 45)
        scene.tell(number)
    scene.crew.read(1, 0.0)
    scene.crew.refresh(may_train=False)
    assert not scene.asked()
    scene.crew.refresh(may_train=True)
    assert scene.asked() == [(1, False)] * PARTITIONS
    scene.crew.refresh(may_train=True)
    assert not scene.asked()
    scene.hand_over(0, 1)
    scene.crew.read(1, 0.0)
    assert not scene.pipeline.learner.cut_due
    assert scene.pipeline.learner.rows == 0
    assert scene.pipeline.learner.rows_elsewhere == 90
    scene.hand_over(1, 1)
    scene.crew.read(1, 0.0)
    assert scene.pipeline.learner.cut_due
    assert scene.pipeline.learner.positions == {0: Position(45), 1: Position(45)}
    assert scene.pipeline.learner.rows_elsewhere == 0


def test_leaves_of_an_answer_that_came_too_late_still_count(scene: Scene) -> None:
    """A checkpoint asks anew while an answer is on its way: nothing of that is lost."""
    scene.learn(0, 45)
    scene.tell(0)
    scene.crew.read(1, 0.0)
    scene.crew.refresh(may_train=True)
    scene.hand_over(0, 1)
    scene.hand_over(0, 2)
    scene.hand_over(1, 2)
    scene.crew.flush(5.0)
    assert scene.pipeline.learner.leaves_since_cut == 2
    assert scene.pipeline.learner.position(0) == Position(45)


def test_nothing_is_saved_before_every_worker_has_stored_its_letters(scene: Scene) -> None:
    """One that is late fails the checkpoint with its reason; the next one asks again."""
    scene.hand_over(0, 1)
    scene.hands.say(1, Late(1, "dead letters wait", "Look at the topic."))
    with pytest.raises(TransientError, match="dead letters wait"):
        scene.crew.flush(5.0)
    assert [settle for _, settle in scene.asked()] == [True] * PARTITIONS
    for number in range(PARTITIONS):
        scene.hand_over(number, 2)
    scene.crew.flush(5.0)


def test_a_worker_that_ended_is_told_again_and_again(scene: Scene) -> None:
    """A checkpoint that meets it first is not the end of it."""
    scene.hands.say(1, None)
    for _ in range(2):
        with pytest.raises(TransientError, match=r"worker 1 of 2 \(process 4711\) was ended by SIGKILL"):
            scene.crew.flush(5.0)
    with pytest.raises(TransientError, match="worker 1 of 2"):
        scene.crew.read(1, 0.0)


def test_an_error_of_a_worker_keeps_its_class(scene: Scene) -> None:
    """So the exit status is that of one process; what follows it is not taken for another reason."""
    scene.hands.say(0, Failed("StateError", "the log ends", "Restore it."))
    scene.hands.say(0, None)
    with pytest.raises(StateError, match=r"worker 0: the log ends. Restore it."):
        scene.crew.read(1, 0.0)


def test_a_defect_of_a_worker_is_no_error_of_people(scene: Scene) -> None:
    """It comes with its traceback."""
    scene.hands.say(0, Failed("", "unexpected KeyError: 7", "Traceback: here"))
    with pytest.raises(RuntimeError, match="unexpected KeyError: 7\nTraceback: here"):
        scene.crew.read(1, 0.0)


def test_what_a_worker_waits_for_is_told_with_its_number(scene: Scene) -> None:
    """A trainer is ready when every one of its workers is."""
    health = scene.crew._health
    for number, why in ((0, {}), (1, {"registry": "it does not answer"})):
        scene.hands.say(
            number,
            Progress(
                positions={},
                ahead={},
                fetched={},
                watermarks={},
                leaves=0,
                rows=0,
                points_held=0,
                idle=True,
                waiting_for=why,
                counted=[],
                newest=[],
                rejected=None,
            ),
        )
    scene.crew.read(1, 0.0)
    assert health.ready()[1]["waiting_for"] == {"registry": "worker 1: it does not answer"}
    scene.now = 1e6
    scene.crew.look()
    assert "worker 0 has been silent" in health.healthy()[1]["why"]


def test_a_gap_that_a_worker_meets_is_the_trainers_to_decide(scene: Scene) -> None:
    """`input.on_gap` speaks of it, whatever the client called it."""
    scene.hands.say(1, Failed("OffsetOutOfRange", "offset 3 is out of range", "Choose."))
    with pytest.raises(LogGap, match="worker 1: offset 3 is out of range"):
        scene.crew.read(1, 0.0)
