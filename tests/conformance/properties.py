"""The properties of the matrix: each a function of a configuration's name that returns what is wrong, or nothing."""

from __future__ import annotations

import base64
import json
import random
import tempfile
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from consumers.branches.history import erase, report_of
from consumers.verify.verify import verify
from streamsvm import CoresetSVC
from streamsvm.build import build
from streamsvm.config import ModelConfig
from streamsvm.errors import StreamsvmError
from streamsvm.kafka import Cluster, EmbeddedBroker
from streamsvm.learning import Learner
from streamsvm.model import ClassModel, Version, message as model_codec, positions
from streamsvm.named_parts import PASSED_OVER
from streamsvm.points import Points, Position
from streamsvm.registry import load_version
from streamsvm.verification import Outcome
from tests.conformance.configurations import BEGUN_MS, INPUT, MODELS, TABLE, Entry, Stream, stream_of
from tests.conformance.runs import Change, Published, copy, publish
from tests.streams import rows_of

STOPS: Final = 3
ERASED: Final = 3
PORTION: Final = 7
FOREIGN_TOLERANCE: Final = 1e-3
"""On another build or processor a solver may stop elsewhere within its tolerance."""


def differing(values: list[bytes], others: list[bytes]) -> str:
    """Say which version is the first that differs."""
    if values == others:
        return ""
    if len(values) != len(others):
        return f"{len(values)} versions, and {len(others)}"
    return f"version {[one == other for one, other in zip(values, others, strict=True)].index(False) + 1} differs"


def restarted(name: str, published: Published) -> str:
    """A trainer that is stopped at random rows, and goes on from its checkpoint, publishes the same bytes."""
    rows = sorted(random.Random(name).sample(range(TABLE[name].rows), STOPS))
    with EmbeddedBroker() as broker:
        stopped = publish(name, broker, [BEGUN_MS + 1_000 * row for row in rows], len(published.values))
    found = differing(published.values, stopped.values)
    return found and f"stopped at {rows}: {found}"


def batched(name: str, published: Published) -> str:
    """Under the number of records a poll that is in force now, the bytes are the same."""
    with EmbeddedBroker() as broker:
        return differing(published.values, publish(name, broker).values)


def verified(name: str, published: Published) -> str:
    """`verify` recomputes every version from the log."""
    report = verify(Cluster(published.broker.connection), published.settings)
    if report.clean and len(report.rows) == len(published.values):
        return ""
    return f"{len(report.rows)} versions looked at: {'; '.join(report.lines())}"


def estimated(name: str, published: Published) -> str:
    """`CoresetSVC`, given the rows up to each version's cut in small portions, is the model of that version."""
    if TABLE[name].no_estimator:
        return ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of coresets that are as small as these
        return _estimated(stream_of(name), published)


def _estimated(stream: Stream, published: Published) -> str:
    config = published.settings.models()
    machine = CoresetSVC(**parameters_of(config))
    begun = 0
    for version, value in zip(published.versions, published.values, strict=True):
        end = bisect_left(stream.places, (version.lineage.cut[0].offset, version.lineage.cut[0].row))
        for start in range(begun, end, PORTION):
            part = slice(start, min(start + PORTION, end))
            own = () if stream.y is None else (stream.y[part], config.points.labels, stream.weight[part])
            machine.partial_fit(stream.X[part], *own)
        begun = end
        if version.lineage.tuned_at not in (None, version.lineage.cut) or (
            machine.probability and not probable(version)
        ):
            continue  # the estimator tunes each time, and fits a rough sigmoid to fewer points than a trainer
        if machine.training_set_sha256_ != version.lineage.training_set_sha256:
            return f"another training set at version {version.number}"
        if model_codec.encode(replace(version, model=machine.model_)) != value:
            return f"another model at version {version.number}"
    return ""


def probable(version: Version) -> bool:
    """Tell whether a version has probabilities."""
    model = version.model
    return (model.probabilities if isinstance(model, ClassModel) else model.probability) is not None


