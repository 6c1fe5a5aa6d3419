"""Dead letters as people read them, safe to print; and what goes back: rejected rows only, each once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from consumers.dead_letters.listing import (
    EVERY,
    Chosen,
    StoredLetter,
    advice,
    again_of,
    chosen,
    lines,
    plain,
    read_letters,
    report,
)
from consumers.dead_letters.resending import Resent, mended_lines, resend
from streamsvm.config import PointsConfig
from streamsvm.errors import ConfigurationError, InvalidMessage
from streamsvm.ingest import REASONS, REMEDIES, dead_letter as deadletter
from streamsvm.ingest.dead_letter import DecodedDeadLetter, Receipt, RejectedRow
from streamsvm.ingest.decoder import PointDecoder, RejectedRecord, Rejection
from streamsvm.kafka import Cluster, Connection, Message, Publisher, Record
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import run
from tests.kafka.steps import send, values_of

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
UNLABELED, MISSING = Rejection(0, "unknown_label", "y is 'maybe'"), Rejection(2, "missing_field", "y is missing")


def message(topic: str, offset: int, value: bytes | None, *bad: Rejection, rows: int = 1, model: str = "m") -> Message:
    """Return a letter of a record of the topic `in`."""
    record = Record("in", 0, offset, b"k%d" % offset, value, (("content-type", b"application/json"),), 0, None)
    rejected = RejectedRecord(record, rows, bad)
    letter = deadletter.encode("in", rejected, record.key, record.headers, model=model)
    return Message(topic, letter.value, letter.key, letter.headers, 0)


def decoded(letter: Message) -> DecodedDeadLetter:
    """Return what a letter says."""
    return deadletter.decode(letter.value or b"", letter.headers)


def topics(broker: TestBroker) -> tuple[str, str]:
    """Make a dead-letter topic and one to send to."""
    return broker.topic(), broker.topic()


def stored(connection: Connection, topic: str) -> list[Record]:
    return list(Cluster(connection).read_to_end(topic, 0, timeout_s=20.0))


def again(connection: Connection, source: str, target: str, wanted: Chosen = EVERY, **mended: bytes | None) -> Resent:
    given = {f"m/in/0/{offset[1:]}": value for offset, value in mended.items()}
    return resend(Cluster(connection), source, target, wanted, NOW, mended=given or None)


@pytest.mark.parametrize(
    ("value", "rejected", "listed", "expected"),
    [
        (b'{"x":[1]}', "1 of 1", (0,), b'{"x":[1]}'),
        (b'[ {"x":[1]} , {"x":[2]},{"x":[3]}]', "2 of 3", (0, 2), b'[{"x":[1]},{"x":[3]}]'),
        (b"[1,2]", "2 of 2", (0, 1), b"[1,2]"),
        (b"[1,2,3]", "2 of 3", (0,), "only 1 of the record's 2 rejected rows are listed"),
        (b"ARROW", "1 of 3", (1,), "rows can be extracted from a JSON array only"),
        (None, "1 of 1", (0,), "the record had no value"),
    ],
)
def test_only_what_was_rejected_is_sent_again(
    value: bytes | None, rejected: str, listed: tuple[int, ...], expected: bytes | str
) -> None:
    """Rows beside a rejected one were learned; where they cannot be told apart nothing is sent, and why is said."""
    rows = tuple(RejectedRow(row, "unknown_label", "w") for row in listed)
    found, why = again_of(
        DecodedDeadLetter(
            topic="in",
            partition=0,
            offset=1,
            rejected=rejected,
            rows=rows,
            value=value,
            value_bytes=len(value or b""),
            model="m",
        )
    )
    if isinstance(expected, bytes):
        assert (found, why) == (expected, "")
    else:
        assert found is None
        assert expected in why


def test_each_letter_is_sent_once_however_often_it_is_asked_for(real_broker: TestBroker) -> None:
    """The key, the headers and the letter's id go along; a later call sends what is new and no more."""
    connection, (source, target) = real_broker.connection, topics(real_broker)
    first, second = message(source, 1, b'{"x":[1],"y":"maybe"}', UNLABELED), message(source, 2, b"no", UNLABELED)
    send(connection, [first, second, first])
    assert again(connection, source, target) == Resent(2)
    assert again(connection, source, target) == Resent(0, 2)
    send(connection, [first, message(source, 3, b"new", MISSING)])
    assert again(connection, source, target) == Resent(1, 2)
    sent = stored(connection, target)
    told = {record.key: (record.value, dict(record.headers)["streamsvm.resent.id"]) for record in sent}
    assert len(sent) == 3
    assert told == {
        b"k1": (b'{"x":[1],"y":"maybe"}', b"m/in/0/1"),
        b"k2": (b"no", b"m/in/0/2"),
        b"k3": (b"new", b"m/in/0/3"),
    }
    assert [name for name, _ in sent[0].headers] == ["content-type", "streamsvm.resent.id", "streamsvm.transaction"]
    found = read_letters(Cluster(connection), source, 20)
    assert {name: receipt.to for name, receipt in found.receipts.items()} == {f"m/in/0/{n}": target for n in (1, 2, 3)}
    assert found.foreign == 0
    assert sum("sent again to" in line for line in report(found)) == 3


