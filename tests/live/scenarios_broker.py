"""What happens to brokers, to the network before them and to transactions: it delays, and changes nothing."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Final, Literal

from confluent_kafka import Producer

from streamsvm.errors import TransientError
from streamsvm.kafka import Cluster, Marks, Place, Tail, TopicSpec, Watermarks
from tests.defects.disturbances import TRANSACTION_TIMEOUT
from tests.kafka.foreign import TIMEOUT_S, Silent, open_transaction
from tests.live.play import BAD, Play
from tests.live.process import Daemon, lag, metrics
from tests.live.scenario import Scenario
from tests.live.strikes import (
    RSS_GROWTH,
    Step,
    amid,
    answer_lost,
    as_clean,
    begin,
    cut,
    feed,
    freeze,
    go_silent,
    kill,
    kill_broker,
    lean,
    lose_answers,
    mend,
    not_ready,
    pause,
    pause_broker,
    reach,
    ready,
    refuse_writes,
    restart_broker,
    resume_broker,
    same,
    slow_down,
    step,
    stop,
    survived,
    thaw,
    through,
)

AMID: Final = 1_000
"""Rows of a stream that a fault meets in its midst, where every training takes a tenth of a second."""
MORE: Final = 400
"""Rows that come before the next of several faults: what was fed at first may be published by then."""
ENDED: Final = "the process ended|ended with"
NUMBERS: Final = "missing-version|doubled-version|torn-version|reordered"
FENCED: Final = 70
START_AGAIN: Final = 75
REFUSED_ENDS: Final = {47, 48, 49, 90}
"""Error codes of Kafka: invalid producer epoch, invalid transaction state, unknown producer id, producer fenced."""
LOOK_S: Final = 0.05


def survives(
    name: str, steps: tuple[Step, ...], *, on: Literal["own", "three", "forgetful"] = "own", **more: Any
) -> Scenario:
    """Return the row of a trainer that comes through by itself; unless told otherwise, each training takes time."""
    return Scenario(name=name, steps=steps, end=survived(), on=on, **{"planted": ("steady",), **more})


def under_work(*strikes: Step) -> tuple[Step, ...]:
    """Strike a trainer in the midst of its stream."""
    return feed(AMID), begin(), amid(), *strikes


# ------------------------------------------------------------------- one broker


def _said_once(play: Play) -> None:
    """The client library says each thing once, numbers left out."""
    survived()(play)
    log = [line for life in play.stage.started for line in life.log]
    said = (line.split('"timestamp"')[0] for line in log if '"streamsvm.kafka.client"' in line)
    repeated = {line: n for line, n in Counter(re.sub(r"\d+", "#", line) for line in said).items() if n > 1}
    assert repeated == {}


def _saved(play: Play) -> None:
    """A trainer that is stopped while no broker answers saves, and ends."""
    assert [*play.stage.settings.checkpoint.directory.glob("checkpoint-*")]
    restart_broker()(play)


OUTAGE: Final = (lean(kill_broker(), not_ready()), restart_broker(), ready())

BROKER: Final = (
    Scenario(
        name="an outage of the broker only delays and is said once",
        steps=under_work(*OUTAGE),
        end=_said_once,
        on="own",
        planted=("steady",),
        quick=True,
    ),
    survives(
        "four outages of the broker only delay",
        (*under_work(*OUTAGE), *(feed(MORE), amid(2), *OUTAGE) * 3),
        planted=("unhurried",),
    ),
    survives(
        "a broker that is frozen for five seconds only delays",
        under_work(lean(pause_broker(), pause(5.0)), resume_broker()),
    ),
    survives(
        "a broker that is frozen for half a minute only delays and the trainer says so",
        under_work(lean(pause_broker(), pause(30.0)), not_ready(), resume_broker()),
    ),
    Scenario(
        name="a stop without a broker saves and ends",
        steps=(feed(50), begin(), reach(), kill_broker(), not_ready("broker"), stop()),
        end=_saved,
        on="own",
        quick=True,
    ),
)

# ------------------------------------------------------------------ the network

LONG_CUT: Final = (lean(cut(), not_ready("publish")), mend())

NETWORK: Final = (
    survives("a short cut only delays", under_work(lean(cut(), not_ready("broker")), mend()), quick=True),
    survives(
        "cuts so long that a publish fails only delay",
        (*under_work(*LONG_CUT), *(feed(MORE), amid(2), *LONG_CUT) * 2),
        planted=("unhurried", "impatient"),
    ),
    *(
        survives(
            f"a network that is silent for {seconds:g} seconds only delays",
            under_work(go_silent(), pause(seconds), mend()),
        )
        for seconds in (5.0, 40.0)
    ),
    survives(
        "a slow network only delays", (feed(400), begin(), amid(), lean(slow_down(0.02, 40_000.0), reach()), mend())
    ),
    survives(
        "a trainer that hoards while the network is slow is found",
        (feed(AMID), begin(), amid(), lean(slow_down(0.02, 40_000.0), reach()), mend()),
        planted=("steady", "hoards"),
        found="bytes more",
    ),
)

# ---------------------------------------------------------------- three brokers


@step
def _kill_leader(play: Play) -> None:
    """SIGKILL the leader of the models topic, and start it again once another has taken over."""
    assert play.brokers is not None
    models = play.stage.settings.output.models_topic
    leader = play.brokers.leader(models)
    leader.kill()
    play.counts["leaders_killed"] += 1
    play.daemon.wait_for("model_published", times=2)
    leader.restart()
    _in_sync(play, 3)


def _in_sync(play: Play, count: int) -> None:
    brokers, aliases = play.brokers, play.stage.settings.output.aliases_topic
    assert brokers is not None
    play.wait_until(lambda: len(brokers.in_sync(aliases)) == count, f"{count} nodes are in sync")


@step
def _restart_each(play: Play) -> None:
    """Shut each node down in good order and start it again, as an upgrade does."""
    assert play.brokers is not None
    for node in play.brokers.nodes:
        feed(MORE)(play)
        play.daemon.wait_for("model_published", times=2)
        node.shut_down()
        node.start()
        play.counts["nodes_restarted"] += 1
        _in_sync(play, 3)


@step
def _below_the_minimum(play: Play, missing: str = "") -> None:
    """Take one node away for good, then a second one, which comes back once the trainer says what it waits for."""
    assert play.brokers is not None
    _, lost, second = play.brokers.nodes
    lost.kill()
    play.daemon.wait_for("model_published", times=2)
    second.kill()
    not_ready(missing)(play)
    second.restart()


@step
def _kill_all(play: Play, away_s: float) -> None:
    """SIGKILL every node at once, and start all again after some seconds."""
    assert play.brokers is not None
    for node in play.brokers.nodes:
        node.kill()
    pause(away_s)(play)
    for node in play.brokers.nodes:
        node.launch()
    for node in play.brokers.nodes:
        node.wait_until_up()
    play.counts["broker_kills"] += len(play.brokers.nodes)


@step
def _led_by_one(play: Play) -> None:
    """Make the input anew with its only replica on the last node."""
    assert play.brokers is not None
    play.brokers.delete(play.topic)
    play.brokers.create(play.topic, replicas=[play.brokers.nodes[-1].node])
    play.recorder.tell("feeder", "ok", "topic", topic=play.topic, topic_id=play.brokers.topic_id(play.topic))


@step
def _without_leader(play: Play, away_s: float) -> None:
    """Kill the only node that has the input, and start it again after some seconds."""
    assert play.brokers is not None
    node = play.brokers.nodes[-1]
    node.kill()
    pause(away_s)(play)
    node.restart()
    play.counts["leaders_killed"] += 1


def _marks(play: Play) -> None:
    """Who asks how far partitions go is told the truth, or nothing; and the truth again from the next leader."""
    assert play.brokers is not None
    play.readable = play.plain = False  # no trainer plays
    places = [(f"{play.topic}-{number}", 0) for number in range(3)]
    Cluster(play.direct).create([TopicSpec(topic, 1) for topic, _ in places])
    marks = Marks(play.direct)

    def told() -> dict[Place, Watermarks]:
        while True:
            with suppress(TransientError):  # a leader that does not know yet that it is one
                return marks.of(places)

    assert {*told().values()} == {Watermarks(0, 0)}
    play.brokers.leader(places[0][0]).kill()
    assert {*told().values()} == {Watermarks(0, 0)}


THREE: Final = (
    survives("a killed leader only delays", under_work(_kill_leader()), on="three"),
    survives(
        "three killed leaders only delay",
        (*under_work(_kill_leader()), *(feed(MORE), amid(2), _kill_leader()) * 2),
        on="three",
        planted=("unhurried",),
    ),
    survives(
        "a partition without a leader only delays",
        (_led_by_one(), *under_work(_without_leader(30.0)), feed(MORE)),
        on="three",
    ),
    Scenario(name="a leader that is gone gives no marks", steps=(), end=_marks, on="three"),
    survives(
        "a rolling restart only delays", (feed(AMID), begin(), _restart_each()), on="three", planted=("unhurried",)
    ),
    survives("below the minimum of nodes it waits and says so", under_work(_below_the_minimum()), on="three"),
    survives(
        "a trainer that gives up below the minimum of nodes is found",
        under_work(_below_the_minimum("publish")),
        on="three",
        planted=("steady", "impatient", "gives-up"),
        found=ENDED,
    ),
    survives(
        "a trainer that is always ready is found",
        under_work(_below_the_minimum()),
        on="three",
        planted=("steady", "always-ready"),
        found="it is not ready",
    ),
    survives("the loss of all three brokers only delays", under_work(_kill_all(25.0)), on="three"),
)

# ------------------------------------------------- longer than a transaction


@step
def _begin_short(play: Play) -> None:
    """Start a trainer whose transactions may be open for four seconds."""
    play.begin({TRANSACTION_TIMEOUT: "4"})


@contextmanager
def _stranger(play: Play, topic: str) -> Iterator[None]:
    """Hold a transaction open that nobody of ours can end, and that outlives every patience."""
    options = {"transactional.id": f"stranger-{topic}", "transaction.timeout.ms": 900_000}
    producer = Producer({**play.direct.options, **options}, logger=Silent())
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"a stranger's", b"stranger", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    try:
        yield
    finally:
        producer.close()


@step
def _nothing_stands_still_in_silence(play: Play, most_s: float) -> None:
    """What hides the topic never ends: soon the trainer is red, ends with 75, or says which command ends that."""

    def says_so() -> bool:
        play.daemon.catch_up()
        if play.daemon.ended() is not None:
            return play.daemon.ended() == START_AGAIN
        with suppress(AssertionError):
            return any("kafka-transactions" in what for what in play.waits_for().values())
        return False

    with _stranger(play, play.stage.settings.output.aliases_topic):
        kill_broker()(play)
        restart_broker()(play)
        until = time.monotonic() + most_s
        while not says_so():
            assert time.monotonic() < until, f"green and stuck: {play.waits_for()}"
            threading.Event().wait(LOOK_S)
        play.kill()


OUTAGES: Final = (
    survives(
        "an outage longer than a transaction only delays",
        (feed(AMID), _begin_short(), amid(), kill_broker(), pause(6.0), restart_broker()),
        planted=("steady", "ends-transactions-early"),
    ),
    *(
        survives(
            f"an outage of {seconds:g} seconds only delays", under_work(kill_broker(), pause(seconds), restart_broker())
        )
        for seconds in (25.0, 40.0)
    ),
    survives(
        "a power loss of broker and trainer only delays",
        under_work(kill_broker(), kill(), pause(12.0), restart_broker(), begin()),
    ),
    Scenario(
        name="nothing stands still in silence",
        steps=under_work(_nothing_stands_still_in_silence(120.0)),
        end=same(),
        on="own",
        planted=("steady",),
    ),
)

# ------------------------------------------------------------------ transactions


def _ends(play: Play, topic: str) -> tuple[int, int]:
    """Return the last stable offset and the high watermark of a topic."""
    cluster = Cluster(play.direct)
    return cluster.starts(topic, [0], "latest")[0], cluster.log_range(topic, 0)[1]


@step
def _die_before_a_commit(play: Play) -> None:
    """Kill a trainer whose version, head and pointers are stored and not committed."""
    assert play.begin({"STREAMSVM_TEST_CRASH_AT": "publish.sent:5"}).wait() == -signal.SIGKILL
    stable, high = _ends(play, play.stage.settings.output.models_topic)
    assert stable < high, "no transaction was left open: this shows nothing"


@contextmanager
def _hidden(play: Play) -> Iterator[Producer]:
    """Kill a trainer, with nothing of its own open, whose newest version a stranger's transaction hides."""
    models, aliases = play.stage.settings.output.models_topic, play.stage.settings.output.aliases_topic
    play.begin().wait_for("model_published")
    play.daemon.freeze()
    with open_transaction(play.direct, aliases, [b"a stranger's"], key=b"stranger") as stranger:
        end = _ends(play, aliases)[1]
        play.daemon.thaw()

        def behind() -> bool:
            if Cluster(play.direct).stored_at(aliases, 0, end, 5.0) is None:
                return False
            stable, high = _ends(play, models)
            return stable == high  # the version was stored before its pointers

        play.wait_until(behind, "a version is hidden")
        play.kill()
        yield stranger


