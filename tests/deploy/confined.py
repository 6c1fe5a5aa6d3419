"""A unit's own process, confined as its lines say, without systemd: for tests that really run what is shipped.

What systemd would lay around the process is laid around it by `unshare`, `mount`, `setpriv` and `seccomp`, in a mount
namespace of its own, whose root is made for it: nothing of this machine can be written but the unit's directories.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tests.deploy.checkers import program
from tests.forked import ROOT, Forked
from tests.live.process import Daemon

SYSTEM_PYTHON: Final = "/usr/bin/python3"
"""Of Debian, whose package python3-seccomp loads the filter."""
DYNAMIC_USERS: Final = 61184
"""First of the user ids that systemd gives to units with DynamicUser."""
DIRECTORIES: Final = {"StateDirectory": "/var/lib", "CacheDirectory": "/var/cache"}
COMMAND: Final = f"""#!/bin/sh
PYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} -B -m consumers "$@"
"""
"""`streamsvm` of this tree, where the unit looks for it."""
LAY: Final = r"""
set -eu
mount -t tmpfs -o mode=755 tmpfs "$NEW"
cd "$NEW"
mkdir -p usr etc opt/streamsvm proc sys dev/shm tmp var/tmp run/systemd run/credentials
for each in bin sbin lib lib64; do ln -s "usr/$each" "$each"; done
mount --bind -o ro /usr usr
mount -t overlay -o "ro,lowerdir=$GIVEN/etc:/etc" overlay etc
mount --bind "$INSTALLED" opt/streamsvm
mount --bind "$GIVEN/credentials" run/credentials
mount --bind "$GIVEN/notify" run/systemd
for each in $READ; do mkdir -p "./$each"; mount --rbind -o ro "$each" "./$each"; done
mount --rbind -o ro /sys sys
mount -t proc -o "nosuid,nodev,noexec$PROC" proc proc
for each in null zero full random urandom; do touch "dev/$each"; mount --bind "/dev/$each" "dev/$each"; done
for each in dev/shm tmp var/tmp; do mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$each"; done
for each in $WRITTEN; do
    name="${each#/var/*/}"
    base="./${each%"/$name"}"
    mkdir -p "$base/private/$name"
    ln -s "private/${name%%/*}" "$base/${name%%/*}"
    mount --bind "$GIVEN$each" "$base/private/$name"
done
mount -o remount,ro,bind "$NEW"
umask "$UMASK"
exec chroot . /usr/bin/setpriv --reuid "$OWNER" --regid "$OWNER" --clear-groups --inh-caps=-all --ambient-caps=-all \
    --bounding-set=-all --no-new-privs /usr/bin/prlimit "--core=$CORE" /usr/bin/python3 -c "$LOAD" "$PLAN"
"""
LOAD: Final = """
import ctypes, json, os, sys
import seccomp
ctypes.CDLL(None).prctl(1, 9)  # ends with the thread that began it; a change of the user forgot that
plan = json.loads(sys.argv[1])
families = seccomp.SyscallFilter(seccomp.ALLOW)
for family in plan["forbidden_families"]:
    families.add_rule(seccomp.ERRNO(97), "socket", seccomp.Arg(0, seccomp.EQ, family))
calls = seccomp.SyscallFilter(seccomp.ERRNO(plan["errno"]) if plan["errno"] else seccomp.KILL_PROCESS)
for name in plan["allowed"]:
    try:
        calls.add_rule(seccomp.ALLOW, name)
    except RuntimeError:
        pass  # a call of another architecture
families.load()
calls.load()
os.execve(plan["command"][0], plan["command"], plan["environment"])
"""


class Unit:
    """An instance of a unit file.

    `file`: A template. `instance`: What stands behind its `@`. `without`: Lines that are left out.
    """

    def __init__(self, file: Path, instance: str, without: Sequence[str] = ()) -> None:
        self.name = file.name.replace("@", f"@{instance}")
        lines = [line for line in file.read_text().splitlines() if line not in without]
        self._lines = [line.partition("=")[::2] for line in lines if "=" in line and not line.startswith("#")]
        prefix = file.name.partition("@")[0]
        self._meant = {
            "%i": instance,
            "%p": prefix,
            "%S": "/var/lib",
            "%C": "/var/cache",
            "%d": f"/run/credentials/{self.name}",
        }

    def all(self, key: str) -> list[str]:
        """Return the values of a key, its specifiers replaced."""
        found = [value for name, value in self._lines if name == key]
        return [re.sub(r"%\w", lambda specifier: self._meant[specifier[0]], value) for value in found]

    def one(self, key: str) -> str:
        """Return the value of a key that may stand once, empty if it does not."""
        (value,) = self.all(key) or [""]
        return value

    def allowed_calls(self) -> set[str]:
        """Return the system calls that its filter lets through."""
        allowed: set[str] = set()
        for line in self.all("SystemCallFilter"):
            named = {call for name in line.lstrip("~").split() for call in calls_of(name)}
            allowed = allowed - named if line.startswith("~") else allowed | named
        return allowed

    def written(self) -> list[str]:
        """Return the directories that it may write to."""
        return [f"{above}/{name}" for key, above in DIRECTORIES.items() for name in self.all(key)]


@cache
def _sets() -> Mapping[str, Sequence[str]]:
    command = [program("systemd-analyze", "Debian: apt install systemd"), "syscall-filter"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, list[str]] = {}
    for line in listed.splitlines():
        if line.startswith("@"):
            found[line.strip()] = members = []
        elif line.startswith("    ") and not line.strip().startswith("#"):
            members.append(line.strip())
    return found


def calls_of(name: str) -> Iterator[str]:
    """Yield the system calls of a set of systemd's, or the one call of this name."""
    if not name.startswith("@"):
        yield name
        return
    for member in _sets()[name]:
        yield from calls_of(member)


