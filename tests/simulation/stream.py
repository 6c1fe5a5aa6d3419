"""The smallest stream that has everything: records of one row and of more, bad ones, gaps; and what a clean run gives.

`Reference` recomputes from the log by the shipped learner alone, with no start, stop, checkpoint or broker in between.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import PrivateAttr

from consumers.settings import CheckpointConfig, InputConfig, OutputConfig, Settings, TrainingConfig
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset import Moments, PartitionState
from streamsvm.ingest import PointDecoder
from streamsvm.kafka import Record
from streamsvm.learning import Cut, Learner, Origin, Trained, audited, make, naming, version_of
from streamsvm.model import AnyModel, Audit, Fit, LinearMachine, MachineFit, Memory, Model, Scaler
from streamsvm.points import Points, Position, Positions, Rows
from tests.config.sizes import sized
from tests.simulation.broker import Entry
from tests.simulation.variants import Reading, variants_of

NAME = "m"
INPUT, LETTERS, MODELS = "in", "in.dlq", "models"
ALIASES, AUDIT = f"{MODELS}.aliases", f"{MODELS}.audit"
TRANSACTIONAL_ID = f"streamsvm/{NAME}/{MODELS}"
CHECKPOINT_INTERVAL_S = 2.5
WATCH_INTERVAL_S = 4.5
BATCH_RECORDS = 3
_NO_CUT = 1 << 60


class _Models(ModelConfig):
    """The models' configuration; every start asks for its canonical form and hash, so they are remembered."""

    def canonical(self) -> dict[str, Any]:
        return _canonical(self)

    def sha256(self) -> str:
        return _sha256(self)

    def __hash__(self) -> int:
        return id(self)


@cache
def _canonical(config: _Models) -> dict[str, Any]:
    return ModelConfig.canonical(config)


@cache
def _sha256(config: _Models) -> str:
    return ModelConfig.sha256(config)


class _Settings(Settings):
    _variants: tuple[str, ...] = PrivateAttr(())

    def models(self) -> ModelConfig:
        assert self.points is not None
        first = self._begun.get("pilots", self.svm).tolerance
        return _models(self.seed, self.points.classes, self._variants, self.svm.tolerance, first)


@cache
def _models(seed: int, classes: int, variants: tuple[str, ...], tolerance: float, first: float) -> _Models:
    settings = settings_for("every", classes=classes, variants=variants)
    svm, other = (settings.svm.model_copy(update={"tolerance": one}) for one in (tolerance, first))
    own = Settings.models(settings.model_copy(update={"seed": seed, "svm": svm}))
    return _Models(**{name: getattr(own, name) for name in ModelConfig.model_fields} | {"pilots": other})


@cache
def settings_for(
    policy: str, every_leaves: int = 1, on_gap: str = "fail", *, classes: int = 2, variants: tuple[str, ...] = ()
) -> Settings:
    """Return settings under which two rows seal a leaf, but for what variants change.

    With more than two labels buckets and training sets hold a point of each, and nothing is tuned.
    """
    points: dict[str, Any] = {"dimension": 1}
    sizes = {"leaf_rows": 2, "bucket_points": 2, "audit_points": 2, "train_points": 3}
    tuned: dict[str, Any] = {"tune": "auto"}
    if classes > 2:
        sizes |= {"bucket_points": classes, "train_points": classes}
        points["labels"], tuned = labels_of(classes), {"multiclass": "one_vs_one"}
    sections: dict[str, Any] = {
        "name": NAME,
        "input": InputConfig(topic=INPUT, on_gap=on_gap),
        "points": points,
        "coreset": {"reducer": "uniform", "structure": "counter", **sizes},
        "svm": {"C": 1.0, **tuned},
        "output": OutputConfig(models_topic=MODELS),
        "training": TrainingConfig(policy=policy, every_leaves=every_leaves),
        "checkpoint": CheckpointConfig(directory=Path("simulated"), interval_s=CHECKPOINT_INTERVAL_S),
    }
    for variant in variants_of(variants):
        variant.settle(sections)
    kinds = {"points": PointsConfig, "coreset": sized, "svm": SvmConfig}
    sections |= {name: kind(**sections[name]) for name, kind in kinds.items()}
    sections["coreset"] = sections["coreset"].settled(sections["points"], "linear")
    plain = {name: info.get_default(call_default_factory=True) for name, info in Settings.model_fields.items()}
    settings = _Settings.model_construct(**plain | sections)
    settings._variants = variants
    return settings


def labels_of(classes: int) -> tuple[int, ...]:
    """Return the labels of a world's records."""
    return (-1, 1, *range(2, classes))


def value(partition: int, number: int, edition: int, classes: int = 2) -> bytes:
    """Return the n-th record of a partition; what an edition holds differs from what another does.

    Every fourth record holds two rows, the second of them bad; every fifth is bad as a whole.
    """
    label = labels_of(classes)[number % classes]
    point = {"x": [number + 100.0 * partition + 10_000.0 * edition], "y": label}
    if number % 5 == 2:
        return b"bad"
    if number % 4 == 1:
        return json.dumps([point, {**point, "x": [-1.0]}, {"x": [], "y": 1}]).encode()
    return json.dumps(point).encode()


