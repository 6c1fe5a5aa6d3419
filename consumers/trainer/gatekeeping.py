"""Runs the quality gate: keeps the points to judge by and the current model, and judges each candidate.

`consumers.trainer.stream_quality` owns it and passes on the rows that were learned; `judge` is called for each version
before it is published.

The rules are in `streamsvm.quality.gate`. After a start the gate has no points yet, and judges by the audit sample
until enough points were read. During a replay nothing is published, so nothing is judged. The newest head record names
the versions with which a candidate is compared, so that they are known after a restart.

Invariant: while a version is current, a version that cannot be compared with it does not become current. There are
three exceptions: a version with other labels, or without a feature of the current one, which a person wanted; until a
version was scored for the first time, a version for which too few points of a label came, as for the current one; and
any version while the topic does not hold the current one any more, because it was deleted and made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

import numpy as np
import structlog
from numpy.typing import NDArray

from consumers import constants
from consumers.metrics import Metrics
from consumers.settings import Settings
from streamsvm.errors import InvalidMessage, StreamsvmError
from streamsvm.kafka import Cluster
from streamsvm.learning.learner import Cut
from streamsvm.model import message as model_codec
from streamsvm.model.classes import AnyModel
from streamsvm.model.pointers import Alias, Gate, GatePart, GateRival, Head
from streamsvm.model.version import Version, version_key
from streamsvm.points import Features, Positions, Rows
from streamsvm.quality.gate import EvaluationWindow, Evidence, Verdict, audit_evidence, judge

log = structlog.get_logger("streamsvm.trainer")

MakeGate = Callable[
    [Settings, Cluster, "Alias | None", Callable[[], Iterable[Rows]], Metrics, "Head | None"], "Gatekeeper"
]

FETCH_TIMEOUT_S: Final = 10.0
OUTCOMES: Final = ("passed", "refused", "unscored")


class Gatekeeper(Protocol):
    """Says which version may become current."""

    @property
    def present(self) -> CurrentVersion | None:
        """The current version, if the gate knows it."""

    def note(self, rows: Rows) -> None:
        """Take in rows that were learned."""

    def after(self, cut: Positions) -> Evidence | None:
        """Return the newest rows past a cut, which no version of that cut has learned; `None` without such rows."""

    def judge(self, version: Version, cut: Cut) -> Gate | None:
        """Return the verdict on a version; None if there is no gate."""

    def published(self, version: Version, gate: Gate | None, alias: Alias) -> None:
        """Note that a version is published, under this verdict."""


class Open:
    """No gate: every version becomes current."""

    present: Final = None

    def note(self, rows: Rows) -> None:
        """Keep nothing."""

    def after(self, cut: Positions) -> None:
        """Return nothing, for nothing is kept."""

    def judge(self, version: Version, cut: Cut) -> Gate | None:  # noqa: ARG002
        """Let it pass."""
        return None

    def published(self, version: Version, gate: Gate | None, alias: Alias) -> None:
        """Keep nothing."""


@dataclass(frozen=True, slots=True)
class CurrentVersion:
    """A version that is or was current: its place, and the version itself, or why it could not be read.

    `lost`: The topic does not hold it any more, so that nobody can read it.
    """

    alias: Alias
    version: Version | None
    why: str = ""
    lost: bool = False

    @property
    def number(self) -> int:
        """The version's number."""
        return self.alias.number


