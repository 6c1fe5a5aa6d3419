"""What a Prometheus that runs says, by its HTTP interface."""

from __future__ import annotations

import json
import math
import urllib.parse
import urllib.request
from typing import Any, NamedTuple

Series = list[dict[str, Any]]


class Prometheus(NamedTuple):
    """A Prometheus at an address such as `http://127.0.0.1:9090`."""

    url: str

    def query(self, promql: str) -> Series:
        """Return the answer to a query without series that are not numbers."""
        series: Series = self._asked("query", query=promql)["result"]
        return [one for one in series if not math.isnan(float(one["value"][1]))]

    def value(self, promql: str) -> float:
        """Return the one number that a query answers, 0 if there is none yet."""
        answer = self.query(promql)
        return float(answer[0]["value"][1]) if answer else 0.0

    def rules(self) -> Series:
        """Return every rule with its health and its last error."""
        return [rule for group in self._asked("rules")["groups"] for rule in group["rules"]]

    def _asked(self, path: str, **parameters: str) -> dict[str, Any]:
        answered: dict[str, Any] = json.loads(page(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"))[
            "data"
        ]
        return answered


def page(address: str) -> str:
    """Return what stands at an address."""
    with urllib.request.urlopen(address, timeout=10) as answer:
        text: str = answer.read().decode()
    return text
