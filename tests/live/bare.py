"""The client library alone under a late end of a transaction: `python -m tests.live bare`.

Jepsen reports that Kafka's transactions are torn by the library's own repetition: the request that ends a transaction
is kept back, the client asks again on another connection and is answered, begins its next transaction, and then the
first request arrives. The broker takes it for the end of the transaction that is open now, for both are of one epoch.
KIP-890 gives each transaction an epoch of its own; it needs a client that knows it, and librdkafka does not yet.

Each try writes two transactions of four records over two topics. The end of the first is kept back and delivered in
the midst of the second, which then goes on and is committed, or aborted, as chance says. A transaction is *torn* if
some of its records are committed and others are not; one that its client was told to be aborted and that is committed
in part, or whole, is an *aborted read*; one that it was told to be committed and that is not whole is *lost*. Where
both halves are committed in the end, but in different transactions of the broker, a reader saw half of it for a while:
*split*, counted by the markers between the records.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from tests.live.checker.evidence import Evidence
from tests.live.cluster import Brokers
from tests.live.history import Recorder, load
from tests.live.network import Late
from tests.live.readers import Place, read_to_end
from tests.promise import transactions

TOPICS: Final = ("left", "right")
RECORDS: Final = 4
"""Records of each transaction."""
TIMEOUT_S: Final = 10.0
DELIVERY_S: Final = 5.0
PATIENCE_S: Final = 20.0
TRIES: Final = 200
LOG_INFO: Final = 6
LOST: Final = ("FAIL", "REQTMOUT", "Disconnected", "timed out")
RENEWED: Final = 0.25
"""Share of the tries in which a new producer goes on."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a client was told of a transaction: committed, aborted, or nothing."""

    name: str
    outcome: str


class _Ear(logging.Handler):
    """Hears of lost connections."""

    def __init__(self, troubles: list[str]) -> None:
        super().__init__()
        self._troubles = troubles

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        if any(word in said for word in LOST):
            self._troubles.append(said)


class Client:
    """A transactional producer of the client library, used as its documentation says.

    Parameters
    ----------
    servers : str
    recorder : Recorder
    renews : bool
        Whether a new producer of the same id goes on after each transaction, instead of the same one.
    cautious : bool
        Whether it does so after each transaction in which the library told of a trouble, such as a lost connection,
        although the transaction was committed.
    """

    def __init__(self, servers: str, recorder: Recorder, *, renews: bool, cautious: bool = False) -> None:
        self._servers, self._recorder, self._renews, self._cautious = servers, recorder, renews, cautious
        self.troubles: list[str] = []
        self.id = f"bare-{uuid.uuid4().hex[:12]}"
        self._producer = self._make()

    def _make(self) -> Producer:
        made = Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": self.id,
                "transaction.timeout.ms": int(TIMEOUT_S * 1000),
                "socket.timeout.ms": int(TIMEOUT_S * 1000),
                "delivery.timeout.ms": int(TIMEOUT_S * 1000),
                "linger.ms": 0,
                "log_level": LOG_INFO,
                "error_cb": lambda error: self.troubles.append(str(error)),
            },
            logger=self._logger(),
        )
        made.init_transactions(TIMEOUT_S)
        return made

    def _logger(self) -> logging.Logger:
        """Return where the library writes what it does not tell otherwise: that it lost a connection."""
        made = logging.Logger(self.id)
        made.addHandler(_Ear(self.troubles))
        return made

    def transact(self, name: str, halves: Iterable[Sequence[str]], *, commits: bool) -> str:
        """Write a transaction, a half at a time, and return what became of it as far as one was told."""
        self._recorder.tell("bare", "invoke", "transact", name=name, records=RECORDS)
        try:
            self._producer.begin_transaction()
            for half in halves:
                for topic in half:
                    self._producer.produce(topic, name.encode(), name.encode(), partition=0)
                self._flush()
            outcome = self._end(commits=commits)
        except KafkaException as error:
            outcome = self._give_up(error)
        type_: Any = {"committed": "ok", "aborted": "fail"}.get(outcome, "info")
        self._recorder.tell("bare", type_, "transact", name=name, outcome=outcome)
        return outcome

    def _flush(self) -> None:
        left = self._producer.flush(TIMEOUT_S)
        if left:
            raise KafkaException(f"{left} records are not acknowledged")

    def _end(self, *, commits: bool) -> str:
        if commits:
            self._producer.commit_transaction(TIMEOUT_S)
            return "committed"
        self._producer.abort_transaction(TIMEOUT_S)
        return "aborted"

    def _give_up(self, error: KafkaException) -> str:
        """Abort where the library says that one may; else take a new producer, and know nothing."""
        cause = error.args[0]
        may = not hasattr(cause, "fatal") or (cause.txn_requires_abort() and not cause.fatal())
        if may:
            with suppress(KafkaException):
                self._producer.abort_transaction(TIMEOUT_S)
                return "aborted"
        self._producer = self._make()
        return "unknown"

    def renew(self) -> bool:
        """Let a new producer of the same id go on, where that was asked for, or is wise; tell of a trouble before."""
        self._producer.poll(0.01)
        told = bool(self.troubles)
        if self._renews or (self._cautious and told):
            self.troubles.clear()
            self._producer = self._make()
        return told


