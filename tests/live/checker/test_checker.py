"""The checker against histories made by hand: one that is sound, and one with each anomaly."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.joining import reference
from tests.live import history
from tests.live.checker import check
from tests.live.history import Entry, Recorder, load
from tests.promise import test_promise
from tests.promise.anomalies import NAMES, Anomaly

MODELS, ALIASES, AUDIT, INPUT = "models", "models.aliases", "models.audit", "labeled"
POINTS, SCORES, LETTERS = "points", "scores", "points.dlq"
WORKED, CORESETS = "worked", "coresets"
ROWS, LABELS, ROWS_LETTERS = "rows", "labels", "rows.dlq"
IDS = {INPUT: "input-1", POINTS: "points-1", ROWS: "rows-1", LABELS: "labels-1", WORKED: "worked-1"}
HORIZON_MS = 1_000
BOUND_S = 60.0
OWN = {path.name: path for path in Path(__file__).parent.glob("[!t]*.py")} | {
    Path(module.__file__ or "").name: Path(module.__file__ or "") for module in (history, reference)
}
"""The checker's files, and what it shares with others."""
OPEN = 1_000
"""Offsets from here on are those of records that are there and not committed."""


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


class Story:
    """A history in the making; sound unless a test spoils it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.logs: dict[str, list[dict[str, Any] | None]] = {
            topic: [] for topic in (MODELS, ALIASES, AUDIT, SCORES, LETTERS, ROWS_LETTERS, CORESETS)
        }
        self.open: list[tuple[str, int, dict[str, Any]]] = []
        self.t = 0.0
        rule = {"horizon_ms": HORIZON_MS, "early_ms": 0, "absent": "dead_letter"}
        site = {
            "models": MODELS,
            "aliases": ALIASES,
            "audit": AUDIT,
            "inputs": {"m": INPUT, "j": ROWS, "w": WORKED},
            "rows_per_version": 20,
            "coresets": {"w": CORESETS},
            "joins": {"j": {"labels": LABELS, "letters": [ROWS_LETTERS], **rule}},
        }
        scoring = {"group": "g", "points": POINTS, "scores": SCORES, "letters": LETTERS, "model": "m"}
        self.tell("run", "info", "run", seed=1, bound_s=BOUND_S, sites=[site], scorings=[scoring])
        for client, isolation, view in (
            ("live", "read_committed", "live"),
            ("final", "read_committed", "final"),
            ("final-open", "read_uncommitted", "final"),
        ):
            self.tell(client, "info", "reader", isolation=isolation, view=view)
        for topic, topic_id in IDS.items():
            self.tell("feeder", "ok", "topic", topic=topic, topic_id=topic_id)

    def tell(self, client: str, type_: Any, f: str, **told: Any) -> None:
        self.t += 0.001
        self.entries.append(Entry(round(self.t, 3), client, type_, f, told))

    # ------------------------------------------------------------ what happens

    def version(self, number: int, *, session: str = "s1", parent: str | None = "", incarnation: int = 1) -> str:
        """Commit a version with all that belongs to it, and let the trainer say so; return its hash."""
        cut = [{"partition": 0, "offset": 10 * number, "row": 0}]
        parent = (self.hash_of(number - 1) if number > 1 else None) if parent == "" else parent
        lineage = {"parent": parent, "cut": cut, "topic_id": IDS[INPUT]}
        return self.publish("m", number, lineage, (5.0 * number, 5.0 * number), session, incarnation)

    def joined_version(self, number: int, row: int, class_weight: tuple[float, float]) -> str:
        """Commit a version of the model whose labels come later: all that is joined at the tenth row, up to a row."""
        cut = [{"partition": 0, "offset": 10, "row": row}]
        lineage = {"parent": None, "cut": cut, "topic_id": IDS[ROWS], "labels": {"topic_id": IDS[LABELS]}}
        return self.publish("j", number, lineage, class_weight)

    def publish(
        self,
        name: str,
        number: int,
        lineage: dict[str, Any],
        class_weight: tuple[float, float],
        session: str = "s1",
        incarnation: int = 1,
    ) -> str:
        value = {"name": name, "version": number, "stream": {"class_weight": class_weight}, "lineage": lineage}
        headers = {
            "streamsvm.sha256": digest(value),
            "streamsvm.session": session,
            "streamsvm.incarnation": str(incarnation),
        }
        offset = self.put(MODELS, f"{name}@{number}", value, headers)
        named = {"number": number, "sha256": digest(value), "offset": offset}
        self.put(ALIASES, f"{name}@head", {**named, "incarnation": incarnation})
        self.put(ALIASES, f"{name}@current", named)
        entry = {"event": "alias_moved", "name": name, "by": "trainer", "alias": f"{name}@current"}
        self.put(AUDIT, f"{name}@{number}", {**entry, "to": number, "sha256": digest(value)})
        self.tell(f"trainer-{session}", "ok", "publish", model=name, number=number)
        return digest(value)

    def hash_of(self, number: int) -> str | None:
        found = [record for record in self.logs[MODELS] if record and record["key"] == f"m@{number}"]
        return found[-1]["sha256"] if found else None

    def pin(self, number: int, reason: str) -> None:
        """Move the pin as a person does."""
        self.tell("operator", "invoke", "move", command="pin", model="m", reason=reason)
        self.put(ALIASES, "m@current#pin", {"number": number, "sha256": self.hash_of(number), "offset": number - 1})
        entry = {"event": "pinned", "name": "m", "by": "root@host", "reason": reason}
        self.put(AUDIT, "m@current#pin", {**entry, "alias": "m@current#pin", "to": number})
        self.tell("operator", "ok", "move", command="pin", model="m", reason=reason, exit=0, said="readers are held")

    def feed(self, topic: str, first: int, last: int, *, id_: int = 0) -> None:
        """Feed points, labeled in turn; their ids are their offsets, or so much more."""
        records = [(0, id_ + offset, 2 * (offset % 2) - 1) for offset in range(first, last + 1)]
        self.feed_records(topic, first, records)

    def feed_records(self, topic: str, first: int, records: Sequence[tuple[int, Any, int | None]]) -> None:
        last = first + len(records) - 1
        self.tell("feeder", "ok", "feed", topic=topic, partition=0, first=first, last=last, records=records)

    def leave(self, rows: int) -> None:
        """Leave a state as a worker does: a part, then its manifest."""
        where = f"{rows:020d}.{0:010d}"
        named = {"name": f"l/{where}#part", "size": 100}
        manifest = {"position": [rows, 0], "rows": rows, "buckets": [], "rest": named, "newest": None}
        for key, value in ((f"l/{where}#part/0", "part"), (f"m/{where}", manifest)):
            self.put(CORESETS, f"w/00000001-ab/{key}", value)

    def worked_version(self) -> str:
        """Commit a version of the model that workers learn, of ten rows."""
        cut = [{"partition": 0, "offset": 10, "row": 0}]
        return self.publish("w", 1, {"parent": None, "cut": cut, "topic_id": IDS[WORKED]}, (5.0, 5.0))

    def make_again(self, topic: str, topic_id: str) -> None:
        self.tell("feeder", "info", "topic", topic=topic)
        self.tell("feeder", "ok", "topic", topic=topic, topic_id=topic_id)

    def refuse(self, offset: int, reason: str) -> None:
        """Write the dead letter of a row."""
        place = {"topic": ROWS, "partition": "0", "offset": str(offset), "exception": reason}
        self.put(ROWS_LETTERS, None, None, {f"__streams.errors.{name}": told for name, told in place.items()})

    def score(self, offset: int, number: int = 1, sha256: str | None = "", *, id_: int = 0) -> None:
        """Commit the score of a point."""
        said = self.hash_of(number) if sha256 == "" else sha256
        headers = {"streamsvm.source": f"{POINTS}/0/{offset}", "streamsvm.model.sha256": said or "none"}
        self.put(SCORES, None, {"id": id_ + offset, "score": 1.0, "model": "m", "version": number}, headers)

    def put(self, topic: str, key: str | None, value: Any, headers: dict[str, str] | None = None) -> int:
        """Commit a record; return its offset."""
        record = {
            "key": key,
            "value": value,
            "sha256": None if value is None else digest(value),
            "headers": headers or {},
        }
        self.logs[topic].append(record)
        return len(self.logs[topic]) - 1

    def take(self, topic: str, offset: int, *, leave_open: bool = False) -> None:
        """Have a record not be committed."""
        record = self.record(topic, offset)
        self.logs[topic][offset] = None
        if leave_open:
            self.open.append((topic, offset, record))

    def record(self, topic: str, offset: int) -> dict[str, Any]:
        """Return a committed record, to be read again or spoilt."""
        found = self.logs[topic][offset]
        assert found is not None
        return found

    def lineage(self, offset: int, **spoilt: Any) -> None:
        """Change what a version says of its origin."""
        self.record(MODELS, offset)["value"]["lineage"].update(spoilt)

    def weighs(self, offset: int, class_weight: tuple[float, float]) -> None:
        """Change how many points of each label a version says it has."""
        self.record(MODELS, offset)["value"]["stream"]["class_weight"] = class_weight

    # ------------------------------------------------------------------ what is told

    def moved(self, type_: str, said: str, exit_: int = 0) -> None:
        """Let an operator be answered."""
        self.tell("operator", type_, "move", command="pin", model="m", reason="op-2", exit=exit_, said=said)

    def refuses(self, said: str, client: str = "trainer-1") -> None:
        """Let a daemon end with a refusal."""
        self.tell(client, "fail", "life", exit=78, said=said)

    def counts(self, scorer: str, points: int) -> None:
        """Let a scorer say how many points it has scored."""
        self.tell(scorer, "ok", "score", group="g", points=points, batches=1)

    def stands_at(self, offset: int) -> None:
        """Let the group of scorers stand at an offset."""
        self.tell("watcher", "ok", "position", group="g", topic=POINTS, partition=0, offset=offset)

    def serve(self, number: int, sha256: str | None) -> None:
        """Let the subscriber serve a version."""
        self.tell("subscriber", "ok", "serve", model="m", number=number, sha256=sha256)

    def go_on_in_another_topic(self, last: int) -> None:
        """Make the topic of points again, with so many, and tell a scorer to go on in it."""
        self.make_again(POINTS, "points-2")
        self.tell("scorer-1", "invoke", "life", daemon="scorer-1", added=["--scoring-on-gap", "beginning"])
        self.feed(POINTS, 0, last, id_=100)

    # ------------------------------------------------------------------ the end

    def read(self, client: str, topic: str, offset: int, record: dict[str, Any] | None = None) -> None:
        """Let a reader get a record, or what is committed there."""
        self.tell(
            client, "ok", "read", topic=topic, partition=0, offset=offset, **(record or self.record(topic, offset))
        )

    def live(self, *topics: str) -> None:
        """Let a reader see all that is committed so far."""
        for topic in topics:
            for offset, record in enumerate(self.logs[topic]):
                if record is not None:
                    self.read("live", topic, offset, record)

    def end(self, waited_s: float = 2 * BOUND_S) -> list[Entry]:
        """Wait, look for the last time, and return the history."""
        self.tell("nemesis", "info", "heal")
        self.t += waited_s
        self.tell("run", "info", "end")
        return self.finish()

    def finish(self) -> list[Entry]:
        """Read everything, and return the history."""
        for topic, records in self.logs.items():
            for offset, record in enumerate(records):
                if record is not None:
                    self.read("final", topic, offset, record)
                    self.read("final-open", topic, offset, record)
        for topic, offset, open_ in self.open:
            self.read("final-open", topic, offset, open_)
        return self.entries


def story() -> Story:
    """Three versions, a pin, five scores, a model whose labels come later, one of workers, and the end of it all.

    Nothing is wrong.

    Twelve rows a second apart are labeled half a second later, but for the second one; the last record of each log
    closes it.
    """
    told = Story()
    told.feed(INPUT, 0, 34)
    told.feed(POINTS, 0, 4)
    for number in (1, 2, 3):
        told.version(number)
    told.pin(2, "op-1")
    for offset in range(5):
        told.score(offset)
    rows = [(1_000 * row, row, None) for row in range(12)]
    labels = [(time_ms + 500, row, 1 if row < 6 else -1) for time_ms, row, _ in rows if row != 1]
    told.feed_records(ROWS, 0, [*rows, (20_000, None, None)])
    told.feed_records(LABELS, 0, [*labels, (20_000, None, None)])
    told.refuse(1, "absent_label")
    told.joined_version(1, 1, (5.0, 5.0))
    told.feed(WORKED, 0, 19)
    told.put(CORESETS, "w/o/00000001", {"incarnation": 1})
    told.leave(10)
    told.leave(20)
    told.worked_version()
    told.counts("scorer-1", 5)
    told.stands_at(5)
    told.live(MODELS, ALIASES, AUDIT, SCORES)
    told.serve(2, told.hash_of(2))
    return told


def names(found: list[Anomaly]) -> set[str]:
    return {anomaly.name for anomaly in found}


def test_a_sound_history_has_no_anomaly() -> None:
    """Everything that the stories spoil is there, and sound."""
    assert check(story().end()) == []


# ------------------------------------------------------------------ the anomalies

BACK, BEYOND = ([{"partition": 0, "offset": offset, "row": 0}] for offset in (5, 35_000))
ABORTED = {"key": "m@4", "sha256": "0" * 64, "headers": {}, "value": None}
PART = f"w/00000001-ab/l/{20:020d}.{0:010d}#part/0"
FORGED = {"streamsvm.sha256": "f" * 64}
OTHERS = {"topic_id": "labels-0"}
WITHOUT_IDS = "the models topic held m@7, but now ends at m@6"
LOST = {"lost-score", "stuck-scorer"}
OTHER = {**ABORTED, "key": "m@2", "sha256": "1" * 64}


def a_version_of_what_no_worker_left(told: Story) -> None:
    del told.logs[CORESETS][1:3]


def a_version_is_lost(told: Story) -> None:
    for topic, offsets in {MODELS: [2], ALIASES: [4, 5], AUDIT: [2]}.items():
        for offset in offsets:
            told.take(topic, offset, leave_open=True)


def a_number_is_left_out(told: Story) -> None:
    for topic, offsets in {MODELS: [1], ALIASES: [2, 3], AUDIT: [1]}.items():
        for offset in offsets:
            told.take(topic, offset)


def a_number_is_there_twice(told: Story) -> None:
    record = told.record(MODELS, 2)
    told.put(MODELS, record["key"], record["value"], record["headers"])


def a_refused_move_was_done(told: Story) -> None:
    told.pin(3, "op-2")
    told.moved("fail", "no such version", exit_=78)


def a_move_is_done_twice(told: Story) -> None:
    told.pin(3, "op-2")
    told.pin(1, "op-2")


def a_process_comes_back(told: Story) -> None:
    told.feed(INPUT, 35, 60)
    told.version(4, session="s2")
    told.version(5, session="s1")


def a_reader_got_what_was_aborted(told: Story) -> None:
    told.read("live", MODELS, 5, ABORTED)
    told.open.append((MODELS, 5, ABORTED))


def a_reader_went_past_a_record(told: Story) -> None:
    told.score(5)
    told.feed(POINTS, 5, 6)
    told.score(6)
    told.read("live", SCORES, 6)


def a_score_by_another_hash(told: Story) -> None:
    told.feed(POINTS, 5, 5)
    told.score(5, sha256="e" * 64)


def a_stable_offset_stands_still(told: Story, since: float = 200.0) -> None:
    stands = {"topic": MODELS, "partition": 0, "stable": 3, "end": 4}
    for second in range(0, 100, 10):
        told.entries.append(Entry(since + second, "watcher", "ok", "watermark", stands))


def a_stable_offset_stands_still_and_all_is_green(told: Story) -> None:
    a_stable_offset_stands_still(told)
    green = {"daemon": "trainer-1", "healthy": True, "ready": False, "writes": [MODELS]}
    told.entries.append(Entry(280.0, "watcher", "ok", "health", green))


def a_version_is_of_two_topics(told: Story) -> None:
    told.make_again(INPUT, "input-2")
    told.feed(INPUT, 0, 44)
    told.version(4)


def a_scorer_goes_on_by_itself(told: Story) -> None:
    told.make_again(POINTS, "points-2")
    told.feed(POINTS, 0, 5, id_=100)
    for offset in range(6):
        told.score(offset, id_=100)
    told.read("live", SCORES, 5)


def a_scorer_reads_on_in_another_topic(told: Story) -> None:
    told.go_on_in_another_topic(9)
    for offset in range(5, 10):
        told.score(offset, id_=100)
    told.stands_at(10)


def a_scorer_answers_what_another_topic_held(told: Story) -> None:
    told.go_on_in_another_topic(4)
    for offset in range(5):
        told.score(offset, id_=100)
    told.score(5)


def a_daemon_names_one_id_only(told: Story) -> None:
    told.make_again(INPUT, "input-2")
    told.refuses("the topic labeled was recreated: its id was input-1")


SPOILT: list[tuple[str, Callable[[Story], object], set[str]]] = [
    ("a part that is needed is removed", lambda told: told.put(CORESETS, PART, None), {"incomplete-manifest"}),
    ("a version of what no worker left", a_version_of_what_no_worker_left, {"adopted-incomplete"}),
    ("a version is lost", a_version_is_lost, {"lost-version", "aborted-read"}),
    ("a version is lost behind the group", lambda told: told.take(SCORES, 3), LOST | {"aborted-read"}),
    ("a score is counted and not there", lambda told: told.counts("scorer-2", 3), {"lost-score"}),
    ("a move is lost", lambda told: told.moved("ok", "m@good names m@1"), {"lost-move"}),
    ("a refused move was done", a_refused_move_was_done, {"refused-but-done"}),
    ("a move is done twice", a_move_is_done_twice, {"doubled-move"}),
    ("a pin without its entry", lambda told: told.put(ALIASES, "m@current#pin", None), {"torn-move"}),
    ("a version without its head", lambda told: told.take(ALIASES, 2), {"torn-version", "aborted-read"}),
    ("a number is there twice", a_number_is_there_twice, {"doubled-version", "reordered"}),
    ("a point is scored twice", lambda told: told.score(2), {"doubled-score"}),
    ("a number is left out", a_number_is_left_out, {"missing-version", "lost-version", "aborted-read"}),
    ("a cut goes back", lambda told: told.lineage(2, cut=BACK), {"reordered", "stuck-trainer", "mixed"}),
    ("a cut beyond the input", lambda told: told.lineage(2, cut=BEYOND), {"phantom", "mixed"}),
    ("a process comes back", a_process_comes_back, {"zombie"}),
    ("a reader got what was aborted", a_reader_got_what_was_aborted, {"aborted-read"}),
    ("a subscriber served what was aborted", lambda told: told.serve(4, "0" * 64), {"aborted-read"}),
    ("a reader went past a record", a_reader_went_past_a_record, {"skipped-read"}),
    ("a reader was sent back", lambda told: told.read("live", SCORES, 2), {"inconsistent-read"}),
    ("two readers disagree", lambda told: told.open.append((MODELS, 1, OTHER)), {"inconsistent-read"}),
    ("a header is forged", lambda told: told.record(MODELS, 2)["headers"].update(FORGED), {"forged"}),
    ("a score by another hash", a_score_by_another_hash, {"forged-score"}),
    ("a score of nothing", lambda told: told.score(77), {"phantom"}),
    ("a point waits", lambda told: told.feed(POINTS, 5, 5), {"stuck-scorer"}),
    ("rows wait", lambda told: told.feed(INPUT, 35, 90), {"stuck-trainer"}),
    ("a stable offset stands still", a_stable_offset_stands_still, {"stuck-reader"}),
    ("and all is green", a_stable_offset_stands_still_and_all_is_green, {"stuck-reader", "stuck-and-green"}),
    ("a version is of two topics", a_version_is_of_two_topics, {"mixed", "stuck-trainer"}),
    ("a version names a topic that never was", lambda told: told.lineage(2, topic_id="input-0"), {"mixed"}),
    ("a row is joined that has no label", lambda told: told.weighs(3, (5.0, 6.0)), {"misjoined"}),
    ("a row is joined with labels of another topic", lambda told: told.lineage(3, labels=OTHERS), {"misjoined"}),
    ("a row that has its label is refused", lambda told: told.refuse(4, "absent_label"), {"misjoined"}),
    ("a scorer goes on by itself", a_scorer_goes_on_by_itself, {"unasked"}),
    ("a scorer reads on in another topic", a_scorer_reads_on_in_another_topic, LOST),
    ("a scorer answers what another topic held", a_scorer_answers_what_another_topic_held, {"phantom"}),
    ("a daemon names one id only", a_daemon_names_one_id_only, {"refused-to-start"}),
    ("a daemon refuses to start", lambda told: told.refuses(WITHOUT_IDS), {"refused-to-start"}),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "wanted"), [row[1:] for row in SPOILT], ids=[row[0] for row in SPOILT])
def test_an_anomaly_is_found_and_explained(spoil: Callable[[Story], object], wanted: set[str]) -> None:
    """Each anomaly is found by its name, with what it concerns; nothing else is."""
    told = story()
    spoil(told)
    found = check(told.end())
    assert names(found) == wanted, [anomaly.line() for anomaly in found]
    assert all(anomaly.records and anomaly.why for anomaly in found)


def test_every_anomaly_has_a_story() -> None:
    """No name stands in the list that no history, and no story of logs alone, shows."""
    shown = [wanted for *_, wanted in (*SPOILT, *test_promise.SPOILT)]
    assert set().union(*shown) == set(NAMES)


def test_what_is_committed_late_is_no_anomaly() -> None:
    """A call whose outcome nobody knows may have been done or not; a wait below the bound is no standstill."""
    told = story()
    told.tell("operator", "info", "move", command="pin", model="m", reason="op-3", exit=None, said="")
    told.feed(POINTS, 5, 5)
    assert check(told.end(waited_s=BOUND_S / 2)) == []


def test_who_still_works_is_not_stuck() -> None:
    """Points that wait are no standstill while answers and versions come: only that the machine is slow."""
    told = story()
    told.feed(POINTS, 5, 9)
    told.feed(INPUT, 35, 90)
    told.tell("nemesis", "info", "heal")
    told.t += 2 * BOUND_S
    told.score(5)
    told.version(4)
    told.entries += [
        Entry(told.t, "live", "ok", "read", {"topic": topic, "partition": 0, "offset": len(log) - 1, **(log[-1] or {})})
        for topic, log in told.logs.items()
        if log and topic in (MODELS, SCORES)
    ]
    told.tell("run", "info", "end")
    found = check(told.finish())
    assert found == [], [anomaly.line() for anomaly in found]


def test_who_stops_with_both_ids_and_goes_on_as_told_does_nothing_wrong() -> None:
    """A trainer and a scorer whose topics were made again; one asks while the topic is away."""
    told = story()
    for topic, newer in ((INPUT, "input-2"), (POINTS, "points-2")):
        told.make_again(topic, newer)
        said = f"the topic {topic} was recreated: its id was {IDS[topic]} and is now {newer}"
        told.refuses(said, f"of-{topic}")
        told.refuses(f"the topic {topic} no longer exists", f"of-{topic}")
    told.tell("scorer-1", "invoke", "life", daemon="scorer-1", added=["--scoring-on-gap", "beginning"])
    told.feed(POINTS, 0, 3, id_=100)
    for offset in range(4):
        told.score(offset, id_=100)
    told.stands_at(4)
    found = check(told.end())
    assert found == [], [anomaly.line() for anomaly in found]


def test_a_standstill_during_a_fault_is_none() -> None:
    """The bound is counted from when everything was well again."""
    told = story()
    told.tell("nemesis", "info", "fault", nemesis="outage", what="broker", phase="begin")
    a_stable_offset_stands_still(told, since=1.0)
    told.t = 100.0
    told.tell("nemesis", "info", "fault", nemesis="outage", what="broker", phase="end")
    assert check(told.end()) == []


def test_a_move_that_was_done_before_writes_nothing() -> None:
    """`ok` without a record is right where the answer says that there was nothing to do."""
    told = story()
    told.moved("ok", "readers of current are already pinned to m@2")
    assert check(told.end()) == []


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Lines of JSON keep every field, and times that do not go back."""
    recorder = Recorder(tmp_path / "history.jsonl")
    recorder.tell("a", "invoke", "move", command="pin", model="m", reason="op-1")
    recorder.tell("a", "ok", "move", command="pin", model="m", reason="op-1", exit=0, said="é")
    recorder.close()
    first, second = load(recorder.file)
    assert (first.client, first.type, first.f, first.get("said")) == ("a", "invoke", "move", None)
    assert (second["exit"], second["said"]) == (0, "é")
    assert first.t <= second.t


@pytest.mark.parametrize("file", OWN.values(), ids=OWN)
def test_the_checker_shares_no_code_with_what_it_judges(file: Path) -> None:
    """It imports the standard library and itself only, and the plain form of the rule of joins, which does so too."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    foreign = {
        name for name in imported if name.split(".")[0] in ("streamsvm", "consumers", "tests", "confluent_kafka")
    }
    own = ("tests.live.checker", "tests.live.history", "tests.joining", "tests.promise")
    assert {name for name in foreign if not name.startswith(own)} == set()