@step
def _start_beside_a_stranger(play: Play) -> None:
    """Start while the newest version's head is hidden; end the stranger's transaction when that is noticed."""
    models, aliases = play.stage.settings.output.models_topic, play.stage.settings.output.aliases_topic
    with _hidden(play) as stranger:
        published = _ends(play, models)
        assert f"is open at {aliases}[0]@" in play.begin().wait_for("start_waits")["what"]
        assert play.waits_for()
        assert _ends(play, models) == published
        stranger.abort_transaction()


@step
def _start_beside_one_that_stays(play: Play) -> None:
    """After three timeouts a start says the command by which a person ends the stranger's transaction, and goes on."""
    aliases = play.stage.settings.output.aliases_topic
    with _hidden(play) as stranger:
        daemon = play.begin()
        while "nothing ends it" not in (waits := daemon.wait_for("start_waits"))["what"]:
            assert daemon.ended() is None
        assert f"kafka-transactions.sh --bootstrap-server {play.stage.connection.servers} abort" in waits["remedy"]
        assert f"--topic {aliases} --partition 0" in waits["remedy"]
        play.wait_until(lambda: waits["remedy"] in str(play.waits_for()), "the page says it, too")
        stranger.abort_transaction()


@step
def _start_without_waiting(play: Play) -> None:
    """Start while the newest version's head is hidden, and go on as if it were not there."""
    with _hidden(play):
        begin()(play)
        survived()(play)


