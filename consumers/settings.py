"""Every option of the daemons, once: what each means, its default and its bounds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    InstanceOf,
    PlainSerializer,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    SettingsConfigDict,
)

from streamsvm.config import (
    CoresetConfig,
    Duration,
    EventsConfig,
    JoinConfig,
    ModelConfig,
    PointsConfig,
    PointsFormat,
    Section,
    Seed,
    SvmConfig,
    none_in_words,
    points_of,
    recipe_from,
    require_joinable,
    require_trainable,
    split_at_commas,
    table_in_words,
)
from streamsvm.errors import ConfigurationError
from streamsvm.features.declaring import tables
from streamsvm.features.paths import path_of
from streamsvm.features.recipe import Envelope, Recipe
from streamsvm.learning.memory_kinds import memory_kind
from streamsvm.secrecy import MASK, is_secret
from streamsvm.supports import EVENTS, FEATURES, FOLLOWING, LABELS, RULE_OF_LABELS, TOPICS_APART, require

ENVIRONMENT_PREFIX = "STREAMSVM_"


def _split_names(value: object) -> object:
    """Let `a,b` stand for a list of names, of which none is taken for a number."""
    return [name for part in value.split(",") if (name := part.strip())] if isinstance(value, str) else value


Start = Literal["earliest", "latest"] | datetime


class InputConfig(Section):
    """Where labeled points come from."""

    topic: Annotated[str, Field(min_length=1, max_length=249)] = Field(
        default="labeled", description="Topic of labeled points."
    )
    start: Start = Field(
        default="earliest",
        description="Where a first start begins reading: earliest, latest, or a time such as 2026-01-31T12:00:00Z. "
        "Ignored once a checkpoint exists.",
    )
    dead_letter_topic: str = Field(
        default="", description="Topic of rejected records. Default: the input topic's name + `.dlq`."
    )
    group: str = Field(
        default="",
        description="Consumer group whose offsets show progress to observers. Default: `streamsvm-` + the model's "
        "name.",
    )
    batch_records: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=4_000,
        description="Most records taken from the client at once; fewer if they are large. Does not affect the models.",
    )
    on_gap: Literal["fail", "reset"] = Field(
        default="fail",
        description="What to do when the log no longer holds records that were read or are to be read next (retention, "
        "truncation, a recreated topic): `fail` stops with a message; `reset` begins a new incarnation at the "
        "configured start.",
    )
    watch_interval_s: Annotated[float, Field(gt=0)] = Field(
        default=30.0,
        description="Seconds between two checks of the input topic for such gaps and for new partitions.",
    )
    max_dead_letter_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5,
        description="Largest share of rejected records among the last 1000. Beyond it the trainer stops, or, once "
        "the input is proven (`proven_after_points`), is not ready. 0: no limit.",
    )
    max_consecutive_dead_letters: Annotated[int, Field(ge=0)] = Field(
        default=1_000,
        description="Number of rejected records in a row at which the trainer stops, or, once the input is proven "
        "(`proven_after_points`), is not ready. 0: no limit.",
    )
    proven_after_points: Annotated[int, Field(ge=0)] = Field(
        default=1_000,
        description="Number of valid points that an incarnation must have learned before its input counts as proven "
        "to be the right one. Before that, the two limits above stop the trainer with status 78. Afterwards, also "
        "after restarts, the trainer continues with a warning, and /readyz answers 503 until records are accepted "
        "again; so nobody can stop the trainer by writing bad records. 0: the limits never stop the trainer.",
    )

    @field_validator("start", mode="after")
    @classmethod
    def _with_zone(cls, start: Start) -> Start:
        if isinstance(start, datetime) and start.tzinfo is None:
            raise ValueError(f"start = {start.isoformat()} has no time zone; add Z for UTC")
        return start

    @property
    def dead_letters(self) -> str:
        """The dead-letter topic."""
        return self.dead_letter_topic or f"{self.topic}.dlq"


class LabelsConfig(JoinConfig):
    """Labels that come later, in a topic of their own. Without `topic` a point has its label with it."""

    topic: Annotated[str, Field(max_length=249)] = Field(
        default="",
        description="Topic of the labels, with as many partitions as the input, and keyed alike. Default: none, every "
        "point has its label with it.",
    )
    dead_letter_topic: str = Field(
        default="",
        description="Topic of rejected records of the labels' topic. Default: the labels' topic's name + `.dlq`.",
    )
    idle_s: Annotated[float | None, Field(gt=0)] = Field(
        default=None,
        description="Seconds that rows of a partition wait for a record of the labels' topic, after which the trainer "
        "writes watermarks there, which tell the present time: then rows past the horizon are decided without any "
        "label. The trainer needs the permission to write to the topic. Does not affect the models but by those "
        "records. Default: never; write watermarks, or labels, yourself.",
    )
    most_rows: Annotated[int, Field(ge=1_024, le=1 << 30)] = Field(
        default=10_000_000,
        description="Most rows within the horizon in one partition; with more the trainer ends. A row takes 29 bytes, "
        "some 8 of index, and its features and weight. Does not affect the models.",
    )

    @property
    def dead_letters(self) -> str:
        """The dead-letter topic."""
        return self.dead_letter_topic or f"{self.topic}.dlq"

    @property
    def rule(self) -> JoinConfig | None:
        """The part that decides what is learned; None without a topic."""
        if not self.topic:
            return None
        return JoinConfig(**{name: getattr(self, name) for name in JoinConfig.model_fields})


class RegistryConfig(Section):
    """The schema registry, for points that come as Avro, and events that come as Avro or Protobuf."""

    url: str = Field(
        default="",
        description="Base address of the registry's API (as Confluent's), such as http://registry:8081. Several "
        "addresses, separated by commas, are tried in turn. Without it every Avro or Protobuf "
        "record becomes a dead letter.",
    )
    username: str = Field(default="", description="User name for basic authentication. Default: none.")
    password: str = Field(
        default="",
        repr=False,
        description="Password for basic authentication; only from a file in --secrets or the environment.",
    )
    token: str = Field(
        default="",
        repr=False,
        description="Bearer token, instead of user name and password; only from a file in --secrets or the "
        "environment.",
    )
    ca_file: Path | None = Field(
        default=None,
        description="PEM file of the authority that signed the registry's certificate. Default: the well-known "
        "authorities.",
    )
    timeout_s: Annotated[float, Field(gt=0, le=60)] = Field(
        default=2.0,
        description="Seconds to wait for an answer of the registry. Without an answer the input waits, and the "
        "registry is asked again.",
    )

    @model_validator(mode="after")
    def _one_identity(self) -> Self:
        if "@" in self.url:
            raise ValueError(
                "registry.url contains a user name or password; set registry.username and registry.password instead"
            )
        require({"registry.username": self.username, "registry.token": self.token})
        return self


class OutputConfig(Section):
    """Where model versions go."""

    models_topic: Annotated[str, Field(min_length=1, max_length=249)] = Field(
        default="models", description="Topic of model versions, one immutable record per version, in partition 0."
    )
    model_format: Literal["json", "onnx"] = Field(
        default="json",
        description="`onnx` adds a copy of every version as an ONNX model, in the same transaction and under the "
        "same key, in the topic models_topic + `.onnx`. The versions themselves are always JSON. Needs the extra: "
        "pip install '.[onnx]' in the folder of the sources.",
    )
    gate_margin: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, BeforeValidator(none_in_words)] = Field(
        default=0.1,
        description="A new version becomes current only if its balanced accuracy is at most this much below the "
        "current version's. Both are scored on the same points read after the new version's cut, or, where those "
        "are too few, on the audit sample or the training set. A worse version is published, can be pinned, and is "
        "listed in the audit topic as refused. While the current version cannot be read, no new version becomes "
        "current. none: every version becomes current.",
    )
    gate_versions: Annotated[int, Field(ge=1, le=32)] = Field(
        default=5,
        description="A new version is compared with the best of this many versions that were current most recently, "
        "so that a series of versions cannot lose the margin again and again. Each of them is held in memory and "
        "scored for every new version. 1: compare with the current version only.",
    )
    gate: Literal["margin", "shadow"] = Field(
        default="margin",
        description="`shadow`: a version that passes the margin becomes current only after it was better than the "
        "current one on labels of rows that a scorer with scoring.shadow = @challenger scored by both. One version at "
        "a time is the challenger. The trainer reads scoring.output_topic, and finds labels in labels.topic, or, where "
        "they come with the points, in its own input, which then has to be scoring.topic.",
    )
    gate_figure: Literal["auc", "accuracy", "log_loss", "cost"] = Field(
        default="auc",
        description="With gate = shadow: by what the two are compared. `log_loss` needs svm.probability, `cost` "
        "svm.cost.",
    )
    gate_labels: Annotated[int, Field(ge=160, le=1_000_000)] = Field(
        default=20_000,
        description="With gate = shadow: number of labels after which a challenger that was not better has lost. The "
        "two are compared again and again before. In one of 100 trainers any challenge at all is ever won by a "
        "challenger that is not better; each challenge spends a part of that, so later ones need more labels, the "
        "1000th at most three times as many as the first. An AUC of 0.8725 instead of 0.85 takes some 5300 labels at "
        "50 % positives, and some 39000 at 2 %. Where the labels cannot be enough, the log says how many are needed.",
    )
    gate_wait: Duration = Field(
        default=7 * 86_400.0,
        description="With gate = shadow: how long a challenge lasts at most, in the time of the learned records: "
        "seconds, or 90m, 36h, 14d. Then gate_unlabeled decides, for example where no scorer runs.",
    )
    gate_unlabeled: Literal["keep", "pass"] = Field(
        default="keep",
        description="With gate = shadow: what happens to a challenger whose time is over before there were enough "
        "labels: the current version stays (`keep`), or the challenger becomes current, for it passed the margin "
        "(`pass`).",
    )
    first_current: Literal["skilled", "any"] = Field(
        default="skilled",
        description="Which version may become the first current one. `skilled`: none that knows nothing, or that gives "
        "one answer to every point and ranks no better than chance, by the audit sample. Readers wait until then, and "
        "say why. `any`: the first version. Without a gate (gate_margin = none), or without quality.enabled, any.",
    )
    keep_versions: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Number of newest versions to keep. Older versions that no alias or pin names are retired by "
        "tombstones, a tenth of this number at a time, at least 10. If the models topic has cleanup.policy=compact, "
        "as it has when it is created under this option, their bytes are removed, too. Default: keep all.",
    )
    signing_key_file: Path | None = Field(
        default=None,
        description="PEM file of the Ed25519 private key that the trainer signs every version with. Only its owner "
        "may have access to the file. Needs the extra: pip install '.[sign]' in the folder of the "
        "sources. Default: versions are not signed.",
    )
    trusted_keys_file: Path | None = Field(
        default=None,
        description="PEM file of one or more Ed25519 public keys. Readers (the scorer, `streamsvm model ...`) "
        "accept only versions that one of these keys signed. Needs the extra: pip install '.[sign]' in the folder of "
        "the sources.",
    )
    trusted_keys: Annotated[tuple[str, ...], BeforeValidator(split_at_commas)] = Field(
        default=(),
        description="Further public keys, given as text: each is what stands between the first and the last line of "
        "a public key's PEM file.",
    )

    @property
    def onnx_topic(self) -> str:
        """Topic of the versions' copies as ONNX models, if there are such."""
        return f"{self.models_topic}.onnx"

    @property
    def version_topics(self) -> tuple[str, ...]:
        """Every topic in which a version has a record, the models topic first."""
        return (self.models_topic, self.onnx_topic) if self.model_format == "onnx" else (self.models_topic,)

    @property
    def aliases_topic(self) -> str:
        """Compacted topic that says which version is current."""
        return f"{self.models_topic}.aliases"

    @property
    def audit_topic(self) -> str:
        """Topic of every alias change and refused version, never compacted."""
        return f"{self.models_topic}.audit"


