"""Run once more, alone, what failed while six processes shared the machine: `python -m tests.again`, after `make test`.

Only tests of daemons on real brokers, which are held to a time: another process may have had the processors. A test
that passes now is named, so that it does not become a habit; more than three failures, or one elsewhere, stay failures.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

FAILED: Final = Path(__file__).resolve().parents[1] / ".pytest_cache/v/cache/lastfailed"
TIMED: Final = ("tests/faults/", "tests/histories/", "tests/kafka/", "tests/brokers/")
MOST: Final = 3


def main() -> int:
    """Return 0 if what failed passes alone, else 1."""
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    other = [name for name in failed if not name.startswith(TIMED)]
    if not failed or other or len(failed) > MOST:
        print(f"not run again: {len(failed)} failed, {len(other)} of them not held to a time")
        return 1
    code = subprocess.run([sys.executable, "-m", "pytest", "-q", "-m", "", *failed], check=False).returncode
    for name in failed:
        print(f"{'UNSTEADY: passes alone' if code == 0 else 'fails'}: {name}")
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
