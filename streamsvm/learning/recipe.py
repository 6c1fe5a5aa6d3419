"""The recipe of a version: everything that is made from a cut, and how it is named.

`version = f(log, configuration, seed, cut)` has this one definition. The daemon publishes what it makes, the verifier
makes it again and compares bytes, the estimator predicts by it. A step of training that is added anywhere else would
make `verify` call correct versions wrong.

Nothing here reads a clock: who wants to know how long the steps took passes one, and no duration enters a version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from streamsvm.config import ModelConfig, SvmConfig
from streamsvm.coreset.moments import Moments
from streamsvm.learning.cutting import Cut, DueCut
from streamsvm.learning.naming import memory_of, summary, tuned_at
from streamsvm.learning.tasks import Task, TwoClasses
from streamsvm.learning.training import Trained, audit_scores, audited, limited, train, with_probability, with_threshold
from streamsvm.learning.tuning import Score, Tuning, is_due, tune
from streamsvm.model.ancestry import Ancestor
from streamsvm.model.deciles import Deciles
from streamsvm.model.fit import Audit
from streamsvm.model.version import Lineage, Version, partition_cuts
from streamsvm.points import Points, Positions

TrainFunction = Callable[[Points, Moments, SvmConfig], Trained]
"""What solves one problem of two classes; tests put something slow or broken in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Everything that was made from a cut.

    Attributes
    ----------
    cut : Cut
    machines : tuple of Trained
        The one that tells two classes apart; of more classes, one each against the rest.
    audits : tuple of (Audit or None)
        The objective of each machine over the whole stream; None where no audit sample is kept.
    audit_scores : tuple of (Deciles or None)
        How the scores of each machine lie on the audit sample; None where the sample is too small.
    training_set_sha256 : str
    tuning : Tuning or None
        By which it was trained; None where nothing is tuned.
    scores : tuple of Score
        What the tuning was chosen by; empty unless it was made at this cut.
    seconds : float
        Wall time of everything but the tuning. No part of any hash.
    tuning_seconds : float or None
        Wall time of the tuning; None unless it was made at this cut.
    """

    cut: Cut
    machines: tuple[Trained, ...]
    audits: tuple[Audit | None, ...]
    audit_scores: tuple[Deciles | None, ...]
    training_set_sha256: str
    tuning: Tuning | None = None
    scores: tuple[Score, ...] = ()
    seconds: float = 0.0
    tuning_seconds: float | None = None

    @property
    def trained(self) -> Trained:
        """The machine of two classes, which a version holds."""
        (machine,) = self.machines
        return machine

    @property
    def audit(self) -> Audit | None:
        """What the objective of that machine over the whole stream is."""
        (audit,) = self.audits
        return audit


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a version says about where it comes from, and that the cut and the configuration do not.

    Attributes
    ----------
    name : str
    number : int
    parent : str or None
        SHA-256 of the version before it.
    links : tuple of Ancestor
        What it names of the versions before its parent.
    topic, topic_id : str
        Of the input; the id is empty where the broker tells none.
    base : mapping of partition to Position
        Where learning began, in every partition of the cut and perhaps in later ones.
    build : mapping of str to str
        Of the program that published it.
    """

    name: str
    number: int
    parent: str | None
    links: tuple[Ancestor, ...]
    topic: str
    topic_id: str
    base: Positions
    build: Mapping[str, str]


def make(
    due: DueCut,
    config: ModelConfig,
    in_force: Tuning | None = None,
    *,
    task: Task | None = None,
    train: TrainFunction = train,
    clock: Callable[[], float] = lambda: 0.0,
) -> Made:
    """Make the cut, tune if that is due, train every machine of the task, give it probability and threshold, and audit.

    A pure function of the cut, the configuration, the tuning in force and the task.

    Parameters
    ----------
    due : Cut or TakenCut
        With a point at least.
    config : ModelConfig
    in_force : Tuning, optional
        That of the newest version before it.
    task : Task, optional
        `TwoClasses` by default.
    train : callable
    clock : callable
        Returns seconds.
    """
    task, begun = task or TwoClasses(), clock()
    tuning, scores, tuning_seconds = in_force, tuple[Score, ...](), None
    with limited(config.svm):
        cut = due.make()
    to_tune = clock()
    if is_due(cut.rows, in_force.rows if in_force else None, config):
        tuned = tune(cut, config)
        tuning, scores = tuned.tuning, tuned.scores
        tuning_seconds = clock() - to_tune
    svm = config.svm if tuning is None else tuning.applied(config.svm)
    problems, samples = task.problems(cut.points, cut.moments), task.samples(cut.audit)
    machines = tuple(
        with_threshold(with_probability(train(points, moments, svm), sample, svm), sample, svm, config.seed)
        for (points, moments), sample in zip(problems, samples, strict=True)
    )
    judged = list(zip(machines, samples, strict=True))
    return Made(
        cut=cut,
        machines=machines,
        audits=tuple(audited(machine, sample, svm) for machine, sample in judged),
        audit_scores=tuple(audit_scores(machine, sample, svm) for machine, sample in judged),
        training_set_sha256=cut.points.sha256(),
        tuning=tuning,
        scores=scores,
        seconds=clock() - begun - (tuning_seconds or 0.0),
        tuning_seconds=tuning_seconds,
    )


def version_of(made: Made, config: ModelConfig, origin: Origin) -> Version:
    """Name what was made: the version of two classes, with its lineage."""
    cut = made.cut
    lineage = Lineage(
        parent=origin.parent,
        topic=origin.topic,
        topic_id=origin.topic_id,
        cut=partition_cuts(cut.positions, cut.leader_epochs),
        base=partition_cuts({p: at for p, at in origin.base.items() if p in cut.positions}, {}),
        configuration=config.canonical(),
        configuration_sha256=config.sha256(),
        seed=config.seed,
        training_set_sha256=made.training_set_sha256,
        tuned_at=tuned_at(made.tuning),
        build=dict(origin.build),
        links=origin.links,
        memory=memory_of(cut, config),
    )
    return Version(
        name=origin.name,
        number=origin.number,
        model=made.trained.model,
        labels=config.points.labels,
        feature_names=config.points.feature_names,
        solver=config.svm.solver,
        fit=made.trained.fit,
        stream=summary(cut),
        lineage=lineage,
        audit=made.audit,
        recipe=config.features,
    )