@step
def _deliver_late(play: Play) -> None:
    """Deliver the end of a transaction once its writer was renewed: it is refused, and commits nothing of the next."""
    assert play.brokers is not None
    play.begin().wait_for("producer_renewed")
    (proxy,) = play.brokers.networks
    assert proxy.loss is not None
    assert proxy.deliver_late(proxy.loss.frame) in REFUSED_ENDS


SKIPPED: Final = 6

WRONG: Final = f"{NUMBERS}|not the models|{ENDED}"
LEFT_OPEN: Final = Scenario(
    name="a dead writer's transaction is ended",
    steps=(feed(AMID), _die_before_a_commit()),
    end=same(),
    on="own",
    quick=True,
)
TRANSACTIONS: Final = (
    LEFT_OPEN,
    LEFT_OPEN.spoilt("a start that believes a dead writer is found", "reads-uncommitted", found=WRONG),
    survives("a stranger's transaction is waited for", (feed(AMID), _start_beside_a_stranger())),
    survives(
        "a stranger's transaction that stays is said",
        (feed(AMID), _start_beside_one_that_stays()),
        planted=("steady", "impatient"),
    ),
    Scenario(
        name="a start that takes the stable offset for the end is found",
        steps=(feed(AMID), _start_without_waiting()),
        end=same(),
        on="own",
        planted=("steady", "settles-nothing", "believes-every-answer", "reads-to-the-stable-offset"),
        found=ENDED,
    ),
    *(
        survives(
            f"a commit that is {'done' if applied else 'lost'} and never answered is looked up",
            (lose_answers(applied=applied, skip=SKIPPED), feed(AMID), begin(), answer_lost()),
            planted=("impatient",),
            quick=True,
        )
        for applied in (True, False)
    ),
    *(
        survives(
            f"a commit that is {'done' if applied else 'lost'} and answered at the second time is done",
            (lose_answers(applied=applied, repeats=False, skip=SKIPPED), feed(AMID), begin(), answer_lost()),
            planted=("impatient",),
        )
        for applied in (True, False)
    ),
    survives(
        "a commit that arrives late does nothing",
        (lose_answers(applied=False, skip=SKIPPED), feed(AMID), _deliver_late()),
        planted=("impatient",),
    ),
    *(
        survives(
            f"a trainer that {defect} an unanswered commit is found".replace("-", " "),
            (lose_answers(applied=applied, skip=SKIPPED), feed(AMID), begin(), answer_lost()),
            planted=("impatient", defect),
            found=WRONG,
        )
        for defect, applied in (("resends", True), ("assumes-success", False))
    ),
)