def test_what_was_chosen_and_mended_is_sent(real_broker: TestBroker) -> None:
    """Of one reason, of one model, and instead of a letter's rows what a person made of them."""
    connection, (source, target) = real_broker.connection, topics(real_broker)
    letters = [
        message(source, 1, b"one", UNLABELED),
        message(source, 2, b'[{"x":[1]},{"x":[2]},{"x":[3]}]', UNLABELED, MISSING, rows=3),
        message(source, 3, b"three", MISSING),
        message(source, 4, b"four", UNLABELED, model="n"),
    ]
    send(connection, letters)
    assert again(
        connection, source, target, Chosen(frozenset({"missing_field"}), 0, "m"), _2=b"[7]", _9=b"8"
    ) == Resent(1, missing=["m/in/0/9"])
    assert again(connection, source, target, Chosen(model="m"), _1=None).left == {"its field `again` is null": 1}
    assert again(connection, source, target, Chosen(frozenset({"unknown_label"}))) == Resent(2, 1)
    assert values_of(stored(connection, target)) == [b"[7]", b"one", b"four"]


def test_a_record_that_two_models_rejected_is_sent_once(real_broker: TestBroker) -> None:
    """Whoever reads the topic gets it once; a receipt for each letter, also where one was sent by an earlier call."""
    connection, (source, target) = real_broker.connection, topics(real_broker)
    other = real_broker.topic()
    twice = [message(source, 1, b"one", UNLABELED, model=model) for model in ("m", "n")]
    send(connection, [*twice, message(source, 2, b"two", UNLABELED)])
    assert again(connection, source, target) == Resent(3)
    send(connection, [message(source, 2, b"two", UNLABELED, model="n")])
    assert again(connection, source, target) == Resent(0, 4)
    assert sorted(values_of(stored(connection, target)), key=str) == [b"one", b"two"]
    assert again(connection, source, other, Chosen(model="n")) == Resent(1, 1), "another topic has another reader"


