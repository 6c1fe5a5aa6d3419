"""Run once more, alone, what missed a deadline while other processes had the machine: `python -m tests.again`.

Only a missed deadline is forgiven, and named, so that it does not become a habit. A wrong value, a broken invariant and
a checker's finding stay failures, wherever they are found: the rare race is what the tests are for.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

FAILED: Final = Path(__file__).resolve().parents[1] / ".pytest_cache/v/again/failures"
MOST: Final = 3


def main() -> int:
    """Return 0 if all that failed missed a deadline and passes alone, else 1."""
    failed: dict[str, bool] = json.loads(FAILED.read_text()) if FAILED.exists() else {}
    wrong = [name for name, late in failed.items() if not late]
    if not failed or wrong or len(failed) > MOST:
        print(f"not run again: {len(failed)} failed, {len(wrong)} of them by more than a missed deadline")
        return 1
    code = subprocess.run([sys.executable, "-m", "pytest", "-q", "-m", "", *failed], check=False).returncode
    for name in failed:
        print(f"{'LATE: passes alone' if code == 0 else 'fails'}: {name}")
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
