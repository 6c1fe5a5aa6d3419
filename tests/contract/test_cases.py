"""Every reader of Python makes of every case of points, events and labels what the case says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest

import pytest

from streamsvm.ingest import REASONS
from tests.contract.cases import FILE, Case, cases, document, written
from tests.contract.readers import labels_of, read
from tests.ingest.general import CompiledDecoder

RECORDS = cases("points", "events")
LABELS = cases("labels")
WAYS = ("general", "compiled", "beside others", "labels")
NOT_OF_A_RECORD = {"absent_label", "changed_label", "doubled_key", "unmatched_label", "undecodable"}
"""Reasons that a join gives, and the one of a defect."""


def failures(way: str, chosen: Iterable[Case]) -> list[str]:
    """Return the cases of which a way of reading makes something else than they say."""
    if way == "labels":
        found = [(case, labels_of(case, case.said["keyed"]), case.rows) for case in chosen if case.read == "labels"]
    else:
        found = []
        for labeled in (True, False):
            some = [case for case in chosen if case.read != "labels" and (case.rows or not labeled)]
            told = beside_others(some, labeled) if way == "beside others" else [
                read(way, case, labeled=labeled)[0] for case in some
            ]  # fmt: skip
            found += [(one, own, one.rows if labeled else one.scored) for one, own in zip(some, told, strict=True)]
    return [f"{case.name}: {own}, not {list(said)}" for case, own, said in found if own != _told(said, own)]


def _told(said: Sequence[object], own: list[object]) -> list[object]:
    """Return what is expected; a batch in which rows are passed over for several reasons does not tell them apart."""
    every = {"passed over": "any"}
    return [every if one == every and isinstance(row, dict) and "passed over" in row else row
            for one, row in zip_longest(own, said)][: len(said)]  # fmt: skip


def beside_others(chosen: list[Case], labeled: bool) -> list[list[object]]:
    """Return what each becomes between many good records, in columns: the compiled readers decline few of many."""
    groups: dict[object, list[int]] = defaultdict(list)
    for at, case in enumerate(chosen):
        groups[case.by, str(case.headers), str(case.schemas)].append(at)
    made: dict[int, list[object]] = {}
    for group in groups.values():
        own = [chosen[at] for at in group]
        good = [one for one in own if len(one.scored) == 1 and isinstance((one.rows or one.scored)[0], dict)][:1]
        order = [one for at in group for one in [*good * 65, at]]
        records = [
            replace((chosen[one] if isinstance(one, int) else one).record, offset=at) for at, one in enumerate(order)
        ]
        for one, told in zip(order, read("compiled", own[0], labeled=labeled, records=records), strict=True):
            assert isinstance(one, int) or isinstance(told[0], dict), "a good neighbour is refused"
            if isinstance(one, int):
                made[one] = told
    return [made[at] for at in range(len(chosen))]


@pytest.mark.parametrize("way", WAYS)
def test_a_reader_makes_of_every_case_what_it_says(way: str) -> None:
    """Rows with values, label, weight, time and id, or the reason of a refusal; with labels and without."""
    assert failures(way, (*RECORDS, *LABELS)) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_case_that_is_changed_by_hand_is_found(way: str) -> None:
    """Another value, another reason, a row more: of points, of events and of labels."""
    for kind in ("labels",) if way == "labels" else ("points", "events"):
        for some in (str, (dict, list)):
            case = next(one for one in cases(kind) if one.rows and isinstance(one.rows[0], some))
            for rows in (["undecodable", *case.rows[1:]], [*case.rows, *case.rows[:1]]):
                assert failures(way, [replace(case, rows=rows, scored=rows)])


@pytest.mark.parametrize(("kind", "is_avro", "least"), [
    ("points", False, 30), ("points", True, 35), ("events", False, 85), ("events", True, 28),
])  # fmt: skip
def test_the_compiled_readers_read_much_of_what_is_good(kind: str, is_avro: bool, least: int) -> None:
    """Otherwise comparing them with the general ones would say nothing."""
    read = 0
    for case in cases(kind):
        if bool(case.schemas) == is_avro and all(isinstance(row, dict) for row in case.rows or case.scored):
            options = {"schemas": case.shelf, "recipe": case.recipe}
            decoder = CompiledDecoder(case.config, labeled=bool(case.rows), **options)
            decoder.decode([case.record])
            read += not decoder.parsed
    assert read >= least


def test_every_reason_is_reached() -> None:
    """The closed list of reasons has no entry that nothing produces."""
    reached = {row for case in (*RECORDS, *LABELS) for row in (*case.rows, *case.scored) if isinstance(row, str)}
    assert reached == REASONS.keys() - NOT_OF_A_RECORD


def test_the_file_is_written_an_entry_a_line() -> None:
    """So that a case is added, and a change of one read, by its line; no two have one name."""
    assert FILE.read_text("utf-8") == written(document())
    names = [line["case"] for line in document()["cases"]]
    assert len(set(names)) == len(names)
    assert FILE.stat().st_size < 1_000_000
