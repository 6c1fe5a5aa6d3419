"""What ships is known by name, version and hash, and what is known against it can be asked."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.files import DEPLOY, ROOT

REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))
PINNED = """anyio==4.16.0 ; sys_platform != 'emscripten' \\
    --hash=sha256:aa
streamsvm-extra[all]==1.0 \\
    --hash=sha256:bb
"""


def component(name: str, version: str) -> dict[str, Any]:
    """Return what cyclonedx-py says of a package."""
    purl = f"pkg:pypi/{name}@{version}"
    hashes = [{"alg": "SHA-256", "content": "aa"}]
    file = {"type": "distribution", "url": f"https://index.example/simple/{name}/", "hashes": hashes}
    line = f"requirements line 4: {name}=={version} --index https://index.example"
    return {"name": name, "version": version, "purl": purl, "description": line, "externalReferences": [file]}


DOCUMENT = {
    "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
    "metadata": {
        "tools": {"components": [{"name": "tool", "externalReferences": [{"url": "https://index.example/tool"}]}]}
    },
    "components": [component("anyio", "4.16.0"), component("streamsvm-extra", "1.0")],
}


def program(name: str) -> Any:
    """Return a program of deploy/ as a module."""
    spec = importlib.util.spec_from_file_location(name, DEPLOY / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sbom, release = program("sbom"), program("release")


@pytest.mark.parametrize("file", REQUIREMENTS, ids=lambda file: file.name)
def test_every_requirement_is_pinned_by_hash(file: Path) -> None:
    """Name, version and SHA-256 of each; no address of an index, so that any mirror will do."""
    text = file.read_text()
    blocks = [block for block in re.split(r"(?m)^(?=\w)", text) if block and not block.startswith("#")]
    assert blocks
    for block in blocks:
        assert re.match(r"[\w.-]+(\[[\w,-]+\])?==\S+", block), block
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", block), block
    assert "://" not in text
    assert "--index" not in text


def test_a_bill_of_materials_names_no_host() -> None:
    """Packages are named by purl and hashes; where this machine gets them from is left out."""
    assert len(sbom.faults(DOCUMENT, PINNED)) > 0
    cleaned = sbom.cleaned(copy.deepcopy(DOCUMENT))
    assert sbom.faults(cleaned, PINNED) == []
    assert "index.example" not in json.dumps(cleaned)
    (reference,) = cleaned["components"][0]["externalReferences"]
    assert reference["url"] == "pkg:pypi/anyio@4.16.0"
    assert reference["hashes"] == [{"alg": "SHA-256", "content": "aa"}]


@pytest.mark.parametrize("lost", ["component", "hashes", "version"])
def test_a_bill_of_materials_that_lacks_something_is_refused(lost: str) -> None:
    """A pinned package that is missing, of another version, or without a hash is named."""
    cleaned = sbom.cleaned(copy.deepcopy(DOCUMENT))
    if lost == "component":
        del cleaned["components"][1]
    elif lost == "hashes":
        cleaned["components"][1]["externalReferences"] = []
    else:
        cleaned["components"][1]["version"] = "1.1"
    assert sbom.faults(cleaned, PINNED) == ["streamsvm-extra==1.0 is not in it with its SHA-256"]


def test_a_bill_of_materials_of_what_ships(tmp_path: Path) -> None:
    """The tool's own document of the image's requirements passes."""
    tools = ROOT / ".venv" / "tools" / "bin" / "python"
    if not tools.exists():
        pytest.skip("cyclonedx-py is not here: run make sbom once")
    out = tmp_path / "out.cdx.json"
    command = [tools, DEPLOY / "sbom.py", ROOT / "requirements" / "extras.txt", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text())["bomFormat"] == "CycloneDX"


AUDIT = """
import os, sys
print(os.environ["SAYS"])
print("HTTPSConnectionPool(host='api.example'): Max retries exceeded", file=sys.stderr)
sys.exit(1)
"""
CLEAN = {"name": "anyio", "version": "4.16.0", "vulns": []}
WEAK = {"name": "old", "version": "1", "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["2"]}]}
SKIPPED = {"name": "odd", "skip_reason": "no version of that name"}


@pytest.mark.parametrize(
    ("packages", "status", "told"),
    [
        ([CLEAN], 0, "1 packages asked for, 0 known weaknesses"),
        ([CLEAN, WEAK], 1, "old 1: PYSEC-1, CVE-1; fixed in 2"),
        ([WEAK, SKIPPED], 1, "NOT CHECKED: odd"),
        ([CLEAN, SKIPPED], 75, "NOT CHECKED: odd: no version of that name"),
        ([], 75, "0 packages asked for"),
        (None, 75, "NOT CHECKED: no answer from osv: HTTPSConnectionPool"),
    ],
    ids=["clean", "weak", "weak, and one unknown", "one unknown", "nothing", "not reached"],
)
def test_an_audit_says_what_it_knows(
    tmp_path: Path, packages: list[dict[str, Any]] | None, status: int, told: str
) -> None:
    """A database that was not reached is neither a pass nor a find: it has an exit status of its own."""
    (tmp_path / "pip_audit.py").write_text(AUDIT)
    said = "" if packages is None else json.dumps({"dependencies": packages})
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "SAYS": said}
    command = [sys.executable, DEPLOY / "audit.py", "some.txt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == status, done.stderr
    assert told in done.stdout + done.stderr


def test_the_image_is_built_of_what_is_there() -> None:
    """Its context has the Dockerfile, what pip installs, the sources and the entrypoint, and nothing of the tests."""
    found = release.context(ROOT)
    assert {"deploy/Dockerfile", "deploy/image/", "requirements/extras.txt", "streamsvm/", "pyproject.toml"} <= {*found}
    assert all((ROOT / path).exists() for path in found)
    assert not [path for path in found if path.startswith("tests")]


def test_two_builds_that_differ_are_no_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are named, and nothing is written to where the release would be."""

    def build(_: Path, out: Path, __: Path) -> None:
        (out / "same").write_text("a")
        (out / "other").write_text(str(out))

    monkeypatch.setattr(release, "build", build)
    monkeypatch.setattr(release, "run", lambda *_, **__: "")
    with pytest.raises(release.Failed, match=r"differ in other$"):
        release.built_twice(tmp_path, tmp_path)
    assert release.main(tmp_path / "out", tmp_path, []) == 1
    assert not (tmp_path / "out").exists()
