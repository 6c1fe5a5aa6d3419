"""`asyncapi.yaml`: the specification's own parser takes it, and it describes what the daemons really write."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from consumers.branches.late_labels import LabelsConfig
from consumers.settings import ScoringConfig, Settings
from streamsvm.branches.challenges import InShadow
from streamsvm.branches.history import Erased, encode_erased
from streamsvm.config import Label, PointsConfig
from streamsvm.ingest import BatchScorer, dead_letter as deadletter, encode
from streamsvm.kafka import Cluster, Record, TopicSpec
from streamsvm.model import (
    Alias,
    Head,
    Owner,
    PartitionCut,
    Retired,
    encode_alias,
    encode_head,
    encode_owner,
    encode_retired,
    message as model_codec,
)
from tests.brokers.fixtures import TestBroker
from tests.brokers.jvm import CannotRun
from tests.consumers import trainers
from tests.consumers.scorer.running import Running, produce
from tests.golden.every_model import KINDS
from tests.golden.model import parts_of, path_of
from tests.interop.programs import node_program
from tests.registry.test_subscriber import version_of
from tests.schemas import model_schema

ROOT = Path(__file__).parent.parent.parent
DOCUMENT = ROOT / "streamsvm" / "asyncapi.yaml"
PARSER_TIMEOUT_S = 120.0
ERROR, WARNING = 0, 1
PLANTED = {
    "a channel that is not there": ("#/channels/scores'", "#/channels/results'"),
    "a schema that is not there": ("#/components/schemas/owner'", "#/components/schemas/keeper'"),
    "a schema file that is not there": ("model-1.schema.json", "model-11.schema.json"),
    "an action that is none": ("action: receive", "action: get"),
    "a type that is none": ("x: {$ref: '#/components/schemas/x'}", "x: {type: vector}"),
    "a field of no meaning": ("operations:", "operation:"),
    "an example that is not valid": ("number: 7, sha256", "number: seven, sha256"),
}


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the parser says of the document, under no name, and of each one with a mistake; skips without a parser."""
    scratch = tmp_path_factory.mktemp("asyncapi")
    try:
        command = node_program("asyncapi.mjs", scratch)
    except CannotRun as missing:
        pytest.skip(f"no parser of AsyncAPI: {missing}")
    text, files = DOCUMENT.read_text(), {"": DOCUMENT}
    for number, (mistake, (right, wrong)) in enumerate(PLANTED.items()):
        assert right in text, mistake
        files[mistake] = scratch / f"{number}.yaml"
        files[mistake].write_text(text.replace(right, wrong, 1).replace("./model", str(DOCUMENT.parent / "model")))
    command += [str(file) for file in files.values()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PARSER_TIMEOUT_S, cwd=scratch)
    return dict(zip(files, map(json.loads, done.stdout.splitlines()), strict=True))


def test_its_parser_takes_it_and_the_channels_are_our_topics(parsed: dict[str, dict[str, Any]]) -> None:
    """No error and no warning; the addresses are the default names of the topics."""
    assert [one for one in parsed[""]["complaints"] if one["severity"] in (ERROR, WARNING)] == []
    labels = LabelsConfig(topic="labels", horizon=1.0)
    settings = Settings(kafka={"bootstrap.servers": "unused:1"}, scoring=ScoringConfig(), labels=labels)
    output, scoring = settings.output, settings.scoring
    assert set(parsed[""]["channels"]) == {
        settings.input.topic,
        settings.input.dead_letters,
        settings.labels.topic,
        settings.labels.dead_letters,
        output.models_topic,
        output.aliases_topic,
        output.audit_topic,
        scoring.topic,
        scoring.output_topic,
        scoring.dead_letters,
    }


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_is_found(parsed: dict[str, dict[str, Any]], mistake: str) -> None:
    """One wrong word anywhere in the document, and the parser says so."""
    assert any(one["severity"] == ERROR for one in parsed[mistake]["complaints"])


# ---------------------------------------------------------------- the schemas against real messages


def conforms(name: str, value: Any) -> bool:
    """Tell whether a value is what the document says under this name."""
    document = yaml.safe_load(DOCUMENT.read_text())
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


def read(headers: Any) -> dict[str, str]:
    """Return headers as text."""
    return {name: content.decode() for name, content in headers}


def scored(value: bytes, reasons: int = 0) -> Any:
    """Return what the scorer makes of one record."""
    scorer = BatchScorer(
        version_of(2),
        "ab" * 32,
        max_record_bytes=10_000,
        max_message_bytes=99_999,
        reasons=reasons,
    )
    return scorer.score([Record("points", 3, 7, b"k", value, (), 1_700_000_000_000, None)])


