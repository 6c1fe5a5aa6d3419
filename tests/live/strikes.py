"""The steps of a scenario: what is fed, what is started, what strikes, what must be seen. Each is a sentence's verb.

A step is made by calling one of these without the play: `feed(90)`, `crash("publish.committed")`, `cut()`.
"""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from tests.brokers.jvm import JvmBroker
from tests.consumers.trainers import records
from tests.kafka import foreign
from tests.live.play import BAD, REFUSED, Play
from tests.live.process import ask
from tests.live.proxy import Loss, Proxy

P = ParamSpec("P")
S = TypeVar("S")
Step = Callable[[Play], None]
RSS_GROWTH: Final = 60 * 2**20
"""What a trainer may take more, in bytes, while its broker is away: the client's buffers, and a second producer."""
WATCHFUL: Final = {"WATCH_INTERVAL_S": 0.2}
"""Options of a trainer that soon looks whether its topic is still the same."""
RESET: Final = {"input_on_gap": "reset"}
LATEST_KILL_S: Final = 1.0
KILLED_AFTER: Final = ("configuration", "started", "started")
"""From which log line a random moment is counted: before the first question to the broker, or in the midst of work."""


def step(act: Callable[Concatenate[S, P], None]) -> Callable[P, Callable[[S], None]]:
    """Make a verb of a function: called with all but what it acts upon, it returns the step."""

    @wraps(act)
    def made(*given: P.args, **named: P.kwargs) -> Callable[[S], None]:
        return lambda play: act(play, *given, **named)

    return made


def nothing_more(_: object) -> None:
    """All was said before."""


# ------------------------------------------------------------------ the input


@step
def feed(play: Play, rows: int, seed: int = 0, bad: Collection[int] = (), partition: int = 0) -> None:
    """Store labeled points; those at the places named in `bad` are no points."""
    play.feed([BAD if at in bad else value for at, value in enumerate(records(rows, seed))], partition)


@step
def add_partition(play: Play) -> None:
    """Give the input a second partition."""
    foreign.add_partitions(play.direct, play.topic, 2)


@step
def delete_topic(play: Play) -> None:
    """Delete the input."""
    play.recorder.tell("feeder", "info", "topic", topic=play.topic)
    play.whole = False
    foreign.delete_topic(play.direct, play.topic)


@step
def recreate(play: Play, rows: int) -> None:
    """Put another topic of the same name in the place of the input, and so many rows into it."""
    delete_topic()(play)
    play.create()
    feed(rows, seed=9)(play)


@step
def delete_records(play: Play, before: int) -> None:
    """Remove the records of the input below an offset, as retention does."""
    play.whole = False
    foreign.delete_records(play.direct, play.topic, 0, before)


# ---------------------------------------------------------------- the process


@step
def begin(play: Play, /, **options: Any) -> None:
    """Start a life of the trainer; options as of the command line, constants by their names."""
    play.begin(**options)


@step
def reach(play: Play, version: int = 0) -> None:
    """Wait until a version, or all that are due, are published."""
    assert play.daemon.reaches_version(version or play.due), play.daemon.said


@step
def see(play: Play, event: str, times: int = 1) -> None:
    """Wait for the n-th log line of an event from now on."""
    play.daemon.wait_for(event, times)


@step
def amid(play: Play, versions: int = 4) -> None:
    """Wait for some more versions; something must be left to publish then, so that a fault of now concerns it."""
    play.daemon.wait_for("model_published", versions)
    assert play.version() < play.due, "everything is published: this shows nothing"


@step
def stop(play: Play) -> None:
    """SIGTERM; it must end well."""
    assert play.daemon.stop() == 0, play.daemon.said[-3000:]


@step
def through(play: Play, /, **options: Any) -> None:
    """Run a life until all versions that are due are published, and stop it."""
    play.begin(**options)
    reach()(play)
    stop()(play)


@step
def crash(play: Play, point: str, /, **options: Any) -> None:
    """Run a life that is killed at a named point, at the latest when it is stopped after all that is due."""
    daemon = play.begin({"STREAMSVM_TEST_CRASH_AT": point}, **options)
    status = daemon.stop() if daemon.reaches_version(play.due) else daemon.wait()
    assert status == -signal.SIGKILL, f"{point} was never reached; exit status {status}\n{daemon.said}"
    play.counts["named_kills"] += 1


@step
def kill_at_random(play: Play, times: int) -> None:
    """Run lives that are killed at random moments, from before the first answer of the broker on."""
    for _ in range(times):
        daemon = play.begin()
        daemon.wait_for(random.choice(KILLED_AFTER))
        pause(random.uniform(0.0, LATEST_KILL_S))(play)  # not to wait for anything: the moment is the fault
        kill()(play)
        play.counts["random_kills"] += 1


@step
def kill(play: Play) -> None:
    """SIGKILL."""
    play.kill()


@step
def freeze(play: Play) -> None:
    """SIGSTOP."""
    play.daemon.freeze()


@step
def thaw(play: Play) -> None:
    """SIGCONT."""
    play.daemon.thaw()


@step
def not_ready(play: Play, missing: str = "") -> None:
    """Wait until the process is not ready, and names what it misses."""
    play.wait_until(lambda: any(missing in what for what in play.waits_for()), f"it is not ready for want of {missing}")


