"""What people are shown of a version; what others wrote reaches a terminal as text, without a traceback."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import msgspec
import numpy as np
import pytest
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner, Result

from consumers.cli.app import app
from consumers.host import json_for, printable
from consumers.models import commands
from consumers.models.show import describe
from consumers.models.version_tables import diff_table, list_table
from streamsvm.model import Audit, Hashed, Sigmoid, Version, compare
from streamsvm.model.message import content_sha256
from streamsvm.quality import Answered, skill_of
from streamsvm.registry.loading import Loaded
from tests.golden import model as golden
from tests.model.test_model import version_of

NASTY = [
    "[/x]",
    "[bold red]b[/]",
    "[link=http://evil.example/]trusted[/link]",
    "\x1b]0;pwned\x07",
    "\x1b[2J",
    "\x9b2J",
    "a\u202eb",
    "line\r\nforged",
    "\udcff",
    "\\[",
]


def shown(table: Table) -> str:
    """Return what a terminal gets, which takes colours and links."""
    written = io.StringIO()
    Console(width=400, file=written, force_terminal=True, color_system=None, legacy_windows=False).print(table)
    return written.getvalue()


def described(version: Version, sha256: str = "ab", **more: Any) -> str:
    """Return what `model show` says of a version."""
    return shown(describe(Loaded(version=version, sha256=sha256, offset=3, loaded_at=0.0, **more)))


def told(audit: Audit | None = None, probability: Sigmoid | None = None) -> str:
    version = version_of()
    return described(replace(version, audit=audit, model=replace(version.model, probability=probability)))


def assert_harmless(text: str, foreign: str) -> None:
    assert "\x07" not in text
    assert "\x9b" not in text
    assert "\u202e" not in text
    assert "\r" not in text
    assert "\x1b]" not in text
    assert "\x1b[2J" not in text
    assert printable(foreign) in text


@pytest.mark.parametrize("foreign", [one for one in NASTY if one != "\udcff"])  # which no message can hold
def test_a_version_is_shown_as_it_is_written(foreign: str) -> None:
    """Feature names, the model's name, labels, topic, solver and hashes of a version that somebody else made."""
    version = version_of()
    lineage = msgspec.structs.replace(version.lineage, topic=foreign, topic_id=foreign, parent=foreign)
    names = (foreign, *(f"f{index}" for index in range(1, version.model.dimension)))
    hostile = replace(version, name=foreign, labels=(foreign, "b"), lineage=lineage, feature_names=names)
    text = described(hostile, foreign)
    assert_harmless(text, foreign)
    assert text.count(printable(foreign)) >= 5
    assert_harmless(shown(diff_table(compare(Hashed(hostile, foreign), Hashed(hostile, "ab")))), foreign)


@pytest.mark.parametrize("foreign", NASTY)
def test_a_list_of_versions_shows_names_as_they_are_written(foreign: str) -> None:
    """Aliases are keys that anyone with the right to write may choose."""
    row = {"version": 1, "time": None, "points": 1, "objective": 1.0, "duality_gap": None, "aliases": [foreign]}
    row |= dict.fromkeys(("gate", "balanced_accuracy", "balanced_accuracy_before", "skill"))
    assert_harmless(shown(list_table(foreign, [row])), foreign)


@pytest.mark.parametrize("width", [80, 120])
def test_a_list_of_versions_is_readable(width: int) -> None:
    """In 80 columns, too: nothing is cut, `current` stands beside the number, and what is left out is named."""
    row = {"version": 1234, "time": "2026-11-25T07:13:05.123Z", "points": 12_345_678, "objective": 44123.456}
    row |= {"duality_gap": 1.2e-7, "aliases": ["current", "stable"], "gate": "refused", "balanced_accuracy": 0.91239}
    row |= {"balanced_accuracy_before": 0.9}
    row |= {"skill": {"answers": "negative", "state": "none"}}
    console = Console(width=width, file=(printed := io.StringIO()))
    console.print(list_table("pulsars", [row], width))
    text = printed.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    line = next(one for one in text.splitlines() if "1234" in one)
    assert line.split()[:2] == ["1234", "current,"]
    assert {"07:13:05", "12,345,678", "0.9124", "0.9000"} <= set(line.split())
    assert ("44123.456" in line, "--json" in text) == ((True, False) if width == 120 else (False, True))


