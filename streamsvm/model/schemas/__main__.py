"""Prints the schema of a version's value: ``python -m streamsvm.model.schemas > .../model-1.schema.json``."""

import sys

from streamsvm.model.schemas import assembled, shown

if __name__ == "__main__":
    sys.stdout.write(shown(assembled()) + "\n")
