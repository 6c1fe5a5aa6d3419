"""The paper's solver as it is written there; only `svm.solver = stda-paper` needs it."""
