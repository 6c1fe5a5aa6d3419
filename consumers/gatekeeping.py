"""The quality gate at work: it keeps the points to judge by and the present model, and judges each candidate.

What it judges by stands in `streamsvm.gate`. After a start it knows no points yet, and judges by the audit sample until
enough were read; while input is read again nothing is published, so that nothing is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from consumers.ports import Cluster
from streamsvm.codec import model as model_codec
from streamsvm.codec.model import Alias, Gate, GatePart, Version
from streamsvm.config import Settings
from streamsvm.errors import InvalidMessage, StreamsvmError
from streamsvm.gate import Verdict, Window, audit_evidence, judge
from streamsvm.learner import Cut
from streamsvm.metrics import Metrics
from streamsvm.points import Rows

log = structlog.get_logger("streamsvm.trainer")

MakeGate = Callable[[Settings, Cluster, "Alias | None", Callable[[], Iterable[Rows]], Metrics], "Gatekeeper"]

FETCH_TIMEOUT_S: Final = 10.0
OUTCOMES: Final = ("passed", "refused", "unscored")


class Gatekeeper(Protocol):
    """Says which version may become current."""

    @property
    def present(self) -> Present | None:
        """What is current, if the gate knows that."""

    def note(self, rows: Rows) -> None:
        """Take in rows that were learned."""

    def judge(self, version: Version, cut: Cut) -> Gate | None:
        """Say whether a version may become current; None where there is no gate."""

    def published(self, version: Version, gate: Gate | None) -> None:
        """Note that a version is published, under this verdict."""


class Open:
    """No gate: every version becomes current."""

    present: Final = None

    def note(self, rows: Rows) -> None:
        """Keep nothing."""

    def judge(self, version: Version, cut: Cut) -> Gate | None:  # noqa: ARG002
        """Let it pass."""
        return None

    def published(self, version: Version, gate: Gate | None) -> None:
        """Keep nothing."""


@dataclass(frozen=True, slots=True)
class Present:
    """What is current: its number, and the version itself, or why that could not be read."""

    number: int
    version: Version | None
    why: str = ""


class MarginGate:
    """Refuses a version that is worse than the current one by more than a margin.

    Parameters
    ----------
    margin : float
        Of balanced accuracy.
    present : Present or None
        At the start; None if nothing is current.
    unlearned : callable
        Returns rows that were read and not learned yet.
    metrics : Metrics
    """

    def __init__(
        self, margin: float, present: Present | None, unlearned: Callable[[], Iterable[Rows]], metrics: Metrics
    ) -> None:
        self._margin = margin
        self.present = present
        self._unlearned = unlearned
        self._metrics = metrics
        self._window = Window()
        metrics.begin("streamsvm_gate_verdicts", "outcome", OUTCOMES)

    def note(self, rows: Rows) -> None:
        """Take in rows that were learned."""
        self._window.add(rows)

    def judge(self, version: Version, cut: Cut) -> Gate | None:
        """Score a version and the current one on the same points."""
        present = self.present
        if present is None:
            return self._gate(Verdict("unscored", "nothing is current yet"), None)
        why = present.why or _incomparable(version, present.version)
        if why or present.version is None:
            return self._gate(Verdict("unscored", why), present.number)
        return self._gate(self._verdict(version, present.version, cut), present.number)

    def _verdict(self, version: Version, present: Version, cut: Cut) -> Verdict:
        after = self._window.after(cut.positions, self._unlearned())
        return judge(version.model, present.model, after, audit_evidence(cut.audit), self._margin)

    def _gate(self, verdict: Verdict, against: int | None) -> Gate:
        window = tuple(
            GatePart(partition, (*begin,), (*end,)) for partition, (begin, end) in sorted(verdict.window.items())
        )
        return Gate(
            verdict.outcome,
            verdict.why,
            verdict.scored_on,
            verdict.points,
            verdict.candidate,
            verdict.present,
            against,
            self._margin,
            window,
        )

    def published(self, version: Version, gate: Gate | None) -> None:
        """Take a version for the present one unless it was refused."""
        if gate is None:
            return
        self._metrics.increase("streamsvm_gate_verdicts", outcome=gate.outcome)
        if gate.candidate is not None and gate.present is not None:
            self._metrics.put("streamsvm_gate_candidate_accuracy", gate.candidate)
            self._metrics.put("streamsvm_gate_present_accuracy", gate.present)
        if gate.outcome == "refused":
            log.warning(
                "gate_refused",
                version=version.key,
                balanced_accuracy=gate.candidate,
                current=gate.against,
                its_balanced_accuracy=gate.present,
                margin=gate.margin,
                points=gate.points,
                remedy="the current version stays; pin the new one if you know better, or raise output.gate_margin",
            )
            return
        self.present = Present(version.number, version)


def _incomparable(version: Version, present: Version | None) -> str:
    """Say why two versions cannot be scored on the same points, or nothing."""
    if present is None:
        return "the current version cannot be read"
    if version.model.dimension != present.model.dimension:
        return f"{present.key} scores {present.model.dimension} features"
    if version.labels != present.labels:
        return f"{present.key} has other labels"
    return ""


def gate_of(
    settings: Settings,
    cluster: Cluster,
    current: Alias | None,
    unlearned: Callable[[], Iterable[Rows]],
    metrics: Metrics,
) -> Gatekeeper:
    """Return the configured gate, which knows what is current.

    Blocks at most about 10 s. A current version that cannot be read is said, and the next one passes.
    """
    margin = settings.output.gate_margin
    if margin is None:
        return Open()
    present = None if current is None else present_of(settings, cluster, current)
    if present is not None and present.version is None:
        log.warning("gate_blind", current=present.number, what=present.why, remedy="the next version is let pass")
    return MarginGate(margin, present, unlearned, metrics)


def present_of(settings: Settings, cluster: Cluster, current: Alias) -> Present:
    """Fetch what is current; blocks at most about 10 s, and never fails."""
    key = model_codec.version_key(settings.name, current.number)
    try:
        record = cluster.record(settings.output.models_topic, current.offset, FETCH_TIMEOUT_S)
        if record is None or record.value is None or record.key != key.encode():
            return Present(current.number, None, f"{key} is not at offset {current.offset}")
        return Present(current.number, model_codec.decode(record.value, current.sha256))
    except InvalidMessage as error:
        return Present(current.number, None, f"{key} cannot be read: {error.what}")
    except StreamsvmError as error:  # not permitted, or no answer: the gate is no reason not to start
        return Present(current.number, None, f"{key} cannot be fetched: {error.what}")