def why_not() -> str:
    """Return why units cannot be run here, empty if they can."""
    if os.geteuid() != 0:
        return "units are run under another user in a root of their own: run this as root"
    missing = [
        name for name in ("systemd-analyze", "unshare", "setpriv", "prlimit", "chroot") if not shutil.which(name)
    ]
    if missing:
        return f"{', '.join(missing)}: not on PATH (Debian: apt install systemd util-linux coreutils)"
    seen = subprocess.run([SYSTEM_PYTHON, "-c", "import seccomp"], capture_output=True, check=False)
    if seen.returncode:
        return "seccomp cannot be imported by /usr/bin/python3 (Debian: apt install python3-seccomp)"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    return f"no mount namespace can be made here: {tried.stderr.strip()}" if tried.returncode else ""


class Site:
    """What lies around a unit's process on a machine, and outlives it.

    `folder`: Empty; holds everything that is laid around it. `owner`: The user id of its process.
    `installed`: What lies in /opt/streamsvm; by default a program that runs this tree.
    """

    def __init__(self, unit: Unit, folder: Path, owner: int, installed: Path | None = None) -> None:
        self.unit, self._folder, self.owner = unit, folder, owner
        for name in ("root", "etc/streamsvm", "opt/bin", f"credentials/{unit.name}", "notify"):
            (folder / name).mkdir(parents=True)
        self._installed = installed or folder / "opt"
        streamsvm = folder / "opt" / "bin" / "streamsvm"
        streamsvm.write_text(COMMAND)
        streamsvm.chmod(0o755)
        for path in unit.written():
            self.at(path).mkdir(parents=True, mode=0o700)
            os.chown(self.at(path), self.owner, self.owner)

    def at(self, path: str) -> Path:
        """Return where a path of the unit lies: below /etc/streamsvm, or one that it writes to."""
        return self._folder / path.lstrip("/")

    @property
    def notify(self) -> str:
        """Where its supervisor has to listen."""
        return str(self._folder / "notify" / "notify")

    def credential(self, name: str, value: str) -> None:
        """Hand a secret over, as LoadCredential does."""
        folder = self._folder / "credentials" / self.unit.name
        (folder / name).write_text(value)
        (folder / name).chmod(0o400)
        folder.chmod(0o500)
        for path in (folder, folder / name):
            os.chown(path, self.owner, self.owner)

    def start(self, command: Sequence[str] = (), **environment: str) -> Daemon:
        """Start the unit's command, or another one in its place; variables come on top of the unit's own."""
        return Confined(self, command, environment)

    def popen(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start a process."""
        unit = self.unit
        files = [self.at(name.removeprefix("-")) for name in unit.all("EnvironmentFile")]
        lines = [
            *unit.all("Environment"),
            *(line for file in files if file.exists() for line in file.read_text().splitlines()),
        ]
        own = dict(one.split("=", 1) for line in lines for one in shlex.split(line))
        allowed_families = {getattr(socket, name) for name in unit.one("RestrictAddressFamilies").split()}
        number = unit.one("SystemCallErrorNumber")
        plan = {
            "allowed": sorted(unit.allowed_calls()),
            "errno": getattr(errno, number) if number else 0,
            "forbidden_families": [family for family in range(46) if family not in allowed_families],
            "command": [*(command or shlex.split(unit.one("ExecStart")))],
            "environment": {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **own, **environment},
        }
        invisible, subset = unit.one("ProtectProc"), unit.one("ProcSubset")
        laid = {
            "NEW": str(self._folder / "root"),
            "GIVEN": str(self._folder),
            "INSTALLED": str(self._installed),
            "READ": " ".join(dict.fromkeys((sys.base_prefix, sys.prefix, str(ROOT)))),
            "WRITTEN": " ".join(unit.written()),
            "PROC": (f",hidepid={invisible}" if invisible else "") + (f",subset={subset}" if subset else ""),
            "UMASK": unit.one("UMask"),
            "CORE": unit.one("LimitCORE"),
            "OWNER": str(self.owner),
            "LOAD": LOAD,
            "PLAN": json.dumps(plan),
        }
        variables = {"PATH": os.environ["PATH"], **laid}
        lay = ["unshare", "--mount", "bash", "-c", LAY]
        return subprocess.Popen(lay, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Confined(Daemon):
    """One life of a unit's process."""

    def __init__(self, site: Site, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._site = site
        super().__init__([*command], environment)

    def _begin(self, command: list[str], environment: Mapping[str, str], module: str) -> Forked | subprocess.Popen[str]:
        return self._site.popen(command, environment)