class MarginGate:
    """Refuses a version that is worse than the current one, or the best of those before it, by more than a margin.

    Parameters
    ----------
    margin : float
        Largest allowed loss of balanced accuracy.
    present : CurrentVersion or None
        The current version at the start; None if there is none.
    unlearned : callable
        Returns rows that were read but not learned yet.
    metrics : Metrics
    earlier : sequence of CurrentVersion
        The versions that were current before and can be read, the newest first.
    scored : bool
        Whether a version was ever scored.
    versions : int
        Most versions, including the current one, with which a new version is compared.
    fetch : callable, optional
        Tries again to read the current version.
    """

    def __init__(
        self,
        margin: float,
        present: CurrentVersion | None,
        unlearned: Callable[[], Iterable[Rows]],
        metrics: Metrics,
        *,
        earlier: Sequence[CurrentVersion] = (),
        scored: bool = False,
        versions: int = 1,
        fetch: Callable[[Alias], CurrentVersion] | None = None,
    ) -> None:
        self._margin = margin
        self.present = present
        self._earlier = list(earlier)
        self._scored = scored
        self._versions = versions
        self._fetch = fetch
        self._unlearned = unlearned
        self._metrics = metrics
        self._window = EvaluationWindow()
        metrics.begin("streamsvm_gate_verdicts", "outcome", OUTCOMES)

    def note(self, rows: Rows) -> None:
        """Take in rows that were learned."""
        self._window.add(rows)

    def after(self, cut: Positions) -> Evidence | None:
        """Return the newest rows past a cut, those read but not learned yet among them."""
        return self._window.after(cut, self._unlearned())

    def judge(self, version: Version, cut: Cut) -> Gate | None:
        """Score a version and the current one on the same points."""
        if self.present is None:
            return self._gate(Verdict(outcome="unscored", why="no version is current yet"))
        present = self._read(self.present)
        if present.lost:
            return self._gate(Verdict(outcome="unscored", why=f"nobody can read the current version: {present.why}"))
        if present.version is None:
            return self._gate(Verdict(outcome="refused", why=present.why or "the current version cannot be read"))
        why = _incomparable(version, present.version)
        if why:
            return self._gate(Verdict(outcome="unscored", why=why))
        verdict = self._verdict(version, present.version, cut)
        if verdict.outcome == "unscored" and self._scored:
            verdict = replace(verdict, outcome="refused")
        return self._gate(verdict)

    def _read(self, present: CurrentVersion) -> CurrentVersion:
        """Return the current version; if reading it failed before, try again."""
        if present.version is None and self._fetch is not None:
            present = self.present = self._fetch(present.alias)
        return present

    def _verdict(self, version: Version, present: Version, cut: Cut) -> Verdict:
        others = [present, *(one.version for one in self._earlier if one.version is not None)]
        now, *earlier = (partial(_answers, one.model, _columns_for(one, version)) for one in others)
        return judge(
            version.model.predict_codes,
            now,
            self.after(cut.positions),
            audit_evidence(cut.audit),
            self._margin,
            training=Evidence(cut.points) if len(cut.points) else None,
            earlier=earlier,
        )

    def _gate(self, verdict: Verdict) -> Gate:
        window = tuple(
            GatePart(partition, (*begin,), (*end,)) for partition, (begin, end) in sorted(verdict.window.items())
        )
        compared = [] if self.present is None else [self.present, *self._earlier]
        accuracies = [verdict.present, *verdict.earlier]
        accuracies += [None] * (len(compared) - len(accuracies))
        return Gate(
            outcome=verdict.outcome,
            why=verdict.why,
            scored_on=verdict.scored_on,
            points=verdict.points,
            candidate=verdict.candidate,
            present=verdict.present,
            against=self.present.number if self.present else None,
            margin=self._margin,
            window=window,
            recent=tuple(
                GateRival(one.number, one.alias.sha256, one.alias.offset, accuracy)
                for one, accuracy in zip(compared, accuracies, strict=False)
            ),
        )

    def published(self, version: Version, gate: Gate | None, alias: Alias) -> None:
        """Make a version the current one, unless it was refused."""
        if gate is None:
            return
        self._metrics.increase("streamsvm_gate_verdicts", outcome=gate.outcome)
        self._scored = show_gate(gate, self._metrics) or self._scored
        if gate.outcome == "refused":
            _say_refused(version, gate)
            return
        before = [] if self.present is None else [self.present, *self._earlier]
        kept = [one for one in before if one.version is not None and not _incomparable(version, one.version)]
        self._earlier = kept[: self._versions - 1]
        self.present = CurrentVersion(alias, version)


def show_gate(gate: Gate, metrics: Metrics) -> bool:
    """Show how good the newest version and those before it were, where they were compared; return whether they were."""
    if gate.candidate is None or gate.present is None:
        return False
    for of, accuracy in (("candidate", gate.candidate), ("current", gate.present), ("best", best_of(gate)[1])):
        metrics.put("streamsvm_gate_accuracy", accuracy, of=of)
    return True


def best_of(gate: Gate) -> tuple[int | None, float]:
    """Return number and balanced accuracy of the best version with which a scored one was compared."""
    rivals = [(one.balanced_accuracy, one.number) for one in gate.recent if one.balanced_accuracy is not None]
    accuracy, number = max(rivals, default=(gate.present or 0.0, gate.against))
    return number, accuracy


