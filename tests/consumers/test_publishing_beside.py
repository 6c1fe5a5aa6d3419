"""A version is committed beside the loop: what the loop may do meanwhile, and what becomes of the version."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import pytest

from consumers.metrics import TRAINER, Metrics
from consumers.settings import Settings
from consumers.streams.abandonable import Aside
from consumers.streams.topics import KnownPointers
from consumers.trainer import session as sessions
from consumers.trainer import trainer as trainers
from consumers.trainer.session import InDoubt, Session
from streamsvm.delivery.machine import Delivery, State
from streamsvm.errors import FatalError
from streamsvm.kafka import (
    Batch,
    Cluster,
    Connection,
    Input,
    Message,
    OffsetOutOfRange,
    OutcomeUnknown,
    Publisher,
    PublishRefused,
    TopicSpec,
)
from streamsvm.model.pointers import Owner
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import DEADLINE_S, Running, produce, records, settings_for, versions
from tests.test_delivery import head

pytestmark = pytest.mark.enough("embedded")

T = TypeVar("T")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class ByHand(Generic[T]):
    """A call that is made once the test says so."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call, self.ends = call, False

    def over(self, timeout_s: float) -> bool:
        return self.ends

    @property
    def returned(self) -> T:
        return self._call()


class Recorded:
    """A publisher that notes what it is asked for, and answers once it may."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.error: Exception | None = None
        self.attempted = ()
        self.answers = threading.Event()
        self.answers.set()

    def start(self) -> None:
        self.calls.append("start")

    def publish(self, messages: Sequence[Message], _last: object) -> list[int]:
        assert self.answers.wait(DEADLINE_S)
        self.calls.append("publish")
        if self.error is not None:
            raise self.error
        return [7] * len(messages)

    def confirm(self) -> None:
        self.calls.append("confirm")

    def close(self) -> None:
        self.calls.append("close")


class Owned:
    """A session that is ready, its publishers, and the calls that it makes beside the loop."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, aside: Any = None) -> None:
        self.delivery, self.now = Delivery("m", "s"), 0.0
        self.made: list[Recorded] = []
        self.begun: list[ByHand[Any]] = []
        self.embedded = True
        settings = settings_for("p", directory)
        self.session = Session(
            settings,
            cast(Cluster, self),
            self.delivery,
            Metrics(TRAINER),
            lambda: self.now,
            aside=aside or self._beside,
        )
        known = KnownPointers(head=None, owner=Owner("s", NOW.isoformat()))
        monkeypatch.setattr(sessions, "read_pointers", lambda *_: known)
        self.session.take_over(NOW)
        self.delivery.begins(known.owner, 1, None, None)
        self.made[-1].calls.clear()

    def publisher(self, *_: str) -> Recorded:
        self.made.append(Recorded())
        return self.made[-1]

    def _beside(self, call: Callable[[], Any]) -> ByHand[Any]:
        self.begun.append(ByHand(call))
        return self.begun[-1]

    def begin(self) -> None:
        self.session.begin([Message("p-models", b"")], None, lambda _: head(1))


def test_what_is_under_way_is_neither_doubted_nor_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but its end ends it: no reader that is held up, no stop, and nothing is sent beside it."""
    owned = Owned(tmp_path, monkeypatch)
    session = owned.session
    owned.begin()
    owned.now += 12.0
    session.doubt("readers are held up")
    assert not session.renew()
    assert not session.renew(at_once=True)
    assert not session.ended(0.0)
    with pytest.raises(AssertionError, match="SENT in state SENDING"):
        session.publish([Message("p-models", b"")])
    assert (owned.delivery.state, session.trouble, session.sending_s) == (State.SENDING, "", 12.0)
    assert owned.made[-1].calls == []
    owned.begun[-1].ends = True
    assert session.ended(0.0)
    assert not session.sending
    assert session.sending_s == 0.0
    assert owned.delivery.ready
    assert owned.delivery.head == head(1)
    assert owned.made[-1].calls == ["publish", "confirm"]


@pytest.mark.parametrize(
    ("error", "raised", "state"),
    [
        (OutcomeUnknown("no answer"), InDoubt, State.TAKING),
        (PublishRefused("too large"), PublishRefused, State.READY),
        (FatalError("the client cannot go on"), FatalError, State.OVER),
    ],
)
def test_what_failed_beside_the_loop_is_raised_in_it(
    error: Exception, raised: type[Exception], state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, when the loop asks; what is doubted is then found out as ever, by another producer."""
    owned = Owned(tmp_path, monkeypatch)
    owned.made[-1].error = error
    owned.begin()
    owned.begun[-1].ends = True
    with pytest.raises(raised):
        owned.session.ended(0.0)
    assert not owned.session.sending
    assert owned.delivery.state is state
    if state is State.TAKING:
        owned.session.doubt("readers are held up")
        assert owned.session.trouble == "no answer"
        assert owned.session.renew(at_once=True)
        assert [one.calls for one in owned.made] == [["publish", "close"], ["start"]]


