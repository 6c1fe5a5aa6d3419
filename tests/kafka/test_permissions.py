"""The least permissions, as SECURITY.md lists them: with them each does its work, without any one it says so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from consumers.cli.app import app
from streamsvm.errors import ConfigurationError
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, TopicSpec
from streamsvm.registry import ModelSubscriber, load_version
from tests.branches.late_labels.test_labels import HORIZON_S, Timed, stream, write
from tests.brokers.secured import Permission, SecuredBroker, password_of
from tests.consumers.command import error_of
from tests.consumers.dead_letters.test_dead_letters import UNLABELED, message as letter_of
from tests.consumers.trainers import records
from tests.deadline import eventually
from tests.interop.programs import Program, command as program
from tests.kafka.secured_site import REFUSED_STATUS, Site, at_work, last_words, permitting
from tests.kafka.steps import PATIENCE_S, send
from tests.live.adopting import command as worker_of
from tests.live.process import Daemon, arguments, scorer, words
from tests.permissions import commands, listed

USER: Final = "reader"
READY_S: Final = 30.0
FRESH: Final = count(1_000)
Attempt = Callable[[Site], str]
"""Does the work as `USER`; returns the line with which it was refused, empty if it is done."""

MOVES: Final[Permission] = ("transactional_id", "streamsvm/m/models/moves", "write")
LATER: Final[Mapping[tuple[str, Permission], str]] = {
    ("trainer", ("topic", "models.audit", "read")): "from the second start on",
    ("trainer", ("topic", "models", "read")): "from the second start on",
    ("trainer", MOVES): "from the hundredth version on",
    ("judging scores", ("topic", "models", "read")): "for the versions' own figures",
    ("judging scores", ("topic", "models.aliases", "read")): "for the versions' own figures",
}
"""Rows without which the work is done all the same, and what they are needed for."""

NO_BROKER: Final = {"demo", "evaluate", "config", "compile", "model train-again"}
"""Commands that need no broker, or bring their own."""


# --------------------------------------------------------------------------------------- daemons


def ended(site: Site, daemon: Daemon, *grows: str) -> str:
    """Wait until topics grow or the daemon ends; return how it was refused, having stopped it if it was not."""
    cluster, names = Cluster(site.admin), [site.name(name) for name in grows]
    before = {name: cluster.log_range(name, 0)[1] for name in names}

    def grown() -> bool:
        return all(cluster.log_range(name, 0)[1] > end for name, end in before.items())

    try:
        eventually(lambda: daemon.ended() is not None or grown(), f"{grows} grow, or it ends", PATIENCE_S, pause_s=0.1)
        if (status := daemon.ended()) is None:
            status = daemon.stop()
    finally:
        daemon.kill()
        print(daemon.said)
    assert status in (0, REFUSED_STATUS), daemon.said
    assert password_of(USER) not in daemon.said
    assert ('"level": "error"' in daemon.said or '"level": "critical"' in daemon.said) == bool(status), daemon.said
    return last_words(daemon) if status else ""


def train(site: Site) -> str:
    """Publish a version and write a dead letter."""
    site.send([*records(40, seed=next(FRESH)), b"no point"])
    return ended(site, site.trainer(USER), "models", "in.dlq", "models.audit")


def train_with_labels(site: Site) -> str:
    """Join labels that come later; publish a version and write a dead letter of the labels."""
    rows, labels, _ = stream(100)
    write(site.admin, site.name("in"), rows)
    write(site.admin, site.name("labels"), [Timed(0, 0, b"no label"), *labels])
    options = {"labels_topic": site.name("labels"), "labels_horizon": str(HORIZON_S)}
    return ended(site, site.trainer(USER, **options), "models", "labels.dlq")


def train_with_idle_labels(site: Site) -> str:
    """Write watermarks for labels that do not come."""
    rows, labels, _ = stream(100)
    write(site.admin, site.name("in"), rows[:50])
    write(site.admin, site.name("labels"), labels[:10])
    options = {"labels_topic": site.name("labels"), "labels_horizon": str(HORIZON_S), "labels_idle_s": "0.2"}
    return ended(site, site.trainer(USER, **options), "labels")


WORKERS: Final = {"training_policy": "latest"}


def learn_for_a_trainer(site: Site) -> str:
    """Leave in the coresets topic what a trainer, who may do everything, makes a version of; write a dead letter."""
    site.send([*records(60), b"no point"])
    trainer = site.trainer("admin", training_from_coresets="true", **WORKERS)
    try:
        return ended(site, site.daemon(worker_of(site.settings, site.admin, WORKERS), USER), "models", "in.dlq")
    finally:
        trainer.kill()


def train_on_coresets(site: Site) -> str:
    """Publish a version of what a worker learned, who may do everything."""
    site.send(records(60))
    worker = site.daemon(worker_of(site.settings, site.admin, WORKERS), "admin")
    try:
        return ended(site, site.trainer(USER, training_from_coresets="true", **WORKERS), "models")
    finally:
        worker.kill()


def score(site: Site, user: str = USER) -> str:
    """Write a score and a dead letter."""
    site.send([b'{"x": [1, 2, 3], "id": "a"}', b"no point"], "points")
    models, points, scores = (site.name(name) for name in ("models", "points", "scores"))
    command = scorer(site.admin.servers, site.settings.name, models, points, scores)
    return ended(site, site.daemon(command, user), "scores", "points.dlq")


# --------------------------------------------------------------------------------------- readers


def subscribe(site: Site) -> str:
    """Get a version by the subscriber in Python."""
    name, models = site.settings.name, site.settings.output.models_topic
    try:
        with ModelSubscriber(site.broker.connect(USER), name, models_topic=models) as subscriber:
            assert subscriber.wait_ready(READY_S).version.number == 5
    except ConfigurationError as refused:
        return str(refused)
    return ""


def subscribe_by(language: str, site: Site, patch: pytest.MonkeyPatch) -> str:
    """Get a version by the subscriber in another language; return its complaint if it gets none."""
    options, directory = site.broker.options(USER), site.directory / f"{language}-{next(FRESH)}"
    directory.mkdir()
    (points := directory / "points.json").write_text("[[1.0, 2.0, 3.0]]")
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" '
    java = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": options["ssl.ca.location"],
        "sasl.mechanism": options["sasl.mechanism"],
        "sasl.jaas.config": f'{login} password="{password_of(USER)}";',
    }
    sasl = {"mechanism": "scram-sha-512", "username": USER, "password": password_of(USER)}
    node = {"ssl": {"ca": [Path(options["ssl.ca.location"]).read_text()]}, "sasl": sasl}
    patch.setenv("KAFKA_OPTIONS", json.dumps(java))
    patch.setenv("KAFKAJS_OPTIONS", json.dumps(node))
    given = (options["bootstrap.servers"], site.settings.output.models_topic, site.settings.name, str(points))
    with Program(language, program(language, directory, "", "subscriber.mjs", *given), directory) as running:
        refused = "missing is"
        eventually(lambda: refused in running.complaints or running.waiting, "a version, or a complaint", PATIENCE_S)
        said = running.complaints
        if refused not in said:
            running.wait_for(5, READY_S)
            running.stop()
    assert password_of(USER) not in said
    return said if refused in said else ""


# -------------------------------------------------------------------------------------- commands


def dead_letter(site: Site) -> None:
    """Put a letter that was never sent again into the dead-letter topic."""
    value = encode([1.0, 2.0, 3.0], "maybe", 1.0)
    send(site.admin, [letter_of(site.name("in.dlq"), next(FRESH), value, UNLABELED)])


def points(site: Site) -> None:
    """Put points as raw events into the input, and the same into a file."""
    (site.directory / "points.csv").write_text("a,b,c,y\n" + "1,2,3,-1\n2,3,4,1\n" * 10)
    site.send([json.dumps({"amount": at * 1.5, "y": at % 2}).encode() for at in range(40)])


def of_a_trainer(site: Site, **options: str) -> list[str]:
    """Return a trainer's options."""
    given = arguments(site.settings, site.admin, **options)
    given = given[given.index("train") + 1 :]
    at = given.index("--http-port")
    return given[:at] + given[at + 2 :]


