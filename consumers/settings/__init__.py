"""Every option of the daemons, once: what each means, its default and its bounds."""

from consumers.settings.input_settings import InputConfig, RegistryConfig, Start
from consumers.settings.output_settings import OutputConfig
from consumers.settings.process_settings import HttpConfig, LogConfig
from consumers.settings.scoring_settings import ScoringConfig
from consumers.settings.training_settings import CheckpointConfig, TrainingConfig, default_directory
from consumers.settings.whole import (
    DEFAULT_KAFKA,
    ENVIRONMENT_PREFIX,
    KafkaValue,
    ModelName,
    Settings,
    dotted,
    section_class,
    section_defaults,
)

__all__ = [
    "DEFAULT_KAFKA",
    "ENVIRONMENT_PREFIX",
    "CheckpointConfig",
    "HttpConfig",
    "InputConfig",
    "KafkaValue",
    "LogConfig",
    "ModelName",
    "OutputConfig",
    "RegistryConfig",
    "ScoringConfig",
    "Settings",
    "Start",
    "TrainingConfig",
    "default_directory",
    "dotted",
    "section_class",
    "section_defaults",
]
