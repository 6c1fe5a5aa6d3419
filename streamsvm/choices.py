"""Words that an option may take, for modules that must not load the options."""

from __future__ import annotations

from typing import Final, Literal

ReducerName = Literal["uniform", "calibrated"]
StructureName = Literal["tree", "chain", "counter"]
MemoryName = Literal["all", "window", "decay", "adaptive"]
KernelName = Literal["linear", "rbf", "additive"]
Loss = Literal["hinge", "squared_hinge"]
Multiclass = Literal["one_vs_one", "one_vs_rest"]
"""How more than two labels are told apart, `svm.multiclass`: a machine for each pair of labels, or for each label."""
OF_EVENTS_ONLY: Final = ("json-schema", "protobuf")
"""Formats of records that are read by `[features]` only, of the option `points.format`."""
LabelKey = Literal["id", "record"]
"""What a row and its label have in common, where labels come later: the option `labels.key`."""
AbsentLabel = Literal["negative", "drop", "dead_letter"]
"""What becomes of a row without a label, there: the option `labels.absent`."""
TuneScoring = Literal["accuracy", "balanced_accuracy", "auc", "log_loss", "cost"]
"""By what a tuning chooses: the option `svm.tune_scoring`."""
