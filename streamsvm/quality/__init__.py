"""How good versions are: the gate, prequential scores, drift."""
