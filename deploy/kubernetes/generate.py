"""Prints the alert rules of `deploy/prometheus/rules.yml` as a PrometheusRule.

    python3 deploy/kubernetes/generate.py | kubectl apply --namespace kafka -f -

The operator takes rules only inside of its own kind of resource. The text is the file's, indented, so that the rules
stand in one place; `--label release=prometheus` adds what your Prometheus selects rules by.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final

RULES: Final = Path(__file__).parent.parent / "prometheus" / "rules.yml"
LABELS: Final = {"app.kubernetes.io/part-of": "streamsvm"}
HEAD: Final = """\
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: streamsvm
  labels: {labels}
spec:
"""


def rendered(labels: Sequence[str] = ()) -> str:
    """Return the resource as YAML; `labels`, each `name=value`, join its own."""
    given = LABELS | dict(label.split("=", 1) for label in labels)
    return HEAD.format(labels=json.dumps(given)) + textwrap.indent(RULES.read_text(), "  ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="another label; repeatable")
    options = parser.parse_args()
    if wrong := [label for label in options.label if "=" not in label]:
        parser.error(f"a label is NAME=VALUE, not {wrong[0]!r}")
    sys.stdout.write(rendered(options.label))
