"""Plugins of the test suite: the brokers that any test may ask for."""

pytest_plugins = ["tests.brokers.fixtures", "tests.faults.faulty"]