@pytest.mark.parametrize(
    ("last_time_ms", "said"),
    [
        (10**18, "which is not a valid time"),
        (1_800_000_060_000, ""),
        (1_800_003_300_000, "so some timestamps are wrong"),
    ],
)
def test_a_time_that_cannot_be_is_named(last_time_ms: int, said: str) -> None:
    """A producer may write any number; one record with a clock that is ahead is the last of the rows' timestamps."""
    version = version_of()
    late = replace(version, stream=msgspec.structs.replace(version.stream, last_time_ms=last_time_ms))
    text = described(late, published_at=1.8e9)
    assert said in text
    assert said or "timestamps are wrong" not in text


def test_json_for_a_terminal_is_the_same_value() -> None:
    """Escaped, but for line ends; for a pipe it is the very text."""
    text = json.dumps({"name": "\x9b2J \u202e \U000e0001 é"}, ensure_ascii=False, indent=1)
    escaped = json_for(text, terminal=True)
    assert json_for(text, terminal=False) == text
    assert json.loads(escaped) == json.loads(text)
    assert all(one.isprintable() or one == "\n" for one in escaped)
    assert "é" in escaped


@pytest.mark.parametrize("configuration", [{}, {"svm": 5}, {"svm": {"class_weight": "balanced"}}])
def test_skill_is_shown_whatever_the_configuration_holds(configuration: dict[str, object]) -> None:
    """It is foreign, too: only where it says so are the classes weighted."""
    version = version_of()
    version = replace(version, lineage=msgspec.structs.replace(version.lineage, configuration=configuration))
    y = np.where(np.arange(1_000) < 240, 1, -1).astype(np.int8)
    found = skill_of(
        Answered(y=y, said=-np.ones(1_000, np.int8), weight=np.ones(1_000), values=-np.ones(1_000)), None, 1
    )
    text = " ".join(described(version, skill=found).split())
    assert "to every point" in text
    assert ("svm.class_weight" in text) == ("class_weight" not in str(configuration))


@pytest.mark.parametrize(("low", "outside"), [(0.0, False), (1e9, True)])
def test_the_objective_over_the_whole_stream_is_shown(low: float, outside: bool) -> None:
    """With its interval and sample, beside the coreset's own duality gap; a coreset that it contradicts is named."""
    text = told(audit=Audit(2e9, low, 3e9, 1_234))
    assert f"2e+09 over the whole stream, in 95 of 100 cases {low:.6g} to 3e+09, by 1,234 points" in text
    assert "duality gap" in text
    assert ("the training set's objective lies outside" in text) == outside


def test_the_content_is_of_the_rows_and_not_of_the_log() -> None:
    """Name, number, topic, times, epochs, ancestors and build change nothing; a point, a label or a cut does."""
    version = golden.handmade()
    line, stream = version.lineage, version.stream
    cut = tuple(msgspec.structs.replace(part, leader_epoch=part.leader_epoch + 1) for part in line.cut)
    elsewhere = replace(
        version,
        name="other",
        number=version.number + 1,
        stream=msgspec.structs.replace(stream, first_time_ms=5, last_time_ms=6),
        lineage=msgspec.structs.replace(
            line, topic="t", topic_id="i", parent="0" * 64, links=(), build={"python": "4"}, cut=cut
        ),
    )
    assert content_sha256(elsewhere) == content_sha256(version)
    assert re.search(rf"content\s+│ {content_sha256(version)}", described(version))
    moved = tuple(msgspec.structs.replace(part, offset=part.offset + 1) for part in line.cut)
    others = [
        replace(version, lineage=msgspec.structs.replace(line, cut=moved)),
        replace(version, lineage=msgspec.structs.replace(line, training_set_sha256="0" * 64)),
        replace(version, stream=msgspec.structs.replace(stream, points=stream.points - 1)),
    ]
    assert len({content_sha256(one) for one in (version, *others)}) == 4


def test_what_a_version_does_not_have_is_said() -> None:
    """Probabilities, whose formula is shown otherwise; an audit, as old ones; fields, where its input was points."""
    assert "no audit sample was kept" in told()
    assert re.search(r"events\s+│ none: the input is points", told())
    assert "sigmoid, 1 / (1 + exp(-1.5 f +0.25))" in told(probability=Sigmoid(-1.5, 0.25))
    assert re.search(r"probability\s+│ none", told())


def additive(foreign: str = "f") -> Version:
    """Return a version with curves and a surface, whose features are named by a stranger."""
    return replace(golden.handmade("additive"), feature_names=(foreign, f"{foreign}1", f"{foreign}2"))