class TrainingConfig(Section):
    """When models are trained."""

    every_leaves: Annotated[int, Field(ge=1)] = Field(
        default=1,
        description="Number of leaves of `coreset.leaf_rows` rows, over all partitions, after which a new model is "
        "due. A screened leaf counts as several.",
    )
    policy: Literal["latest", "every"] = Field(
        default="latest",
        description="What happens when a training set falls due while a model trains: `latest` keeps reading and "
        "trains the newest due set next; `every` trains each one, and pauses the input meanwhile.",
    )
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.2,
        description="Largest share of the time that the policy `latest` spends training while the input has more to "
        "read; the rest is for reading. Where the trainer waits for records, models are trained as they fall due. 1: "
        "train without a pause.",
    )
    workers: Annotated[int, Field(ge=1, le=256)] = Field(
        default=1,
        description="Number of processes that read, decode and learn. 1: the trainer does so itself. With more, worker "
        "k learns the partitions p with p mod workers = k, and the trainer trains, publishes and saves what they hand "
        "over. Does not affect what a model of given positions is. More workers than partitions are of no use. Needs "
        "the policy `latest`, and labels that come with the points.",
    )
    from_coresets: bool = Field(
        default=False,
        description="Train on what workers (`streamsvm worker`) learned, which the coresets topic holds, and read no "
        "points. Does not affect what a model of given positions is. Needs the policy `latest`, and labels that come "
        "with the points.",
    )
    coresets_topic: Annotated[str, Field(max_length=249)] = Field(
        default="",
        description="Topic in which workers leave what they learned. Default: the model's name + `.coresets`.",
    )
    standby: bool = Field(
        default=False,
        description="Stand by while another copy of this trainer works, and take over when it is gone: within its "
        "group's session timeout of 6 s. Give it to every copy; they share the checkpoint directory, and the consumer "
        "group `streamsvm-` + the model's name + `-trainers` says whose turn it is.",
    )
    stuck_after_s: Annotated[float, Field(gt=0)] = Field(
        default=3_600.0, description="Seconds of training one model after which /healthz answers 503."
    )

    @model_validator(mode="after")
    def _learned_by_one_kind(self) -> Self:
        require(self.combined)
        return self

    @property
    def combined(self) -> dict[str, object]:
        """What the table of combinations must know of this section."""
        return {f"training.{option}": getattr(self, option) for option in ("policy", "workers", "from_coresets")}


