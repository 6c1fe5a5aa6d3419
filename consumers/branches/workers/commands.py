"""`streamsvm scale worker`, and the flag of `streamsvm train` that adopts what workers learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from consumers import constants
from consumers.help_texts import Command
from consumers.on_demand import OptionsOnDemand, SettingsFlag, with_settings

if TYPE_CHECKING:
    from consumers.settings import Settings

SECTIONS: Final = ("input", "events", "points", "registry", "coreset", "svm", "training", "worker")


@with_settings(*SECTIONS)
def worker_command(settings: Settings) -> None:
    """Learn partitions of a topic for a trainer with --from-coresets, as one of several processes, until stopped."""
    from consumers.host.runtime import (
        Health,
        configure_logging,
        connect,
        log_start,
        show_health,
        show_throttling,
        spare_the_collector,
        stop_on_signals,
    )

    stop = stop_on_signals()  # before the imports that take seconds
    from consumers.branches.workers.group_worker import GroupWorker
    from consumers.branches.workers.metrics import WORKER as METRICS
    from consumers.host.supervision import Supervision
    from consumers.host.web.server import HttpServer
    from consumers.metrics import Metrics
    from streamsvm.kafka import Cluster

    configure_logging(settings.log)
    settings.models()
    connection = connect(settings, "worker")
    metrics, health = Metrics(METRICS).with_process(), Health(stuck_after_s=constants.STUCK_AFTER_S)
    show_health(metrics, health)
    show_throttling(connection, metrics, health)
    spare_the_collector()
    with HttpServer(settings.http, health, metrics.registry) as http, Supervision(health, stop), health.failing():
        log_start(settings, http.url)
        GroupWorker(settings, Cluster(connection), metrics, health, stop).run()


def _from_coresets(settings: Settings) -> Settings:
    from consumers.branches.workers.settings import from_coresets

    return from_coresets(settings)


WORKER: Final = Command(name="worker", run=worker_command, cls=OptionsOnDemand, group="scale")
FROM_CORESETS: Final = SettingsFlag(
    name="from_coresets",
    help="Train on what `streamsvm scale worker` learned: training.from_coresets.",
    settle=_from_coresets,
)