def test_letters_of_several_models_are_not_sent_unasked(real_broker: TestBroker) -> None:
    """Counts by model and reason first; a name or --all-models; and a yes, which nobody can give without a terminal."""
    connection, (source, target) = real_broker.connection, topics(real_broker)
    servers = ["--bootstrap-servers", connection.servers]
    send(connection, [message(source, 3, b"three", MISSING)])
    assert again(connection, source, target) == Resent(1)
    letters = [
        message(source, 1, b"one", UNLABELED, MISSING, rows=3),
        message(source, 2, b"two", MISSING),
        message(source, 4, b"four", UNLABELED, model="n"),
    ]
    send(connection, letters)

    asked = run("dead-letters", source, "--resend", target, "--yes", *servers)
    assert asked.returncode == 78
    assert asked.stdout.splitlines() == [
        "m: 3 dead letters (3 missing_field, 1 unknown_label), 1 of them sent before",
        "n: 1 dead letter (1 unknown_label)",
    ]
    assert "letters of 2 models: m, n" in asked.stderr
    assert "--all-models" in asked.stderr
    unasked = run("dead-letters", source, "--resend", target, "--name", "n", *servers)
    assert unasked.returncode == 1
    assert unasked.stdout.splitlines() == [
        "n: 1 dead letter (1 unknown_label)",
        "nothing was sent: give --yes to send them",
    ]
    assert values_of(stored(connection, target)) == [b"three"]

    named = run("dead-letters", source, "--resend", target, "--yes", *servers, STREAMSVM_NAME="n")
    assert (named.returncode, named.stdout.splitlines()[-1]) == (0, f"{source}: 1 sent to {target}")
    every = run("dead-letters", source, "--resend", target, "--yes", "--all-models", "--name", "n", *servers)
    assert every.returncode == 0, every.stderr
    assert every.stdout.splitlines()[-1] == f"{source}: 1 sent to {target}, 2 were sent before"
    assert values_of(stored(connection, target)) == [b"three", b"four", b"two"]

    listed = run("dead-letters", source, "--json", "--name", "m", *servers)
    told = [json.loads(line) for line in listed.stdout.splitlines()]
    assert {one["model"] for one in told} == {"m"}
    assert {one["offset"]: one["sent_again"] and one["sent_again"]["to"] for one in told} == {
        1: None,
        2: target,
        3: target,
    }


def test_the_newest_letters_are_counted_not_records(broker: TestBroker) -> None:
    """Receipts, copies and foreign records take offsets, and no letter's place; a receipt before a copy is found."""
    source = broker.topic(2)
    letters = [message(source, number, b"x", UNLABELED) for number in range(5)]
    receipts = [deadletter.encode_receipt(Receipt(f"m/in/0/{number}", "t", 1, "me", "now")) for number in range(5)]
    sent_before = [Message(source, one.value, one.key, one.headers, 0) for one in receipts]
    foreign = [Message(source, b"foreign", None, (), 0)] * 9
    send(broker.connection, [*letters, *sent_before, *foreign, letters[4]])
    found = read_letters(Cluster(broker.connection), source, 3)
    assert [letter.rejected.offset for letter in found.letters] == [2, 3, 4]
    assert {f"m/in/0/{number}" for number in (2, 3, 4)} <= found.receipts.keys()
    copy = read_letters(Cluster(broker.connection), source, 1)
    assert [letter.rejected.offset for letter in copy.letters] == [4]
    assert "m/in/0/4" in copy.receipts


def test_an_input_that_nobody_read_has_no_letters(real_broker: TestBroker) -> None:
    """Its dead-letter topic is made by who reads it first; an input that is not there is an error."""
    source = real_broker.topic()
    servers = ["--bootstrap-servers", real_broker.connection.servers]
    found = run("dead-letters", "--input-topic", source, *servers)
    assert (found.returncode, found.stdout) == (
        0,
        f"{source}.dlq: 0 dead letters; the topic does not exist: nothing has read {source} yet\n",
    )
    assert run("dead-letters", "--input-topic", source, "--json", *servers).stdout == ""
    missing = run("dead-letters", "--input-topic", f"{source}-missing", *servers)
    assert missing.returncode == 78
    assert f"{source}-missing" in missing.stderr