class WorkerConfig(Section):
    """What a worker owns, and when it leaves what it learned in the coresets topic."""

    ordinal: Annotated[int, Field(ge=0, le=9_999)] | None = Field(
        default=None,
        description="Number of this worker, from 0 on, where ownership is fixed: it owns the partitions p with p mod "
        "`of` = `ordinal`. Default: workers share the partitions out as a consumer group.",
    )
    of: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None, description="Number of workers, where ownership is fixed. Needs `ordinal`."
    )
    group: str = Field(
        default="", description="Consumer group of the workers. Default: `streamsvm-` + the model's name + `-workers`."
    )
    group_protocol: Literal["classic", "consumer"] = Field(
        default="classic",
        description="How the group is coordinated: `classic`, cooperative-sticky, with a session timeout of 6 s; or "
        "`consumer` (KIP-848, brokers from Kafka 4 on), whose session timeout is a setting of the broker, 45 s by "
        "default.",
    )
    publish_interval_s: Annotated[float, Field(gt=0)] = Field(
        default=1.0,
        description="Least number of seconds between two manifests of a partition in which leaves were completed. A "
        "model can be no fresher. Does not affect what a model of given positions is.",
    )
    publish_after_s: Annotated[float, Field(gt=0)] = Field(
        default=30.0,
        description="Seconds after which a manifest is written even if no leaf was completed: as much input is read "
        "again at most when a partition moves to another worker.",
    )

    @model_validator(mode="after")
    def _fixed_or_shared(self) -> Self:
        require({"worker.ordinal": self.ordinal, "worker.of": self.of})
        if self.ordinal is not None and self.of is not None and self.ordinal >= self.of:
            raise ValueError(f"worker.ordinal is {self.ordinal}, but it must be below worker.of = {self.of}")
        return self


