"""`streamsvm score`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from consumers import constants
from consumers.on_demand import with_settings

if TYPE_CHECKING:
    from consumers.settings import Settings


@with_settings("scoring", "registry")
def score(
    settings: Settings,
    reset_scores: Annotated[
        str,
        typer.Option(
            envvar="STREAMSVM_RESET_SCORES",
            help="Forget how far the input was scored, and begin where a tool has put the group's position, or else at "
            "the first record: `NAME/1`, the next time `NAME/2`. Give it to each scorer of the group.",
        ),
    ] = "",
) -> None:
    """Score a topic of unlabeled points with the current model, following every new version."""
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
    from consumers.host.supervision import Supervision
    from consumers.host.web.server import HttpServer
    from consumers.metrics import SCORER, Metrics
    from consumers.page.board import ScorerBoard
    from consumers.page.site import Site
    from consumers.scorer.components import ScorerComponents
    from consumers.scorer.scorer import Scorer

    configure_logging(settings.log)
    connection = connect(settings, "scorer")
    metrics, health = Metrics(SCORER.of(settings)).with_process(), Health(stuck_after_s=constants.STUCK_AFTER_S)
    board = ScorerBoard()
    site = Site(settings, board, metrics, health).answer
    show_health(metrics, health)
    show_throttling(connection, metrics, health)
    spare_the_collector()
    with HttpServer(settings.http, health, metrics.registry, site) as http, Supervision(health, stop), health.failing():
        log_start(settings, http.url)
        components = ScorerComponents(
            connection=connection,
            metrics=metrics,
            health=health,
            stop=stop,
            board=board,
            reset_scores=reset_scores,
        )
        Scorer(settings, components).run()