def of_a_person(site: Site) -> list[str]:
    """Return the options of who reads or moves versions."""
    return words(
        {"bootstrap-servers": site.admin.servers, "name": site.settings.name, "output-models-topic": "{models}"}
    )


def of_a_client(site: Site) -> list[str]:
    """Return the options of who needs none but the broker's."""
    return words({"bootstrap-servers": site.admin.servers})


def of_a_judge(site: Site) -> list[str]:
    """Return the options of who reads scores and labels."""
    labels = {"labels-topic": "{labels}", "labels-horizon": HORIZON_S, "scoring-output-topic": "{scores}"}
    return of_a_person(site) + words({"points-dimension": 3, "scoring-topic": "{points}", **labels})


def run_all(lines: Iterable[str], options: Callable[[Site], list[str]], site: Site) -> str:
    """Run commands, each to its end; return how the first was refused, having seen that all were if one was."""
    refused = []
    lines = list(lines)
    for line in lines:
        given = line.replace("{fresh}", f"{next(FRESH)}").replace("{directory}", str(site.directory)).split()
        finished = site.command([*given, *options(site)], USER)
        assert finished.returncode in (0, REFUSED_STATUS), finished.stderr
        assert password_of(USER) not in finished.stdout + finished.stderr
        refused += [error_of(finished)] if finished.returncode else []
    assert len(refused) in (0, len(lines)), refused
    return refused[0] if refused else ""


