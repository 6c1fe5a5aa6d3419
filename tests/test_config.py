"""Configuration: one source of options, strict, with secrets kept."""

from __future__ import annotations

import json
import re
import tracemalloc
from pathlib import Path

import pytest

from consumers.loader import load
from consumers.options import _kafka_options
from consumers.settings import Settings
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.errors import ConfigurationError
from streamsvm.learning.learner import Learner
from streamsvm.points import Position
from tests.streams import gaussian, rows_of


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for variable in list(os.environ):
        if variable.startswith("STREAMSVM_"):
            monkeypatch.delenv(variable)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_sources_win_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options over environment over secrets over the file over defaults, each for its own option."""
    file = write(
        tmp_path / "c.toml",
        'name = "from-file"\nseed = 5\n[points]\ndimension = 2\nlabels = [0, 1]\n[input]\ntopic = "file"\n'
        '[kafka]\n"bootstrap.servers" = "file:1"\n"sasl.username" = "file"\n',
    )
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    write(secrets / "kafka__sasl_password", "hush")
    monkeypatch.setenv("STREAMSVM_NAME", "from-environment")
    monkeypatch.setenv("STREAMSVM_KAFKA__BOOTSTRAP_SERVERS", "environment:1")
    monkeypatch.setenv("STREAMSVM_POINTS__LABELS", "no,yes")
    settings = load({"input": {"topic": "option"}}, file=file, secrets=secrets)
    assert (settings.name, settings.seed, settings.input.topic) == ("from-environment", 5, "option")
    assert settings.kafka == {
        "bootstrap.servers": "environment:1",
        "sasl.username": "file",
        "sasl.password": "hush",
    }
    assert settings.models().points == PointsConfig(dimension=2, labels=("no", "yes"))


def test_the_command_line_wins_however_an_option_of_kafka_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment cannot write librdkafka's dots, and still loses against who can."""
    file = write(tmp_path / "c.toml", '[kafka]\n"bootstrap.servers" = "file:1"\n')
    monkeypatch.setenv("STREAMSVM_KAFKA__BOOTSTRAP_SERVERS", "environment:1")
    assert load({"kafka": {"bootstrap.servers": "option:1"}}, file=file).kafka == {"bootstrap.servers": "option:1"}


def test_secrets_are_masked() -> None:
    """What is shown or logged holds no secret."""
    settings = load({"kafka": {"sasl.password": "hush", "ssl.key.pem": "hush", "bootstrap.servers": "h:1"}})
    shown = str(settings.masked())
    assert "hush" not in shown
    assert "h:1" in shown


def test_what_differs_from_the_defaults_is_told_and_no_more() -> None:
    """For people who look at a start: what they gave and what follows from it; no secret."""
    assert load({}).differing() == {}
    settings = load(
        {
            "name": "late",
            "kafka": {"bootstrap.servers": "h:1", "sasl.password": "hush"},
            "points": {"dimension": 8, "labels": "on-time,late"},
            "registry": {"password": "hush"},
            "svm": {"kernel": "linear"},
        }
    )
    assert settings.differing() == {
        "name": "late",
        "kafka.bootstrap.servers": "h:1",
        "kafka.sasl.password": "********",
        "points.dimension": 8,
        "points.labels": ["on-time", "late"],
        "registry.password": "********",
        "coreset.structure": "tree",
    }


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"coreset": {"leaf_rows": 0}}, "coreset.leaf_rows: must be at least 1 (got 0)"),
        ({"coreset": {"leef_rows": 1}}, "coreset.leef_rows: there is no such option (did you mean coreset.leaf_rows?)"),
        ({"corset": {}}, "corset: there is no such option (did you mean coreset?)"),
        ({"dimension": 8}, "dimension: there is no such option (did you mean points.dimension?)"),
        ({"xyzzy": {}}, "xyzzy: there is no such option."),
        (
            {"svm": {"alpha": 0.1, "C": 1}},
            "svm.alpha = 0.1, and svm.C = 1.0: both set the same trade-off. Give only one",
        ),
        ({"svm": {"class_weight": "1,0"}}, "svm.class_weight"),
        ({"svm": {"class_weight": "fair"}}, "svm.class_weight"),
        ({"coreset": {"clip_sd": 1.0}}, "coreset.clip_sd"),
        ({"points": {"labels": [1, 0]}}, "points.dimension: is not given"),
        ({"points": {"dimension": 1, "labels": [1]}}, "points.labels holds 1 label; there must be 2 to 128"),
        ({"svm": {"C": -1}}, "svm.C: must be at least 1e-100 (got -1)"),
        ({"points": {"dimension": 1, "labels": [1, 1]}}, "the same label twice"),
        ({"points": {"dimension": 1, "labels": [1, "1"]}}, "mixes two types"),
        ({"points": {"dimension": 2, "feature_names": ["a"]}}, "has 1 names, but points.dimension is 2"),
        (
            {"input": {"start": "yesterday"}},
            "input.start: must be 'earliest' or 'latest' or a time such as 2026-01-31T12:00:00Z (got 'yesterday')",
        ),
        ({"input": {"start": "2026-01-01T00:00:00"}}, "no time zone"),
        ({"name": "a/b"}, "name"),
        ({"training": {"policy": "some"}}, "'latest' or 'every'"),
    ],
)
def test_a_wrong_option_is_one_clear_line(options: dict[str, object], named: str) -> None:
    """The message names the option, what is wrong with it, and where options come from."""
    with pytest.raises(ConfigurationError) as error:
        load(options)
    assert named in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("variable", ["STREAMSVM_COREST__FAN_IN", "STREAMSVM_NAMED"])