def _say_refused(version: Version, gate: Gate) -> None:
    if gate.against is None:
        log.warning(
            "first_held_back",
            version=version.key,
            why=gate.why,
            remedy="readers wait, and the next version is judged anew. If it stays so, do what the reason says; pin "
            "the version, or set output.gate_margin = none, if you want it nevertheless",
        )
        return
    if gate.candidate is None:
        log.warning(
            "gate_waits",
            version=version.key,
            current=gate.against,
            why=gate.why,
            remedy="the current version stays until a new one can be compared with it. Let the trainer read "
            "output.models_topic, or wait for more points; or pin the new version, or start once with "
            "output.gate_margin = none, which passes every version",
        )
        return
    best, accuracy = best_of(gate)
    log.warning(
        "gate_refused",
        version=version.key,
        balanced_accuracy=gate.candidate,
        current=gate.against,
        its_balanced_accuracy=gate.present,
        best=best,
        best_balanced_accuracy=accuracy,
        margin=gate.margin,
        points=gate.points,
        remedy="the current version stays. Pin the new version if you want it nevertheless, or raise "
        "output.gate_margin",
    )


def _incomparable(version: Version, present: Version) -> str:
    """Return why two versions cannot be scored on the same points; empty if they can."""
    if len(_columns_for(present, version)) != present.model.dimension:
        return f"{present.key} has features that {version.key} has not"
    if version.labels != present.labels:
        return f"{present.key} has different labels"
    return ""


def _columns_for(present: Version, version: Version) -> list[int]:
    """Return which columns of a version the present one has, in its order; fewer than it has if one is missing."""
    if not (version.recipe and present.recipe):
        return list(range(version.model.dimension))
    at = {name: index for index, name in enumerate(version.feature_names)}
    return [at[name] for name in present.feature_names if name in at]


def _answers(model: AnyModel, columns: list[int], X: Features) -> NDArray[np.int8]:
    """Return the codes that a version of these columns answers."""
    return model.predict_codes(np.ascontiguousarray(X[:, columns]))


def gate_of(
    settings: Settings,
    cluster: Cluster,
    current: Alias | None,
    unlearned: Callable[[], Iterable[Rows]],
    metrics: Metrics,
    head: Head | None = None,
) -> Gatekeeper:
    """Return the configured gate, which knows what is current, and from the newest head what was before.

    Blocks at most about 10 s for each version that it reads. While the current one cannot be read nothing passes, and
    the log says so.
    """
    margin, versions = settings.output.gate_margin, constants.GATE_VERSIONS
    if margin is None:
        return Open()
    said = None if head is None else head.gate
    present = None if current is None else present_of(settings, cluster, current)
    if present is not None:
        if present.lost:
            log.warning(
                "current_version_lost",
                current=present.number,
                what=present.why,
                remedy="no action needed: the next version becomes current. A pin of a lost version holds readers "
                "back: remove it",
            )
        elif not present.version:
            log.warning(
                "gate_blind",
                current=present.number,
                what=present.why,
                remedy="no new version becomes current until the current one can be read; the trainer needs the "
                "permission Read on output.models_topic",
            )
    return MarginGate(
        margin,
        present,
        unlearned,
        metrics,
        earlier=_before(settings, cluster, present, said, versions - 1),
        scored=said is not None and said.outcome != "unscored" and said.against is not None,
        versions=versions,
        fetch=lambda alias: present_of(settings, cluster, alias),
    )


def _before(
    settings: Settings, cluster: Cluster, present: CurrentVersion | None, said: Gate | None, most: int
) -> list[CurrentVersion]:
    """Fetch what was current before, as the newest head names it, up to the first that cannot be read."""
    found: list[CurrentVersion] = []
    if present is None or present.version is None or said is None:
        return found
    for rival in said.recent:
        if rival.number == present.number or len(found) >= most:
            continue
        one = present_of(settings, cluster, Alias(rival.number, rival.sha256, rival.offset))
        if one.version is None or _incomparable(one.version, present.version):
            log.info(
                "gate_forgets", version=rival.number, why=one.why or "the version has different features or labels"
            )
            break
        found.append(one)
    return found


def present_of(settings: Settings, cluster: Cluster, current: Alias) -> CurrentVersion:
    """Fetch what an alias names; blocks at most about 10 s, and never fails."""
    key = version_key(settings.name, current.number)
    try:
        record = cluster.record(settings.output.models_topic, current.offset, FETCH_TIMEOUT_S)
        if record is None or record.value is None or record.key != key.encode():
            why = f"{settings.output.models_topic} does not hold {key} any more, at offset {current.offset}"
            return CurrentVersion(current, None, why, lost=True)
        return CurrentVersion(current, model_codec.decode(record.value, current.sha256))
    except InvalidMessage as error:
        return CurrentVersion(current, None, f"{key} cannot be read: {error.what}")
    except StreamsvmError as error:  # not permitted, or no answer: the gate is no reason not to start
        return CurrentVersion(current, None, f"{key} cannot be fetched: {error.what}")