def real_messages() -> dict[str, list[Any]]:
    """Return, by the name of its schema, what the codecs write."""
    digest = "ab" * 32
    one, many = encode([1.0, 2.5], id="a"), b"[" + encode([1.0, 2.5], 1, 0.5) + b"," + encode([0, 1], 0) + b"]"
    head = Head(
        number=2,
        incarnation=1,
        cut=(PartitionCut(0, 5, 0, 1),),
        sha256=digest,
        offset=3,
        training_set_sha256=digest,
        build={},
        links=(),
    )
    score, scores, reasoned = scored(one), scored(many), scored(one, reasons=2)
    (bad,) = scored(b"not json").rejected
    letter = deadletter.encode("points", bad, b"k", (), model="m")
    headers = model_codec.headers(digest, datetime(2026, 1, 1, tzinfo=UTC), {})
    return {
        "labeledPoints": [json.loads(encode([1.0], 1)), json.loads(many)],
        "unlabeledPoints": [json.loads(one), json.loads(many)],
        "alias": [json.loads(encode_alias(Alias(2, digest, 3)))],
        "head": [json.loads(encode_head(head))],
        "retired": [json.loads(encode_retired(Retired(5, (2,), ())))],
        "erased": [
            json.loads(
                encode_erased(Erased(topic="points", topic_id="", incarnation=1, continues=1, rows=((0, 7, 0, 2),)))
            )
        ],
        "owner": [json.loads(encode_owner(Owner("s", "2026-01-01T00:00:00+00:00")))],
        "scores": [json.loads(made.records[0].value) for made in (score, scores, reasoned)],
        "scoreHeaders": [read(score.records[0].headers)],
        "modelHeaders": [read(headers)],
        "deadLetterHeaders": [read(letter.headers)],
    }


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_every_kind_of_version_are_described(kind: str) -> None:
    """Of two and of more labels, with probabilities, of raw events; with a shadow and copied headers."""
    value = path_of(kind).read_bytes()
    version, limits = model_codec.decode(value), {"max_record_bytes": 100_000, "max_message_bytes": 999_999}
    point: Any = {"x": [0.5] * version.model.dimension}
    if version.recipe is not None:
        point = parts_of(json.loads(value))["recipe"]["examples"][0]["event"]
    scorer = BatchScorer(version, "ab" * 32, **limits, beside=InShadow(version), copied=["traceparent"])
    record = Record("points", 3, 7, b"k", json.dumps(point).encode(), (("traceparent", b"00-1-2-01"),), 0, None)
    (made,) = scorer.score([record]).records
    score = json.loads(made.value)
    assert conforms("scores", score), score
    assert conforms("scoreHeaders", read(made.headers))
    assert isinstance(score["score"], list) == (len(version.labels) > 2) == isinstance(score["shadow"]["score"], list)
    assert not conforms("scores", {**score, "score": [1.0, 2.0]})


@pytest.mark.parametrize("name", real_messages())
def test_what_is_written_is_what_is_described(name: str) -> None:
    """Messages of the codecs conform; without any one of the required fields they do not."""
    document = yaml.safe_load(DOCUMENT.read_text())["components"]["schemas"]
    for message in real_messages()[name]:
        assert conforms(name, message), message
    single = document.get(name.removesuffix("s"), document[name])
    example = real_messages()[name][0]
    for field in single["required"]:
        assert not conforms(name, {other: value for other, value in example.items() if other != field}), field


# --------------------------------------------------------------------- the schemas against what daemons wrote

LIVE_ROWS: Final = 200


def described_as(key: str) -> str:
    """Return the name of the schema of a record of the aliases topic."""
    what = key.rsplit("@", 1)[1]
    return what if what in {"head", "owner", "retired", "erased"} else "alias"


@pytest.mark.parametrize("labels", [(-1, 1), ("ok", "review", "fraud")], ids=["two", "three"])
def test_every_record_that_daemons_write_is_described(
    real_broker: TestBroker, tmp_path: Path, labels: tuple[Label, ...]
) -> None:
    """Of a trainer and a scorer with reasons and copied headers: versions, pointers, trail, scores, letters."""
    connection, several = real_broker.connection, len(labels) > 2
    settings = trainers.settings_for(real_broker.name("described"), tmp_path / "checkpoint")
    settings = settings.model_copy(update={"points": PointsConfig(dimension=2, labels=labels)})
    values = [encode([at % 7, at % 5], labels[at % 7 * len(labels) // 7]) for at in range(LIVE_ROWS)]
    topic, output = settings.input.topic, settings.output
    scored = ScoringConfig(
        topic=f"{topic}-unlabeled",
        output_topic=f"{topic}-scores",
        group=f"{topic}-scorers",
        copy_headers=("trace",),
        reasons=0 if several else 2,
    )
    Cluster(connection).create([TopicSpec(topic), TopicSpec(scored.topic, 4)])
    trainers.produce(connection, topic, [*values, b'{"x": [1], "y": 1}'])
    trainers.run_until(settings, connection, LIVE_ROWS + 1)
    produce(connection, scored.topic, [*(encode([at, 1.0], id=at) for at in range(8)), b"not json"], key=b"k")
    with Running(settings.model_copy(update={"scoring": scored}), connection) as running:
        running.wait_until(lambda: running.value("streamsvm_scored_points_total") == 8)

    def records_of(name: str) -> list[Record]:
        return [record for record in trainers.stored(connection, name) if record.value is not None]

    found = {name: records_of(name) for name in (output.models_topic, output.aliases_topic, output.audit_topic)}
    assert all(found.values())
    for record in found[output.models_topic]:
        jsonschema.Draft202012Validator(model_schema()).validate(json.loads(record.value or b""))
        assert conforms("modelHeaders", read(record.headers))
    for record in found[output.aliases_topic]:
        name = described_as((record.key or b"").decode())
        assert conforms(name, json.loads(record.value or b"")), (name, record.value)
    assert all(conforms("auditEntry", json.loads(record.value or b"")) for record in found[output.audit_topic])
    rows = records_of(scored.output_topic)
    assert len(rows) == 8
    for record in rows:
        score, headers = json.loads(record.value or b""), read(record.headers)
        assert conforms("scores", score), score
        assert conforms("scoreHeaders", headers)
        assert headers["trace"] == "t"
        assert isinstance(score["score"], list) == several
    letters = [*records_of(settings.input.dead_letters), *records_of(scored.dead_letters)]
    assert len(letters) == 2
    assert all(conforms("deadLetterHeaders", read(record.headers)) for record in letters)
