"""Writes the PrometheusRule: `python deploy/kubernetes/generate.py` after a change of `deploy/prometheus/rules.yml`.

The operator takes rules only inside of its own kind of resource. The text is the file's, indented, so that there is one
place to change a rule in; the test suite compares the two.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Final

DEPLOY: Final = Path(__file__).parent.parent
RULES: Final = DEPLOY / "prometheus" / "rules.yml"
RESOURCE: Final = DEPLOY / "kubernetes" / "monitoring" / "prometheus-rule.yaml"
HEAD: Final = """\
# Made by deploy/kubernetes/generate.py from deploy/prometheus/rules.yml; change that.
# yamllint disable rule:line-length
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: streamsvm
spec:
"""


def rendered() -> str:
    """Return the resource as YAML."""
    return HEAD + textwrap.indent(RULES.read_text(), "  ")


if __name__ == "__main__":
    RESOURCE.write_text(rendered())
