"""What the aliases topic says, checked against the versions that are there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress

from streamsvm.learning import naming
from streamsvm.model import version as version_form
from streamsvm.model.pointers import Head, current_key, head_key
from streamsvm.model.version import Version
from streamsvm.registry.aliases import Aliases
from streamsvm.verification.recomputation import NotRecomputable, configuration_of
from streamsvm.verification.version_survey import INCARNATION_HEADER, VersionSurvey


def alias_faults(
    before: Aliases,
    newest_after: int,
    survey: VersionSurvey,
    versions: Mapping[int, Version],
    incarnation: int | None = None,
) -> list[str]:
    """Check what the aliases name, as read before the models topic was.

    Parameters
    ----------
    before : Aliases
    newest_after : int
        The head's number as read again behind it: a trainer may have gone on meanwhile.
    survey : VersionSurvey
    versions : mapping of int to Version
        The version that the head names, if it is there and in one piece.
    incarnation : int, optional
        What the header of that version says, if it can be read.
    """
    faults = [*before.faults]
    head, name = before.head, survey.name
    if head is None:
        faults.append(f"the head record {head_key(name)} is missing, but there are versions")
    else:
        faults += _head_faults(head, newest_after, survey, versions.get(head.number))
        if incarnation not in (None, head.incarnation):
            version_key = version_form.version_key(name, head.number)
            faults.append(
                f"{head_key(name)} gives incarnation {head.incarnation}, but the header "
                f"{INCARNATION_HEADER} of {version_key} says {incarnation}"
            )
    if current_key(name) not in before.named and (survey.was_current or not _is_first_held_back(head)):
        faults.append(f"the alias {current_key(name)} is missing, but there are versions")
    for key, alias in sorted(before.named.items()):
        faults += _named_faults(key, alias.number, alias.sha256, alias.offset, survey)
    return faults


def _is_first_held_back(head: Head | None) -> bool:
    """Whether the gate held back the newest version, and found none current before it."""
    return bool(head and head.gate and head.gate.holds_back and not head.gate.against)


def _head_faults(head: Head, newest_after: int, survey: VersionSurvey, version: Version | None) -> list[str]:
    key, newest = head_key(survey.name), survey.newest
    if not head.number <= newest <= max(newest_after, head.number):
        newest_key = version_form.version_key(survey.name, newest)
        return [f"{key} names version {head.number}, but the newest is {newest_key}"]
    faults = _named_faults(key, head.number, head.sha256, head.offset, survey)
    if version is not None:
        lineage = version.lineage
        said = (head.cut, head.training_set_sha256, head.build)
        if said != (lineage.cut, lineage.training_set_sha256, lineage.build):
            faults.append(f"{key} gives another cut, training set or build than the message of {version.key}")
        with suppress(NotRecomputable):
            faults += _tuning_faults(key, head, version)
    return faults


def _tuning_faults(key: str, head: Head, version: Version) -> list[str]:
    """Check that what the next version would be trained by is what this one was."""
    tuning = naming.tuning_of(head)
    if naming.tuned_at(tuning) != version.lineage.tuned_at:
        return [f"{key} names another cut of tuning than the message of {version.key}"]
    if tuning is None:
        return []
    penalty = tuning.applied(configuration_of(version.lineage).svm).penalty(version.stream.weight)
    # Machines of several labels sum the weight of these in an order of their own.
    is_same = math.isclose(penalty, version.fit.C, rel_tol=1e-12) if version.machines else penalty == version.fit.C
    if not is_same or tuning.gamma not in (None, version.fit.gamma):
        return [f"{key} gives another C or gamma in force than {version.key} was trained with"]
    return []


def _named_faults(key: str, number: int, sha256: str, offset: int, survey: VersionSurvey) -> list[str]:
    if survey.is_retired(number) and number not in survey.found:
        return []
    if (offset, sha256) in survey.found.get(number, ()):
        return []
    there = ", ".join(f"{found} at offset {at}" for at, found in survey.found.get(number, ())) or "not in the topic"
    version = version_form.version_key(survey.name, number)
    return [f"{key} names {version} as {sha256} at offset {offset}, but that version is {there}"]
