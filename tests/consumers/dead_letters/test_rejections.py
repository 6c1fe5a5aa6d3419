"""Dead letters as people read them: each once, safe to print, with what to do."""

from __future__ import annotations

import json

import pytest

from consumers.dead_letters.listing import StoredLetter, advice, lines, plain, read_letters
from streamsvm.errors import InvalidMessage
from streamsvm.ingest import REASONS, REMEDIES, RejectedRecord, RejectedRow, Rejection, dead_letter as deadletter
from streamsvm.kafka import Cluster, Message, Outbox, Record, TopicSpec
from tests.brokers.fixtures import TestBroker


def letter_of(offset: int, value: bytes, *rejections: Rejection, rows: int = 1) -> deadletter.DeadLetter:
    record = Record("in", 0, offset, b"key", value, (), 0, None)
    return deadletter.encode("in", RejectedRecord(record, rows, rejections), record.key, record.headers, model="m")


def test_a_letter_reads_as_it_was_written() -> None:
    """Coordinates, rows, reasons and the whole length come back, of a value that was cut, too."""
    value = b"x" * 900_000
    letter = letter_of(7, value, Rejection(3, "not_finite", "x[2] is NaN"), rows=20)
    read = deadletter.decode(letter.value, letter.headers)
    assert (read.id, read.rejected, read.value_bytes) == ("m/in/0/7", "1 of 20", 900_000)
    assert read.rows == (RejectedRow(3, "not_finite", "x[2] is NaN"),)
    assert read.value is not None
    assert value.startswith(read.value)


@pytest.mark.parametrize(
    ("value", "row", "rows", "told"),
    [
        (b'{"x": [1], "y": 1, "id": "order-7"}', 0, 1, "in[0]@7 id order-7  "),
        (b'{"x": [1], "y": 1, "id": 12}', 0, 1, "in[0]@7 id 12  "),
        (b'[{"x": [1, 2], "id": "a"}, {"x": [1], "id": "b"}]', 1, 2, "in[0]@7 row 1, 1 of 2 rows id b  "),
        (b'{"x": [1], "y": 1}', 0, 1, "in[0]@7  "),
        (b'{"x": [1], "id": "' + b"z" * 500 + b'"}', 0, 1, f"in[0]@7 id {'z' * 80}  "),
        (b"nonsense", 0, 1, "in[0]@7  "),
        (b"\xff\xfe", 0, 1, "in[0]@7  "),
        (b'[{"id": "a"}]', 5, 9, "in[0]@7 row 5, 1 of 9 rows  "),
    ],
)
def test_the_id_of_the_point_is_told(value: bytes, row: int, rows: int, told: str) -> None:
    """By it people find the row at its source; a record that is no JSON, or has none, is shown without."""
    letter = letter_of(7, value, Rejection(row, "wrong_dimension", "x has 1 entries"), rows=rows)
    one = StoredLetter(deadletter.decode(letter.value, letter.headers), 0)
    first, second = lines(one)
    assert first.startswith(f"{told}wrong_dimension")
    assert ("--json shows them" in second) == (len(value) > 80)
    called = told.split(" id ")[1].strip() if " id " in told else None
    assert plain(one)["point_id"] == called


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("__streams.errors.topic", b"in"), ("__streams.errors.partition", b"none")),
        (*letter_of(1, b"", Rejection(0, "a", "b")).headers, ("streamsvm.deadletter.rows", b"[[1]]")),
        (*letter_of(1, b"", Rejection(0, "a", "b")).headers, ("streamsvm.deadletter.rows", b"[]")),
    ],
)
def test_what_is_no_letter_is_refused(headers: tuple[tuple[str, bytes], ...]) -> None:
    """Another program's dead letters, or damaged ones, are told from ours."""
    with pytest.raises(InvalidMessage, match="not a dead letter"):
        deadletter.decode(b"", headers)


def test_every_reason_has_a_remedy() -> None:
    """The person who reads a reason is told what to do about it."""
    assert REMEDIES.keys() == REASONS.keys()


def test_letters_are_shown_once_and_others_are_counted(broker: TestBroker) -> None:
    """Of two copies the newest counts, of all letters the newest are shown, and foreign records are no letters."""
    topic = broker.name("dlq")
    Cluster(broker.connection).create([TopicSpec(topic)])
    outbox = Outbox(broker.connection)
    for offset, reason in [(0, "not_finite"), (1, "not_finite"), (2, "not_finite"), (1, "unknown_label")]:
        letter = letter_of(offset, b"value", Rejection(0, reason, "wrong"))
        outbox.send(Message(topic, letter.value, letter.key, letter.headers, 0))
    outbox.send(Message(topic, b"foreign", partition=0))
    outbox.flush(30.0)
    outbox.close()
    found = read_letters(Cluster(broker.connection), topic, 20)
    told = {letter.rejected.offset: letter.rejected.rows[0].reason for letter in found.letters}
    assert told == {0: "not_finite", 1: "unknown_label", 2: "not_finite"}
    assert (found.earlier, found.foreign) == (0, 1)
    assert [line.split(":")[0] for line in advice(found.letters)] == ["not_finite (2)", "unknown_label (1)"]
    assert REMEDIES["not_finite"] in next(advice(found.letters))
    newest = read_letters(Cluster(broker.connection), topic, 2)
    assert ([letter.rejected.offset for letter in newest.letters], newest.earlier) == ([2, 1], 1)
    assert json.loads(json.dumps(plain(newest.letters[0])))["value"] == "value"


def test_a_letter_cannot_steer_a_terminal(broker: TestBroker) -> None:
    """Control characters of the producer's bytes are shown escaped, and nobody's name for a line break breaks one."""
    topic = broker.name("dlq")
    Cluster(broker.connection).create([TopicSpec(topic)])
    letter = letter_of(5, b'\x1b[2J\n\xff{"x"' + b"1" * 100, Rejection(1, "malformed_json", "y\r\nz"), rows=3)
    outbox = Outbox(broker.connection)
    outbox.send(Message(topic, letter.value, letter.key, letter.headers, 0))
    outbox.flush(30.0)
    outbox.close()
    (found,) = read_letters(Cluster(broker.connection), topic, 1).letters
    where, beginning = lines(found)
    assert where == r"in[0]@5 row 1, 1 of 3 rows  malformed_json: y\r\nz"
    assert beginning.startswith(r'    \x1b[2J\n\xff{"x"')
    assert beginning.endswith("... (110 bytes, --json shows them)")
