"""How good versions are: the gate, prequential scores, drift, and what a model looks at."""
