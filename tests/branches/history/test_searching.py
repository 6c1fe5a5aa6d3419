"""`streamsvm history search`: leftovers that are planted in each store of the list are found, and nothing else is."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Producer

from consumers.branches.history.searching import INPUT, MOST_PLACES, Search, _Searching, contents_in_log, search
from consumers.branches.history.settings import ArchiveConfig
from consumers.settings import Settings
from consumers.streams.row_stores import RowStore, every_store
from streamsvm.branches.history.traces import FORMS, Content, Traces
from streamsvm.config import SvmConfig
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.model.machine import KernelMachine
from streamsvm.points import Position
from tests.branches.history.test_erasing import forgotten, produce, settings_of, started
from tests.brokers.fixtures import TestBroker
from tests.consumers.test_cli import run
from tests.consumers.trainers import encoded, run_until, versions
from tests.streams import DIMENSION, gaussian

LOOKED_AT = tuple(store for store in every_store() if not store.part_of and store.name != INPUT)


def forms_of(content: Content) -> dict[str, bytes]:
    """Return bytes by which a row stands somewhere, by their form."""
    return {
        "value": content.values.astype("<f4").tobytes(),
        "half precision": b64encode(content.values.astype("<f2").tobytes()),
        "text": ", ".join(map(str, content.values)).encode(),
        "id": content.id.encode(),
        "hash": sha256(content.record).hexdigest().encode(),
    }


def rows_to_plant() -> list[Content]:
    random = np.random.default_rng(3)
    return [
        Content(
            place=f"0:{at}",
            values=random.standard_normal(DIMENSION).astype(np.float32),
            id=f"customer-{at}",
            record=b'{"id": "customer-%d"}' % at,
        )
        for at in range(len(FORMS))
    ]


def whole_settings(prefix: str, directory: Path) -> Settings:
    """Return settings by which every store has its place."""
    own = settings_of(prefix, directory)
    archive = ArchiveConfig(directory=directory / "archive", leaf_rows=8, span_rows=16, bucket_points=16)
    scoring = own.scoring.model_copy(update={"topic": f"{prefix}-events", "output_topic": f"{prefix}-scores"})
    return own.model_copy(update={"archive": archive, "scoring": scoring, "name": f"{prefix}-m"})


class Planted:
    """Puts bytes into stores."""

    def __init__(self, connection: Connection, settings: Settings, directory: Path) -> None:
        self.given: dict[str, list[Path]] = {}
        self._settings, self._directory = settings, directory
        self._producer = Producer(dict(connection.options))

    def put(self, store: RowStore, number: int, content: bytes) -> None:
        """Put some bytes into a store, amid others."""
        content = b"before " + content + b" after"
        for topic in store.topics(self._settings):
            self._producer.produce(topic, content if number % 2 else b"{}", key=b"k" if number % 2 else content)
        for files in store.files(self._settings):
            files.directory.mkdir(exist_ok=True, parents=True)
            (files.directory / files.pattern.replace("*", f"file-{number}")).write_bytes(content)
        if store.given:
            place = self._directory / store.name / f"{number}.gz"
            place.parent.mkdir(exist_ok=True, parents=True)
            place.write_bytes(gzip.compress(content))
            self.given[store.name] = [place.parent]

    def done(self) -> None:
        assert not self._producer.flush(60.0)


@pytest.fixture(scope="module")
def planted(real_broker: TestBroker, tmp_path_factory: pytest.TempPathFactory) -> tuple[Search, Search]:
    """What a search finds before and after a row of each form was put into each store."""
    directory = tmp_path_factory.mktemp("stores")
    own, cluster = whole_settings(real_broker.name("stores"), directory), Cluster(real_broker.connection)
    topics = {topic for store in every_store() for topic in store.topics(own)}
    cluster.create([TopicSpec(topic, 1) for topic in sorted(topics)])
    into, rows = Planted(real_broker.connection, own, directory), rows_to_plant()
    noise = np.random.default_rng(1)
    for store in LOOKED_AT:
        into.put(store, 99, noise.bytes(1_000))
    into.done()
    before = search(cluster, own, rows, into.given, 30.0)
    for store in LOOKED_AT:
        for number, (form, row) in enumerate(zip(FORMS, rows, strict=True)):
            into.put(store, number, forms_of(row)[form])
    into.done()
    return before, search(cluster, own, rows, into.given, 30.0)


@pytest.mark.parametrize("store", LOOKED_AT, ids=lambda store: store.name)
def test_what_is_planted_in_a_store_is_found(planted: tuple[Search, Search], store: RowStore) -> None:
    """A row of each form: values, half precision in base64, text, an id, a hash; nothing of it was there before."""
    before, after = planted
    assert not [one for one in before.left if one.store == store.name]
    assert next(one for one in before.looked if one.store == store.name).items
    found = {(one.row, one.form) for one in after.left if one.store == store.name}
    assert found >= {(row.place, form) for row, form in zip(rows_to_plant(), FORMS, strict=True)}


def test_every_store_of_the_list_is_looked_at(planted: tuple[Search, Search]) -> None:
    """All are told, and why the bytes of some are not looked at by themselves."""
    _, after = planted
    assert [one.store for one in after.looked] == [store.name for store in every_store()]
    assert {one.store for one in after.looked if one.skipped} == {INPUT, "audit samples", "pending cuts"}
    assert set(FORMS) == set(forms_of(rows_to_plant()[0]))


@pytest.mark.parametrize("precision", ["double"])
def test_support_vectors_and_what_a_trainer_holds_are_found_until_they_are_erased(
    real_broker: TestBroker, tmp_path: Path, precision: str
) -> None:
    """In published versions as they scale them; not in what is made after the erasure."""
    connection, name = real_broker.connection, real_broker.name(f"vectors-{precision}")
    own = started(connection, settings_of(name, tmp_path))
    own = own.model_copy(
        update={
            "svm": SvmConfig(C=1.0, kernel="rbf", precision=precision),
        }
    )
    rows = gaussian(150, 5)
    produce(connection, own, encoded(rows))
    run_until(own, connection, 150)
    version = versions(connection, own)[-1]
    machine = version.model.machine
    assert isinstance(machine, KernelMachine)
    Z = version.model.scaler.transform(rows.X)
    kept = machine.support if precision == "double" else machine.support.astype(np.float16)
    Z = Z if precision == "double" else Z.astype(np.float16)
    at = next(at for at in range(150) if (kept == Z[at]).all(axis=1).any())
    cluster, config = Cluster(connection), own.models()
    contents, missing = contents_in_log(cluster, own.input.topic, config, {0: [Position(at)]}, None, 30.0)
    assert not missing
    found = {one.store for one in search(cluster, own, contents, {}, 30.0).left}
    assert found >= {"versions"}
    forgotten(connection, own, at)
    run_until(own, connection, 150)
    again = search(cluster, own, contents, {}, 30.0)
    assert not {one.store for one in again.left} & {"checkpoints", "aliases and audit trail", "dead letters"}
    newest = cluster.log_range(own.output.models_topic, 0)[1]
    ends = {int(one.where.rpartition("@")[2]) for one in again.left if one.store == "versions"}
    made = [record.offset for record in cluster.read_to_end(own.output.models_topic, 0, timeout_s=30.0)]
    assert newest > max(made)
    assert made[-1] not in ends
    assert ends


def test_the_command_says_where_something_is_left(real_broker: TestBroker, tmp_path: Path) -> None:
    """Exit status 1 while something is, 0 where nothing is; a log file is given by its store."""
    connection = real_broker.connection
    own = started(connection, settings_of(real_broker.name("command"), tmp_path / "own"))
    rows = gaussian(70, 5)
    produce(connection, own, encoded(rows))
    run_until(own, connection, 70)  # the last ten in an open leaf
    (tmp_path / "service.log").write_text(f"learned {rows.X[65][0]!s} at noon\n")
    given = ["--bootstrap-servers", str(connection.options["bootstrap.servers"]), "--name", "m"]
    given += ["--output-models-topic", own.output.models_topic, "--input-topic", own.input.topic]
    given += ["--checkpoint-directory", str(own.checkpoint.directory), "--scoring-output-topic", own.input.topic + "-s"]
    asked = ["history", "search", "--position", "0:65", "--also", f"logs={tmp_path / 'service.log'}", *given]
    done = run(*asked, "--json")
    assert done.returncode == 1, done.stderr
    left = {one["store"] for one in json.loads(done.stdout)["left"]}
    assert left == {"checkpoints", "logs"}
    assert "FOUND 0:65 in logs" in run(*asked).stdout
    wrong = run("history", "search", "--position", "0:65", "--also", "cellar=/", *given)
    assert wrong.returncode == 78
    assert "The stores are" in wrong.stderr
    forgotten(connection, own, 65)
    (tmp_path / "service.log").unlink()
    (tmp_path / "service.log").write_text("nothing\n")
    clean = run(*asked)
    assert clean.returncode == 0, clean.stdout + clean.stderr
    assert "nothing was found" in clean.stdout


@pytest.mark.quick
def test_a_file_that_cannot_be_unpacked_is_named(tmp_path: Path) -> None:
    """The others are looked at nevertheless; of a place no more is remembered than is said."""
    whole = gzip.compress(b"customer-0 " * 50)
    (tmp_path / "damaged.gz").write_bytes(whole[:12] + b"\xff" * 8 + whole[20:])
    for number in range(MOST_PLACES + 5):
        (tmp_path / f"{number:02d}.log").write_bytes(b"of customer-0")
    logs = next(store for store in every_store() if store.name == "logs")
    searching = _Searching(None, None, Traces(rows_to_plant()), 1.0)  # type: ignore[arg-type]
    looked, left = searching.through(logs, [tmp_path])
    assert (looked.items, len(left)) == (MOST_PLACES + 5, MOST_PLACES)
    assert "damaged.gz cannot be read" in looked.skipped
    assert looked.unread == 1
    found = Search(rows=(), traces=1, untold=(), looked=(looked,), left=())
    assert found.lines([])[-2:] == ["1 places could not be read: nothing is known of them", "nothing was found"]