def parameters_of(config: ModelConfig) -> dict[str, Any]:
    """Return the parameters of the estimator that learns as a configuration says."""
    coreset, svm = config.coreset.model_dump(), config.svm.model_dump()
    weights, labels = svm["class_weight"], config.points.labels
    same = (
        "kernel",
        "loss",
        "gamma",
        "alpha",
        "C",
        "standardize",
        "probability",
        "cost",
        "target",
        "multiclass",
        "tune",
    )
    held = ("points", "reducer", "memory", "window", "half_life", "train_points")
    return {
        **{option: svm[option] for option in same},
        **{option: coreset[option] for option in held},
        "structure": coreset["structure"] or "chain",
        "class_weight": dict(zip(labels, weights, strict=True)) if isinstance(weights, tuple) else weights,
        "tol": svm["tolerance"],
        "seed": config.seed,
        "features": config.recipe,
    }


def changed_entry(entries: list[Entry]) -> list[Entry]:
    """Change one number of a record in the middle by one unit of its last place, in the type that it is learned in."""
    at = len(entries) // 3
    record = json.loads(entries[at].value)
    if "x" in record:
        record["x"][0] = float(np.nextafter(np.float32(record["x"][0]), np.float32(np.inf)))
    else:
        record["amount"] += 0.01
    return [*entries[:at], replace(entries[at], value=json.dumps(record).encode()), *entries[at + 1 :]]


