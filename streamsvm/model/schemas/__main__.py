"""Prints the schema of a version's value: ``python -m streamsvm.model.schemas > .../model-1.schema.json``."""

from streamsvm.model.schemas import assembled, shown

if __name__ == "__main__":
    print(shown(assembled()))
