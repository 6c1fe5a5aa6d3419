"""What every configuration must do alike: a table of configurations against a list of properties, and of refusals."""
