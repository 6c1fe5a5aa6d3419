"""Quality as served: scores joined with the labels that came later."""
