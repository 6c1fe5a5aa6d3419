"""What the solvers of this room do not go with: rows of `streamsvm.supports`."""

from __future__ import annotations

from typing import Final

from streamsvm.supports import MACHINE, Combinations, Row, equal, other

ROWS: Final = Combinations(
    before=MACHINE,
    rows=(
        Row(
            axis=MACHINE,
            feature=equal("svm.solver", "liblinear", "pegasos"),
            without=other("svm.kernel", "linear"),
            why="this solver supports the linear kernel only",
            remedy="Give svm.solver = stda or libsvm.",
            kind="nature",
        ),
    ),
)
