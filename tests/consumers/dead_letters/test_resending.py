"""Dead letters go back: their rejected rows and no others, mended or not, each once whoever asks how often."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from consumers.dead_letters.listing import EVERY, Chosen, again_of, chosen, plain, read_letters, report
from consumers.dead_letters.resending import Resent, mended_lines, resend
from streamsvm.config import PointsConfig
from streamsvm.errors import ConfigurationError
from streamsvm.ingest import dead_letter as deadletter
from streamsvm.ingest.dead_letter import DecodedDeadLetter, Receipt, RejectedRow
from streamsvm.ingest.decoder import PointDecoder, RejectedRecord, Rejection
from streamsvm.kafka import Cluster, Connection, Message, Outbox, Publisher, Record, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import run

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
UNLABELED, MISSING = Rejection(0, "unknown_label", "y is 'maybe'"), Rejection(2, "missing_field", "y is missing")


def message(topic: str, offset: int, value: bytes | None, *bad: Rejection, rows: int = 1, model: str = "m") -> Message:
    """Return a letter of a record of the topic `in`."""
    record = Record("in", 0, offset, b"k%d" % offset, value, (("content-type", b"application/json"),), 0, None)
    rejected = RejectedRecord(record, rows, bad)
    letter = deadletter.encode("in", rejected, record.key, record.headers, model=model)
    return Message(topic, letter.value, letter.key, letter.headers, 0)


def send(connection: Connection, *messages: Message) -> None:
    outbox = Outbox(connection)
    for one in messages:
        outbox.send(one)
    outbox.flush(30.0)
    outbox.close()


def topics(broker: TestBroker) -> tuple[str, str]:
    """Make a dead-letter topic and one to send to."""
    source, target = broker.name("dlq"), broker.name("again")
    Cluster(broker.connection).create([TopicSpec(source), TopicSpec(target)])
    return source, target


def values(connection: Connection, topic: str) -> list[bytes | None]:
    return [record.value for record in Cluster(connection).read_to_end(topic, 0, timeout_s=20.0)]


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
    send(connection, first, second, first)
    assert again(connection, source, target) == Resent(2)
    assert again(connection, source, target) == Resent(0, 2)
    send(connection, first, message(source, 3, b"new", MISSING))
    assert again(connection, source, target) == Resent(1, 2)
    sent = list(Cluster(connection).read_to_end(target, 0, timeout_s=20.0))
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
    send(
        connection,
        message(source, 1, b"one", UNLABELED),
        message(source, 2, b'[{"x":[1]},{"x":[2]},{"x":[3]}]', UNLABELED, MISSING, rows=3),
        message(source, 3, b"three", MISSING),
        message(source, 4, b"four", UNLABELED, model="n"),
    )
    assert again(
        connection, source, target, Chosen(frozenset({"missing_field"}), 0, "m"), _2=b"[7]", _9=b"8"
    ) == Resent(1, missing=["m/in/0/9"])
    assert again(connection, source, target, Chosen(model="m"), _1=None).left == {"its field `again` is null": 1}
    assert again(connection, source, target, Chosen(frozenset({"unknown_label"}))) == Resent(2, 1)
    assert values(connection, target) == [b"[7]", b"one", b"four"]


def test_a_record_that_two_models_rejected_is_sent_once(real_broker: TestBroker) -> None:
    """Whoever reads the topic gets it once; a receipt for each letter, also where one was sent by an earlier call."""
    connection, (source, target) = real_broker.connection, topics(real_broker)
    other = real_broker.topic()
    send(connection, message(source, 1, b"one", UNLABELED), message(source, 1, b"one", UNLABELED, model="n"))
    send(connection, message(source, 2, b"two", UNLABELED))
    assert again(connection, source, target) == Resent(3)
    send(connection, message(source, 2, b"two", UNLABELED, model="n"))
    assert again(connection, source, target) == Resent(0, 4)
    assert sorted(values(connection, target), key=str) == [b"one", b"two"]
    assert again(connection, source, other, Chosen(model="n")) == Resent(1, 1), "another topic has another reader"


def test_letters_of_several_models_are_not_sent_unasked(real_broker: TestBroker) -> None:
    """Counts by model and reason first; a name or --all-models; and a yes, which nobody can give without a terminal."""
    connection, (source, target) = real_broker.connection, topics(real_broker)
    servers = ["--bootstrap-servers", connection.servers]
    sent_before = message(source, 3, b"three", MISSING)
    send(connection, sent_before)
    assert again(connection, source, target) == Resent(1)
    send(connection, message(source, 1, b"one", UNLABELED, MISSING, rows=3), message(source, 2, b"two", MISSING))
    send(connection, message(source, 4, b"four", UNLABELED, model="n"))

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
    assert values(connection, target) == [b"three"]

    named = run("dead-letters", source, "--resend", target, "--yes", *servers, STREAMSVM_NAME="n")
    assert (named.returncode, named.stdout.splitlines()[-1]) == (0, f"{source}: 1 sent to {target}")
    every = run("dead-letters", source, "--resend", target, "--yes", "--all-models", "--name", "n", *servers)
    assert every.returncode == 0, every.stderr
    assert every.stdout.splitlines()[-1] == f"{source}: 1 sent to {target}, 2 were sent before"
    assert values(connection, target) == [b"three", b"four", b"two"]

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
    send(broker.connection, *(message(source, number, b"x", UNLABELED) for number in range(5)))
    receipts = [deadletter.encode_receipt(Receipt(f"m/in/0/{number}", "t", 1, "me", "now")) for number in range(5)]
    send(broker.connection, *(Message(source, one.value, one.key, one.headers, 0) for one in receipts))
    send(broker.connection, *[Message(source, b"foreign", None, (), 0)] * 9, message(source, 4, b"x", UNLABELED))
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
    send(connection, message(source, 1, b"one", UNLABELED))
    publish, overtaken = Publisher.publish, list[Resent]()

    def overtaking(self: Publisher, messages: Sequence[Message]) -> list[int]:
        if not overtaken:
            overtaken.append(Resent(0))
            overtaken[0] = again(connection, source, target)
        return publish(self, messages)

    monkeypatch.setattr(Publisher, "publish", overtaking)
    assert again(connection, source, target) in (Resent(1), Resent(0, 1))
    assert overtaken == [Resent(1)]
    assert values(connection, target) == [b"one"]


def test_a_trainer_takes_what_was_mended() -> None:
    """The way through --json and back: a label put right by hand decodes as a point."""
    value = b'[{"x":[1.0],"y":1},{"x":[2.0],"y":"maybe"}]'
    config = PointsConfig(dimension=1)
    record = Record("in", 0, 7, None, value, (), 0, 0)
    (bad,) = PointDecoder(config).decode([record]).rejected
    sent = deadletter.encode("in", bad, None, (), model="m")
    told = plain(read_one(sent))
    assert told["again"] == '[{"x":[2.0],"y":"maybe"}]'
    line = json.dumps({**told, "again": told["again"].replace('"maybe"', "-1")})
    other = json.dumps({**told, "id": "b", "again": [{"x": [2.0], "y": -1}]})
    assert mended_lines([line.encode(), b"\n", other.encode()], "FILE") == {
        "m/in/0/7": b'[{"x":[2.0],"y":-1}]',
        "b": b'[{"x": [2.0], "y": -1}]',
    }
    with pytest.raises(ConfigurationError, match="line 1 of FILE is not a letter"):
        mended_lines([b"[]"], "FILE")


def read_one(sent: deadletter.DeadLetter) -> object:
    from consumers.dead_letters.listing import _letter

    return _letter(Record("dlq", 0, 0, sent.key, sent.value, sent.headers, 5, None))


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