class CheckpointConfig(Section):
    """Where and how often state is saved."""

    directory: Path = Field(
        default=Path("checkpoint/{name}"),
        description="Directory of the checkpoints; each trainer needs its own. `{name}` stands for the model's name.",
    )
    interval_s: Annotated[float, Field(gt=0)] = Field(
        default=30.0,
        description="Seconds between two checkpoints. After a crash at most this much input is read again.",
    )
    generations: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3, description="Number of checkpoint files to keep."
    )
    max_age_s: Annotated[float, Field(gt=0)] = Field(
        default=600.0,
        description="Seconds without a good checkpoint, while writing fails, after which /readyz answers 503. "
        "Models are still published.",
    )
    trust_directory: bool = Field(
        default=False,
        description="Accept a directory that other users may write to or own, which is refused otherwise. Only for "
        "a volume that no other process can reach.",
    )


class ArchiveConfig(Section):
    """Where sealed buckets are kept for models of any stretch of the past. None of it affects what a trainer learns."""

    directory: Path | None = Field(
        default=None,
        description="Directory of the archive; each trainer needs its own. `{name}` stands for the model's name. "
        "Default: nothing is archived. Needs a trainer of one process (`training.workers = 1`, not `--from-coresets`), "
        "two labels, and labels that come with the points.",
    )
    leaf_rows: Annotated[int, Field(ge=1, le=1 << 24)] = Field(
        default=2_000,
        description="Rows that are held whole at the beginning of each span; a model of them screens the others.",
    )
    span_rows: Annotated[int | None, Field(ge=1, le=1 << 40)] = Field(
        default=None,
        description="Rows after which a bucket is archived, a multiple of `leaf_rows`. A model of a stretch that ends "
        "within a span needs the rows of that part again from the log. Default: as of `coreset.span_rows`.",
    )
    bucket_points: Annotated[int | None, Field(ge=1, le=1 << 24)] = Field(
        default=None,
        description="Most points of the bucket of a span; a longer one has more, by the square root of its length. "
        "More points give nearer models, and more bytes. Default: 1000, or 15 a feature where that is more.",
    )
    keep_days: Annotated[float | None, Field(gt=0)] = Field(
        default=None,
        description="Days, back from the oldest row of the newest bucket, of which buckets are kept; a bucket is "
        "removed with its oldest row. Default: all.",
    )
    keep_bytes: Annotated[int | None, Field(ge=1)] = Field(
        default=None, description="Most bytes of buckets; beyond it the oldest are removed. Default: no limit."
    )
    trust_directory: bool = Field(
        default=False,
        description="Accept a directory that other users may write to or own, which is refused otherwise. Only for "
        "a volume that no other process can reach.",
    )


ModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


def default_directory(name: str) -> Path:
    """Return where the checkpoints of a model are by default."""
    return _named(CheckpointConfig.model_fields["directory"].default, name)


def _named(directory: Path, name: str) -> Path:
    return Path(str(directory).replace("{name}", name))


class SecurityConfig(Section):
    """Protection of the connection to the broker, besides the options of librdkafka."""

    allow_insecure_tls: bool = Field(
        default=False,
        description="Allow options that switch off the check of the broker's certificate or host name; for tests only.",
    )


class QualityConfig(Section):
    """How the current version is evaluated on points that it has not learned."""

    enabled: bool = Field(
        default=True,
        description="Score every point with the current version before learning it, next to a baseline and the "
        "majority class: prequential accuracy and hinge loss, as metrics only. A kernel machine with many support "
        "vectors scores only every k-th point, with k chosen from their number.",
    )
    window: Annotated[int, Field(ge=100, le=1 << 22)] = Field(
        default=10_000, description="Number of newest scored points that the figures cover."
    )
    baseline_every: Annotated[int, Field(ge=0, le=1 << 20)] = Field(
        default=64,
        description="The baseline, plain SGD on standardised features at the best of several rates, learns every "
        "k-th point, k being this number, and is scored on the others. 0: no baseline.",
    )


class HttpConfig(Section):
    """Metrics, health and the live page."""

    host: str = Field(default="127.0.0.1", description="Address to listen on. Default: loopback only.")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=9464,
        description="Port of metrics, health and the live page. 0: a free port, which the log names.",
    )
    page: bool = Field(
        default=True,
        description="Serve the live page at / and its figures at /status.json. Both show names of topics and "
        "features, and a projection of points, to whoever reaches the port.",
    )
    stuck_after_s: Annotated[float, Field(gt=0)] = Field(
        default=120.0,
        description="Seconds without a turn of the poll loop after which /healthz answers 503. One publish to a "
        "slow but living broker may take 80 s.",
    )
    tls_certificate: Path | None = Field(
        default=None,
        description="PEM file of the certificate and its chain; with `tls_key`, answers are served over HTTPS.",
    )
    tls_key: Path | None = Field(default=None, description="PEM file of the certificate's private key.")
    allowed_hosts: Annotated[tuple[str, ...], BeforeValidator(_split_names)] = Field(
        default=(),
        description="Host names that this daemon answers to, besides `localhost`, `http.host` and every IP address: "
        "those in the addresses that Prometheus, a proxy or a browser uses. A request to another name gets 421, so "
        "that no web page can read the answers through a name of its own (DNS rebinding). `*`: any name.",
    )
    bearer_file: Path | None = Field(
        default=None,
        description="File with a bearer token of at least 16 characters, which every request except probes must send "
        "(`Authorization: Bearer ...`). The file is read again when it changes. Use a certificate, too: without "
        "HTTPS the token is sent in the clear.",
    )
    tls_client_ca: Path | None = Field(
        default=None,
        description="PEM file of the authority whose client certificates are accepted. Every request except probes "
        "then needs one. Needs `tls_certificate`.",
    )
    open_probes: bool = Field(
        default=True,
        description="Let /healthz and /readyz answer without token and client certificate, because the probes of "
        "Kubernetes cannot present them.",
    )

    @model_validator(mode="after")
    def _both_or_neither(self) -> Self:
        files = ("tls_certificate", "tls_key", "tls_client_ca")
        require({f"http.{option}": getattr(self, option) for option in files})
        return self


