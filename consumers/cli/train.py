"""`streamsvm train`: makes the world of a trainer, and runs it.

Everything that is made here lives as long as the process: logging, signals, metrics, health, the HTTP server, the
connection. What is made anew when a trainer starts over is in `consumers.trainer.beginning`. To read next:
`consumers.trainer.trainer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from consumers import constants
from consumers.on_demand import TRAINER_SECTIONS, with_settings

if TYPE_CHECKING:
    from consumers.settings import Settings


@with_settings(*TRAINER_SECTIONS, flags="train_flags")
def train(
    settings: Settings,
    reset: Annotated[
        str,
        typer.Option(
            envvar="STREAMSVM_RESET",
            help="End the named incarnation and begin anew. A refusal to start prints the value to give here. Once "
            "done, it does nothing.",
        ),
    ] = "",
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what a start would change of what was learned, start nothing, and end."),
    ] = False,
) -> None:
    """Learn from a topic of labeled points and publish model versions, until stopped."""
    if dry_run:
        from consumers.models.show import newest_checkpoint
        from consumers.trainer.startup import foreseen

        typer.echo("\n".join(foreseen(newest_checkpoint(settings.checkpoint.directory, settings.name), settings)))
        return
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

    # Before the imports below, which take seconds: a signal during them must stop the process, and not be lost.
    stop = stop_on_signals()
    from consumers.host.supervision import Supervision
    from consumers.host.web.server import HttpServer
    from consumers.metrics import TRAINER, Metrics
    from consumers.page.board import TrainerBoard
    from consumers.page.site import Site
    from consumers.trainer.components import Components
    from consumers.trainer.trainer import Trainer
    from streamsvm.kafka import Cluster

    configure_logging(settings.log)
    # Raises if the options of the model contradict each other: before anything is opened.
    settings.models()
    connection = connect(settings, "trainer")
    metrics, health = Metrics(TRAINER.of(settings)).with_process(), Health(stuck_after_s=constants.STUCK_AFTER_S)
    board = TrainerBoard(settings, metrics)
    site = Site(settings, board, metrics, health).answer
    show_health(metrics, health)
    show_throttling(connection, metrics, health)
    spare_the_collector()
    with HttpServer(settings.http, health, metrics.registry, site) as http, Supervision(health, stop), health.failing():
        log_start(settings, http.url)
        components = Components(cluster=Cluster(connection), metrics=metrics, health=health, stop=stop, board=board)
        Trainer(settings, components, reset=reset).run()