COMMANDS: Final[Mapping[str, tuple[Callable[[Site], list[str]], Sequence[str], Sequence[str]]]] = {
    "reading versions": (
        of_a_person,
        ("model show", "model list", "model diff 3 4", "model export --version 3"),
        ("model show", "model list", "model diff 3 4", "model export --version 3"),
    ),
    "judging scores": (of_a_judge, ("model served",), ("model served",)),
    "moving readers": (
        of_a_person,
        ("model pin 4 --alias stable", "model pin 4", "model rollback", "model pin --remove"),
        ("model pin 4 --alias fresh-{fresh}", "model pin 4", "model rollback"),
    ),
    "retiring versions": (of_a_person, ("model retire 2",), ("model retire 3",)),
    "verifying": (of_a_person, ("verify",), ("verify",)),
    "reading letters": (of_a_client, ("dead-letters {in.dlq}",), ("dead-letters {in.dlq}",)),
    "resending letters": (
        of_a_client,
        ("dead-letters {in.dlq} --resend {in} --all-models --yes",),
        ("dead-letters {in.dlq} --resend {in} --all-models --yes",),
    ),
    "forgetting rows": (
        of_a_trainer,
        ("history forget --position 0:1 --yes",),
        ("history forget --position 0:2 --yes",),
    ),
    "sending points": (
        of_a_client,
        ("replay {directory}/points.csv --label y --topic {in}",),
        ("replay {directory}/points.csv --label y --topic {in}",),
    ),
    "proposing features": (of_a_client, ("features infer --topic {in}",), ("features infer --topic {in}",)),
    "creating topics": (of_a_trainer, ("topics create",), ("topics create",)),
    **{
        f"creating topics with {of}": (options, (f"topics create {given}",), (f"topics create {given}",))
        for of, options, given in (
            ("scoring.topic", of_a_trainer, "--scoring-topic {points} --scoring-output-topic {scores}"),
            ("labels.topic", of_a_trainer, f"--labels-topic {{labels}} --labels-horizon {HORIZON_S}"),
            (
                "training.from_coresets",
                partial(of_a_trainer, training_policy="latest"),
                "--training-from-coresets true",
            ),
        )
    },
}
"""What people run, by how the documentation calls those who do it: their options, their commands, and the same work
where it is not done yet. To remove a pin that is not there changes nothing, and needs less."""
PREPARED: Final[Mapping[str, Callable[[Site], Any]]] = {
    "scorer": partial(score, user="admin"),
    "reading letters": dead_letter,
    "resending letters": dead_letter,
    "sending points": points,
    "proposing features": points,
}
DAEMONS: Final[Mapping[str, Attempt]] = {
    "trainer": train,
    "trainer with labels.topic": train_with_labels,
    "trainer with labels.idle_s": train_with_idle_labels,
    "trainer with training.from_coresets": train_on_coresets,
    "worker": learn_for_a_trainer,
    "scorer": score,
}
READERS: Final = {"subscriber": ("Python", "Node.js", "Java")}
OLD: Final = {"scorer", *READERS} | {
    who
    for who in COMMANDS
    if who not in ("forgetting rows", "sending points", "proposing features") and not who.startswith("creating topics")
}
"""Who works on versions that are there already."""


# ----------------------------------------------------------------------------------------- sites