class LogConfig(Section):
    """What is logged, and in which format."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Lowest level that is written."
    )
    format: Literal["auto", "json", "console"] = Field(
        default="auto",
        description="json: one object per line; console: for people; auto: json of a daemon without a terminal, else "
        "console.",
    )


class ScoringConfig(Section):
    """Where unlabeled points come from, and where scores go."""

    topic: Annotated[str, Field(min_length=1, max_length=249)] = Field(
        default="points", description="Topic of unlabeled points."
    )
    output_topic: Annotated[str, Field(min_length=1, max_length=249)] = Field(
        default="scores", description="Topic of scores."
    )
    dead_letter_topic: str = Field(
        default="", description="Topic of rejected records. Default: the input topic's name + `.dlq`."
    )
    group: str = Field(default="", description="Consumer group of the scorers. Default: the model's name + `-scorer`.")
    on_gap: Literal["fail", "beginning"] = Field(
        default="fail",
        description="What to do when the input does not hold the group's position (retention, truncation), or when it "
        "is another topic under the same name: `fail` stops with status 78 and a message; `beginning` scores the "
        "partition, or the new topic, from its first record.",
    )
    slot: Annotated[int, Field(ge=0, le=9_999)] | None = Field(
        default=None,
        description="Number of this scorer in its group. Default: the lowest number that no running scorer has. If "
        "set, give each scorer a different number: a scorer whose slot another one takes ends with status 70.",
    )
    batch_records: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=2_000,
        description="Most records scored at once, in one transaction. Larger transactions cost less per record, but "
        "are scored again as a whole when they fail.",
    )
    max_record_bytes: Annotated[int, Field(ge=64, le=1 << 30)] = Field(
        default=1_000_000,
        description="Largest size of a record's value, in bytes. A larger record becomes a dead letter and is not "
        "decoded.",
    )
    max_rows_per_record: Annotated[int, Field(ge=1, le=1 << 24)] = Field(
        default=10_000, description="Most rows in one record. A record with more rows becomes a dead letter as a whole."
    )
    max_decoded_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 40)] | None = Field(
        default=None,
        description="Most memory, in bytes, that decoding one record may take. The need is estimated from the "
        "record's framing before anything is allocated; a record that could take more becomes a dead letter. "
        "Default: 256 times `max_record_bytes`.",
    )
    max_dead_letter_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5,
        description="Largest share of rejected records among the last 1000. Beyond it the scorer stops, or, once "
        "the input is proven (`proven_after_records`), is not ready. 0: no limit.",
    )
    max_consecutive_dead_letters: Annotated[int, Field(ge=0)] = Field(
        default=1_000,
        description="Number of rejected records in a row at which the scorer stops, or, once the input is proven "
        "(`proven_after_records`), is not ready. 0: no limit.",
    )
    proven_after_records: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=1,
        description="Number of input records that this model must have scored, now or before this start, before the "
        "input counts as proven to be the right one. Earlier scores are looked up among the newest records of the "
        "output topic; if the output topic was written to, but it is no longer known what was scored, the input "
        "counts as proven. Before that, the two limits above stop the scorer with status 78, and the batch that "
        "passes a limit is not committed. Afterwards the scorer continues with a warning, and /readyz answers 503 "
        "until records are scored again. 0: the limits never stop the scorer.",
    )
    drift_window: Annotated[int, Field(ge=0, le=10_000_000)] = Field(
        default=10_000,
        description="Number of newest scores that are compared with the scores of the version's own audit sample; "
        "takes a byte per score. Fewer than 200 scores are not compared. A larger window detects smaller changes, "
        "but later. 0: no comparison, and no drift is shown.",
    )

    pass_fields: Annotated[tuple[str, ...], BeforeValidator(_split_names)] = Field(
        default=(),
        description="Fields of a raw event that its score repeats, as `passed`, under the paths given here: "
        "`card.country,items[0].sku`. Null where an event has no such field. Scores grow by them. Default: none.",
    )

    reasons: Annotated[int, Field(ge=0, le=100)] = Field(
        default=0,
        description="Say in each score, under `reasons`, which so many fields add most to the decision value, and what "
        "the others add together; the baseline is the mean row. Of linear versions of two labels; a scorer ends on any "
        "other version. 0: none.",
    )

    shadow: Annotated[str, Field(max_length=249, pattern=r"^(@?[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)?)?$")] = Field(
        default="",
        description="Score another version on the same records, and say in each score, under `shadow`, what that one "
        "would have answered: an alias of this model, such as `@challenger`, which a trainer of output.gate = shadow "
        "sets; or the models topic of another trainer, whose current version it then is, as `topic`, or `topic/name` "
        "if its model has another name. Nobody waits for it. Default: none.",
    )

    format: PointsFormat = Field(
        default="auto",
        description="Format of the records, as `points.format` for the trainer's. `auto` follows each record's header "
        "`content-type`, which the registry's own clients do not write.",
    )
    envelope: Envelope | None = Field(
        default=None,
        description="What stands around an event in its record, as `events.envelope` for the trainer's. Default: what "
        "the version's trainer reads.",
    )

    @field_validator("pass_fields", mode="after")
    @classmethod
    def _with_paths(cls, pass_fields: tuple[str, ...]) -> tuple[str, ...]:
        for one in pass_fields:
            path_of(one)
        return pass_fields

    @property
    def dead_letters(self) -> str:
        """The dead-letter topic."""
        return self.dead_letter_topic or f"{self.topic}.dlq"


KafkaValue = str | int | bool
DEFAULT_KAFKA: dict[str, KafkaValue] = {"bootstrap.servers": "localhost:9092"}


def dotted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return librdkafka's options under its own names, which the environment cannot spell."""
    return {str(name).lower().replace("_", "."): value for name, value in options.items()}