def attempt(
    brokers: Brokers, recorder: Recorder, number: int, chance: random.Random, *, cautious: bool
) -> tuple[Late, bool]:
    """Do one try; return the end that came late, or did not, and whether the library told of a trouble before that."""
    client = Client(brokers.through, recorder, renews=chance.random() < RENEWED and not cautious, cautious=cautious)
    late = Late(client.id.encode(), produces=chance.randint(1, 2))
    for network in brokers.networks:
        network.late = late
    client.transact(f"{number}-first", [TOPICS, TOPICS], commits=True)
    told = client.renew()
    first, second = chance.choice(
        [(("left",), ("left", "right", "right")), (TOPICS, TOPICS), (("right", "left"), TOPICS)]
    )

    def halves() -> Iterator[Sequence[str]]:
        yield first
        late.delivered.wait(DELIVERY_S)
        yield second

    client.transact(f"{number}-second", halves(), commits=chance.random() < 0.7)
    for network in brokers.networks:
        network.late = None
    return late, told


def main(arguments: Sequence[str]) -> int:
    """Try as often as asked; return 0, for what is shown is a property of the client library."""
    parser = argparse.ArgumentParser(prog="python -m tests.live bare", description=__doc__.splitlines()[0])
    parser.add_argument("--tries", type=int, default=TRIES, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    parser.add_argument("--cautious", action="store_true", help="take a new producer after each trouble")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE", help="also write JSON")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        said = tries(options.tries, options.seed, Path(directory) / "history.jsonl", cautious=options.cautious)
    print(json.dumps(said, indent=1))
    if options.json:
        options.json.write_text(json.dumps(said, indent=1) + "\n", "utf-8")
    return 0


def tries(count: int, seed: int, file: Path, *, cautious: bool = False) -> dict[str, Any]:
    """Try so often on a broker, and return what was seen."""
    recorder, brokers, chance = Recorder(file), Brokers(1, defaults=True), random.Random(seed)
    answers: Counter[str] = Counter()
    troubles = 0
    try:
        brokers.start()
        for topic in TOPICS:
            brokers.create(topic)
        for number in range(count):
            late, trouble = attempt(brokers, recorder, number, chance, cautious=cautious)
            troubles += trouble
            caught = "kept back" if late.caught.is_set() else "never sent"
            answers[f"answered by error {late.answer}" if late.delivered.is_set() else caught] += 1
        _await_the_end(brokers)
        places: list[Place] = [(topic, 0) for topic in TOPICS]
        for isolation in ("read_committed", "read_uncommitted"):
            read_to_end(f"final-{isolation}", brokers.direct, isolation, places, recorder)
    finally:
        brokers.stop()
        recorder.close()
    evidence = Evidence(load(file))
    told = {entry["name"]: entry["outcome"] for entry in evidence.told["transact"] if entry.type != "invoke"}
    there = [record for topic in TOPICS for record in evidence.log(topic)]
    found = transactions.check(there, told, RECORDS)
    outcomes = Counter(f"{name.split('-')[1]} {outcome}" for name, outcome in told.items())
    return {
        "tries": count,
        "seed": seed,
        "cautious": cautious,
        "told of a trouble after the first": troubles,
        "late ends": dict(answers),
        "told": dict(outcomes),
        "anomalies": {anomaly.name: len(anomaly.records) for anomaly in found},
        "examples": [anomaly.line(most=3) for anomaly in found],
        "split": len(transactions.parted(there)),
    }


def _await_the_end(brokers: Brokers) -> None:
    """Let the broker abort what is still open: no transaction outlasts its timeout by more than its look for them."""
    threading.Event().wait(TIMEOUT_S + 10.0)