# ------------------------------------------------------------ an id that expires


def _wait_until_forgotten(play: Play, since: int) -> int:
    """Wait for the tombstone by which the broker forgets the trainer's id; return its offset in the broker's log."""
    writer = play.stage.settings.output.models_topic.encode()
    with closing(Tail(play.direct, "__transaction_state", 0, since)) as tail:
        for _ in range(600):
            for record in tail.poll(100, 0.1):
                if record.value is None and writer in (record.key or b""):
                    play.counts["ids_expired"] += 1
                    return record.offset
    raise AssertionError("the broker did not forget the transactional id")


@step
def _forgotten(play: Play) -> None:
    """Wait until the broker has forgotten the id of a frozen trainer."""
    _wait_until_forgotten(play, 0)


@step
def _outlive_a_rival(play: Play) -> None:
    """Let one on a copy of the directory finish and be forgotten; the first, thawed, must publish nothing."""
    frozen: Daemon = play.daemon
    forgotten = _wait_until_forgotten(play, 0)
    rival = play.copy()
    through()(rival)
    as_clean()(rival)
    _wait_until_forgotten(play, forgotten + 1)
    models = play.stage.settings.output.models_topic
    end = Cluster(play.direct).log_range(models, 0)[1]
    frozen.thaw()
    while frozen.ended() is None:
        assert Cluster(play.direct).log_range(models, 0)[1] == end, "it publishes what the rival has published"
        threading.Event().wait(LOOK_S)
    assert frozen.wait() == FENCED


