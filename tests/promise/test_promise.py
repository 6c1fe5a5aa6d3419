"""Each invariant against a small story of logs that are sound, and against the same story with one thing spoilt."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.promise import answers, moves, states, versions
from tests.promise.anomalies import Anomaly
from tests.promise.records import Record, of_bytes, published

MODELS, ALIASES, AUDIT, CORESETS = "models", "models.aliases", "models.audit", "coresets"
POINTS, SCORES, LETTERS = "points", "scores", "points.dlq"
FED = 5
ADAPTERS = ("__init__", "topics", "test_promise")


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


class Logs:
    """What topics hold: four versions of the model `m`, the third refused by the gate, a pin, five answers, a state."""

    def __init__(self) -> None:
        self.logs: dict[str, list[Record]] = {
            topic: [] for topic in (MODELS, ALIASES, AUDIT, CORESETS, SCORES, LETTERS)
        }
        self.put(ALIASES, "m@owner", {"session": "s1"})
        for number in (1, 2, 3, 4):
            self.version(number, refused=number == 3)
        self.put(ALIASES, "m@current#pin", {"number": 2})
        self.put(AUDIT, "m@current#pin", {"event": "pinned", "name": "m", "alias": "m@current#pin", "to": 2})
        for offset in range(4):
            self.score(offset)
        self.refuse(4)
        self.leave(10)
        self.leave(40)

    def put(self, topic: str, key: str | None, value: Any, headers: dict[str, str] | None = None) -> int:
        offset = len(self.logs[topic])
        sha256 = None if value is None else digest(value)
        record = Record(
            topic=topic, partition=0, offset=offset, key=key, value=value, sha256=sha256, headers=headers or {}
        )
        self.logs[topic].append(record)
        return offset

    def change(self, topic: str, offset: int, **told: Any) -> None:
        """Change fields of a record's value; its hash stays."""
        self.remake(topic, offset, value={**self.logs[topic][offset].value, **told})

    def remake(self, topic: str, offset: int, **told: Any) -> None:
        """Change attributes of a record."""
        old = self.logs[topic][offset]
        fields = {name: getattr(old, name) for name in old.__dataclass_fields__}
        self.logs[topic][offset] = Record(**{**fields, **told})

    def take(self, topic: str, *offsets: int) -> None:
        """Have records not be committed."""
        for offset in offsets:
            self.remake(topic, offset, committed=False)

    def version(self, number: int, *, refused: bool = False, session: str = "s1", **spoilt: Any) -> None:
        """Commit a version with all that belongs to it."""
        hashes = {int((one.key or "@0").split("@")[1]): one.sha256 for one in self.logs[MODELS]}
        cut = spoilt.get("cut", [{"partition": 0, "offset": 10 * number, "row": 0}])
        linked = {1: (), 2: (), 3: (), 4: (2,), 5: (), 6: (4,)}[number]
        lineage = {
            "parent": hashes.get(number - 1),
            "cut": cut,
            "base": [{"partition": 0, "offset": 0, "row": 0}],
            "links": [{"number": at, "sha256": hashes[at]} for at in linked],
            **spoilt,
        }
        value = {"name": "m", "version": number, "stream": {"rows": 10 * number}, "lineage": lineage}
        headers = {versions.SHA256: digest(value), versions.SESSION: session, "streamsvm.incarnation": "1"}
        offset = self.put(MODELS, f"m@{number}", value, headers)
        named = {"number": number, "sha256": digest(value), "offset": offset}
        currents = [one.value["number"] for one in self.logs[ALIASES] if one.key == "m@current"]
        gate = {"outcome": "refused" if refused else "passed", "against": currents[-1] if currents else None}
        self.put(ALIASES, "m@head", {**named, "incarnation": 1, "cut": cut, "gate": gate})
        if not refused:
            self.put(ALIASES, "m@current", named)
        event = {"event": "gate_refused" if refused else "alias_moved", "name": "m", "by": "trainer"}
        self.put(AUDIT, f"m@{number}", {**event, "to": number, "sha256": digest(value)})

    def score(self, offset: int, **spoilt: str) -> None:
        headers = {answers.SOURCE: f"{POINTS}/0/{offset}", "streamsvm.model.sha256": self.logs[MODELS][0].sha256 or ""}
        self.put(SCORES, None, {"id": offset, "model": "m", "version": 1}, {**headers, **spoilt})

    def refuse(self, offset: int) -> None:
        place = {"topic": POINTS, "partition": "0", "offset": str(offset)}
        self.put(LETTERS, None, None, {f"{answers.LETTER}{name}": told for name, told in place.items()})

    def leave(self, rows: int, *, part: str = "part", manifest_first: bool = False) -> None:
        """Leave a state as a worker does: a part, then its manifest, or the other way round."""
        where = f"{rows:020d}.{0:010d}"
        named = {"name": f"l/{where}#{part}", "size": 100}
        manifest: dict[str, Any] = {"buckets": [], "rest": named, "newest": None}
        both = [(f"l/{where}#{part}/0", part), (f"m/{where}", manifest)]
        for key, value in reversed(both) if manifest_first else both:
            self.put(CORESETS, f"m/00000001-ab/{key}", value)

    def judged(self) -> list[Anomaly]:
        """Return what every invariant says."""
        log, given = self.logs, [*self.logs[SCORES], *self.logs[LETTERS]]
        points = {(f"{POINTS}/0/{offset}", offset): 0 for offset in range(FED)}
        left = states.look(log[CORESETS])
        firsts = [one for one in published(log[MODELS], "m") if one.key in ("m@1", "m@4")]
        return [
            *versions.check(log[MODELS], log[ALIASES], log[AUDIT], "m", gated=True),
            *versions.counts(published(log[MODELS], "m")),
            *moves.check(log[ALIASES], log[AUDIT], {"m"}),
            *answers.once(given),
            *answers.all_below(given, points, {0: FED}, "group g"),
            *answers.fed(given, points),
            *answers.by_versions(log[SCORES], log[MODELS]),
            *answers.letters_below(log[LETTERS], [(POINTS, 0, 4)], {0: FED}),
            *answers.letters_of(log[LETTERS], [(POINTS, 0, 4)]),
            *left.anomalies(),
            *states.adopted(firsts, {0: left}),
        ]