@step
def ready(play: Play) -> None:
    """Wait until the process is ready again."""
    play.wait_until(lambda: not play.waits_for(), "it is ready again")


@step
def healthy(play: Play) -> None:
    """Check that the process calls itself healthy."""
    assert ask(play.daemon, "healthz")[0] == 200


@step
def pause(play: Play, seconds: float) -> None:
    """Let time pass: the length of a fault, no synchronisation."""
    threading.Event().wait(seconds)


def lean(*steps: Step) -> Step:
    """Take steps during which the process takes little memory."""

    def act(play: Play) -> None:
        before = play.daemon.rss_bytes()
        for each in steps:
            each(play)
        taken = play.daemon.rss_bytes() - before
        assert taken < RSS_GROWTH, f"it took {taken:,} bytes more"

    return act


# ----------------------------------------------------- the network, the broker


def _proxies(play: Play) -> list[Proxy]:
    assert play.brokers is not None, "the scenario needs a broker of its own: `on`"
    return play.brokers.networks


def _node(play: Play) -> JvmBroker:
    assert play.brokers is not None, "the scenario needs a broker of its own: `on`"
    return play.brokers.nodes[0]


@step
def cut(play: Play) -> None:
    """Close all connections to the broker, and every new one at once."""
    play.counts["cuts"] += 1
    for proxy in _proxies(play):
        proxy.cut()


@step
def go_silent(play: Play) -> None:
    """Let nothing pass to the broker or back; no end is told of it."""
    play.counts["silences"] += 1
    for proxy in _proxies(play):
        proxy.go_silent()


@step
def slow_down(play: Play, latency_s: float, bytes_per_s: float) -> None:
    """Make the network slow and narrow."""
    play.counts["slow_networks"] += 1
    for proxy in _proxies(play):
        proxy.slow(latency_s, bytes_per_s)


@step
def lose_answers(play: Play, *, applied: bool, repeats: bool = True, skip: int = 0) -> None:
    """Lose the answer to the end of the trainer's next transaction, or its request; see `Loss`."""
    writer = f"streamsvm/{play.stage.settings.name}/".encode()
    for proxy in _proxies(play):
        proxy.loss = Loss(writer, skip=skip, applied=applied, repeats=repeats)


@step
def answer_lost(play: Play) -> None:
    """Wait until an answer, or a request, was lost."""
    losses = [proxy.loss for proxy in _proxies(play) if proxy.loss is not None]
    play.wait_until(lambda: any(loss.happened.is_set() for loss in losses), "an answer is lost")
    play.counts["lost_answers"] += 1


@step
def refuse_writes(play: Play, topic: str) -> None:
    """Hang up on everyone who writes to a topic; `{input}` stands for the input's name."""
    for proxy in _proxies(play):
        proxy.refuse_writes(topic.format(input=play.topic))


@step
def mend(play: Play) -> None:
    """Be a good network again."""
    for proxy in _proxies(play):
        proxy.recover()


@step
def kill_broker(play: Play) -> None:
    """SIGKILL the broker."""
    play.counts["broker_kills"] += 1
    _node(play).kill()


@step
def restart_broker(play: Play) -> None:
    """Start the broker again, on its data."""
    _node(play).restart()


@step
def pause_broker(play: Play) -> None:
    """SIGSTOP the broker."""
    play.counts["broker_pauses"] += 1
    _node(play).pause()


@step
def resume_broker(play: Play) -> None:
    """SIGCONT the broker."""
    _node(play).resume()


# --------------------------------------------------------------------- the end


@step
def same(play: Play, /, **options: Any) -> None:
    """Everything that is due is published, byte for byte as by a trainer of the same input that nothing struck."""
    if play.daemon.ended() is None:
        reach()(play)
        stop()(play)
    else:
        through(**options)(play)
    as_clean()(play)


@step
def survived(play: Play) -> None:
    """The same, and the life of now has come through it by itself: nobody had to start another one."""
    daemon = play.daemon
    assert daemon.reaches_version(play.due), f"the process ended with {daemon.wait()}: {daemon.said[-3000:]}"
    stop()(play)
    as_clean()(play)


@step
def as_clean(play: Play) -> None:
    """What stands in the topic is what a trainer of the same input publishes that nothing strikes."""
    clean = play.elsewhere("clean")
    through()(clean)
    kept = play.stage.settings.output.keep_versions  # when older ones are retired depends on the lives
    ours, theirs = ([one for one in each.models() if one[1] is not None][-kept:] for each in (play, clean))
    assert len(theirs) == min(play.due, kept)
    assert ours == theirs, "not the models of a clean run"


@step
def refused(play: Play, *words: str, instead_of: int = 0) -> None:
    """The process ends with 78 and one line, which holds these words; `{input}` stands for the input's name."""
    daemon = play.daemon
    assert not daemon.reaches_version(instead_of or play.due + 1), "it goes on as if nothing had happened"
    assert daemon.wait() == REFUSED, daemon.said
    wanted = [word.format(input=play.topic) for word in words]
    assert [word for word in wanted if word not in daemon.log[-1]] == [], daemon.log[-1]
    assert "Traceback" not in daemon.said


@step
def published(play: Play, versions: int) -> None:
    """So many versions stand in the models topic."""
    assert len(play.models()) == versions