@pytest.fixture(scope="module")
def published(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Topics of this module with five versions, of which the first is retired, and no trainer any more."""
    made = Site(secured, tmp_path_factory.mktemp("published"))
    with permitting(secured), at_work(made) as trainer:
        made.send(records(160, seed=1))
        assert trainer.reaches_version(5), trainer.said
        assert trainer.stop() == 0
    retired = made.command(["model", "retire", "1", *of_a_person(made)], "admin")
    assert retired.returncode == 0, retired.stderr
    return made


@pytest.fixture
def place(request: pytest.FixtureRequest, secured: SecuredBroker, tmp_path: Path, who: str) -> Iterable[Site]:
    """Where somebody works; what this test's users were permitted is taken back."""
    if who in OLD:
        made = request.getfixturevalue("published")
    else:
        made = Site(secured, tmp_path, topics=not who.startswith("creating topics"))
    with permitting(secured):
        if who == "forgetting rows":
            with at_work(made) as trainer:
                assert trainer.stop() == 0
        if who.startswith("creating topics"):
            Cluster(made.admin).create([TopicSpec(made.name(name)) for name in ("in", "points", "labels")])
        yield made


def attempts(who: str, site: Site, patch: pytest.MonkeyPatch, *, undone: bool = False) -> list[str]:
    """Let `USER` do somebody's work; return how it was refused, empty where it is done: once for each language."""
    PREPARED.get(who, lambda _: None)(site)
    if who in DAEMONS:
        return [DAEMONS[who](site)]
    if who in READERS:
        return [subscribe(site) if one == "Python" else subscribe_by(one, site, patch) for one in READERS[who]]
    options, done, not_yet = COMMANDS[who]
    return [run_all(not_yet if undone else done, options, site)]


def rows_of(*, later: bool) -> list[Any]:
    """Return who has which row, of those that are missed at once or only later."""
    rows = [(who, row) for who, *rest in listed() if (((row := (*rest,)) and (who, row)) in LATER) == later]
    return [pytest.param(who, row, id=" ".join((who, *row))) for who, row in rows]


WHO: Final = sorted({who for who, *_ in listed()})


def check_refusal(said: str, site: Site, missing: Permission) -> None:
    """Require a line that names the operation and the resource, and says where the permissions are listed.

    Of one transaction's topics the client does not say which was refused. Readers in other languages name no page.
    """
    kind, name, operation = missing
    resource = re.escape(site.name(name).removesuffix("*")) + ("" if name.endswith("*") else r"(?![\w-]|\.\w)")
    implied = r"(describe|read|write)" if kind == "topic" and operation != "create" else rf"(describe|{operation})"
    assert re.search(rf"missing is {implied} on {kind.replace('_', ' ')} (\S+ or )*{resource}", said), said
    if "waiting for" not in said:
        assert re.search("authorization failed", said, re.IGNORECASE), said
        assert "SECURITY.md lists the permissions" in said, said
        assert "settings" not in said, said


# ----------------------------------------------------------------------------------------- tests


def leaves(group: Any, path: tuple[str, ...] = ()) -> Iterable[str]:
    """Yield each command of a group, with the names of its groups."""
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name))


def test_every_command_stands_in_the_list() -> None:
    """With what it needs, or it needs no broker; and everybody in the list has a test."""
    named = {
        " ".join(part for part in one.split() if part[0] != "-") for several in commands().values() for one in several
    }
    assert named | NO_BROKER == {*leaves(typer.main.get_command(app))}
    assert not named & NO_BROKER
    assert {*WHO} == {*DAEMONS, *READERS, *COMMANDS}
    assert LATER.keys() <= {(who, (kind, name, operation)) for who, kind, name, operation in listed()}


@pytest.mark.long(keep=("trainer", "proposing features"))
@pytest.mark.parametrize("who", WHO)
def test_everybody_works_with_the_documented_permissions_and_no_others(
    place: Site, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trainer and scorer twice, for a second start finds what the first left."""
    place.broker.permit(USER, place.permissions(who))
    for _ in range(1 + (who in ("trainer", "scorer"))):
        assert {*attempts(who, place, monkeypatch)} == {""}


@pytest.mark.long(keep=("sending points topic in write", "trainer transactional_id streamsvm/m/models write"))
@pytest.mark.parametrize(("who", "missing"), rows_of(later=False))
def test_without_any_one_of_them_the_line_names_the_operation_and_the_resource(
    place: Site, who: str, missing: Permission, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Daemons and commands end with status 78."""
    place.broker.permit(USER, place.permissions(who, missing))
    for said in attempts(who, place, monkeypatch, undone=True):
        check_refusal(said, place, missing)


@pytest.mark.long
@pytest.mark.parametrize(("who", "missing"), rows_of(later=True))
def test_what_is_needed_later_is_not_missed_before(
    place: Site, who: str, missing: Permission, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`LATER` says for what it is needed."""
    place.broker.permit(USER, place.permissions(who, missing))
    assert {*attempts(who, place, monkeypatch)} == {""}


@pytest.mark.long
@pytest.mark.parametrize("name", ["models", "models.audit"])
def test_without_reading_what_it_wrote_a_trainer_does_not_start_again(site: Site, name: str) -> None:
    """It could not see whether the newest version is whole: status 78, what is missing; readers keep what is there."""
    with at_work(site) as trainer:
        assert trainer.stop() == 0
    missing: Permission = ("topic", name, "read")
    site.broker.permit(USER, site.permissions("trainer", missing))
    check_refusal(train(site), site, missing)
    models = site.settings.output.models_topic
    assert load_version(site.admin, site.settings.name, models_topic=models).version.number == 1