def is_rejected(content: bytes) -> bool:
    """Tell whether a record of `value` must be in the dead letters."""
    return content == b"bad" or content.startswith(b"[")


def train(points: Points, moments: Moments, config: SvmConfig) -> Trained:
    """Make a model in constant time that differs whenever the training set, or the options of training, do."""
    weighted = points.weight * points.y
    machine = LinearMachine(
        (weighted @ points.X).astype(np.float64), float(points.weight.sum() + moments.count) + config.tolerance
    )
    fit = Fit(
        C=1.0,
        gamma=None,
        points=len(points),
        weight=float(points.weight.sum()),
        support_vectors=len(points),
        objective=0.0,
        dual_objective=None,
        kkt_gap=None,
        iterations=1,
        converged=True,
    )
    return Trained(Model(Scaler.identity(points.dimension), machine), fit, 0.0)


@dataclass(frozen=True)
class Expected:
    """What a clean run gives for a cut."""

    cut: Cut
    model: AnyModel
    fit: Fit
    audit: Audit | None
    training_set_sha256: str
    memory: Memory | None
    machines: tuple[MachineFit, ...] = ()


Editions = Mapping[int, tuple[Entry | None, ...]]
"""What each partition holds, or once held."""


class Reference:
    """Recomputes cuts and partition states; remembers them, for most worlds ask for the same ones.

    `reading`: How a clean run reads, if not record by record.
    """

    def __init__(self, config: ModelConfig, reading: Reading | None = None) -> None:
        self.config = self._config = config
        self.reading = reading
        self._decoder = PointDecoder(config.points, recipe=config.recipe, name=NAME)
        self._known: dict[object, object] = {}

    def expected(self, base: Positions, cut: Positions, editions: Editions, tolerance: float | None = None) -> Expected:
        """Return what a clean run from `base` gives at `cut`, trained to this tolerance."""
        key = (tuple(base.items()), tuple(cut.items()), self._key(cut, editions), tolerance)
        svm = self._config.svm
        if tolerance is not None:
            svm = svm.model_copy(update={"tolerance": tolerance})
        if key not in self._known:
            made = self._learner(base, cut, editions).cut()
            parts = made.points.sha256(), naming.memory_of(made, self._config)
            if self._config.points.classes > 2:
                self._known[key] = self._of_several(made, parts, svm)
            else:
                trained = train(made.points, made.moments, svm)
                audit = audited(trained, made.audit, "hinge")
                self._known[key] = Expected(made, trained.model, trained.fit, audit, *parts)
        return self._known[key]  # type: ignore[return-value]

    def _of_several(self, cut: Cut, parts: tuple[str, Memory | None], svm: SvmConfig) -> Expected:
        """Return what is expected of more than two labels, by the shipped recipe."""
        made = make(cut, self._config.model_copy(update={"svm": svm}), train=train)
        origin = Origin(name=NAME, number=1, parent=None, links=(), topic=INPUT, topic_id="", base={}, build={})
        version = version_of(made, self._config, origin)
        return Expected(cut, version.model, version.fit, version.audit, *parts, version.machines)

    def state(self, partition: int, base: Position, at: Position, editions: Editions) -> PartitionState:
        """Return what a partition must be at a position."""
        key = (partition, base, at, self._key({partition: at}, editions))
        if key not in self._known:
            learner = self._learner({partition: base}, {partition: at}, editions)
            self._known[key] = learner.state().partitions[partition]
        return self._known[key]  # type: ignore[return-value]

    def cuts(self, base: Positions, partition: int, entries: tuple[Entry | None, ...], every: int) -> list[Position]:
        """Return where a clean run of one partition makes its cuts."""
        learner = Learner(self._config, {partition: base[partition]}, every)
        found = []
        for rows in self._rows(partition, entries, base[partition].offset):
            done = 0
            while done < len(rows):
                done = learner.learn(rows)
                if learner.cut_due:
                    found.append(learner.positions[partition])
                    learner.decline_cut()
        return found

    def _learner(self, base: Positions, cut: Positions, editions: Editions) -> Learner:
        learner = Learner(self._config, base, _NO_CUT)
        for partition, stop in cut.items():
            entries = editions[partition]
            if self.reading is None:
                entries = entries[: stop.offset + bool(stop.row)]
            for rows in self._rows(partition, entries, base[partition].offset):
                learner.learn(rows, until=stop)
        return learner

    def _rows(self, partition: int, entries: tuple[Entry | None, ...], start: int) -> Sequence[Rows]:
        """Return the rows of a partition from an offset on."""
        if self.reading is not None:
            return self.reading.rows(partition, entries, start)
        return self._decoder.decode(_records(partition, entries, start)).rows

    def _key(self, cut: Positions, editions: Editions) -> object:
        whole = self.reading is not None  # later records decide, too
        return tuple(
            tuple(
                (one.value, one.leader_epoch)
                for one in editions[partition][: None if whole else stop.offset + 1]
                if one
            )
            for partition, stop in cut.items()
        )


def _records(partition: int, entries: tuple[Entry | None, ...], start: int) -> list[Record]:
    return [
        Record(INPUT, partition, offset, entry.key, entry.value, (), 1_700_000_000_000 + offset, entry.leader_epoch)
        for offset, entry in enumerate(entries)
        if entry and not entry.control and offset >= start
    ]
