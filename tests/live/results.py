"""Counts of many runs, added up in a file: what 10,000 transactions came to may be gathered in pieces."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.live.running import Outcome

KINDS = ("versions", "batches", "moves")


def load(file: Path) -> list[dict[str, Any]]:
    """Return the runs of a file; none if there is no such file."""
    return list(json.loads(file.read_text("utf-8"))["runs"]) if file.exists() else []


def add(file: Path, outcome: Outcome) -> list[dict[str, Any]]:
    """Add a run to a file, and return all of them."""
    runs = [*load(file), told(outcome)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"runs": runs}, indent=1) + "\n", "utf-8")
    return runs


def told(outcome: Outcome) -> dict[str, Any]:
    """Return a run as it is kept."""
    plan = outcome.plan
    return {
        "nemeses": list(plan.nemeses),
        "brokers": plan.brokers,
        "settings": "defaults" if plan.defaults else "frequent",
        "seed": plan.seed,
        "defect": plan.defect,
        "seconds": round(outcome.seconds, 1),
        "lives": outcome.lives,
        "counts": dict(outcome.counts),
        "faults": dict(outcome.faults),
        "anomalies": [asdict(anomaly) for anomaly in outcome.anomalies],
        "remarks": outcome.remarks,
        "history": str(outcome.history),
    }


def key(run: dict[str, Any]) -> str:
    """Return the line that a run belongs to."""
    nemeses = ",".join(run["nemeses"]) or "none"
    return f"{nemeses} | {run['brokers']} | {run['settings']}" + (f" | {run['defect']}" if run["defect"] else "")


def lines(runs: list[dict[str, Any]]) -> list[str]:
    """Return one line for each kind of run, and one for all."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        kinds.setdefault(key(run), []).append(run)
    found = [f"{name}: {summed(of_kind)}" for name, of_kind in kinds.items()]
    return [*found, f"all: {summed(runs)}"] if len(kinds) > 1 else found


def summed(runs: list[dict[str, Any]]) -> str:
    """Return what several runs came to together."""
    counts: Counter[str] = Counter()
    anomalies: Counter[str] = Counter()
    for run in runs:
        counts.update(run["counts"])
        anomalies.update(anomaly["name"] for anomaly in run["anomalies"])
    faults, lives = sum(sum(run["faults"].values()) for run in runs), sum(run["lives"] for run in runs)
    transactions = sum(counts[kind] for kind in KINDS)
    listed = ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS)
    said = ", ".join(f"{count} {name}" for name, count in sorted(anomalies.items())) or "none"
    seconds = sum(run["seconds"] for run in runs)
    return (
        f"{len(runs)} runs, {seconds:,.0f} s, {lives} lives, {faults} faults, "
        f"{transactions:,} transactions ({listed}); anomalies: {said}"
    )
