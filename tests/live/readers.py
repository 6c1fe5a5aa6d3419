"""Readers: bare consumers of the client library, subscribers in Python and Node.js, and a watcher of stable offsets."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message as Record,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from tests.brokers.jvm import die_with_parent
from tests.live.history import Recorder

Place = tuple[str, int]
KEPT_HEADERS: Final = ("streamsvm.", "__streams.errors.")
KEPT_FIELDS: Final = ("name", "version", "stream")
SCORE_FIELDS: Final = ("id", "model", "version")
POLL_S: Final = 0.2
WATCH_S: Final = 2.0
ANSWER_S: Final = 5.0
END_PATIENCE_S: Final = 180.0
LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]


def told(record: Record) -> dict[str, Any]:
    """Return what the history keeps of a record: place, key, hash, the project's headers, and the value's gist."""
    value, key = record.value(), record.key()
    given: Any = record.headers() or []
    headers = {
        name: (content or b"").decode(errors="replace") for name, content in given if name.startswith(KEPT_HEADERS)
    }
    return {
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "key": None if key is None else key.decode(errors="replace"),
        "sha256": None if value is None else hashlib.sha256(value).hexdigest(),
        "headers": headers,
        "value": None if value is None else gist(value),
    }


def gist(value: bytes) -> Any:
    """Return the fields that matter: all of a small record; of a version its name, number, parent, cut and counts."""
    try:
        parsed = json.loads(value)
    except ValueError:
        return None
    if isinstance(parsed, dict) and "lineage" in parsed:
        lineage = {name: parsed["lineage"][name] for name in ("parent", "cut", "topic", "topic_id")}
        labels = [part for part in parsed["parts"] if part["part"] == "info_labels"]
        lineage |= {"labels": labels[0] if labels else None}
        return {**{name: parsed[name] for name in KEPT_FIELDS}, "lineage": lineage}
    if isinstance(parsed, dict) and "score" in parsed:
        return {name: parsed[name] for name in SCORE_FIELDS}
    return parsed


def consumer_of(servers: str, isolation: str, places: Iterable[Place]) -> Consumer:
    """Return a consumer that stands at the beginning of these partitions, in no group."""
    made = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "histories-reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
    made.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in places])
    return made


class TailReader:
    """A consumer of committed records that follows topics, and tells the history of every record.

    `seen`: Called with each record's telling.
    """

    def __init__(
        self,
        client: str,
        servers: str,
        places: Sequence[Place],
        recorder: Recorder,
        seen: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> None:
        self._client, self._recorder, self._seen = client, recorder, seen
        self._consumer = consumer_of(servers, "read_committed", places)
        self._stopping = threading.Event()
        recorder.tell(client, "info", "reader", isolation="read_committed", view="live")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for record in self._consumer.consume(500, POLL_S):
                if record.error() is None:
                    seen = told(record)
                    self._recorder.tell(self._client, "ok", "read", **seen)
                    self._seen(seen)

    def stop(self) -> None:
        """End."""
        self._stopping.set()
        self._thread.join()
        self._consumer.close()


def read_to_end(client: str, servers: str, isolation: str, places: Sequence[Place], recorder: Recorder) -> int:
    """Read everything there is now, tell the history, and return how many records it was."""
    recorder.tell(client, "info", "reader", isolation=isolation, view="final")
    consumer, left, count = consumer_of(servers, isolation, places), set(places), 0
    waited_s = 0.0
    while left and waited_s < END_PATIENCE_S:
        batch = consumer.consume(1_000, POLL_S)
        waited_s = 0.0 if batch else waited_s + POLL_S
        for record in batch:
            if record.error() is None:
                recorder.tell(client, "ok", "read", **told(record))
                count += 1
            elif (error := record.error()) is not None and error.code() == KafkaError._PARTITION_EOF:
                left.discard((str(record.topic()), int(record.partition() or 0)))
    consumer.close()
    if left:
        raise TimeoutError(f"{client} did not come to the end of {sorted(left)}")
    return count


class Watcher:
    """Looks at stable offsets and ends of partitions, again and again."""

    def __init__(self, servers: str, places: Sequence[Place], recorder: Recorder) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._places, self._recorder = places, recorder
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(WATCH_S):
            with contextlib.suppress(KafkaException, TimeoutError):
                self.look()

    def look(self) -> dict[Place, int]:
        """Tell the history where each partition is now; return what is hidden in each that hides something."""
        stable, ends = (self._ask(level) for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED))
        for place in self._places:
            topic, partition = place
            now = {"stable": stable[place], "end": ends[place]}
            self._recorder.tell("watcher", "ok", "watermark", topic=topic, partition=partition, **now)
        return {place: ends[place] - stable[place] for place in self._places if stable[place] < ends[place]}

    def _ask(self, level: IsolationLevel) -> dict[Place, int]:
        wanted = {TopicPartition(topic, partition): LATEST for topic, partition in self._places}
        answers = self._admin.list_offsets(wanted, isolation_level=level, request_timeout=ANSWER_S)
        found = {(tp.topic, tp.partition): future.result().offset for tp, future in answers.items()}
        if min(found.values()) < 0:
            raise TimeoutError  # the client's answer where a leader gave none
        return found

    def stop(self) -> None:
        """End."""
        self._stopping.set()
        self._thread.join()


def tell_positions(servers: str, group: str, places: Sequence[Place], recorder: Recorder) -> None:
    """Tell the history where a group stands; a partition that hides it is left out."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    try:
        for tp in consumer.committed([TopicPartition(*place) for place in places], ANSWER_S):
            if tp.error is None and tp.offset >= 0:
                told_ = {"group": group, "topic": tp.topic, "partition": tp.partition, "offset": tp.offset}
                recorder.tell("watcher", "ok", "position", **told_)
    except KafkaException as error:
        recorder.tell("watcher", "fail", "positions", group=group, said=str(error))
    finally:
        consumer.close()


class Follower:
    """A program that prints a line of JSON for each version that it serves, or each record that it reads.

    A line with ``joined`` begins a life of the reader: what it reads from there on is judged by itself.
    """

    def __init__(self, name: str, command: Sequence[str], recorder: Recorder) -> None:
        self._name, self._command, self._recorder = name, command, recorder
        self.lives = 0
        self.lines = 0
        self.complaints = ""
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._supervise, daemon=True)
        self._thread.start()

    def _supervise(self) -> None:
        while not self._stopping.is_set():
            self._process = subprocess.Popen(
                self._command,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=die_with_parent,
            )
            threading.Thread(target=self._drain, args=(self._process,), daemon=True).start()
            self._follow(self._process)
            self._process.wait()
            self._stopping.wait(1.0)

    def _drain(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                self.complaints = (self.complaints + line)[-2000:]

    def _follow(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._take(json.loads(line))

    def _take(self, said: dict[str, Any]) -> None:
        if said.pop("joined", None):
            self.lives += 1
            self._recorder.tell(self.client, "info", "reader", isolation="read_committed", view="live")
            return
        self.lines += 1
        self._recorder.tell(self.client, "ok", "serve" if "number" in said else "read", **said)

    @property
    def client(self) -> str:
        """The name of its life of now in the history."""
        return f"{self._name}/{self.lives}"

    def stop(self) -> None:
        """End."""
        self._stopping.set()
        if self._process is not None:
            self._process.kill()
        self._thread.join()
