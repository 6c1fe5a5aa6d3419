"""Whether published versions are what the log makes of them: records in, findings out; no I/O, no clock, no threads.

A version is recomputed from the rows of its input and from its own lineage, never from anybody's options, and its whole
value is compared byte for byte. Its place is checked beside that: numbers without a gap and none twice, each version's
parent, cuts that go forward, and the aliases.

Invariant: what was not recomputed is never called clean. A version that differs but was made by another build, or on
another CPU target, proves nothing either way, so it counts as not checked: else a changed version would only have to
name another build.

Source: the sections on lineage and recovery of `streamsvm.model.message` and `streamsvm.delivery`, whose promises these
checks are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.verification import differences as differences
    from streamsvm.verification.auditor import incarnation_in as incarnation_in
    from streamsvm.verification.chain import ChainCheck as ChainCheck
    from streamsvm.verification.recomputation import (
        NotRecomputable as NotRecomputable,
        Recomputation as Recomputation,
        certifier_of as certifier_of,
        missing_input as missing_input,
    )
    from streamsvm.verification.report import (
        EXIT_CLEAN as EXIT_CLEAN,
        EXIT_DIFFERS as EXIT_DIFFERS,
        EXIT_INCOMPLETE as EXIT_INCOMPLETE,
        Outcome as Outcome,
        VerificationReport as VerificationReport,
    )
    from streamsvm.verification.version_survey import VersionSurvey as VersionSurvey

__getattr__ = on_first_use(__name__, __file__)