def test_an_unknown_variable_is_refused(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt variable is not silently without effect."""
    monkeypatch.setenv(variable, "1")
    with pytest.raises(ConfigurationError, match=variable):
        load()


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    """The path stands in the message."""
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml does not exist"):
        load(file=tmp_path / "nowhere.toml")
    with pytest.raises(ConfigurationError, match=r"broken\.toml"):
        load(file=write(tmp_path / "broken.toml", "name = \n"))


def test_training_needs_the_dimension() -> None:
    """The remedy shows all three ways to give it."""
    with pytest.raises(ConfigurationError, match="--points-dimension"):
        load().models()


def test_the_hash_covers_what_makes_a_model_and_nothing_else() -> None:
    """Model-affecting options change it; where and when things happen does not."""
    base = Settings(points=PointsConfig(dimension=2))
    same = base.model_copy(update={"name": "other", "kafka": {"bootstrap.servers": "x"}})
    other = base.model_copy(update={"svm": SvmConfig(kernel="rbf")})
    assert base.models().sha256() == same.models().sha256()
    assert base.models().sha256() != other.models().sha256()
    assert base.models().sha256() == ModelConfig(points=PointsConfig(dimension=2)).sha256()


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "SASL_PASSWORD",
        "ssl.key.pem",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.config",
        "sasl.jaas.config",
        "SASL_JAAS_CONFIG",
        "basic.auth.user.info",
        "schema.registry.basic.auth.user.info",
    ],
)
def test_no_secret_is_shown(name: str) -> None:
    """Neither in the log line of the configuration, nor in a repr, and the command line does not take it."""
    settings = load({"kafka": {name: "hunter2"}})
    assert "hunter2" not in json.dumps(settings.masked())
    assert "hunter2" not in repr(settings)
    with pytest.raises(ConfigurationError, match="would show a secret"):
        _kafka_options([f"{name}=hunter2"])


@pytest.mark.parametrize("kafka", ['{"sasl.password": "hunter2"}', {"ssl.key.pem": ["hunter2"]}])
def test_no_secret_is_shown_by_an_error(kafka: object) -> None:
    """A malformed value is not repeated in the message."""
    with pytest.raises(ConfigurationError) as refused:
        load({"kafka": kafka})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("option", [{"C": "inf"}, {"C": "1e308"}, {"alpha": "1e-320"}, {"gamma": "inf"}])
def test_no_option_makes_infinite_boxes(option: dict[str, str]) -> None:
    """They would train a model of NaN, which no reader accepts."""
    with pytest.raises(ConfigurationError, match="svm"):
        load({"svm": option})


@pytest.mark.parametrize(("memory", "audit"), [(100, 5), (10_000, 500), (1_000_000, 1_000)])
def test_the_audit_sample_is_part_of_the_budget(memory: int, audit: int) -> None:
    """A twentieth of a partition's memory, no more than without a budget; 0 leaves all of it to the coreset."""
    budget = {"structure": "chain", "memory_points": 4 * memory, "max_partitions": 4}
    config = CoresetConfig.model_validate(budget)
    assert config.audit_points == audit
    assert config.leaf_rows + config.bucket_points == memory - audit
    without = CoresetConfig.model_validate({**budget, "audit_points": 0})
    assert without.leaf_rows + without.bucket_points == memory


@pytest.mark.parametrize("structure", ["tree", "chain"])
@pytest.mark.parametrize("given", [{}, {"leaf_rows": 200}, {"bucket_points": 30}, {"fan_in": 4}])
@pytest.mark.parametrize("partitions", [1, 8, 64])
def test_one_budget_settles_the_sizes(structure: str, given: dict[str, int], partitions: int) -> None:
    """Each partition gets its part and keeps to it; what is given wins; a round trip changes nothing."""
    options = {"structure": structure, "max_partitions": partitions, "memory_points": 4_000 * partitions, **given}
    config = CoresetConfig.model_validate(options)
    assert config.partition_points <= 4_000
    assert all(getattr(config, name) == value for name, value in given.items())
    if structure == "chain" or config.buckets is not None:
        assert config.partition_points >= 0.9 * 4_000 or "bucket_points" in given
    assert CoresetConfig.model_validate(config.model_dump()) == config


@pytest.mark.parametrize("structure", ["tree", "chain"])
@pytest.mark.parametrize(
    ("dimension", "partitions", "train_points"), [(2, 1, 20_000), (8, 4, 1_000), (60, 2, 20_000), (150, 1, 500)]
)
def test_a_budget_of_bytes_is_kept_and_used(structure: str, dimension: int, partitions: int, train_points: int) -> None:
    """The most that learning and a cut allocate is no more than the budget, less what a short stream leaves unused.

    A chain is full at once, so it uses a fair part of it.
    """
    points = PointsConfig(dimension=dimension)
    asked = {"structure": structure, "max_partitions": partitions, "train_points": train_points}
    config = ModelConfig(
        points=points, coreset=CoresetConfig.model_validate({**asked, "memory_bytes": 20_000_000}), svm=SvmConfig(C=1.0)
    )
    coreset = config.coreset
    assert 0 < coreset.largest_bytes(points) <= 20_000_000
    assert ModelConfig.model_validate(config.model_dump()) == config
    rows = 4 * coreset.leaf_rows + coreset.leaf_rows // 2
    streams = [rows_of(gaussian(rows, part, dimension), part) for part in range(partitions)]
    Learner(config, {0: Position(0)}, 1 << 40).learn(streams[0])
    tracemalloc.start()
    try:
        learner = Learner(config, dict.fromkeys(range(partitions), Position(0)), 1 << 40)
        for stream in streams:
            learner.learn(stream)
        learner.cut()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    unused = (partitions * coreset.partition_points - learner.points_held) * points.point_bytes
    assert most <= coreset.largest_bytes(points) - unused
    assert structure == "tree" or most >= 0.4 * coreset.largest_bytes(points)


def test_bytes_that_hold_nothing_are_refused_with_what_would_do() -> None:
    """At the door, and the figure that the message gives is enough."""
    with pytest.raises(
        ConfigurationError, match=r"memory_bytes = 200000 is too little .* takes (\d+) bytes"
    ) as refused:
        load({"points": {"dimension": 8}, "coreset": {"memory_bytes": 200_000}})
    assert "max_partitions" in str(refused.value)
    found = re.search(r"takes (\d+) bytes", str(refused.value))
    assert found is not None
    enough = load({"points": {"dimension": 8}, "coreset": {"memory_bytes": int(found[1])}})
    assert enough.coreset == enough.models().coreset
    assert enough.coreset.bucket_points >= CoresetConfig.LEAST_BUCKET
    with pytest.raises(ConfigurationError, match=r"memory_points = 10000, and coreset\.memory_bytes = 1000000000"):
        load({"points": {"dimension": 8}, "coreset": {"memory_bytes": 10**9, "memory_points": 10_000}})


LITTLE = [
    ({"memory_points": 44_799}, "chain"),
    ({"memory_points": 44_800}, "tree"),
    ({"memory_bytes": 4_000_000}, "chain"),
    ({"memory_bytes": 40_000_000}, "tree"),
    ({"memory_points": 10_000, "buckets": 2}, "tree"),
    ({"memory_points": 44_000, "fan_in": 2}, "tree"),
    ({}, "tree"),
]


@pytest.mark.parametrize(("budget", "structure"), LITTLE)
def test_little_memory_a_partition_means_a_chain(budget: dict[str, int], structure: str) -> None:
    """Fewer than 700 points, unless an option of a tree is given."""
    coreset = CoresetConfig.model_validate({"max_partitions": 64, **budget})
    assert ModelConfig(points=PointsConfig(dimension=8), coreset=coreset).coreset.structure == structure


def test_a_base_of_the_counter_asks_for_the_counter() -> None:
    """Alg. 2 by its own option; both at once contradict each other, and so does a number of buckets of a chain."""
    assert CoresetConfig(fan_in=2).buckets is None
    assert CoresetConfig(reducer="sensitivity").buckets is None
    with pytest.raises(ValueError, match=r"coreset\.fan_in = 3, and coreset\.buckets = 4: both say when buckets merge"):
        CoresetConfig(fan_in=3, buckets=4)
    with pytest.raises(ValueError, match=r"coreset\.buckets = 4, but coreset\.structure = chain: "):
        CoresetConfig(structure="chain", buckets=4)


def test_the_sizes_are_hashed_not_the_budget() -> None:
    """A model does not depend on how its sizes were said."""
    said = CoresetConfig(structure="chain", points=1_000)
    sizes = {name: getattr(said, name) for name in ("leaf_rows", "bucket_points", "audit_points")}
    other = CoresetConfig(structure="chain", **sizes)
    hashes = {ModelConfig(points=PointsConfig(dimension=2), coreset=coreset).sha256() for coreset in (said, other)}
    assert len(hashes) == 1


@pytest.mark.parametrize("budget", [{}, {"memory_points": 40_000}, {"memory_bytes": 20_000_000}])
@pytest.mark.parametrize(("kernel", "structure"), [("linear", "tree"), ("rbf", "chain")])
@pytest.mark.parametrize("given", [None, "tree", "chain"])
def test_the_kernel_decides_the_structure_unless_it_is_given(
    budget: dict[str, int], kernel: str, structure: str, given: str | None
) -> None:
    """Sizes and hash are those of the same structure said in so many words; a round trip changes nothing."""
    coreset = {"max_partitions": 4, **budget}
    asked = {"points": {"dimension": 3}, "svm": {"kernel": kernel}}
    settings = load({**asked, "coreset": coreset if given is None else {**coreset, "structure": given}})
    said = load({**asked, "coreset": {**coreset, "structure": given or structure}})
    seen = settings.coreset.model_dump()
    assert seen == settings.models().coreset.model_dump() == said.coreset.model_dump()
    assert settings.coreset.structure == settings.models().canonical()["coreset"]["structure"] == (given or structure)
    assert settings.models().sha256() == said.models().sha256()
    assert ModelConfig.model_validate(settings.models().model_dump()) == settings.models()


def test_a_budget_waits_for_the_structure() -> None:
    """One that no tree fits into is no error where a chain is taken: for its kernel, or for so little memory."""
    points, little = PointsConfig(dimension=2), {"memory_points": 256, "max_partitions": 64}
    for svm in (SvmConfig(kernel="rbf"), SvmConfig()):
        config = ModelConfig(points=points, coreset=CoresetConfig.model_validate(little), svm=svm)
        assert config.coreset.partition_points == 4
    with pytest.raises(ValueError, match=r"memory_points = 256 .* too few for a tree"):
        ModelConfig(points=points, coreset=CoresetConfig.model_validate({**little, "buckets": 4}))


@pytest.mark.parametrize(
    "options",
    [
        {"structure": "tree", "max_partitions": 2_500},
        {"structure": "chain", "max_partitions": 10_000},
        {"structure": "chain", "max_partitions": 1, "leaf_rows": 6_000, "bucket_points": 4_001},
        {"structure": "chain", "max_partitions": 1, "leaf_rows": 10_000},
    ],
)
def test_a_budget_that_cannot_hold_what_is_asked_is_refused(options: dict[str, object]) -> None:
    """The message names the options that can change."""
    with pytest.raises(ValueError, match="memory_points = 10000 is too little: each of"):
        CoresetConfig.model_validate({"memory_points": 10_000, **options})


@pytest.mark.parametrize(
    ("given", "meant"), [("none", "none"), ("balanced", "balanced"), ("1,10", (1.0, 10.0)), ([0.5, 2], (0.5, 2.0))]
)
def test_class_weights_are_a_word_or_two_numbers(given: object, meant: object) -> None:
    """As text, for the environment and the command line, or as a list; the hash tells them apart."""
    made = load({"svm": {"class_weight": given}, "points": {"dimension": 1}})
    assert made.svm.class_weight == meant
    plain = ModelConfig(points=PointsConfig(dimension=1))
    assert (made.models().sha256() == plain.sha256()) == (given == "none")


@pytest.mark.parametrize("coreset", [{"audit_points": 0}, {"memory_points": 16, "max_partitions": 1}])
def test_probabilities_without_an_audit_sample_are_refused(coreset: dict[str, object]) -> None:
    """At the start, with both options named: there would be nothing to fit them to."""
    options = {"points": {"dimension": 2}, "coreset": {"structure": "chain", **coreset}}
    load(options)
    with pytest.raises(ConfigurationError, match=r"svm\.probability = sigmoid, but coreset\.audit_points = 0: "):
        load({**options, "svm": {"probability": "sigmoid"}})


def test_probabilities_decide_what_a_model_is() -> None:
    """They are in the hashed configuration."""
    points = PointsConfig(dimension=2)
    hashes = {
        ModelConfig(points=points, svm=SvmConfig(probability=method)).sha256()
        for method in (None, "sigmoid", "isotonic")
    }
    assert len(hashes) == 3