def test_sound_logs_have_no_anomaly() -> None:
    """Everything that the stories spoil is there, and sound."""
    assert [anomaly.line() for anomaly in Logs().judged()] == []


def _a_number_is_there_twice(logs: Logs) -> None:
    last = logs.logs[MODELS][3]
    logs.put(MODELS, last.key, last.value, dict(last.headers))


def _swapped(topic: str, one: int, other: int) -> Callable[[Logs], None]:
    def spoil(logs: Logs) -> None:
        found = logs.logs[topic]
        found[one], found[other] = found[other], found[one]

    return spoil


def _gone(topic: str, offset: int) -> Callable[[Logs], None]:
    def spoil(logs: Logs) -> None:
        del logs.logs[topic][offset]

    return spoil


def _a_header_has_another_hash(logs: Logs) -> None:
    logs.remake(MODELS, 3, headers={**logs.logs[MODELS][3].headers, versions.SHA256: "f" * 64})


def _a_version_with(number: int = 5, **spoilt: Any) -> Callable[[Logs], None]:
    return lambda logs: logs.version(number, **spoilt)


def _a_process_comes_back(logs: Logs) -> None:
    logs.version(5, session="s2")
    logs.version(6, session="s1")


def _a_process_publishes_after_another_one_owns(logs: Logs) -> None:
    logs.put(ALIASES, "m@owner", {"session": "s2"})
    logs.version(5, session="s1")


def _an_incarnation_comes_back(logs: Logs) -> None:
    logs.remake(MODELS, 2, headers={**logs.logs[MODELS][2].headers, "streamsvm.incarnation": "2"})
    logs.change(ALIASES, 5, incarnation=2)


def _taken(*places: tuple[str, int]) -> Callable[[Logs], None]:
    def spoil(logs: Logs) -> None:
        for topic, offset in places:
            logs.take(topic, offset)

    return spoil


