"""The dashboards are of the types that Grafana publishes, by its own library `@grafana/schema`, field by field.

A dashboard is written down as TypeScript, and the compiler says which field Grafana does not know or wants otherwise.
What the library leaves open, a panel's options, is checked by the types of that kind of panel; queries are checked by
Prometheus's own parser in `test_dashboard.py`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.brokers.jvm import CannotRun
from tests.deploy.files import dashboards
from tests.npm import packages

MANIFEST: Final = Path(__file__).parent / "grafana" / "package.json"
INSTALL_TIMEOUT_S: Final = 300.0
COMPILE_TIMEOUT_S: Final = 200.0
COMPOSABLE: Final = "@grafana/schema/dist/esm/raw/composable"
HEAD: Final = f"""
import type {{ Dashboard, Panel, RowPanel }} from "@grafana/schema";
import type {{ Options as Stat }} from "{COMPOSABLE}/stat/panelcfg/x/StatPanelCfg_types.gen";
import type {{ FieldConfig, Options as Lines }} from "{COMPOSABLE}/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";
type Plain<T> = T extends string ? `${{T}}` : T extends number | boolean | null | undefined ? T
    : T extends (infer U)[] ? Plain<U>[] : T extends object ? {{ [K in keyof T]: Plain<T[K]> }} : T;
"""
"""`Plain`: as JSON has it, with a string where a type has an enumeration of strings."""


def typescript(one: dict[str, Any]) -> str:
    """Return a dashboard as constants, each of the type that Grafana has for it."""
    lines = [HEAD, _constant("dashboard", "Dashboard", {**one, "panels": []})]
    for number, panel in enumerate(one["panels"]):
        if panel["type"] == "row":
            lines.append(_constant(f"row{number}", "RowPanel", panel))
            continue
        lines.append(_constant(f"panel{number}", "Panel", panel))
        options = "Partial<Stat>" if panel["type"] == "stat" else "Partial<Lines>"
        lines.append(_constant(f"options{number}", options, panel["options"]))
        if "custom" in (defaults := panel["fieldConfig"]["defaults"]):
            lines.append(_constant(f"drawn{number}", "FieldConfig", defaults["custom"]))
    return "\n".join(lines)


def _constant(name: str, of: str, value: object) -> str:
    return f"export const {name}: Plain<{of}> = {json.dumps(value)};"


@pytest.fixture(scope="module")
def node_modules() -> Path:
    if shutil.which("node") is None:
        pytest.skip("node is not installed, so Grafana's types cannot be checked")
    try:
        return packages(MANIFEST, "grafana", INSTALL_TIMEOUT_S)
    except CannotRun as why:
        pytest.skip(f"Grafana's types cannot be had: {why}")


def compiled(one: dict[str, Any], folder: Path, node_modules: Path) -> str:
    """Return what the compiler says of a dashboard; empty if it is content."""
    (folder / "node_modules").symlink_to(node_modules, target_is_directory=True)
    (folder / "dashboard.ts").write_text(typescript(one))
    options = ("--noEmit", "--strict", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler")
    done = subprocess.run(
        ["node", node_modules / "typescript" / "bin" / "tsc", *options, "dashboard.ts"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=COMPILE_TIMEOUT_S,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize("uid", dashboards())
def test_dashboard_is_of_grafanas_types(uid: str, tmp_path: Path, node_modules: Path) -> None:
    """The compiler finds nothing in any panel, query or option."""
    assert compiled(dashboards()[uid], tmp_path, node_modules) == ""


@pytest.mark.parametrize(
    ("right", "wrong", "named"),
    [
        ('"graphMode": "area"', '"graphMode": "surface"', "surface"),
        ('"drawStyle": "line"', '"drawStyle": "straight"', "straight"),
        ('"drawStyle": ', '"drawingStyle": ', "drawingStyle"),
        ('"gridPos": ', '"gridPosition": ', "gridPosition"),
        ('"schemaVersion": 39', '"schemaVersion": "39"', "'string' is not assignable to type 'number'"),
    ],
)
def test_a_planted_mistake_is_found(right: str, wrong: str, named: str, tmp_path: Path, node_modules: Path) -> None:
    """Values of options, and fields of a curve, of a panel and of the dashboard, that Grafana does not have."""
    text = json.dumps(dashboards()["streamsvm-model"])
    assert right in text
    assert named in compiled(json.loads(text.replace(right, wrong)), tmp_path, node_modules)
