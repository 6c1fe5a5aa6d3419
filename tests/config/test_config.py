"""Configuration: one source of options, strict, with secrets kept."""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from consumers.loader import load
from consumers.options import _kafka_options
from consumers.settings import Settings
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in list(os.environ):
        if variable.startswith("STREAMSVM_"):
            monkeypatch.delenv(variable)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


NOBODY: Final = 65_534


@contextmanager
def another_user() -> Iterator[int]:
    """Be a user whom modes bind, as root is not: in this thread alone, for a signal to all would end other waits."""
    user = os.geteuid() or NOBODY
    before = ctypes.CDLL(None).setfsuid(user)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: user)
            yield user
    finally:
        ctypes.CDLL(None).setfsuid(before)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may reach, as pytest's own is not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


UNREADABLE: Final = {
    "authority": ("file of kafka option ssl.ca.location {0}/a.pem", "a.pem", "chmod 644 {0}/a.pem"),
    "authority-of-registry": ("file of registry.ca_file {0}/a.pem", "a.pem", "chmod 644 {0}/a.pem"),
    "configuration": ("configuration file {0}/c.toml", "c.toml", "chmod 644 {0}/c.toml"),
    "folder": ("the directory {0} is closed", ".", "chmod a+x {0}"),
    "folder-of-link": ("the directory {0}/d is closed", "d", "chmod a+x {0}/d"),
    "key": ("file of kafka option ssl.key.location {0}/a.pem", "a.pem", "chown {1} {0}/a.pem; chmod 400 {0}/a.pem"),
    "secret": ("secret {0}/s/seed", "s/seed", "chown {1} {0}/s/seed; chmod 400 {0}/s/seed"),
    "secrets": ("secrets directory {0}/s", "s", "chown {1} {0}/s; chmod 500 {0}/s"),
}
"""What a refusal names, what is closed to this user, and what opens it: {0} is the folder, {1} the user."""


@pytest.mark.parametrize("closed", sorted(UNREADABLE))
def test_what_the_user_may_not_read_is_refused_with_the_mode_that_it_needs(closed: str, open_folder: Path) -> None:
    """A file, or a way to it, that is closed is no defect and no absent option; what is opened as told is read."""
    named, shut, opened = UNREADABLE[closed]
    (open_folder / "s").mkdir(mode=0o755)
    file, authority = write(open_folder / "c.toml", "seed = 1\n"), write(open_folder / "a.pem", "")
    write(open_folder / "s" / "seed", "1")
    (open_folder / "d").mkdir(mode=0o755)
    linked = open_folder / "linked.pem"
    linked.symlink_to(write(open_folder / "d" / "b.pem", ""))
    kafka = {"authority": {"ssl.ca.location": str(authority)}, "key": {"ssl.key.location": str(authority)}}
    kafka["folder-of-link"] = {"ssl.key.location": str(linked)}
    registry = {"ca_file": authority} if closed == "authority-of-registry" else {}
    options = {"kafka": kafka.get(closed, {}), "registry": registry}
    (open_folder / shut).chmod(0)
    with another_user() as user, pytest.raises(ConfigurationError) as refused:
        load(options, file=file, secrets=open_folder / "s")
    (open_folder).chmod(0o755)
    assert named.format(open_folder, user) in refused.value.what
    remedy = opened.format(open_folder, user)
    assert f"As root: {remedy}" in refused.value.remedy
    assert [os.system(command) for command in remedy.split("; ")] == [0] * len(remedy.split("; "))
    with another_user():
        assert load(options, file=file, secrets=open_folder / "s").seed == 1


def test_a_place_that_is_not_there_is_no_closed_one(tmp_path: Path) -> None:
    """Who shows or checks options elsewhere need not have the files of the machine that they are for."""
    settings = load({"kafka": {"ssl.ca.location": str(tmp_path / "of" / "another" / "ca.pem")}})
    assert "ssl.ca.location" in settings.kafka


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
        "coreset.points": 11_000,
        "svm.loss": "hinge",
    }


def test_the_loss_is_the_kernels_unless_it_is_given() -> None:
    """The hinge of a linear machine, its square of an RBF one, also before the section is settled."""
    for kernel, loss in (("linear", "hinge"), ("rbf", "squared_hinge")):
        svm = SvmConfig(kernel=kernel)
        assert (svm.margin_loss, svm.settled(2).loss, svm.settled(3).loss) == (loss, loss, loss)
        for given in ("hinge", "squared_hinge"):
            assert SvmConfig(kernel=kernel, loss=given).settled(2).margin_loss == given


def test_the_hash_covers_what_makes_a_model_and_nothing_else() -> None:
    """Model-affecting options change it; where and when things happen does not."""
    base = Settings(points=PointsConfig(dimension=2))
    same = base.model_copy(update={"name": "other", "kafka": {"bootstrap.servers": "x"}})
    assert base.models().sha256() == same.models().sha256()
    for svm in (SvmConfig(kernel="rbf"), SvmConfig(probability="sigmoid")):
        assert not svm.packed, "before it is settled"
        assert base.models().sha256() != base.model_copy(update={"svm": svm}).models().sha256()
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


@pytest.mark.parametrize(
    ("given", "meant"), [("none", "none"), ("balanced", "balanced"), ("1,10", (1.0, 10.0)), ([0.5, 2], (0.5, 2.0))]
)
def test_class_weights_are_a_word_or_two_numbers(given: object, meant: object) -> None:
    """As text, for the environment and the command line, or as a list; the hash tells them apart."""
    made = load({"svm": {"class_weight": given}, "points": {"dimension": 1}})
    assert made.svm.class_weight == meant
    plain = ModelConfig(points=PointsConfig(dimension=1))
    assert (made.models().sha256() == plain.sha256()) == (given == "none")