def _changed(topic: str, offset: int, **told: Any) -> Callable[[Logs], None]:
    return lambda logs: logs.change(topic, offset, **told)


def _written(topic: str, key: str | None, value: Any) -> Callable[[Logs], None]:
    def spoil(logs: Logs) -> None:
        logs.put(topic, key, value)

    return spoil


def _again(topic: str, offset: int) -> Callable[[Logs], None]:
    return lambda logs: _written(topic, logs.logs[topic][offset].key, logs.logs[topic][offset].value)(logs)


def _the_gate_says(offset: int, **gate: Any) -> Callable[[Logs], None]:
    def spoil(logs: Logs) -> None:
        told = logs.logs[ALIASES][offset].value
        logs.change(ALIASES, offset, gate={**told["gate"], **gate} if gate else None)

    return spoil


NOWHERE = {"number": 9, "sha256": "0" * 64, "offset": 9}
FORGED = {answers.SOURCE: f"{POINTS}/0/0", "streamsvm.model.sha256": "e" * 64}
BASE = [{"partition": 0, "offset": 3, "row": 0}]
BACK = [{"partition": 0, "offset": 30, "row": 0}]
SPOILT: list[tuple[str, Callable[[Logs], None], set[str]]] = [
    ("a number is left out", _taken((MODELS, 1)), {"missing-version", "torn-version"}),
    ("a number is there twice", _a_number_is_there_twice, {"doubled-version", "reordered"}),
    ("a lower number follows a higher one", _swapped(MODELS, 2, 3), {"reordered"}),
    ("a record is no version", _written(MODELS, "m@settled", {}), {"forged"}),
    ("a header has another hash", _a_header_has_another_hash, {"forged"}),
    ("a value names another version", _changed(MODELS, 3, version=7), {"forged"}),
    ("a parent is forged", _a_version_with(parent="a" * 64), {"forged"}),
    ("a link is forged", _a_version_with(links=[{"number": 1, "sha256": "a" * 64}]), {"forged"}),
    ("a cut goes back", _a_version_with(cut=BACK), {"reordered", "mixed"}),
    ("a base moves", _a_version_with(base=BASE), {"reordered", "mixed"}),
    ("a row is not counted", _changed(MODELS, 3, stream={"rows": 39}), {"mixed"}),
    ("a process comes back", _a_process_comes_back, {"zombie"}),
    ("a process publishes after another one owns", _a_process_publishes_after_another_one_owns, {"zombie"}),
    ("an incarnation comes back", _an_incarnation_comes_back, {"reordered"}),
    ("a version without its head", _taken((ALIASES, 6)), {"torn-version"}),
    ("a version without its alias", _taken((ALIASES, 7)), {"torn-version", "disobeyed-gate"}),
    ("a version without its entry", _taken((AUDIT, 3)), {"torn-version"}),
    ("only the version is lost", _taken((MODELS, 3)), {"torn-version"}),
    ("an alias of what is not there", _written(ALIASES, "m@current", NOWHERE), {"torn-version"}),
    ("a head is written twice", _again(ALIASES, 6), {"doubled-version", "disobeyed-gate"}),
    ("an entry is written twice", _again(AUDIT, 3), {"doubled-version"}),
    ("the head goes back", _swapped(ALIASES, 3, 5), {"reordered", "disobeyed-gate"}),
    ("a head of another incarnation", _changed(ALIASES, 6, incarnation=7), {"forged"}),
    ("a head of another cut", _changed(ALIASES, 6, cut=BASE), {"forged"}),
    ("a head without a gate", _the_gate_says(6), {"disobeyed-gate"}),
    ("a gate that compares with what it refused", _the_gate_says(6, against=3), {"disobeyed-gate"}),
    ("a gate that nobody obeys", _the_gate_says(6, outcome="refused"), {"disobeyed-gate"}),
    ("a pin without its entry", _written(ALIASES, "m@current#pin", None), {"torn-move"}),
    ("an entry without its pin", _again(AUDIT, 4), {"torn-move"}),
    ("a point is scored twice", lambda logs: logs.score(2), {"doubled-score"}),
    ("a point without an answer", _gone(SCORES, 3), {"lost-score"}),
    ("a score of nothing", lambda logs: logs.score(77), {"phantom"}),
    ("a score by another hash", lambda logs: logs.remake(SCORES, 0, headers=FORGED), {"forged-score"}),
    ("a letter is lost", _gone(LETTERS, 0), {"lost-letter", "lost-score"}),
    ("a letter of a sound row", lambda logs: logs.refuse(3), {"forged-letter"}),
    ("a manifest before its part", lambda logs: logs.leave(50, manifest_first=True), {"incomplete-manifest"}),
    ("two workers leave different states", lambda logs: logs.leave(40, part="other"), {"rewritten-state"}),
    ("a version of what no worker left", lambda logs: logs.logs[CORESETS].clear(), {"adopted-incomplete"}),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "wanted"), [row[1:] for row in SPOILT], ids=[row[0] for row in SPOILT])
