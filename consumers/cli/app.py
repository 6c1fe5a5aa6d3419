"""The command line's top: which commands there are, and what a process ends with.

`streamsvm` calls `main`. `COMMANDS` lists the trunk's commands, each with the module and function that run it; the
module is imported when the command is run, so that `streamsvm --help` stays fast. A branch adds commands at the socket
``commands`` (`streamsvm.sockets`).

A newcomer goes on with `consumers.cli.train`, then `consumers.trainer.trainer`; or with `consumers.cli.score`, then
`consumers.scorer.scorer`.

Every error ends here: one that is expected as one line and a documented exit status (`consumers.host.exit_codes`), any
other as a defect with its traceback.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final

import typer

from consumers.help_texts import AllCommands, Command, Commands, PlainGroup, RareGroup
from consumers.host import last_words
from consumers.host.exit_codes import EXIT_UNFORESEEN, exit_code
from consumers.host.untrusted_text import printable
from consumers.models import commands as models
from consumers.on_demand import RareOnDemand, on_demand
from streamsvm import __version__
from streamsvm.crashpoints import arm
from streamsvm.errors import StreamsvmError
from streamsvm.sockets import DAEMONS, plugged

topics_app = Commands(help="Create and check the topics.")
scale_app = Commands(cls=RareGroup, help="Learn by several processes, or from all rows of the log again.")
GROUPS: Final[Mapping[str, Commands]] = {"model": models.app, "topics": topics_app, "scale": scale_app}
"""The trunk's groups of commands; a branch may add commands to them."""

COMMANDS: Final = (
    on_demand(
        "demo",
        "consumers.cli.demo_command:demo",
        "Replay the HTRU2 pulsar survey through an embedded broker, train, subscribe, and compare with the full data.",
    ),
    on_demand(
        "train",
        "consumers.cli.train:train",
        "Learn from a topic of labeled points and publish model versions, until stopped.",
    ),
    on_demand(
        "score",
        "consumers.cli.score:score",
        "Score a topic of unlabeled points with the current model, following every new version.",
    ),
    on_demand(
        "evaluate",
        "consumers.cli.evaluate:evaluate_command",
        "Learn a file's points in one shuffled pass with a chosen memory, and compare; needs no broker.",
    ),
    on_demand(
        "replay",
        "consumers.cli.replay_command:replay_command",
        "Write the points of a file, or of the bundled pulsar survey, to a topic.",
    ),
    Command(name="model", run=models.app),
    on_demand(
        "verify",
        "consumers.cli.verify_command:verify_command",
        "Recompute published versions from the input's log, and compare them byte for byte.",
    ),
    on_demand(
        "dead-letters",
        "consumers.cli.dead_letters_command:dead_letters_command",
        "Show rejected records: where each is, why it was rejected, and what to do about it; or send them again.",
    ),
    Command(name="topics", run=topics_app),
    on_demand(
        "create",
        "consumers.cli.topics:create",
        "Create the topics that a trainer writes, and a scorer if `scoring` is configured, as they need them.",
        group="topics",
    ),
    on_demand(
        "config",
        "consumers.cli.config:config",
        "List every option: its flag, environment variable, type, default and meaning.",
    ),
    on_demand(
        "compile",
        "consumers.cli.compile:compile_command",
        "Compile what `train` with the same options runs, so that its first start does not wait; asks no broker.",
        cls=RareOnDemand,
    ),
    Command(name="scale", run=scale_app),
)
"""The trunk's commands in the order of the list, each with the first paragraph of its help, which the list shows."""


@cache
def commands() -> tuple[Command, ...]:
    """Return all commands in the order of the list. A branch's command names the one that it follows."""
    found = list(COMMANDS)
    for command in plugged("commands", Command, DAEMONS):
        names = [one.name for one in found]
        found.insert(names.index(command.after) + 1 if command.after in names else len(found), command)
    filled = {"model", *(command.group for command in found)}
    return tuple(command for command in found if command.name not in GROUPS or command.name in filled)


class _AsOneMeetsThem(PlainGroup):
    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [command.name for command in commands() if not command.group]


app = Commands(
    name="streamsvm",
    cls=_AsOneMeetsThem,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="An always current margin classifier: labeled points in from a Kafka topic, model versions out.",
)
for command in commands():
    command.register({"": app, **GROUPS})


ONE_BLAS_THREAD: Final = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS"), "1"
)
"""What BLAS libraries read when they are loaded. With more threads a model's sums have other last bits."""


def main() -> None:
    """Run the command line. An error becomes one line and a documented exit status; a defect shows its traceback."""
    os.environ.update(ONE_BLAS_THREAD)  # no module above imports numpy
    try:
        if crash_at := os.environ.get("STREAMSVM_TEST_CRASH_AT"):
            arm(crash_at)
        app()
    except StreamsvmError as error:
        last_words.say(printable(str(error)), exit_code(error))
        sys.exit(exit_code(error))
    except Exception as error:  # noqa: BLE001
        what = printable(" ".join(str(error).split()))
        last_words.say(
            f"unexpected {type(error).__name__}: {what}. This is a defect: report it with the traceback.",
            EXIT_UNFORESEEN,
            traceback.format_exc(),
        )
        sys.exit(EXIT_UNFORESEEN)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"streamsvm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    help_all: AllCommands = False,
) -> None:
    pass
