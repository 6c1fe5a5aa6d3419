"""The recipe of a version: everything that is made from a cut, and how it is named.

A version is a pure function of (log, configuration, seed, cut), and this module is the only definition of that
function. It has three callers: the daemon publishes what `make` returns, `verify` makes it again and compares bytes,
and an estimator predicts with it. A step of training that was added anywhere else would make `verify` reject correct
versions.

`make` does, in this order: make the cut, tune C and gamma if that is due, train each machine, fit its probabilities and
its threshold, and estimate its loss on the audit sample. `version_of` adds the lineage. The message that is published
is made from the result in `streamsvm.model.message`.

Nothing here reads a clock. A caller who wants to know how long the steps took passes a clock, and no duration enters a
version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from streamsvm.config import ModelConfig
from streamsvm.learning.learner import Cut, DueCut
from streamsvm.learning.naming import memory_of, summary, tuned_at
from streamsvm.learning.training import (
    Trained,
    TrainFunction,
    audit_scores,
    audited,
    held_out,
    task_of,
    train,
    untrained,
    with_probability,
    with_threshold,
)
from streamsvm.learning.tuning import Score, Tuning, is_due, tune
from streamsvm.model.ancestry import Ancestor
from streamsvm.model.classes import AnyModel
from streamsvm.model.deciles import Deciles
from streamsvm.model.fit import Audit, MachineFit, audit_of_machines, fit_of_machines
from streamsvm.model.version import Lineage, Version, partition_cuts
from streamsvm.points import Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Everything that was made from a cut.

    Attributes
    ----------
    cut : Cut
    machines : tuple of Trained
        One trained machine for two labels; for K labels one for each machine of `model`, in its order.
    model : Model or ClassModel
        What a version holds.
    audits : tuple of (Audit or None)
        The objective of each machine over the whole stream; None where no audit sample is kept.
    audit_scores : Deciles or None
        How the scores lie on the audit sample, of several machines the greatest of each point; None where the sample is
        too small.
    training_set_sha256 : str
    tuning : Tuning or None
        The C and gamma that it was trained with; None where nothing is tuned.
    scores : tuple of Score
        The scores of the values that were tried; empty unless they were tried at this cut.
    seconds : float
        Wall time of everything but the tuning. No part of any hash.
    tuning_seconds : float or None
        Wall time of the tuning; None unless it was made at this cut.
    """

    cut: Cut
    machines: tuple[Trained, ...]
    model: AnyModel
    audits: tuple[Audit | None, ...]
    audit_scores: Deciles | None
    training_set_sha256: str
    tuning: Tuning | None = None
    scores: tuple[Score, ...] = ()
    seconds: float = 0.0
    tuning_seconds: float | None = None

    @property
    def trained(self) -> Trained:
        """The machine of two classes."""
        (machine,) = self.machines
        return machine

    @property
    def audit(self) -> Audit | None:
        """The objective of all machines together over the whole stream."""
        if len(self.audits) == 1:
            return self.audits[0]
        pairs = zip(self.machines, self.audits, strict=True)
        return audit_of_machines([audit for machine, audit in pairs if machine.fit.points])

    @property
    def no_probability(self) -> tuple[tuple[int, str], ...]:
        """Each machine, by its index, that has no probabilities though they are configured, and why."""
        return tuple(
            (index, machine.no_probability) for index, machine in enumerate(self.machines) if machine.no_probability
        )


class CutFact(Protocol):
    """What a branch adds to a version's lineage, computed from the version's cut."""

    def fact(self, cut: Cut) -> msgspec.Struct:
        """Return the fact, an element of `Lineage.facts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The parts of a lineage that follow from neither cut nor configuration.

    Attributes
    ----------
    name : str
    number : int
    parent : str or None
        SHA-256 of the version before it.
    links : tuple of Ancestor
        The versions before its parent whose hashes it contains.
    topic, topic_id : str
        Of the input; the id is empty if the broker does not report topic ids.
    base : mapping of partition to Position
        Where learning began, in every partition of the cut and perhaps in later ones.
    build : mapping of str to str
        Of the program that published it.
    facts : tuple of Struct
        What branches add to the lineage; see `Lineage`.
    of_cut : tuple of CutFact
        What branches add to the lineage that follows from the cut.
    """

    name: str
    number: int
    parent: str | None
    links: tuple[Ancestor, ...]
    topic: str
    topic_id: str
    base: Positions
    build: Mapping[str, str]
    facts: tuple[msgspec.Struct, ...] = ()
    of_cut: tuple[CutFact, ...] = ()


