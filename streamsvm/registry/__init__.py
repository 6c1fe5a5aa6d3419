"""The registry as readers meet it: which record is version N, who signed it, a model that follows."""
