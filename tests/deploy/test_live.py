"""Every panel has an answer from a real Prometheus that watches a real run, and its checker likes what it scrapes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Final

import pytest

from consumers.metrics import PROCESS, SCORER, TRAINER
from consumers.settings import Settings
from tests.brokers.fixtures import TestBroker
from tests.deploy.files import Query, queries
from tests.deploy.live import Live, Series

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not os.environ.get("GITHUB_ACTIONS")
        and (shutil.which("prometheus") is None or shutil.which("promtool") is None),
        reason="prometheus and promtool are not on PATH (Debian: apt install prometheus)",
    ),
]


@pytest.fixture(scope="module")
def live(real_broker: TestBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A trainer and a scorer at work, with two bad records behind them."""
    with Live(real_broker.connection, tmp_path_factory.mktemp("live"), real_broker.name("live")) as running:
        running.feed_malformed()
        yield running


def table(answers: dict[Query, Series]) -> str:
    """Return dashboard, panel, legend and values, a line each."""
    lines = []
    for query, series in answers.items():
        values = ", ".join(" ".join([*one["metric"].values(), f"{float(one['value'][1]):.6g}"]) for one in series)
        lines.append(f"{query.dashboard:<18} | {query.panel:<44} | {query.legend:<22} | {values or 'EMPTY'}")
    return "\n".join(lines)


OF_OTHER_DAEMONS: Final = {
    "streamsvm_prequential_label_": "more than two labels",
    "streamsvm_input_open_transaction_records": "a producer whose transaction is open",
    "streamsvm_memory_short_share": "a memory that forgets",
}
"""Series that daemons with two labels and `memory = all` have none of, and who has them."""
PLAIN: Final = {"trainer": TRAINER.of(Settings()), "scorer": SCORER.of(Settings())}
OF_BRANCHES: Final = {one.name for one in (*TRAINER, *SCORER)} - {one.name for own in PLAIN.values() for one in own}
"""Metrics of branches that are off in these daemons."""


def is_of_others(promql: str) -> bool:
    """Tell whether a query is of what these daemons do not do."""
    named = re.findall(r"streamsvm_\w+", promql)
    return any(
        name.removesuffix("_total") in OF_BRANCHES or any(other in name for other in OF_OTHER_DAEMONS) for name in named
    )


def test_every_panel_has_an_answer(live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    """No query of any dashboard comes back empty from daemons at work, but those of what these daemons do not do."""
    answers: dict[Query, Series] = {query: [] for query in queries() if not is_of_others(query.promql)}

    def all_answered() -> bool:
        for query, answer in answers.items():
            if not answer:
                answers[query] = live.query(query.runnable)
        return all(answers.values())

    try:
        live.feed_until("an answer to every query", all_answered)
    finally:
        with capsys.disabled():
            print(f"\n{table(answers)}")


def test_rules_evaluate_without_errors(live: Live) -> None:
    """Prometheus evaluates every shipped rule over what it scraped."""
    live.feed_until("every rule evaluated", lambda: all(rule["health"] != "unknown" for rule in live.rules()))
    assert {rule["name"]: rule.get("lastError", "") for rule in live.rules() if rule["health"] != "ok"} == {}


@pytest.mark.parametrize("daemon", ["trainer", "scorer"])
def test_promtool_likes_what_is_scraped(live: Live, daemon: str) -> None:
    """Names, types, units and help texts are as Prometheus asks, and the metrics are those that are declared."""
    text = live.scraped(live.trainer_url if daemon == "trainer" else live.scorer_url)
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    declared = {one.name for one in (*PLAIN[daemon], *PROCESS)}
    told = {line.split()[2].removesuffix("_total") for line in text.splitlines() if line.startswith("# TYPE")}
    assert told == declared
