"""All options, each declared once with type, default, unit and consequence.

The command line, the environment, the TOML file, the configuration reference and the configuration hash are all made
from these classes. Sections under `ModelConfig` decide what a model is, and are hashed into its lineage. The others
only decide when and where things happen, and may change between two starts.
"""

from streamsvm.choices import LabelKey
from streamsvm.config import model, sizes
from streamsvm.config.coreset import CoresetConfig
from streamsvm.config.model import LabelRule, ModelConfig
from streamsvm.config.point_options import Label, PointsConfig, PointsFormat
from streamsvm.config.sizes import ADAPTIVE_LEAF, doubling_buckets, windowed_buckets
from streamsvm.config.svm import SvmConfig, require_trainable, support_vector_bytes
from streamsvm.option_texts import (
    Duration,
    none_in_words,
    one_target,
    split_at_commas,
    table_in_words,
    target_in_words,
    two_costs,
)
from streamsvm.sections import Section, Seed

__all__ = [
    "ADAPTIVE_LEAF",
    "CoresetConfig",
    "Duration",
    "Label",
    "LabelKey",
    "LabelRule",
    "ModelConfig",
    "PointsConfig",
    "PointsFormat",
    "Section",
    "Seed",
    "SvmConfig",
    "doubling_buckets",
    "model",
    "none_in_words",
    "one_target",
    "require_trainable",
    "sizes",
    "split_at_commas",
    "support_vector_bytes",
    "table_in_words",
    "target_in_words",
    "two_costs",
    "windowed_buckets",
]
