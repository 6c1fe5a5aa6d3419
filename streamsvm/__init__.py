"""A margin classifier that is always current: streaming coresets, an SVM, and model versions on a Kafka topic."""

__version__ = "0.1.0"
