"""The version in the shadow: it is followed and scored beside the one that serves, and nobody waits for it.

`scoring.shadow` names an alias of this model (`@challenger`), or the models topic of another trainer, whose `current`
then is the one (`other-models`, or `other-models/name` if that model has another name). Where there is no such version,
where it cannot be scored on the same records, or where it is the one that serves, scores say nothing of a shadow, and
their bytes are those of a scorer without one.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

import structlog

from consumers.branches.challenges.settings import ShadowScoring
from consumers.metrics import Metrics
from consumers.scorer.companion import Companion
from consumers.settings import Settings
from streamsvm.branches.challenges.shadow import InShadow, shadow_fault
from streamsvm.kafka import Connection
from streamsvm.registry.loading import Loaded
from streamsvm.registry.signing import TrustedKeys
from streamsvm.registry.subscriber import ModelSubscriber
from streamsvm.sections import section

log = structlog.get_logger("streamsvm.scorer")

ALIAS_MARK: Final = "@"
TOPIC_MARK: Final = "/"


def companion_of(settings: Settings, connection: Connection, metrics: Metrics) -> FollowedShadow:
    """Return what follows the version in the shadow, not entered yet."""
    shadow, output = section(settings, ShadowScoring).shadow, settings.output
    trusted = TrustedKeys.of(output.trusted_keys_file)
    if shadow.startswith(ALIAS_MARK):
        alias = shadow.removeprefix(ALIAS_MARK)
        subscriber = ModelSubscriber(
            connection, settings.name, models_topic=output.models_topic, alias=alias, trusted=trusted
        )
    else:
        topic, _, name = shadow.partition(TOPIC_MARK)
        subscriber = ModelSubscriber(connection, name or settings.name, models_topic=topic, trusted=trusted)
    return FollowedShadow(subscriber, metrics)


class FollowedShadow(Companion):
    """Says which version is in the shadow of the one that serves.

    Parameters
    ----------
    subscriber : ModelSubscriber
        Follows the version; it is entered with this.
    metrics : Metrics
    """

    def __init__(self, subscriber: ModelSubscriber, metrics: Metrics) -> None:
        self._subscriber, self._metrics = subscriber, metrics
        self._warned_of: tuple[str, str] | None = None
        self._by: tuple[Loaded, InShadow] | None = None
        metrics.put("streamsvm_shadow_version", 0)

    def __enter__(self) -> Self:
        self._subscriber.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._subscriber.__exit__(kind, error, traceback)

    def beside(self, serving: Loaded) -> InShadow | None:
        """Return the version to score beside the one that serves; None if there is none, or it cannot be compared."""
        loaded = self._subscriber.loaded
        if loaded is None or loaded.sha256 == serving.sha256:
            self._metrics.put("streamsvm_shadow_version", 0)
            return None
        fault = shadow_fault(serving.version, loaded.version)
        self._warn(serving, loaded, fault)
        self._metrics.put("streamsvm_shadow_version", 0 if fault else loaded.version.number)
        if fault:
            return None
        if self._by is None or self._by[0] is not loaded:
            self._by = loaded, InShadow(loaded.version)
        return self._by[1]

    def _warn(self, serving: Loaded, loaded: Loaded, fault: str) -> None:
        pair = serving.sha256, loaded.sha256
        if pair == self._warned_of:
            return
        self._warned_of = pair
        if fault:
            log.warning(
                "shadow_not_scored",
                shadow=loaded.version.key,
                serving=serving.version.key,
                what=fault,
                remedy="scores say nothing of it. Let scoring.shadow name a version of the same features and labels",
            )
        else:
            log.info("in_the_shadow", shadow=loaded.version.key, serving=serving.version.key, sha256=loaded.sha256)
