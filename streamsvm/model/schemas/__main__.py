"""Writes the schema of a version's value to standard output: ``python -m streamsvm.model.schemas``."""

import sys

from streamsvm.model.schemas import assembled, shown

if __name__ == "__main__":
    sys.stdout.write(shown(assembled()) + "\n")