def test_a_call_that_is_overtaken_sends_nothing_twice(real_broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another call between the reading and the sending takes the id over: the first finds its receipts."""
    connection, (source, target) = real_broker.connection, topics(real_broker)
    send(connection, [message(source, 1, b"one", UNLABELED)])
    publish, overtaken = Publisher.publish, list[Resent]()

    def overtaking(self: Publisher, messages: Sequence[Message]) -> list[int]:
        if not overtaken:
            overtaken.append(Resent(0))
            overtaken[0] = again(connection, source, target)
        return publish(self, messages)

    monkeypatch.setattr(Publisher, "publish", overtaking)
    assert again(connection, source, target) in (Resent(1), Resent(0, 1))
    assert overtaken == [Resent(1)]
    assert values_of(stored(connection, target)) == [b"one"]


def test_a_trainer_takes_what_was_mended() -> None:
    """The way through --json and back: a label put right by hand decodes as a point."""
    value = b'[{"x":[1.0],"y":1},{"x":[2.0],"y":"maybe"}]'
    config = PointsConfig(dimension=1)
    record = Record("in", 0, 7, None, value, (), 0, 0)
    (bad,) = PointDecoder(config).decode([record]).rejected
    sent = deadletter.encode("in", bad, None, (), model="m")
    told = plain(StoredLetter(deadletter.decode(sent.value, sent.headers), 5))
    assert told["again"] == '[{"x":[2.0],"y":"maybe"}]'
    line = json.dumps({**told, "again": told["again"].replace('"maybe"', "-1")})
    other = json.dumps({**told, "id": "b", "again": [{"x": [2.0], "y": -1}]})
    assert mended_lines([line.encode(), b"\n", other.encode()], "FILE") == {
        "m/in/0/7": b'[{"x":[2.0],"y":-1}]',
        "b": b'[{"x": [2.0], "y": -1}]',
    }
    with pytest.raises(ConfigurationError, match="line 1 of FILE is not a letter"):
        mended_lines([b"[]"], "FILE")


@pytest.mark.parametrize(
    ("since", "expected"),
    [("2026-03-04T05:00:00Z", 1772600400000), ("2h", 1772593567000), ("0.5min", 1772600737000), ("", 0)],
)
def test_since_is_a_time_or_how_long_ago(since: str, expected: int) -> None:
    """With its zone, or in s, min, h or d."""
    assert chosen((), since, "", NOW).since_ms == expected


def test_a_damaged_receipt_is_none() -> None:
    """It is counted as a foreign record, and holds nothing back."""
    receipt = deadletter.encode_receipt(Receipt("a", "t", 1, "me", "now"))
    assert deadletter.decode_receipt(receipt.value, receipt.headers) == Receipt("a", "t", 1, "me", "now")
    assert deadletter.decode_receipt(b"{}", receipt.headers) is None
    assert deadletter.decode_receipt(receipt.value, (("streamsvm.deadletter.resent", b"b"),)) is None


# ---------------------------------------------------------------- as people read them


def test_a_letter_reads_as_it_was_written() -> None:
    """Coordinates, rows, reasons and the whole length come back, of a value that was cut, too."""
    value = b"x" * 900_000
    read = decoded(message("dlq", 7, value, Rejection(3, "not_finite", "x[2] is NaN"), rows=20))
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
    letter = message("dlq", 7, value, Rejection(row, "wrong_dimension", "x has 1 entries"), rows=rows)
    one = StoredLetter(decoded(letter), 0)
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
        (*message("dlq", 1, b"", Rejection(0, "a", "b")).headers, ("streamsvm.deadletter.rows", b"[[1]]")),
        (*message("dlq", 1, b"", Rejection(0, "a", "b")).headers, ("streamsvm.deadletter.rows", b"[]")),
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
    topic, reasons = broker.topic(), [(0, "not_finite"), (1, "not_finite"), (2, "not_finite"), (1, "unknown_label")]
    letters = [message(topic, offset, b"value", Rejection(0, reason, "wrong")) for offset, reason in reasons]
    send(broker.connection, [*letters, Message(topic, b"foreign", partition=0)])
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
    topic, value = broker.topic(), b'\x1b[2J\n\xff{"x"' + b"1" * 100
    send(broker.connection, [message(topic, 5, value, Rejection(1, "malformed_json", "y\r\nz"), rows=3)])
    (found,) = read_letters(Cluster(broker.connection), topic, 1).letters
    where, beginning = lines(found)
    assert where == r"in[0]@5 row 1, 1 of 3 rows  malformed_json: y\r\nz"
    assert beginning.startswith(r'    \x1b[2J\n\xff{"x"')
    assert beginning.endswith("... (110 bytes, --json shows them)")