def flipped(value: bytes, chance: random.Random) -> bytes:
    """Return a value with one bit changed."""
    changed = bytearray(value)
    changed[chance.randrange(len(value))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def sections_of(message: dict[str, Any]) -> dict[str, Any]:
    """Return what answers come from: the machine, its scaling, and each part that readers may not pass over."""
    parts = {part["part"]: part for part in message["parts"] if not part["part"].startswith(PASSED_OVER)}
    return {"model": message["model"], "features": message["features"], **parts}


def nudged(value: bytes, section: str, chance: random.Random) -> bytes:
    """Return a version's value with one number of a section changed by one unit of its last place, or one bit."""
    message = json.loads(value)
    holder, key = chance.choice(list(leaves_of(sections_of(message)[section])))
    if isinstance(holder[key], str):
        holder[key] = base64.b64encode(flipped(base64.b64decode(holder[key]), chance)).decode()
    else:
        holder[key] = float(np.nextafter(holder[key], np.inf))
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()


def leaves_of(holder: Any) -> Iterator[tuple[Any, Any]]:
    """Yield where each number, and each text that stands for numbers, stands."""
    for key, value in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
        if isinstance(value, dict | list):
            yield from leaves_of(value)
        elif isinstance(value, float) or key == "support_vectors":
            yield holder, key


def bits_found(name: str, published: Published) -> str:
    """One changed bit is found: of a record of the log and of a version's numbers by `verify`, of bytes by readers."""
    chance = random.Random(name)
    missed = list[str]()
    changes = {"a record of the log": Change(log=changed_entry)}
    for section, content in sections_of(json.loads(published.values[-1])).items():
        if list(leaves_of(content)):
            changes[section] = Change(value=partial(nudged, section=section, chance=chance))
    for what, change in changes.items():
        with EmbeddedBroker() as broker:
            copy(name, published, broker, change)
            if verify(Cluster(broker.connection), published.settings).clean:
                missed.append(what)
    with EmbeddedBroker() as broker:
        copy(name, published, broker, Change(value=lambda value: flipped(value, chance), fitting=False))
        with suppress(StreamsvmError):
            load_version(broker.connection, "m", models_topic=MODELS, number=len(published.values))
            missed.append("a bit of the newest version")
    return ", ".join(missed)


def content(version: Version) -> bytes:
    """Return the bytes of a version but for the names of topic and record, and for its place after others."""
    lineage = msgspec.structs.replace(version.lineage, topic="t", topic_id="", parent=None, links=(), facts=())
    return model_codec.encode(replace(version, number=1, lineage=lineage))


def erased(name: str, published: Published) -> str:
    """Versions after an erasure are those of a stream that rejected the rows; `verify` says which ones were of them."""
    logs = stream_of(name).logs
    gone = sorted(random.Random(name).sample(range(TABLE[name].rows // 2), ERASED))
    rejected = [replace(one, value=b"{") if at in gone else one for at, one in enumerate(logs[INPUT])]
    places = {0: [Position(at) for at in gone]}
    with EmbeddedBroker() as broker, EmbeddedBroker() as other, tempfile.TemporaryDirectory() as directory:
        own = publish(name, broker, directory=Path(directory))
        assert erase(broker.connection, own.settings, places, report_of("m", places, "tester"), agree=lambda: True)
        number = len(own.values) + 1
        again = publish(name, broker, versions=number, logs=dict.fromkeys(logs, ()), directory=Path(directory))
        joins = "labels" in TABLE[name].sections
        clean = [] if joins else publish(name, other, logs={**logs, INPUT: rejected}).versions
        found = [row.outcome for row in verify(Cluster(broker.connection), own.settings).rows]
    before = [one.lineage.cut[0].offset > gone[0] for one in own.versions]
    expected = [Outcome.LEFT_OUT if of_them else Outcome.IDENTICAL for of_them in before]
    if found != expected + [Outcome.IDENTICAL] * (len(found) - len(before)):
        return f"{gone}: verify finds {[outcome.value for outcome in found]}"
    if joins:
        return _joined_without(name, gone, again.versions[-1], own.settings.models())
    of_clean = {one.lineage.cut: content(one) for one in clean}
    alike = [content(one) == of_clean.get(one.lineage.cut) for one in again.versions[number - 1 :]]
    return "" if alike and all(alike) else f"{gone}: {alike} are those of a stream that rejected the rows"


def _joined_without(name: str, gone: list[int], version: Version, config: ModelConfig) -> str:
    """Compare a version of joined points with a plain join that knows of no erased row; those are then rejected."""
    stream = stream_of(name)
    told = [json.loads(stream.logs[INPUT][at].value) for at in gone]
    if "x" not in told[0]:
        return ""  # of joined events: `verify` alone joins them again
    accepted = ~(stream.X[:, None] == np.array([one["x"] for one in told], np.float32)).all(axis=2).any(axis=1)
    points = Points(stream.X, np.sign(stream.y).astype(np.int8), stream.weight)
    offset, row = np.array(stream.places).T
    learner = Learner(config, {0: Position(0)}, 1 << 30)
    rows = replace(rows_of(points, accepted=accepted), offset=offset, row=row)
    learner.learn(rows, until=positions(version.lineage.cut)[0])
    same = learner.cut().points.sha256() == version.lineage.training_set_sha256
    return "" if same and accepted.sum() == len(points) - ERASED else f"{gone}: another training set"


def golden_of(name: str, published: Published) -> dict[str, Any]:
    """Return what stands in the golden file: a hash of the newest version but for its build, and its probes."""
    message = json.loads(published.values[-1])
    del message["lineage"]["build"], message["lineage"]["parent"], message["lineage"]["links"]
    text = json.dumps(message, sort_keys=True, ensure_ascii=False)
    return {
        "versions": len(published.values),
        "sha256": model_codec.sha256(text.encode()),
        "decision": message["probes"]["decision"],
    }


def build_of() -> dict[str, str]:
    """Return what decides bits: everything of a build but the release, which a version names anyway."""
    return {name: value for name, value in build().items() if name not in ("streamsvm", "python")}


def as_golden(name: str, published: Published, golden: dict[str, Any]) -> str:
    """The bytes are those of the golden file; on another build, which may round otherwise, nearly the same numbers."""
    expected, found = golden["configurations"].get(name), golden_of(name, published)
    if expected is None:
        return "not there: run `python -m tests.conformance.golden`"
    if golden["build"] == build_of():
        return "" if found == expected else f"{found['sha256']} is not {expected['sha256']}"
    close = np.allclose(found["decision"], expected["decision"], rtol=FOREIGN_TOLERANCE, atol=FOREIGN_TOLERANCE)
    return "" if close and found["versions"] == expected["versions"] else "other decisions than on the golden build"


PROPERTIES: Final[dict[str, Callable[[str, Published], str]]] = {
    "restart": restarted,
    "batches": batched,
    "verify": verified,
    "estimator": estimated,
    "bits": bits_found,
    "erasure": erased,
}
