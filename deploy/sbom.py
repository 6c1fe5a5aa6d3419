"""A software bill of materials of what ships: `python deploy/sbom.py requirements/extras.txt OUT.cdx.json`.

cyclonedx-py makes it from the pinned requirements; `make sbom` runs this in an environment that has it. What says where
this machine gets its packages is taken out: a package is named by its purl and the hashes of its files, which are the
same from every index. A document that lacks a pinned package, its version or a hash is refused.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NAMESPACE = "http://cyclonedx.org/"
PIN = re.compile(r"(?m)^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)")


def cleaned(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without hosts: the hashes stay, under the package's purl."""
    tools = [_named(tool) for tool in document["metadata"]["tools"]["components"]]
    components = [_without_hosts(component) for component in document["components"]]
    return document | {
        "metadata": document["metadata"] | {"tools": {"components": tools}},
        "components": components,
    }


def _named(tool: dict[str, Any]) -> dict[str, Any]:
    return {name: tool[name] for name in ("type", "group", "name", "version") if name in tool}


def _without_hosts(component: dict[str, Any]) -> dict[str, Any]:
    files = [one for one in component.get("externalReferences", ()) if one["type"] == "distribution"]
    references = [{"type": "distribution", "url": component["purl"], "hashes": one["hashes"]} for one in files]
    kept = {name: value for name, value in component.items() if name not in ("description", "externalReferences")}
    return kept | {"externalReferences": references}


def faults(document: dict[str, Any], requirements: str) -> list[str]:
    """Return what a document lacks of the pinned requirements, or says that it must not."""
    held = {(one["name"], one["version"]): one for one in document["components"]}
    found = []
    for name, version in PIN.findall(requirements):
        component = held.get((name, version))
        hashes = [each for one in (component or {}).get("externalReferences", ()) for each in one["hashes"]]
        if not hashes or any(each["alg"] != "SHA-256" for each in hashes):
            found.append(f"{name}=={version} is not in it with its SHA-256")
    text = json.dumps({name: value for name, value in document.items() if name != "$schema"})
    hosts = {host for host in re.findall(r"https?://[^\"\s]+", text) if not host.startswith(NAMESPACE)}
    return [*found, *(f"it names {host}" for host in sorted(hosts))]


def main(requirements: Path, out: Path) -> int:
    """Make it; return the exit status."""
    tool = [sys.executable, "-W", "ignore", "-m", "cyclonedx_py", "requirements"]
    how = ["--output-reproducible", "--short-PURLs", "--pyproject", str(ROOT / "pyproject.toml"), "--of", "JSON"]
    done = subprocess.run([*tool, *how, str(requirements)], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"cyclonedx-py failed:\n{done.stderr}", file=sys.stderr)
        return 1
    document = cleaned(json.loads(done.stdout))
    if lacks := faults(document, requirements.read_text(encoding="utf-8")):
        print(f"The bill of materials of {requirements} is not right:", *lacks, sep="\n", file=sys.stderr)
        return 1
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{out}: {len(document['components'])} packages of {requirements}, CycloneDX {document['specVersion']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
