"""Everything that decides what a model is, hashed into every lineage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Protocol, Self

from pydantic import BeforeValidator, model_validator

from streamsvm.choices import AbsentLabel, LabelKey
from streamsvm.config.coreset import CoresetConfig
from streamsvm.config.point_options import PointsConfig
from streamsvm.config.svm import SvmConfig, require_trainable
from streamsvm.model.comparison import configuration_differences
from streamsvm.option_texts import none_in_words
from streamsvm.sections import RecipeOptions, Section, Seed, open_to_branches
from streamsvm.supports import FEATURES, require
from streamsvm.toml_text import toml_key, toml_value


def _without_value(section: Section) -> list[str]:
    """Return the options that have no value and take the word `none` for it."""
    return [
        name
        for name, field in type(section).model_fields.items()
        if getattr(section, name) is None
        and any(isinstance(one, BeforeValidator) and one.func is none_in_words for one in field.metadata)
    ]


class LabelRule(Protocol):
    """How labels that come later, in a log of their own, find their rows; times in seconds of the two logs."""

    @property
    def key(self) -> LabelKey:
        """What a row and its label have in common."""
        ...

    @property
    def horizon(self) -> float:
        """How long a row waits for its label."""
        ...

    @property
    def absent(self) -> AbsentLabel:
        """What becomes of a row without a label."""
        ...


class Earlier(Section):
    """What records became before that changed."""

    features: dict[str, Any]
    """The recipe, canonical."""
    dimension: int
    incarnation: int
    """Whose rows are the last of these columns."""
    weight: float
    """Of all rows of these columns, and of those before."""
    until: tuple[tuple[int, int, int], ...]
    """Partition, offset and row of the first row in each that is not."""


@open_to_branches("")
class ModelConfig(RecipeOptions, Section):
    """Everything that, with the log and a cut, decides what a model is; hashed into every lineage."""

    points: PointsConfig
    coreset: CoresetConfig = CoresetConfig()
    svm: SvmConfig = SvmConfig()
    seed: Seed = 0
    pilots: SvmConfig = SvmConfig()
    """What pilots are machines of: `svm` as it was when learning began, so that another one changes no state."""
    earlier: tuple[Earlier, ...] = ()
    """What records became before, the oldest first: kept rows were carried over from one to the next."""

    @property
    def label_rule(self) -> LabelRule | None:
        """How labels of a log of their own find their rows; None where every point has its label with it."""
        rule: LabelRule | None = getattr(self, "labels", None)
        return rule

    @model_validator(mode="after")
    def _records_of_the_recipe(self) -> Self:
        require({"points.format": self.points.format, FEATURES: self.recipe})
        return self

    @model_validator(mode="after")
    def _settled(self) -> Self:
        given = "pilots" in self.model_fields_set
        kernel = self.pilots.kernel if given else self.svm.kernel
        # Sizes are settled when learning begins, too: spans must not end elsewhere.
        first = {"dimension": self.earlier[0].dimension} if self.earlier else {}
        object.__setattr__(self, "coreset", self.coreset.settled(self.points.model_copy(update=first), kernel))
        # Beside landmarks, where the kernel changed: a message then has room for it, which was not asked for at first.
        packed = self.coreset.landmarks is not None or (self.points.classes == 2 and kernel != self.svm.kernel)
        object.__setattr__(self, "svm", self.svm.settled(self.points.classes, packed=packed))
        require_trainable(self.points.classes, self.svm, self.coreset)
        if not given:
            object.__setattr__(self, "pilots", self.svm)
        return self

    def begun_with(self, canonical: Mapping[str, Any]) -> Self:
        """Return this configuration with what is settled when learning begins; see `RecipeOptions.begun_with`."""
        config = super().begun_with(canonical)
        try:
            first = SvmConfig.model_validate(learned_part(canonical)["svm"])
            made = config.having(pilots=first, earlier=canonical.get("earlier", ()))
        except ValueError:  # of another build, or of other sizes: the comparison names what differs
            return config
        return config if made.canonical() == config.canonical() else made

    def having(self, **changed: Any) -> Self:
        """Return the configuration with other values of some fields, checked and settled anew."""
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | changed)

    def canonical(self) -> dict[str, Any]:
        """Return the plain JSON value that is hashed: every option, and what was another one before."""
        plain = self.model_dump(mode="json")
        past = {"pilots": plain["svm"], "earlier": []}
        return {name: value for name, value in plain.items() if name not in past or value != past[name]}

    @classmethod
    def of_canonical(cls, plain: Mapping[str, Any]) -> Self:
        """Return the configuration of a canonical value, every option of which counts as given.

        Raises
        ------
        ValueError
            If it is not what `canonical` returns for a configuration: an option is unknown, missing or not settled.
        """
        made = cls.model_validate(plain)
        if different := configuration_differences(plain, made.canonical()):
            raise ValueError(f"not the canonical configuration of this build: {'; '.join(different)}")
        return made

    def sha256(self) -> str:
        """Hash the canonical value (keys sorted, no spaces; lower-case hexadecimal)."""
        return _sha256(self.canonical())

    def learned_sha256(self) -> str:
        """Hash what decides what is learned: all but `svm`, and what `pilots` are machines of."""
        return _sha256(learned_part(self.canonical()))

    def trained_sha256(self) -> str:
        """Hash what decides what is trained on what was learned: `svm`."""
        return _sha256(self.canonical()["svm"])

    def toml(self) -> str:
        """Return the part of a configuration file with which a trainer makes the same models.

        Options that are not in it, such as the topics, do not change a model of the same rows. Put further top-level
        options before it, and further tables after it.

        Examples
        --------
        >>> ModelConfig(points=PointsConfig(dimension=8), seed=7).toml().splitlines()[:4]
        ['seed = 7', '', '[points]', 'dimension = 8']
        """
        plain = self.model_dump(mode="json", exclude_none=True, exclude={"pilots", "earlier"})
        for section in ("coreset", "svm"):
            plain[section] |= dict.fromkeys(_without_value(getattr(self, section)), "none")
        plain = self.as_declared(plain)
        lines = [f"seed = {plain.pop('seed')}"]
        if {"pilots", "earlier"} & self.canonical().keys():
            lines.insert(
                0, "# [svm] or [features] were others when learning began: who begins with this keeps other points."
            )
        for table, options in plain.items():
            lines += ["", f"[{table}]", *(f"{toml_key(name)} = {toml_value(value)}" for name, value in options.items())]
        return "\n".join(lines) + "\n"


def learned_part(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return what decides what is learned, of a canonical configuration: `svm` is what pilots are machines of."""
    first = configuration.get("pilots", configuration.get("svm"))
    return {name: value for name, value in configuration.items() if name != "pilots"} | {"svm": first}


def _sha256(plain: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