def of_shapes(monkeypatch: pytest.MonkeyPatch, version: Version, *options: str) -> Result:
    """Run `model show` on a version that no broker has to hold."""
    loaded = Loaded(version=version, sha256="ab", offset=3, loaded_at=0.0)
    monkeypatch.setattr(commands, "load", lambda *_: (loaded, b""))
    return CliRunner().invoke(app, ["model", "show", "--name", "m", *options])


@pytest.mark.parametrize("foreign", ["f", "<script>alert(1)</script>", *(one for one in NASTY if one != "\udcff")])
def test_shapes_are_shown_as_text_and_html(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, foreign: str) -> None:
    """Every knot in raw units with its value; names are text in both, and the page needs nothing from elsewhere."""
    done = of_shapes(monkeypatch, additive(foreign), "--shapes", "--html", str(tmp_path / "a.html"))
    assert done.exit_code == 0, done.output
    assert_harmless(done.output, foreign)
    lines = done.output.splitlines()
    at = lines.index(f"{printable(foreign)}: adds -0.75 to +1.25")
    assert [line.split()[:2] for line in lines[at + 1 : at + 5]] == [
        ["-1.4", "-0.75"],
        ["-0.15", "+0.1"],
        ["0.6", "+0"],
        ["1.85", "+1.25"],
    ]
    assert lines[at + 4].endswith("│" + 20 * "█")
    text = (tmp_path / "a.html").read_text("utf-8")
    assert escape(printable(foreign)) in text
    assert "<script" not in text
    assert not re.search(r"(?:src|href)=", text)
    for drawing in re.findall(r"<svg.*?</svg>", text):
        fromstring(drawing)
    assert text.count("<circle") == 6
    assert text.count("<rect") == 6


def test_shapes_are_shown_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """The strongest first; without --shapes it is the message."""
    found = json.loads(of_shapes(monkeypatch, additive(), "--shapes", "--json").stdout)
    assert [one["names"] for one in found] == [["f"], ["f2"], ["f", "f1"]]
    assert found[0]["values"] == [-0.75, 0.1, 0.0, 1.25]
    assert found[0]["range"] == 2.0
    assert json.loads(of_shapes(monkeypatch, additive(), "--json").stdout)["name"] == "pulsar"


def test_shapes_are_drawn_into_a_png(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the extra; a folder that is not there is named."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install '.[plot]'")
    assert of_shapes(monkeypatch, additive(), "--png", str(tmp_path / "a.png")).output == ""
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    for option in ("--png", "--html"):
        done = of_shapes(monkeypatch, additive(), option, str(tmp_path / "none" / "a"))
        assert "none/a cannot be written: No such file or directory" in str(done.exception)


def test_other_machines_have_no_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says which option makes them."""
    done = of_shapes(monkeypatch, golden.handmade("linear"), "--shapes")
    assert "pulsar@42 has no curves: its machine is not additive" in str(done.exception)


@pytest.mark.parametrize("foreign", [one for one in NASTY if one != "\udcff"])
def test_a_comparison_draws_curves_beside_each_other(foreign: str) -> None:
    """The changed one, on one scale, and a pair that went; what is the same is left out."""
    old = additive(foreign)
    machine = old.model.machine
    values = (np.array([1.25, 0.1, 0.0, -0.75]), *machine.values[1:])
    later = replace(old, model=replace(old.model, machine=replace(machine, values=values, surfaces=())))
    text = shown(diff_table(compare(Hashed(old, "a"), Hashed(later, "b"))))
    assert_harmless(text, foreign)
    lines = [line for line in text.splitlines() if "▁▄▄█" in line]
    assert len(lines) == 1
    assert re.search(r"▁▄▄█ +│ █▄▄▁ +│ [+-]2 at ", lines[0])
    assert re.search(r"│ none +│ [+-]0\.\d+ at .* and ", text)
    assert f"{printable(foreign)}2" not in text


def test_the_machine_is_shown_by_its_kind() -> None:
    """Of two labels and of more; of two also what an additive machine adds up."""
    for kind in ("linear", "linear-classes", "additive", "additive-classes", "additive-rest"):
        text = described(golden.handmade(kind))
        assert re.search(rf"machine\s+│ {kind.partition('-')[0]}, C 0.5", text)
        assert ("machines" in text) == kind.endswith(("-classes", "-rest"))
    assert "mean & kurtosis µ" in described(golden.handmade("additive"))