def _renewed(play: Play) -> None:
    """The trainer took its id anew, and all else is as ever."""
    survived()(play)
    assert play.daemon.events("producer_renewed")


EXPIRED: Final = (
    Scenario(
        name="an expired id is renewed",
        steps=under_work(freeze(), _forgotten(), thaw()),
        end=_renewed,
        on="forgetful",
        planted=("steady", "impatient"),
    ),
    survives(
        "a trainer that gives up with an expired id is found",
        under_work(freeze(), _forgotten(), thaw()),
        on="forgetful",
        planted=("steady", "impatient", "gives-up"),
        found=ENDED,
    ),
    Scenario(
        name="a rival that is forgotten is noticed",
        steps=under_work(freeze(), _outlive_a_rival()),
        on="forgetful",
        planted=("steady", "impatient"),
        but=frozenset({"refused-to-start", "zombie"}),
    ),
    Scenario(
        name="a silent renewal beside a forgotten rival is found",
        steps=under_work(freeze(), _outlive_a_rival()),
        on="forgetful",
        planted=("steady", "impatient", "renews-unread", "asks-for-no-owner"),  # the watch for another owner saves it
        found="it publishes what|doubled-version",
    ),
)

# --------------------------------------------------- too much, or nothing, is taken


def _paused(play: Play) -> None:
    """The input was paused on the way, and all is as by a clean run."""
    survived()(play)
    assert play.daemon.events("paused"), "the input was never paused: this shows nothing"