def make(
    due: DueCut,
    config: ModelConfig,
    in_force: Tuning | None = None,
    *,
    train: TrainFunction = train,
    clock: Callable[[], float] = lambda: 0.0,
) -> Made:
    """Make the cut, tune if that is due, train every machine of the task, give it probability and threshold, and audit.

    A pure function of the cut, the configuration and the tuning in force.

    Parameters
    ----------
    due : Cut or TakenCut
        With a point at least.
    config : ModelConfig
    in_force : Tuning, optional
        That of the newest version before it.
    train : callable
    clock : callable
        Returns seconds.
    """
    task, begun = task_of(config), clock()
    tuning, scores, tuning_seconds = in_force, tuple[Score, ...](), None
    cut = due.make()
    to_tune = clock()
    if config.svm.tune is not None and is_due(cut.learned.rows, in_force.rows if in_force else None, config):
        tuned = tune(cut, config)
        tuning, scores = tuned.tuning, tuned.scores
        tuning_seconds = clock() - to_tune
    # From here on all machines use the same C and gamma, tuned now, tuned at an earlier cut, or configured.
    svm = task.machine_config(config.svm if tuning is None else tuning.applied(config.svm))
    problems, samples = task.problems(cut.points, cut.moments), task.samples(cut.audit)
    machines = list[Trained]()
    for (points, moments), sample in zip(problems, samples, strict=True):
        if not len(points):
            # One label of several may have no points yet. Its machine then answers 0 everywhere, so that the version
            # has a machine for each label from the first one on.
            machines.append(untrained(moments, svm))
            continue
        trained, decision = train(points, moments, svm), None
        if sample and (svm.probability is not None or svm.goal is not None):
            decision = held_out(trained, points, moments, svm, sample, config.seed, train)
        trained = with_probability(trained, sample, svm, decision)
        if decision is not None:
            trained = with_threshold(trained, sample, svm, config.seed, decision)
        machines.append(trained)
    model = task.model([machine.model for machine in machines])
    return Made(
        cut=cut,
        machines=tuple(machines),
        audits=tuple(audited(*each, svm.margin_loss) for each in zip(machines, samples, strict=True)),
        audit_scores=audit_scores(model, task.whole(cut.audit)),
        model=model,
        training_set_sha256=cut.points.sha256(),
        tuning=tuning,
        scores=scores,
        seconds=clock() - begun - (tuning_seconds or 0.0),
        tuning_seconds=tuning_seconds,
    )


def version_of(made: Made, config: ModelConfig, origin: Origin) -> Version:
    """Return the version that was made of a cut: the model with its name, its fit and its lineage."""
    cut, fits = made.cut, [machine.fit for machine in made.machines]
    fit = fits[0]
    if len(fits) > 1:
        whole = fit_of_machines(fits, config.svm.class_weights(cut.moments.class_weight))
        fit = replace(whole, points=len(cut.points), weight=float(cut.points.weight.sum()))
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
        facts=(*(branch.fact(cut) for branch in origin.of_cut), *origin.facts),
    )
    return Version(
        name=origin.name,
        number=origin.number,
        model=made.model,
        labels=config.points.labels,
        feature_names=config.points.feature_names,
        fit=fit,
        stream=summary(cut.learned),
        lineage=lineage,
        audit=made.audit,
        machines=_machine_fits(made),
        recipe=config.recipe,
    )


def _machine_fits(made: Made) -> tuple[MachineFit, ...]:
    """Return the fit of each of several machines; empty for a single machine, whose fit is the version's."""
    if len(made.machines) == 1:
        return ()
    return tuple(
        MachineFit(
            support_vectors=machine.fit.support_vectors,
            objective=machine.fit.objective,
            dual_objective=machine.fit.dual_objective,
            kkt_gap=machine.fit.kkt_gap,
            iterations=machine.fit.iterations,
            converged=machine.fit.converged,
            audit=audit,
        )
        for machine, audit in zip(made.machines, made.audits, strict=True)
    )
