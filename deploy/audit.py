"""Are weaknesses known of the pinned versions? `python deploy/audit.py requirements/extras.txt [...]`.

pip-audit asks the database of OSV, or of PyPI with STREAMSVM_AUDIT_SERVICE=pypi; `make audit` runs this in an
environment that has it. Exit status 0: asked, and none is known; 1: some are; 75: the database was not reached, so
nothing is known either way, which is no pass.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

NONE_KNOWN, KNOWN, NOT_REACHED = 0, 1, 75


def known(requirements: str, service: str) -> list[dict[str, Any]] | None:
    """Return the packages with their known weaknesses; None if there was no answer, which is then said."""
    tool = [sys.executable, "-m", "pip_audit", "--requirement", requirements, "--vulnerability-service", service]
    how = ["--no-deps", "--disable-pip", "--require-hashes", "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run([*tool, *how], capture_output=True, text=True, check=False)
    try:
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        print(f"{requirements}: NOT CHECKED: no answer from {service}: {lines[-1]}", file=sys.stderr)
        return None
    return packages


def report(requirements: str, packages: list[dict[str, Any]]) -> int:
    """Say what is known; return the exit status. A package that was left out was not checked."""
    skipped = [f"{one['name']}: {one['skip_reason']}" for one in packages if "skip_reason" in one]
    found = [(one, weakness) for one in packages for weakness in one.get("vulns", ())]
    for one, weakness in found:
        mended = ", ".join(weakness["fix_versions"]) or "no version yet"
        names = ", ".join([weakness["id"], *weakness.get("aliases", ())])
        print(f"{requirements}: {one['name']} {one['version']}: {names}; fixed in {mended}")
    for line in skipped:
        print(f"{requirements}: NOT CHECKED: {line}", file=sys.stderr)
    print(f"{requirements}: {len(packages) - len(skipped)} packages asked for, {len(found)} known weaknesses")
    return KNOWN if found else NOT_REACHED if skipped or not packages else NONE_KNOWN


def main(files: list[str]) -> int:
    """Ask for each file; the worst answer counts, and a known weakness is the worst."""
    service = os.environ.get("STREAMSVM_AUDIT_SERVICE", "osv")
    statuses = []
    for requirements in files:
        packages = known(requirements, service)
        statuses.append(NOT_REACHED if packages is None else report(requirements, packages))
    return KNOWN if KNOWN in statuses else max(statuses, default=NOT_REACHED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