def test_an_invariant_is_seen_to_be_broken(spoil: Callable[[Logs], None], wanted: set[str]) -> None:
    """Each story breaks what it names, and nothing else; whoever reads the lines learns where."""
    logs = Logs()
    spoil(logs)
    found = logs.judged()
    assert {anomaly.name for anomaly in found} == wanted, [anomaly.line() for anomaly in found]
    assert all(anomaly.records and anomaly.why for anomaly in found)


def test_a_part_is_known_by_its_bytes() -> None:
    """Where the bytes of a part are known, its size and its hash are checked, whatever the number of its pieces."""
    body = b"rows" * 20
    name = f"l/1#{hashlib.sha256(body).hexdigest()}"
    manifest = json.dumps({"buckets": [], "rest": {"name": name, "size": 112}, "newest": None}).encode()
    whole = body + bytes(32)

    def left(*pieces: bytes) -> tuple[str, ...]:
        keyed = [(f"m/1-a/{name}/{at}".encode(), piece) for at, piece in enumerate(pieces)]
        log = [*keyed, (b"m/1-a/m/1", manifest)]
        return states.look(of_bytes(CORESETS, 0, at, key, value) for at, (key, value) in enumerate(log)).lacking

    assert left(whole) == left(whole[:50], whole[50:]) == ()
    assert "lacks" in left(whole[:50])[0]
    assert "another hash" in left(b"R" + whole[1:])[0]
    assert "other bytes" in left(whole + b"more")[0]


def test_a_pointer_that_was_written_again_to_complete_its_attempt_counts_by_its_last_word() -> None:
    """The marker of a version's record may be lost: it is published again elsewhere, and so is what names it."""
    logs = Logs()
    for offset in (6, 7):
        old, stamp = logs.logs[ALIASES][offset], {versions.ATTEMPT: f"s1/1.4 {offset - 4}/4 streamsvm/m/models"}
        logs.remake(ALIASES, offset, value={**old.value, "offset": 9}, headers=stamp)
        logs.put(ALIASES, old.key, old.value, stamp)
    assert logs.judged() == []


def test_what_an_older_incarnation_left_may_be_taken_away_in_any_order() -> None:
    """Once a later one has begun, nothing is promised of it."""
    logs = Logs()
    logs.put(CORESETS, "m/o/00000002", {})
    logs.put(CORESETS, f"m/00000001-ab/l/{40:020d}.{0:010d}#part/0", None)
    assert logs.judged() == []


def test_the_invariants_share_no_code_with_what_they_judge() -> None:
    """They import the standard library and each other only."""
    for file in Path(__file__).parent.glob("*.py"):
        if file.stem not in ADAPTERS:
            tree = ast.parse(file.read_text(encoding="utf-8"))
            found = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
            found |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
            foreign = {
                name for name in found if name.split(".")[0] in ("streamsvm", "consumers", "confluent_kafka", "msgspec")
            }
            assert foreign == set(), file.name
            assert all(name.startswith("tests.promise") for name in found if name.startswith("tests")), file.name
