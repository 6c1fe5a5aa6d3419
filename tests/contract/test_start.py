"""The table of a start: the shipped code decides every combination of what a start may find as `start.json` says."""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from typing import Any

import pytest

from streamsvm.delivery import Begin, Resume
from streamsvm.errors import StateError
from tests.contract.starts import CHECKPOINTS, DIMENSIONS, ESSENCES, FILE, HEADS, decided, named, shown, situations

TABLE: list[dict[str, Any]] = json.loads(FILE.read_text())


@cache
def decisions() -> dict[tuple[str, ...], tuple[str, str]]:
    """Return what the shipped code decides for every combination, without and with `input.on_gap = reset`."""
    return {tuple(one.values()): (shown(one), shown(one, on_gap="reset")) for one in situations()}


def differences(table: list[dict[str, Any]]) -> list[str]:
    """Return the combinations that are in no row, or in several, or are decided otherwise than their row says."""
    said: dict[tuple[str, ...], list[tuple[str, str]]] = {one: [] for one in decisions()}
    for row in table:
        for one in product(*(named(row[name], own) for name, own in DIMENSIONS.items())):
            said[one].append((row["decides"], row["on gap"]))
    return [f"{one}: {found}, not {said[one]}" for one, found in decisions().items() if said[one] != [found]]


def test_every_combination_is_decided_as_the_table_says() -> None:
    """Every head, checkpoint, log and record of erased rows, each with each, is in one row."""
    assert differences(TABLE) == []
    said = " ".join(f"{row['decides']} {row['on gap']}" for row in TABLE)
    assert [name for name in ESSENCES if name not in said] == []


@pytest.mark.parametrize("change", ["another decision", "a row less", "a row twice"])
def test_a_table_that_is_changed_by_hand_is_found(change: str) -> None:
    """So the comparison can fail."""
    row = next(row for row in TABLE if row["decides"].startswith("continue"))
    others = [one for one in TABLE if one is not row]
    wrong = {"another decision": [{**row, "decides": "begin 1"}], "a row less": [], "a row twice": [row, row]}
    assert differences(others + wrong[change])


def test_a_refusal_names_the_reset_that_begins_anew_and_no_other_does() -> None:
    """That one begins a later incarnation, whose numbers go on from the highest known; another one changes nothing.
    Where a start would continue, its own begins anew as well.

    Against the checkpoint of another model, and against a lost record of erased rows, no reset is named.
    """
    for situation in situations():
        plain, other = decided(situation), decided(situation, reset="m/77")
        if not isinstance(plain, StateError):
            assert shown(situation, reset="m/77") == shown(situation)
            assert isinstance(plain, Begin) or (isinstance(other, Resume) and other.reset_ignored)
            if isinstance(plain, Resume):
                head = HEADS[situation["head"]]
                ended = max(plain.snapshot.incarnation, head.incarnation if head else 0)
                asked = decided(situation, reset=f"m/{ended}")
                assert isinstance(asked, Begin)
                assert (asked.incarnation, asked.head) == (ended + 1, plain.head)
            continue
        assert isinstance(other, StateError)
        assert str(other) == str(plain)
        _, names_it, rest = plain.remedy.partition("--reset ")
        assert bool(names_it) == (not any(f": {name}" in shown(situation) for name in ("other model", "erasure lost")))
        if names_it:
            token = rest.split()[0].strip(";,.")
            begun = decided(situation, reset=token)
            assert isinstance(begun, Begin)
            assert token == f"m/{begun.incarnation - 1}"
            known = [one.head for one in CHECKPOINTS[situation["checkpoint"]][:1] if one] + [HEADS[situation["head"]]]
            assert (begun.head.number if begun.head else 0) >= max((one.number for one in known if one), default=0)


def test_refusals_name_the_way_out_beside_a_reset() -> None:
    """A directory of one's own for another model; another name where only the features differ."""
    plain = {"checkpoint": "of another model", "erased": "none", "head": "none", "log": "whole"}
    refused = decided(plain)
    assert isinstance(refused, StateError)
    assert "--checkpoint-directory checkpoint/m" in refused.remedy
    lost = decided(plain | {"checkpoint": "good", "erased": "obeyed, but the record is lost"})
    assert isinstance(lost, StateError)
    assert "streamsvm history forget the same rows once more" in lost.remedy
