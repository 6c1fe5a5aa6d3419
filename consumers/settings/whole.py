"""All sections of the daemons together, and the rules among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Self, get_args

from pydantic import BaseModel, Field, PrivateAttr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from consumers.settings.input_settings import InputConfig, RegistryConfig
from consumers.settings.output_settings import OutputConfig
from consumers.settings.process_settings import HttpConfig, LogConfig
from consumers.settings.scoring_settings import ScoringConfig
from consumers.settings.training_settings import CheckpointConfig, TrainingConfig, default_directory
from consumers.settings_sockets import added, open_to_branches
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig, require_trainable
from streamsvm.errors import ConfigurationError
from streamsvm.option_texts import named_directory
from streamsvm.secrecy import MASK, is_secret
from streamsvm.sections import RecipeOptions, Seed
from streamsvm.supports import require

ENVIRONMENT_PREFIX: Final = "STREAMSVM_"
ModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


KafkaValue = str | int | bool
DEFAULT_KAFKA: dict[str, KafkaValue] = {"bootstrap.servers": "localhost:9092"}


def dotted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return librdkafka's options under its own names, which the environment cannot spell."""
    return {str(name).lower().replace("_", "."): value for name, value in options.items()}


@open_to_branches("")
class Settings(RecipeOptions, BaseSettings):
    """All options. Sources by precedence: command line, environment, secrets directory, TOML file, defaults."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter="__",
        enable_decoding=False,
    )

    name: ModelName = Field(default="model", description="Name of the model, whose versions are name@1, name@2, ...")
    seed: Seed = Field(default=0, description="Seed of all random numbers.")
    kafka: dict[str, KafkaValue] = Field(
        default=DEFAULT_KAFKA,
        repr=False,
        description="Options that are passed on to librdkafka, under librdkafka's names (in the environment with _ "
        "for the dots).",
    )
    input: InputConfig = Field(default=InputConfig(), description="Where labeled points come from.")
    points: PointsConfig | None = Field(default=None, description="What a valid point is.")
    registry: RegistryConfig = Field(default=RegistryConfig(), description="Where the schemas of Avro points are.")
    coreset: CoresetConfig = Field(default=CoresetConfig(), description="How a stream is summarised.")
    svm: SvmConfig = Field(default=SvmConfig(), description="What is trained on the summary.")
    training: TrainingConfig = Field(default=TrainingConfig(), description="When models are trained.")
    output: OutputConfig = Field(default=OutputConfig(), description="Where model versions go.")
    checkpoint: CheckpointConfig = Field(default=CheckpointConfig(), description="Where state is saved.")
    scoring: ScoringConfig = Field(default=ScoringConfig(), description="What the scorer reads and writes.")
    http: HttpConfig = Field(default=HttpConfig(), description="Metrics and health.")
    log: LogConfig = Field(default=LogConfig(), description="Logs.")

    _begun: dict[str, Any] = PrivateAttr(default={})

    @field_validator("kafka", mode="before")
    @classmethod
    def _named_as_librdkafka(cls, options: object) -> object:
        return DEFAULT_KAFKA | dotted(options) if isinstance(options, dict) else options

    @model_validator(mode="after")
    def _checked_by_branches(self) -> Self:
        for one in added():
            one.check(self)
        return self

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        self.require_combined({})
        return self

    def require_combined(self, spelled: Mapping[str, str]) -> None:
        """Refuse sections that do not go together; `spelled` gives names of options for the error."""
        require(self.axes, spelled)

    @property
    def axes(self) -> dict[str, object]:
        """What the table of combinations must know of sections together, by option."""
        own = {"training.policy": self.training.policy, "registry.url": self.registry.url}
        return {**own, **{axis: value for one in added() for axis, value in one.axes(self).items()}}

    @property
    def labels_topic(self) -> str:
        """The topic of labels that do not come with the points; empty where every point has its label with it."""
        return next(filter(None, (one.labels_topic(self) for one in added())), "")

    @model_validator(mode="after")
    def _settled(self) -> Self:
        """Fill in directory, structure and sizes, so that the logged configuration shows them."""
        for one in added():
            one.settle(self)
        directory = named_directory(self.checkpoint.directory, self.name)
        object.__setattr__(self, "checkpoint", self.checkpoint.model_copy(update={"directory": directory}))
        if self.points is not None:
            object.__setattr__(self, "coreset", self.coreset.settled(self.points, self.svm.kernel))
            object.__setattr__(self, "svm", self.svm.settled(self.points.classes))
            require_trainable(self.points.classes, self.svm, self.coreset)
        return self

    def models(self) -> ModelConfig:
        """Return the part that decides what a model is.

        Raises
        ------
        ConfigurationError
            If `points.dimension` is not given.
        """
        if self.points is None:
            raise ConfigurationError(
                "points.dimension is not given",
                "Give the number of features of a point: dimension = N under [points] in the TOML file, "
                "STREAMSVM_POINTS__DIMENSION=N, or --points-dimension N.",
            )
        further = self._begun | {name: value for one in added() for name, value in one.models(self).items()}
        return ModelConfig(
            points=self.points,
            coreset=self.coreset,
            svm=self.svm,
            seed=self.seed,
            **further,
        )

    def begun_with(self, canonical: Mapping[str, Any]) -> Self:
        """Return these options with what is settled when learning begins; see `RecipeOptions.begun_with`."""
        settings = super().begun_with(canonical)
        models = settings.models().begun_with(canonical)
        past = models.canonical().keys() & {"pilots", "earlier"}
        begun = {name: getattr(models, name) for name in sorted(past)}
        if begun:
            settings = settings.model_copy(update={"coreset": models.coreset})
            settings._begun = begun
        return settings

    def masked(self) -> dict[str, Any]:
        """Return the effective configuration as a plain JSON value, secrets masked."""
        plain = self.model_dump(mode="json")
        plain["kafka"] = {key: MASK if is_secret(key) else value for key, value in self.kafka.items()}
        if plain["registry"]["password"]:
            plain["registry"]["password"] = MASK
        return plain

    def differing(self) -> dict[str, Any]:
        """Return the options whose effective value is not the default, by their dotted names, secrets masked."""
        found: dict[str, Any] = {}
        for section, value in self.masked().items():
            if isinstance(value, dict):
                default = DEFAULT_KAFKA if section == "kafka" else section_defaults(section)
                found |= {f"{section}.{name}": one for name, one in value.items() if one != default.get(name)}
            elif value != Settings.model_fields[section].default:
                found[section] = value
        if self.checkpoint.directory == default_directory(self.name):
            found.pop("checkpoint.directory", None)
        return found


def section_class(section: str) -> type[BaseModel] | None:
    """Return the class of a section; None for an option outside of sections."""
    annotation = Settings.model_fields[section].annotation
    kinds = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type)]
    return next((kind for kind in kinds if issubclass(kind, BaseModel)), None)


def section_defaults(section: str) -> dict[str, Any]:
    """Return a section's defaults as plain JSON values."""
    kind = section_class(section)
    return {} if kind is None else kind.model_construct().model_dump(mode="json")
