"""The units of `deploy/systemd` as they are shipped: what they start works under what they forbid.

A real broker that asks for passwords; each process under its unit's filter of system calls, user, umask, `/proc` and
read-only system (`tests.deploy.confined`). They are root's to lay, so the tests are skipped for others, and say so.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Message, Outbox, TopicSpec
from tests.brokers.secured import SecuredBroker, secured_broker
from tests.consumers.host.test_supervision import Supervisor
from tests.deploy.confined import DYNAMIC_USERS, Site, Unit, why_not
from tests.deploy.files import DEPLOY, DOCKERFILE, ROOT
from tests.deploy.test_pages import commands_of
from tests.live.process import Daemon, ask, read_all

UNITS: Final = DEPLOY / "systemd"
pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "units can be run here")

FOR_A_PERSON: Final = 78
"""Exit status after which the units start nothing again."""
ROWS: Final = 4_000
PYTHON: Final = "/usr/bin/python3"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker that lets nobody in without a password."""
    with secured_broker(tmp_path_factory.mktemp("certificates")) as running:
        yield running


class Machine:
    """A machine on which units of one model are started.

    `folder`: Empty. `stack`: Ends what is started here. `prefix`: Of its topics. `more`: Options in TOML.
    `installed`: As `Site` has it.
    """

    def __init__(
        self,
        broker: SecuredBroker,
        folder: Path,
        stack: ExitStack,
        prefix: str,
        more: str = "",
        installed: Path | None = None,
    ) -> None:
        self._installed = installed
        self._broker, self._folder, self._stack, self._prefix, self._more = broker, folder, stack, prefix, more
        self._cluster = Cluster(broker.connect())
        self._cluster.create([TopicSpec(f"{prefix}.{topic}", 2) for topic in ("candidates", "points")])
        self._outbox = stack.enter_context(closing(Outbox(broker.connect())))
        self._users = 0

    def site(self, name: str) -> Site:
        """Return a unit's site."""
        self._users += 1
        unit = Unit(UNITS / f"streamsvm-{name}@.service", "pulsars")
        return self.equip(Site(unit, self._folder / name, DYNAMIC_USERS + self._users, self._installed))

    def equip(self, site: Site) -> Site:
        """Lay a configuration and a password into a site."""
        options = self._broker.options()
        site.credential("kafka__sasl_password", options.pop("sasl.password"))
        ca = site.at("/etc/streamsvm/ca.pem")
        ca.write_bytes(Path(options["ssl.ca.location"]).read_bytes())
        options["ssl.ca.location"] = "/etc/streamsvm/ca.pem"
        kafka = "".join(f'"{option}" = "{value}"\n' for option, value in options.items())
        file = site.at("/etc/streamsvm/pulsars.toml")
        file.write_text(
            f"[kafka]\n{kafka}[input]\ntopic = '{self._prefix}.candidates'\n[points]\ndimension = 2\n"
            f"[http]\nport = 0\n[output]\nmodels_topic = '{self._prefix}.models'\n"
            f"[scoring]\ntopic = '{self._prefix}.points'\noutput_topic = '{self._prefix}.scores'\n{self._more}"
        )
        return site

    def start(self, site: Site) -> tuple[Daemon, Supervisor]:
        """Start a unit's process, and listen in systemd's place."""
        supervisor = Supervisor(site.notify)
        Path(site.notify).chmod(0o777)
        self._stack.callback(supervisor.close)
        daemon = site.start(NOTIFY_SOCKET="/run/systemd/notify", STREAMSVM_SECRETS=f"/run/credentials/{site.unit.name}")
        self._stack.callback(daemon.kill)
        return daemon, supervisor

    def feed(self, rows: int) -> None:
        """Send rows, labeled ones and some to be scored."""
        chance = np.random.default_rng(rows)
        for index, y in enumerate(chance.choice((-1, 1), rows).tolist()):
            x = chance.normal(size=2) + y
            self._outbox.send(Message(f"{self._prefix}.candidates", encode(x, y), partition=index % 2))
            if index % 10 == 0:
                self._outbox.send(Message(f"{self._prefix}.points", encode(x), partition=index // 10 % 2))
        self._outbox.flush(30.0)

    def scores(self) -> int:
        """Return how many scores there are."""
        return sum(len([*self._cluster.read_to_end(f"{self._prefix}.scores", part, timeout_s=30.0)]) for part in (0, 1))


WITH_WORKERS: Final = "[training]\nfrom_coresets = true\n"
KINDS: Final = {
    "rbf": ("[svm]\nkernel = 'rbf'\n", ("trainer", "scorer")),
    "workers": (WITH_WORKERS, ("worker", "trainer", "scorer")),
}
"""Options of a model, and the units that it needs."""
DID: Final = {"worker": "partition_restored", "trainer": "model_published", "scorer": "serving"}
"""What each logs once it works."""


@pytest.mark.long
@pytest.mark.timeout(1200)  # each compiles in an empty directory, as at a first start
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_the_units_start_works_and_ends_in_good_order(kind: str, secured: SecuredBroker, tmp_path: Path) -> None:
    """Versions and scores come, systemd hears READY, metrics show the process, files are private, SIGTERM ends in 0."""
    more, names = KINDS[kind]
    with ExitStack() as stack:
        machine = Machine(secured, tmp_path, stack, kind, more)
        machine.feed(ROWS)
        sites = {name: machine.site(name) for name in names}
        started = {name: machine.start(site) for name, site in sites.items()}
        for name, (daemon, supervisor) in started.items():
            daemon.wait_for(DID[name])
            supervisor.until(lambda line: line == "READY=1")
            assert "process_start_time_seconds" in ask(daemon, "metrics")[1]
        read_all(started["scorer"][0])
        assert machine.scores() == ROWS // 10
        assert {name: daemon.stop() for name, (daemon, _) in started.items()} == dict.fromkeys(names, 0)
        kept = [path for path in sites["trainer"].at("/var/lib/streamsvm/pulsars").rglob("*") if path.is_file()]
        assert kept
        assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the page's own lines install, in folders that take the place of /opt and /etc/systemd/system."""
    folder = tmp_path_factory.mktemp("installed")
    mine = ("make wheel", "python3 -m venv", "/opt/streamsvm/", "cp deploy/systemd/")
    lines = [line for line in commands_of("README.md") if line.startswith(mine)]
    for name in ("opt", "system"):
        (folder / name).mkdir(mode=0o755)
    script = "set -e\nmount --bind $0/opt /opt\nmount --bind $0/system /etc/systemd/system\n" + "\n".join(lines)
    command = [
        "unshare",
        "--mount",
        "bash",
        "-c",
        script.replace("make wheel", "make --old-file=env wheel"),
        str(folder),
    ]
    path = {"PATH": "/usr/bin:/bin"}  # a Python of the home folder would not be seen by a unit
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, cwd=ROOT, env=kept | path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.long
@pytest.mark.timeout(1800)  # it downloads some 200 MB, and compiles in empty directories
def test_what_the_page_installs_works_and_is_reset(installed: Path, secured: SecuredBroker, tmp_path: Path) -> None:
    """The page's lines make a trainer that publishes; a refusal of another option ends by its line for `--reset`."""
    for shipped in UNITS.glob("*.service"):
        assert (installed / "system" / shipped.name).read_text() == shipped.read_text()
    with ExitStack() as stack:
        machine = Machine(secured, tmp_path, stack, "page", installed=installed / "opt" / "streamsvm")
        machine.feed(ROWS)
        site = machine.site("trainer")
        first, supervisor = machine.start(site)
        first.wait_for("model_published")
        supervisor.until(lambda line: line == "READY=1")
        assert first.stop() == 0, first.said
        supervisor.close()
        file = site.at("/etc/streamsvm/pulsars.toml")
        file.write_text(file.read_text() + "[coreset]\npoints = 2200\n")
        Path(site.notify).unlink()
        refused, supervisor = machine.start(site)
        assert refused.wait() == FOR_A_PERSON
        assert "--reset pulsars/1" in refused.log[-1]
        supervisor.close()
        (line,) = [line for line in commands_of("README.md") if line.startswith("echo STREAMSVM_RESET")]
        written, _, _ = line.replace("/etc/streamsvm", str(site.at("/etc/streamsvm"))).partition(
            " && systemctl restart"
        )
        subprocess.run(["bash", "-c", written], check=True)
        for event in ("model_published", "reset_ignored"):  # what is left in the file does nothing later
            Path(site.notify).unlink()
            again, supervisor = machine.start(site)
            again.wait_for(event)
            assert again.stop() == 0, again.said
            supervisor.close()


REFUSED: Final = """
import ctypes, errno, socket
libc = ctypes.CDLL(None, use_errno=True)
for call in (lambda: libc.nice(-1), lambda: libc.chroot(b"/")):
    assert call() == -1 and ctypes.get_errno() == errno.EPERM, ctypes.get_errno()
for place in ("/opt/streamsvm/new", "/etc/streamsvm/new", "/var/lib/new", "/new"):
    try:
        open(place, "w")
    except OSError:
        continue
    raise SystemExit(place + " can be written")
try:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
except OSError as error:
    assert error.errno == errno.EAFNOSUPPORT, error
else:
    raise SystemExit("a socket of another kind can be opened")
"""
UNIT_NAMES: Final = sorted(file.name.removeprefix("streamsvm-").partition("@")[0] for file in UNITS.glob("*@.service"))


@pytest.mark.parametrize("name", UNIT_NAMES)
def test_what_a_unit_forbids_is_refused(name: str, tmp_path: Path) -> None:
    """A call, a place and a kind of socket that the unit does not allow are refused, and end nothing."""
    site = Site(Unit(UNITS / f"streamsvm-{name}@.service", "pulsars"), tmp_path, DYNAMIC_USERS)
    ended = site.start([PYTHON, "-c", REFUSED])
    assert ended.wait() == 0, ended.said


@pytest.mark.parametrize("name", UNIT_NAMES)
def test_a_unit_that_kills_for_a_call_is_found(name: str, tmp_path: Path) -> None:
    """Without its lines on what numerical libraries call, its program dies as it loads them."""
    unit = Unit(
        UNITS / f"streamsvm-{name}@.service",
        "pulsars",
        without=("SystemCallFilter=mbind", "SystemCallErrorNumber=EPERM"),
    )
    assert Site(unit, tmp_path, DYNAMIC_USERS).start().wait() == -signal.SIGSYS


@pytest.mark.parametrize("closed", ["ca.pem", "pulsars.toml"])
def test_a_unit_that_may_not_read_its_files_waits_for_a_person(
    closed: str, secured: SecuredBroker, tmp_path: Path
) -> None:
    """It ends in 78, which systemd does not restart after, and the last line has the mode that the file needs."""
    with ExitStack() as stack:
        site = Machine(secured, tmp_path, stack, f"closed-{closed}").site("scorer")
        site.at(f"/etc/streamsvm/{closed}").chmod(0o600)
        ended = site.start()
        assert ended.wait() == FOR_A_PERSON
        assert f"As root: chmod 644 /etc/streamsvm/{closed}" in ended.log[-1]


CONTAINER: Final = """[Service]
ExecStart=/opt/streamsvm/image/entrypoint train
{0}
Environment=STREAMSVM_CONFIG=/etc/streamsvm/pulsars.toml
StateDirectory=streamsvm/checkpoint
CacheDirectory=streamsvm
UMask=0022
LimitCORE=0
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
"""
"""What an engine lays around the image: a read-only root, no capability, and a filter of calls like Docker's."""
ENV: Final = re.compile(r"^(?:ENV |    )((?:NUMBA|STREAMSVM|PATH|PYTHON)\w*)=(\S+)(?: \\)?$", re.MULTILINE)
IMAGE_USER: Final = 10_001


@pytest.mark.long
@pytest.mark.timeout(1200)  # it compiles what the image's build compiles for such a trainer
def test_what_the_image_starts_works_and_compiles_nothing(secured: SecuredBroker, tmp_path: Path) -> None:
    """The entry links the image's kernels into a cache that was empty; a version comes, and SIGTERM ends in 0."""
    given = {name: value.strip('"') for name, value in ENV.findall(DOCKERFILE.read_text())}
    given |= {"NUMBA_CPU_NAME": "generic", "PATH": "/opt/streamsvm/bin:/usr/bin:/bin", "STREAMSVM_HTTP__PORT": "0"}
    unit = tmp_path / "image.service"
    unit.write_text(CONTAINER.format("\n".join(f"Environment={name}={value}" for name, value in given.items())))
    with ExitStack() as stack:
        machine = Machine(secured, tmp_path, stack, "image")
        machine.feed(ROWS)
        site = machine.equip(Site(Unit(unit, ""), tmp_path / "image", IMAGE_USER))
        image = site.at("/opt")
        shutil.copytree(DEPLOY / "image", image / "image")
        numba = {name: value for name, value in given.items() if name.startswith("NUMBA")}
        kernels = {**os.environ, **numba, "NUMBA_CACHE_DIR": str(image / "kernels")}
        build = [sys.executable, "-m", "consumers", "compile", "--points-dimension", "2"]
        subprocess.run(build, cwd=ROOT, env=kernels, check=True)
        checked = site.start(["/opt/streamsvm/image/entrypoint", "compile", "--check"])
        assert checked.wait() == 0, checked.said
        trainer, _ = machine.start(site)
        trainer.wait_for("model_published")
        assert trainer.stop() == 0, trainer.said
        assert "compiled_code_not_kept" not in trainer.said
        assert any(path.is_symlink() for path in site.at("/var/cache/streamsvm").rglob("*.nbc"))
        assert list(site.at("/var/lib/streamsvm/checkpoint").rglob("*.ssvm"))
