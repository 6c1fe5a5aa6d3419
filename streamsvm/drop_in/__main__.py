"""`python -m streamsvm.drop_in PROGRAM.py [ARGUMENT ...]`: run a program whose SVMs are trained by STDA-SVM.

The program runs as it would by `python PROGRAM.py`: its arguments, its folder first in the path of imports, `__main__`
as its name. A line on standard error says what was replaced. `-m MODULE` in place of the file runs a module.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from streamsvm.drop_in.patching import patch_sklearn


def main(arguments: list[str] | None = None) -> None:
    """Patch scikit-learn and run."""
    parser = argparse.ArgumentParser(
        prog="python -m streamsvm.drop_in",
        description="Runs a program, unchanged, whose support vector machines are trained by STDA-SVM.",
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="threads of each machine; -1: all processors (default 1)"
    )
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is the name of a module")
    parser.add_argument("program", metavar="PROGRAM")
    parser.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    if not options.module and not Path(options.program).is_file():
        parser.error(f"{options.program}: there is no such file")
    if options.threads < 1 and options.threads != -1:
        parser.error(f"--threads {options.threads}: give a positive whole number, or -1 for all processors")
    replaced = patch_sklearn(threads=options.threads)
    sys.stderr.write(f"streamsvm: {', '.join(replaced)} are trained by STDA-SVM in this program\n")
    sys.argv = [options.program, *options.arguments]
    if options.module:
        sys.path.insert(0, "")
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(options.program).resolve().parent))
        runpy.run_path(options.program, run_name="__main__")


if __name__ == "__main__":
    main()