def _as_declared(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe's features as a configuration file has them: without the rules of time zones."""
    return tables(recipe)["features"]


class Settings(BaseSettings):
    """All options. Sources by precedence: command line, environment, secrets directory, TOML file, defaults."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter="__",
        enable_decoding=False,
    )

    name: ModelName = Field(
        default="model", description="Name of the model: versions are published as name@1, name@2, ..."
    )
    seed: Seed = Field(
        default=0, description="Seed of all random numbers. The same stream and seed give the same models."
    )
    kafka: dict[str, KafkaValue] = Field(
        default=DEFAULT_KAFKA,
        repr=False,
        description="Options that are passed on to librdkafka, under librdkafka's names (in the environment with _ "
        "for the dots).",
    )
    input: InputConfig = Field(default=InputConfig(), description="Where labeled points come from.")
    labels: LabelsConfig = Field(default=LabelsConfig(), description="Labels that come later, in a topic of their own.")
    features: Annotated[InstanceOf[Recipe], PlainSerializer(_as_declared)] | None = Field(
        default=None, description="What the fields of raw events become."
    )
    events: EventsConfig = Field(default=EventsConfig(), description="Label, weight and id of raw events.")
    points: PointsConfig | None = Field(default=None, description="What a valid point is.")
    registry: RegistryConfig = Field(default=RegistryConfig(), description="Where the schemas of Avro points are.")
    coreset: CoresetConfig = Field(default=CoresetConfig(), description="How a stream is summarised.")
    svm: SvmConfig = Field(default=SvmConfig(), description="What is trained on the summary.")
    training: TrainingConfig = Field(default=TrainingConfig(), description="When models are trained.")
    output: OutputConfig = Field(default=OutputConfig(), description="Where model versions go.")
    worker: WorkerConfig = Field(default=WorkerConfig(), description="What a worker owns and leaves for a trainer.")
    checkpoint: CheckpointConfig = Field(default=CheckpointConfig(), description="Where state is saved.")
    archive: ArchiveConfig = Field(
        default=ArchiveConfig(), description="Where sealed buckets are kept for models of the past."
    )
    scoring: ScoringConfig = Field(default=ScoringConfig(), description="What the scorer reads and writes.")
    security: SecurityConfig = Field(default=SecurityConfig(), description="What protects the way to the broker.")
    quality: QualityConfig = Field(default=QualityConfig(), description="How quality is watched.")
    http: HttpConfig = Field(default=HttpConfig(), description="Metrics and health.")
    log: LogConfig = Field(default=LogConfig(), description="Logs.")

    @field_validator("coreset", mode="after")
    @classmethod
    def _of_a_memory_that_is_there(cls, coreset: CoresetConfig) -> CoresetConfig:
        memory_kind(coreset.memory)
        return coreset

    @field_validator("kafka", mode="before")
    @classmethod
    def _named_as_librdkafka(cls, options: object) -> object:
        return DEFAULT_KAFKA | dotted(options) if isinstance(options, dict) else options

    @model_validator(mode="before")
    @classmethod
    def _points_of_events(cls, given: Any) -> Any:
        """Make the recipe of `features` and `events`, and the options of `points` that follow from it."""
        if not isinstance(given, dict):
            return given
        features, events = given.get("features"), given.get("events") or {}
        if not features:
            if events != EventsConfig():
                require({EVENTS: events, FEATURES: None})
            return given
        events = events.model_dump() if isinstance(events, EventsConfig) else events
        recipe = features if isinstance(features, Recipe) else recipe_from(table_of(features), events)
        points = given.get("points") or {}
        plain = points.model_dump(exclude_unset=True) if isinstance(points, PointsConfig) else dict(points)
        for option, value in points_of(recipe).items():
            if option in plain and plain[option] != value:
                require({FOLLOWING: option, FEATURES: features})
            plain[option] = value
        return {**given, "features": recipe, "points": plain}

    @model_validator(mode="after")
    def _joinable(self) -> Self:
        # A value that is the default is no mistake: a worker gets every option that its trainer has.
        plain = LabelsConfig()
        given = {name for name in self.labels.model_fields_set if getattr(self.labels, name) != getattr(plain, name)}
        rule = f"labels.{min(given)}" if given else ""
        require({"labels.topic": self.labels.topic, RULE_OF_LABELS: rule})
        require_joinable(self.labels.topic, self.labels, self.features, self.coreset, self.points)
        return self

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        self._require_combined({})
        return self

    def _require_combined(self, spelled: Mapping[str, str]) -> None:
        """Refuse sections that do not go together."""
        output, machine = self.output, {"svm.cost": self.svm.cost, "svm.probability": self.svm.probability}
        logs = {"labels.topic": self.labels.topic, "registry.url": self.registry.url}
        require({**self.training.combined, **logs, "archive.directory": self.archive.directory}, spelled)
        if output.gate == "shadow":
            gate = {f"output.{option}": getattr(output, option) for option in ("gate", "gate_margin", "gate_figure")}
            classes = 2 if self.points is None else self.points.classes
            require({**gate, **machine, **logs, LABELS: classes, TOPICS_APART: self.topics_apart}, spelled)

    @property
    def topics_apart(self) -> str:
        """The topics because of which no score finds its label; empty where scores find theirs."""
        if self.labels.topic or self.scoring.topic == self.input.topic:
            return ""
        return f"the labels are in input.topic = {self.input.topic}, and scoring.topic = {self.scoring.topic}"

    @model_validator(mode="after")
    def _archivable(self) -> Self:
        if self.archive.directory is None:
            return self
        directory = _named(self.archive.directory, self.name)
        object.__setattr__(self, "archive", self.archive.model_copy(update={"directory": directory}))
        return self

    @model_validator(mode="after")
    def _settled(self) -> Self:
        """Fill in directory, structure and sizes, so that the logged configuration shows them."""
        directory = _named(self.checkpoint.directory, self.name)
        object.__setattr__(self, "checkpoint", self.checkpoint.model_copy(update={"directory": directory}))
        if self.points is not None:
            object.__setattr__(self, "coreset", self.coreset.settled(self.points, self.svm.kernel))
            object.__setattr__(self, "svm", self.svm.settled(self.points.classes))
            require_trainable(self.points.classes, self.svm, self.coreset)
        return self

    @property
    def coresets_topic(self) -> str:
        """The topic in which workers leave what they learned."""
        return self.training.coresets_topic or f"{self.name}.coresets"

    def from_coresets(self) -> Self:
        """Return these options for a trainer that trains on what workers learned.

        Raises
        ------
        ConfigurationError
            If another option is against it.
        """
        training = self.training.model_copy(update={"from_coresets": True})
        adopting = self.model_copy(update={"training": training})
        adopting._require_combined({"training.from_coresets": "--from-coresets"})
        return adopting

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
        if self.features is not None and self.features.label is None and not self.labels.topic:
            raise ConfigurationError(
                "events.label is not given",
                'Give the field of the label and its values: label = {field = "is_fraud", negative = [false], '
                "positive = [true]} under [events] in the TOML file.",
            )
        return ModelConfig(
            points=self.points,
            coreset=self.coreset,
            svm=self.svm,
            seed=self.seed,
            features=self.features,
            labels=self.labels.rule,
        )

    def with_zone_rules_of(self, canonical: Mapping[str, Any]) -> Self:
        """Return these options with the rules of time zones that an incarnation began with; see `ModelConfig`."""
        models = self.models()
        kept = models.with_zone_rules_of(canonical)
        return self if kept is models else self.model_copy(update={"features": kept.features})

    def masked(self) -> dict[str, Any]:
        """Return the effective configuration as a plain JSON value, secrets masked."""
        plain = self.model_dump(mode="json")
        plain["kafka"] = {key: MASK if is_secret(key) else value for key, value in self.kafka.items()}
        plain["registry"] |= {key: MASK for key in ("password", "token") if plain["registry"][key]}
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
        if self.points is not None and self.points.classes == 2:  # where it is settled, and nobody could want it
            found.pop("coreset.class_screening", None)
        return found


def table_of(features: object) -> Mapping[str, Any]:
    """Return `[features]` as a table; the environment and the command line can only give it as JSON."""
    features = table_in_words(features)
    if not isinstance(features, Mapping):
        raise ValueError("features is not a table: write [features] and a line for each feature, or give a JSON object")
    return features


def section_class(section: str) -> type[BaseModel] | None:
    """Return the class of a section; None for an option outside of sections."""
    annotation = Settings.model_fields[section].annotation
    kinds = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type)]
    return next((kind for kind in kinds if issubclass(kind, BaseModel)), None)


def section_defaults(section: str) -> dict[str, Any]:
    """Return a section's defaults as plain JSON values."""
    kind = section_class(section)
    return {} if kind is None else kind.model_construct().model_dump(mode="json")