def test_a_session_that_ends_meanwhile_waits_for_the_end_of_its_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread goes on with the publisher that it began with, which is closed after it."""
    owned = Owned(tmp_path, monkeypatch, Aside)
    owned.made[-1].answers.clear()
    owned.begin()
    threading.Timer(0.2, owned.made[-1].answers.set).start()
    owned.session.close()
    assert owned.made[-1].calls == ["publish", "confirm", "close"]
    assert not owned.session.sending


def test_a_call_that_does_not_return_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client is not entered from another thread."""
    owned = Owned(tmp_path, monkeypatch)
    owned.begin()
    owned.session.close()
    assert owned.made[-1].calls == []
    assert not owned.session.sending


# ------------------------------------------------------------------- the trainer


class HeldBack(Cluster):
    """A broker, one of whose answers to a transaction is held back: it is stored, and the trainer does not know."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.armed, self.reached, self.answers = False, threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.gap = False

    def publisher(
        self, transactional_id: str, writer: str = "", *, transaction_timeout_s: float | None = None
    ) -> Publisher:
        made = super().publisher(transactional_id, writer, transaction_timeout_s=transaction_timeout_s)
        publish = made.publish

        def held_back(*given: Any) -> list[int]:
            offsets = publish(*given)
            if self.armed:
                self.armed = False
                self.reached.set()
                assert self.answers.wait(DEADLINE_S)
                if self.error is not None:
                    raise self.error
            return offsets

        made.publish = held_back  # type: ignore[method-assign]
        return made

    def input(self, topic: str, group: str | None) -> Input:
        made = super().input(topic, group)
        poll = made.poll

        def polled(max_records: int, timeout_s: float) -> Batch:
            if self.gap:
                self.gap = False
                raise OffsetOutOfRange(topic, 0, 1_000_000)
            return poll(max_records, timeout_s)

        made.poll = polled  # type: ignore[method-assign]
        return made


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path) -> Settings:
    made = settings_for(broker.name("beside"), tmp_path / "checkpoint", policy="latest")
    Cluster(broker.connection).create([TopicSpec(made.input.topic, 1)])
    return made


def hold_the_first_version(running: Running, cluster: HeldBack, settings: Settings) -> None:
    """Let the first version, of 40 rows, be stored without an answer."""
    running.wait_until_started()
    cluster.armed = True
    produce(cluster.connection, settings.input.topic, records(45))
    running.wait_until(cluster.reached.is_set)


def published(connection: Connection, settings: Settings) -> list[tuple[int, int]]:
    return [(version.number, version.stream.rows) for version in versions(connection, settings)]


def test_rows_are_learned_while_a_version_is_committed(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And probes say that the commit takes long; a stop waits for it, and publishes what fell due meanwhile."""
    monkeypatch.setattr(trainers, "STALE_AFTER_S", 0.1)
    cluster = HeldBack(connection)
    with Running(settings, connection, cluster) as running:
        hold_the_first_version(running, cluster, settings)
        produce(connection, settings.input.topic, records(200, seed=1))
        running.wait_for_rows(245)
        assert running.value("streamsvm_publishes_total", outcome="published") == 0
        running.wait_until(lambda: "under way" in running.health.ready()[1]["waiting_for"].get("publish", ""))
        assert running.health.healthy()[0]
        running.health.stuck_after_s = 0.1
        running.wait_until(lambda: "transaction" in running.health.healthy()[1].get("why", ""))
        running.health.stuck_after_s = 60.0
        running.ask_to_stop()
        threading.Timer(0.3, cluster.answers.set).start()
    assert published(connection, settings) == [(1, 40), (2, 240)]
    assert running.value("streamsvm_publishes_total", outcome="published") == 2
    assert running.health.healthy()[0]


def test_an_answer_that_is_lost_meanwhile_publishes_nothing_twice(settings: Settings, connection: Connection) -> None:
    """The topic shows that the version is there; what was learned meanwhile makes the next one."""
    cluster = HeldBack(connection)
    cluster.error = OutcomeUnknown("the answer was lost")
    with Running(settings, connection, cluster) as running:
        hold_the_first_version(running, cluster, settings)
        produce(connection, settings.input.topic, records(40, seed=1))
        running.wait_for_rows(85)
        cluster.answers.set()
        running.wait_until(lambda: running.value("streamsvm_publishes_total", outcome="published") == 2)
    assert published(connection, settings) == [(1, 40), (2, 80)]
    assert running.value("streamsvm_producer_renewals_total") == 1


def test_a_gap_meanwhile_leaves_the_version_to_the_next_life(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next life of the process takes the id while the old call is still under way, and finds the version."""
    monkeypatch.setattr(sessions, "CLOSE_S", 0.2)
    on_gap = settings.model_copy(update={"input": settings.input.model_copy(update={"on_gap": "reset"})})
    cluster = HeldBack(connection)
    with Running(on_gap, connection, cluster) as running:
        hold_the_first_version(running, cluster, on_gap)
        cluster.gap = True
        produce(connection, on_gap.input.topic, records(40, seed=1))
        running.wait_until(lambda: running.value("streamsvm_publishes_total", outcome="published") == 1)
        cluster.answers.set()
    assert published(connection, on_gap) == [(1, 40), (2, 80)]
    # What the old call became was not noted: the next life knew it from the topic.
    assert running.value("streamsvm_publishes_total", outcome="published") == 1