LETTERS: Final = [BAD] * 3


def _letters_waited(play: Play) -> None:
    """Each bad record has its one letter, before a clean run of the same input writes its own."""
    reach()(play)
    stop()(play)
    records = Cluster(play.direct).read_to_end(f"{play.topic}.dlq", 0, timeout_s=30.0)
    assert len([*records]) == len(LETTERS)
    as_clean()(play)


def _no_letters_taken(outage_s: float) -> tuple[Step, ...]:
    """Let bad records come while no letter is taken: it publishes, saves nothing, and says so."""
    return (
        feed(40),
        begin(checkpoint_interval_s=1, MOST_CHECKPOINT_AGE_S=2),
        reach(),
        refuse_writes("{input}.dlq"),
        feed(40, seed=1, bad=(0, 1, 2)),
        reach(),
        not_ready("checkpoint"),
        pause(outage_s),
        feed(40, seed=2),
        reach(),
        mend(),
        ready(),
    )


SLOW: Final = {
    "svm_kernel": "rbf",
    "svm_tolerance": 1e-9,
    "coreset_reducer": "uniform",
    "coreset_structure": "chain",
    "coreset_points": 5_500,
    "coreset_train_points": 4_000,
    "training_every_leaves": 1,
    "BATCH_RECORDS": 1_000,
    "checkpoint_interval_s": 1.0,
}
MOST_GROWTH: Final = 2 * RSS_GROWTH
"""The client's buffer of 32 MB, a fetched batch on top, the structure and the solver's cache; not the whole input."""


@step
def _flat(play: Play, seconds: float = 8.0) -> None:
    """Check that the process does not grow while it has more to read than it can learn; kill it after a version."""
    play.counted, play.plain = False, False
    daemon = play.daemon
    daemon.wait_for("started")
    begun = peak = daemon.rss_bytes()
    until = time.monotonic() + seconds
    while time.monotonic() < until and lag(metrics(daemon)) != 0:
        peak = max(peak, daemon.rss_bytes())
        threading.Event().wait(0.1)  # the interval between two samples
    assert daemon.reaches_version(1), daemon.said
    play.kill()
    assert peak - begun < MOST_GROWTH, f"{(peak - begun) / 2**20:.0f} MB more than at the start"


PAUSED: Final = Scenario(
    name="an input that is paused loses nothing",
    steps=(feed(2 * AMID), begin()),
    end=_paused,
    planted=("trains-slowly",),
    quick=True,
)
PACE: Final = (
    PAUSED,
    PAUSED.spoilt(
        "a trainer that loses what it fetched before a pause is found",
        *("trains-slowly", "drops-when-pausing"),
        found="counts|recomputed|not the models|different|mixed|says nothing",
    ),
    *(
        Scenario(
            name=f"an outage of the dead letters of {seconds:g} seconds only delays them",
            steps=_no_letters_taken(seconds),
            end=_letters_waited,
            on="own",
        )
        for seconds in (1.0, 90.0)
    ),
    Scenario(
        name="a trainer without patience for its dead letters is found",
        steps=_no_letters_taken(1.0),
        end=_letters_waited,
        on="own",
        planted=("has-no-patience-with-dead-letters",),
        found="failed to deliver",
    ),
    *(
        Scenario(
            name=f"memory stays flat where training is slow and the policy is {policy}",
            steps=(feed(100_000), begin(training_policy=policy, **SLOW), _flat()),
        )
        for policy in ("latest", "every")
    ),
    Scenario(
        name="a trainer that keeps what it read is found",
        steps=(feed(100_000), begin(training_policy="latest", **SLOW), _flat()),
        planted=("keeps-what-it-read",),
        found="MB more than at the start",
    ),
)

SCENARIOS: Final = (*BROKER, *NETWORK, *THREE, *OUTAGES, *TRANSACTIONS, *EXPIRED, *PACE)
